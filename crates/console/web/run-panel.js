// A call that is made on a page: its state and progress while it runs, its result when it has ended.

import { get, on, post } from "./api.js";
import { picture, text } from "./content.js";
import { fill, h, link, name, visible, words } from "./dom.js";
import { externalLink } from "./external.js";
import { bytes, CALL_STATES, duration, isOpen } from "./format.js";
import { json, plain } from "./json.js";
import { action, labelled, pill, problem, section, stateOf } from "./parts.js";
import { state as known } from "./state.js";
import { ProgressBar } from "./task-line.js";

export class RunPanel {
  // onrun: the address has the id of the run; onend: it has ended.
  constructor({ onrun, onend } = {}) {
    this.onrun = onrun;
    this.onend = onend;
    this.id = null;
    this.state = h("span", {});
    this.time = h("span", { class: "sub number" });
    this.progress = new ProgressBar();
    this.message = h("span", { class: "task-text", dir: "auto" });
    this.cancel = action("Cancel", () => post(`/calls/${this.id}/cancel`), { class: "small" });
    this.wait = h("a", { class: "button small", href: "#/inbox", hidden: true }, "It waits for you: review");
    this.record = h("a", { class: "sub", href: "#/calls" }, "Its record");
    this.head = h("div", { class: "run-head" }, this.state, this.time, this.progress.node, this.message, this.wait, this.cancel, this.record);
    this.body = h("div", { class: "stack", "aria-live": "polite" });
    this.node = h("section", { class: "part run", "aria-label": "Result", hidden: true }, this.head, this.body);
    this.stops = [
      on("run", (event) => event.id === this.id && this.take(event)),
      on("changed:inbox", () => this.follow()),
      on("reset", () => this.load()),
      on("online", () => this.load()),
    ];
    this.ticker = setInterval(() => this.tick(), 1000);
  }

  close() {
    this.stops.forEach((stop) => stop());
    clearInterval(this.ticker);
  }

  get isRunning() {
    return this.id !== null && !this.run?.durationMs && isOpen(this.now);
  }

  forget() {
    this.id = null;
    this.node.hidden = true;
    fill(this.body);
  }

  async start(kind, server, wanted, values) {
    fill(this.body);
    this.node.hidden = false;
    this.begin(null);
    try {
      const { id } = await post("/runs", { kind, server, name: wanted, arguments: values });
      this.begin(id);
      this.onrun?.(id);
      // It may have ended before the answer came.
      await this.load();
    } catch (error) {
      this.forget();
      this.node.hidden = false;
      this.head.hidden = true;
      fill(this.body, problem(error, "It could not be started"));
    }
  }

  begin(id) {
    this.id = id;
    this.run = null;
    this.given = null;
    this.began = Date.now();
    this.head.hidden = false;
    this.cancel.hidden = id === null;
    this.wait.hidden = true;
    this.record.hidden = id === null;
    this.record.setAttribute("href", `#/calls/${id}`);
    this.progress.set(null);
    fill(this.message);
    this.show("running");
    this.tick();
  }

  // A run of before, such as after the page was loaded again; its arguments, if it is still known.
  async open(id) {
    this.node.hidden = false;
    this.begin(id);
    await this.load();
    return this.given;
  }

  show(state) {
    this.now = state;
    fill(this.state, pill(stateOf(CALL_STATES, state)));
  }

  take({ state, progress }) {
    if (progress) {
      this.progress.set(progress);
      fill(this.message, visible((progress.message ?? "").slice(0, 400)));
    } else if (!isOpen(state)) this.load();
  }

  // Whether a person is asked.
  follow() {
    if (!this.isRunning) return;
    const waits = (known.inbox ?? []).some(({ callId }) => callId === this.id);
    this.show(waits ? "pending" : "running");
    this.wait.hidden = !waits;
  }

  tick() {
    if (this.isRunning || this.id === null) fill(this.time, duration(Date.now() - this.began));
  }

  async load() {
    const { id } = this;
    if (id === null || this.run?.durationMs) return;
    try {
      const run = await get(`/runs/${id}`);
      if (id !== this.id) return;
      this.given = run.arguments;
      this.began = new Date(run.startedAt).getTime();
      if (run.progress) this.take(run);
      if (isOpen(run.state)) return this.follow();
      this.run = run;
      this.end(run);
    } catch (error) {
      if (id !== this.id || error.status !== 404) return;
      this.cancel.hidden = true;
      this.show("interrupted");
      fill(this.body, problem(error));
      this.run = { durationMs: 1 };
    }
  }

