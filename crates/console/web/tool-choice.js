// Which servers a model gets, and which of their tools: a row for each server, which opens to its tools. Tools are chosen by
// patterns `SERVER.TOOL`, as in the configuration; the boxes of the tools add to the patterns and take from them.

import { get, on } from "./api.js";
import { fill, h, name } from "./dom.js";
import { Control, TextControl } from "./fields.js";
import { count, SERVER_STATES, TRUST } from "./format.js";
import { pill, serverIcon, stateOf } from "./parts.js";
import { state } from "./state.js";
import { toolItem } from "./tested.js";

const MOST_TOOLS = 200;

// Says of `SERVER.TOOL` whether one of the patterns covers it; there may be thousands of both.
function covering(patterns) {
  const exact = new Set(patterns);
  const others = patterns.filter((pattern) => pattern.includes("*")).map(expression);
  return (tool) => exact.has(tool) || others.some((other) => other.test(tool));
}

// Names of tools may contain dots, names of servers do not.
function expression(pattern) {
  const [ofServer, ...ofTool] = pattern.replace(/[+?^${}()|[\]\\]/g, "\\$&").split(".");
  return new RegExp(`^${ofServer.replace(/\*+/g, "[^.]*")}\\.${ofTool.join("\\.").replace(/\*+/g, ".*")}$`, "s");
}

// A star in a name would stand for other tools too.
function canBeNamed(tool) {
  return !/[*\n]/.test(tool);
}

// A pattern for several servers is changed as text only.
function isWide(pattern) {
  return /^[^.]*\*/.test(pattern);
}

// Patterns, one on each line. options: { all }: the words of the box for all tools, where that can be.
export class PatternsControl extends TextControl {
  frame(...content) {
    const { all } = this.options;
    this.all = h("input", { type: "checkbox", onchange: () => this.changed() });
    super.frame(all ? h("label.check", this.all, all) : null, ...content);
  }

  changed() {
    this.input.hidden = this.all.checked;
    super.changed();
  }

  set(value) {
    super.set(value);
    this.all.checked = Boolean(this.options.all) && value === undefined;
    this.input.hidden = this.all.checked;
  }

  get value() {
    return this.all.checked ? undefined : super.value ?? (this.options.all ? [] : undefined);
  }

  // Those that hold, as `covering` says.
  get covers() {
    return covering(this.value ?? (this.all.checked ? ["*.*"] : []));
  }

  // As a click on the box of a tool changes it.
  take(patterns) {
    this.all.checked = false;
    this.input.value = patterns.join("\n");
    this.changed();
  }
}

// The servers. options: { offered, trusted: patterns; trusts(): whether trusted tools matter }
export class ServersControl extends Control {
  constructor(options) {
    super(options);
    this.opened = new Set();
    this.tools = {};
    this.input = h("input", { type: "checkbox", id: this.id, onchange: () => this.changed() });
    this.list = h("div.import-group");
    this.node = h("fieldset.field.wide", { "aria-describedby": this.described }, h("legend", options.label), h("label.check", this.input, "All, also those that are added later"), this.problem, this.list);
    this.stops = [on("changed:servers", () => this.draw()), on("servers", () => this.read())];
    this.set(undefined);
    this.read();
  }

  changed() {
    this.draw();
    super.changed();
  }

  set(value) {
    this.original = value;
    this.input.checked = value === undefined;
    this.chosen = new Set(value);
    this.draw();
  }

  get value() {
    if (this.input.checked) return undefined;
    const isSame = this.original?.length === this.chosen.size && this.original.every((server) => this.chosen.has(server));
    return isSame ? this.original : [...this.chosen];
  }

  has(server) {
    return this.input.checked || this.chosen.has(server);
  }

  async read() {
    const { tools } = await get("/tools").catch(() => ({ tools: [] }));
    this.tools = Object.groupBy(tools, (tool) => tool.server);
    this.draw();
  }

