// The arguments of a call that waits for an approval. Nothing is cut: what is long is folded, with its length, and has to
// be opened once.

import { get } from "./api.js";
import { fill, h, visible } from "./dom.js";
import { bytes, count } from "./format.js";
import { plain } from "./json.js";
import { problem } from "./parts.js";

const LONG_VALUE = 600;
const MOST_LINES = 8;
const LONG_LABEL = 120;
const MOST_ROWS = 12;
const BEGINNING = 80;
// Compared with earlier approvals of the tool.
const BEFORE = { same: "as before", differs: "differs" };

export class ArgumentRows {
  // onopened: called when a folded part was opened for the first time.
  constructor(id, { rows, proposal }, onopened) {
    this.id = id;
    this.before = new Map(proposal.arguments.map(({ name, before }) => [name, BEFORE[before]]));
    this.closed = new Set();
    this.onopened = onopened;
    this.node = rows.length ? this.list(rows) : h("p.sub", "No arguments.");
  }

  isFolded() {
    return this.closed.size > 0;
  }

  list(rows) {
    const nodes = rows.slice(0, MOST_ROWS).map((row) => this.row(row));
    const rest = rows.slice(MOST_ROWS);
    if (rest.length) nodes.push(h("div.more-rows", this.fold(`${rest.length} more ${rest.length === 1 ? "argument" : "arguments"}`, () => rest.map((row) => this.row(row)))));
    return h("div.argument-rows", nodes);
  }

  row(row) {
    const { label, value } = row;
    const props = { class: row.important ? "row important" : "row" };
    if (value === null) return h("div", props, this.fold(["All arguments: ", bytes(row.bytes), ", SHA-256 ", h("code.wrap", row.sha256)], () => this.whole()));
    const isLong = value.length > LONG_VALUE || value.split("\n").length > MOST_LINES;
    if (!isLong && label.length <= LONG_LABEL) return h("div", props, h("div.label", visible(label), this.compared(row)), h("div.value", visible(value)));
    const beginning = [h("span.label", visible(start(label)), this.compared(row)), ": ", visible(start(value)), ` (${count([...value].length, "character")})`];
    const all = () => [label.length > BEGINNING ? h("div.label", visible(label)) : null, h("div.value", visible(value))];
    return h("div", props, this.fold(beginning, all));
  }

  compared({ argument }) {
    const before = this.before.get(argument);
    return before ? [" ", h("span", { class: before === "differs" ? "tag differs" : "tag" }, before)] : null;
  }

  // A part that is drawn when it is opened.
  fold(summary, draw) {
    const body = h("div.fold-body");
    const node = h("details.fold", { ontoggle: () => {
      if (!node.open || !this.closed.has(node)) return;
      this.closed.delete(node);
      fill(body, draw());
      this.onopened();
    } }, h("summary", summary), body);
    this.closed.add(node);
    return node;
  }

  // The text of arguments that are too large for the list of items. Until it is shown they count as folded.
  whole() {
    const node = h("div", "Loading…");
    const pending = {};
    this.closed.add(pending);
    get(`/inbox/${encodeURIComponent(this.id)}/arguments`).then(
      ({ text }) => {
        fill(node, plain(text));
        this.closed.delete(pending);
        this.onopened();
      },
      (error) => fill(node, problem(error)),
    );
    return node;
  }
}

// The beginning of a text on one line, without half a mark.
function start(text) {
  const line = text.slice(0, BEGINNING).replace(/\ufdd0[0-9a-f]*$/, "").replace(/\s+/g, " ");
  return text.length > BEGINNING ? `${line}…` : line;
}