  end(run) {
    this.show(run.state);
    this.cancel.hidden = true;
    this.wait.hidden = true;
    this.progress.set(null);
    fill(this.message, run.waitedMs > 500 ? `besides ${duration(run.waitedMs)} waiting for you` : "");
    fill(this.time, duration(run.durationMs));
    const isWrong = Object.keys(run.fields).length > 0;
    fill(
      this.body,
      run.error && !isWrong ? problem({ message: run.error }) : null,
      run.validation.map((line) => h("p", { class: "warning" }, words(line))),
      run.result ? runResult(run) : null,
    );
    this.onend?.(run);
  }
}

// === the result ===

export function runResult(run) {
  const { blocks, more, structured, other } = run.result;
  const isRepeated = (block) => structured?.value != null && block.kind === "text" && sameJson(block.text, structured.value);
  const shown = blocks.filter((block) => !isRepeated(block)).map((block) => [head(block), part(block, run), foot(block, run)]);
  const whole = file(run.id, "all", `Save the whole result (${bytes(run.bytes)})`);
  return h(
    "div",
    { class: "stack" },
    blocks.length === 0 && !structured ? h("p", { class: "sub" }, "The result is empty.") : null,
    structured ? section("Structured content", null, value(structured)) : null,
    shown,
    more > 0 ? h("p", { class: "note" }, `${more} more blocks are not shown.`) : null,
    other ? h("details", { class: "raw" }, h("summary", {}, "Other fields"), value(other)) : null,
    h("p", {}, whole),
  );
}

// Servers repeat structured content as text, for clients that do not know it.
function sameJson(source, value) {
  try {
    return source.length < 200_000 && JSON.stringify(JSON.parse(source)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

function head({ role, uri, mimeType, kind }) {
  if (kind === "link" || (!role && !uri)) return null;
  return h("p", { class: "block-head" }, role ? h("span", { class: "tag" }, role === "assistant" ? "Model" : role === "user" ? "User" : visible(role)) : null, uri ? h("code", { class: "wrap" }, visible(uri)) : null, uri && mimeType ? h("span", { class: "sub" }, visible(mimeType)) : null);
}

function part(block, run) {
  const { kind, address, mimeType } = block;
  if (kind === "text") return block.cut ? plain(block.text) : text(block.text);
  if (kind === "picture") return picture(address, mimeType, block.bytes);
  if (kind === "audio") return h("audio", { controls: true, preload: "metadata", src: address, "aria-label": `Sound in the result (${mimeType})` });
  if (kind === "link") return resourceLink(block, run);
  if (kind === "json") return value(block.json);
  return h("dl", { class: "facts" }, labelled("Data", [visible(mimeType ?? "of no type"), ", ", bytes(block.bytes)]), labelled("Begins with", block.beginning ? h("code", { class: "wrap" }, block.beginning) : null));
}

function foot(block, run) {
  if (block.kind === "link" || (!block.cut && ["text", "json"].includes(block.kind))) return null;
  const words = block.cut ? `Only the beginning is shown, of ${bytes(block.bytes)}. ` : "";
  return h("p", { class: "note" }, words, file(run.id, block.part, "Save as a file"));
}

function file(id, part, label) {
  return h("a", { class: "sub", href: `${location.origin}/api/v1/runs/${id}/parts/${part}`, download: true }, label);
}

function value({ value, text, bytes: size }) {
  return value === null ? [plain(text ?? ""), h("p", { class: "note" }, `Only the beginning is shown, of ${bytes(size)}.`)] : json(value);
}

function resourceLink({ uri, name: label, mimeType, text: about }, run) {
  const target = link(uri ?? "");
  const words = name(label ?? uri ?? "resource");
  return h("p", { class: "block-link" }, "Resource: ", target ? externalLink(words, target) : words, " ", h("code", { class: "wrap" }, visible(uri ?? "")), mimeType ? h("span", { class: "sub" }, " ", visible(mimeType)) : null, " ", h("a", { href: `#/resources/${encodeURIComponent(run.server)}/${encodeURIComponent(uri ?? "")}` }, "Open it here"), about ? h("span", { class: "sub" }, " ", visible(about)) : null);
}