  draw() {
    const known = state.servers ?? [];
    const gone = [...this.chosen].filter((wanted) => state.servers && !known.some((server) => server.name === wanted));
    this.servers = [...known, ...gone.map((wanted) => ({ name: wanted, label: wanted, isGone: true }))];
    // The focus and what is scrolled stay where they are.
    const focused = this.list.contains(document.activeElement) && document.activeElement.id;
    const tops = [...this.list.querySelectorAll("ul")].map((list) => [list.id, list.scrollTop]);
    fill(this.list, this.servers.map((server) => this.row(server)));
    for (const [id, top] of tops) document.getElementById(id)?.scrollTo(0, top);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  row({ name: server, label, isGone, ...status }) {
    const { offered, trusts } = this.options;
    const tools = this.tools[server] ?? [];
    const isChosen = this.has(server);
    const box = h("input", { type: "checkbox", id: `${this.id}-${server}`, checked: isChosen, disabled: this.input.checked, onchange: () => {
      toggle(this.chosen, server);
      this.changed();
    } });
    const isOffered = offered.covers;
    const part = tools.filter((tool) => isOffered(`${server}.${tool.name}`)).length;
    const amount = tools.length || status.state === "connected" ? `${part.toLocaleString()} of ${count(tools.length, "tool")}` : null;
    const about = isGone ? "" : ` ${[amount, trusts() ? TRUST[status.trust] : null].filter(Boolean).join(", ")}`;
    const fold = h("details.raw", { open: this.opened.has(server), ontoggle: () => {
      if (fold.open === this.opened.has(server)) return;
      toggle(this.opened, server);
      this.draw();
    } }, h("summary", { id: `${this.id}-${server}-summary` }, "Tools"), this.opened.has(server) ? this.toolList(server, tools) : null);
    return h("div.import-row", h("label.check", box, serverIcon({ name: server, ...status }), h("span.grow", name(label, { class: "name strong" }), h("span.sub", about)), pill(isGone ? ["Not configured", "bad"] : stateOf(SERVER_STATES, status.state))), isChosen && tools.length ? fold : null);
  }

  toolList(server, tools) {
    const { offered, trusted, trusts } = this.options;
    const boxes = (label, control) => {
      const isCovered = control.covers;
      const isFixed = covering((control.value ?? []).filter(isWide));
      return (tool) => h("label.check", h("input", { type: "checkbox", id: `${label}-${server}.${tool}`, checked: isCovered(`${server}.${tool}`), disabled: !canBeNamed(tool) || isFixed(`${server}.${tool}`), "aria-label": `${label}: ${tool}`, onchange: (event) => this.mark(control, server, tool, event.target.checked) }), h("span.sub", label));
    };
    const columns = [boxes("Offered", offered), ...(trusts() ? [boxes("Trusted", trusted)] : [])];
    const item = (tool) => toolItem(tool, h("span.tags", columns.map((box) => box(tool.name))));
    const rest = tools.length - MOST_TOOLS;
    return h("ul.tested-tools", { id: `${this.id}-${server}-tools`, tabindex: "0", "aria-label": `Tools of ${server}` }, tools.slice(0, MOST_TOOLS).map(item), rest > 0 ? h("li.sub", `and ${rest} more: name them below`) : null);
  }

  // Offers a tool, or trusts it, or takes that back: a pattern that covers others too is replaced by what else it covers now.
  mark(control, server, tool, isMarked) {
    const patterns = control.value ?? (control.all.checked ? this.servers.filter((known) => this.has(known.name)).map((known) => `${known.name}.*`) : []);
    if (isMarked) return control.take([...patterns, `${server}.${tool}`]);
    const taken = patterns.filter((pattern) => covering([pattern])(`${server}.${tool}`));
    const wasCovered = covering(taken);
    const left = this.tools[server].map((other) => `${server}.${other.name}`).filter((other) => other !== `${server}.${tool}` && wasCovered(other) && canBeNamed(other));
    control.take([...patterns.filter((pattern) => !taken.includes(pattern)), ...left]);
  }
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}
