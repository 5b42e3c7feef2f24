// Which calls the screen Calls shows: the controls, the part of the address that says the same, and the query of the API.

import { fill, h, icon, visible } from "./dom.js";
import { callerWords, CALL_STATES } from "./format.js";
import { state } from "./state.js";

const BETWEEN = "dates";
const TIMES = [["", "Any time"], ["3600", "Last hour"], ["86400", "Last 24 hours"], ["604800", "Last 7 days"], [BETWEEN, "Between dates…"]];
const MOST_CALLERS = 100;
const MOST_TOOLS = 100;

export class CallFilter {
  // onchange(): the user changed it.
  constructor(onchange) {
    this.onchange = onchange;
    const changed = (event) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(onchange, event.type === "input" ? 200 : 0);
      this.draw();
    };
    const select = (label, options) => h("select", { "aria-label": label, onchange: changed }, options.map(([value, words]) => h("option", { value }, words)));
    const date = (label) => h("input", { type: "date", "aria-label": label, title: label, onchange: changed });
    this.controls = {
      tool: h("input", { type: "search", placeholder: "Tool", "aria-label": "Tool", list: "known-tools", autocomplete: "off", oninput: changed }),
      state: select("State", [["", "Any state"], ...Object.entries(CALL_STATES).map(([word, [label]]) => [word, label])]),
      server: select("Server", [["", "Any server"]]),
      caller: select("Caller", [["", "Any caller"]]),
      since: select("Time", TIMES),
      from: date("First day"),
      to: date("Last day"),
    };
    this.dates = h("span.dates", this.controls.from, h("span", { "aria-hidden": "true" }, "–"), this.controls.to);
    this.number = h("span");
    this.opener = h("button", { class: "filter-opener", "aria-expanded": "false", onclick: () => this.open() }, icon("list"), h("span", "Filters", this.number));
    this.tools = h("datalist", { id: "known-tools" });
    const { tool, state: states, server, caller, since } = this.controls;
    this.node = h("div.filters", { role: "search", "aria-label": "Filter calls" }, tool, this.opener, states, server, caller, since, this.dates, this.tools);
    this.drawServers();
    this.draw();
  }

  get values() {
    const entries = Object.entries(this.controls).map(([key, control]) => [key, control.value.trim()]);
    const { from, to, ...values } = Object.fromEntries(entries);
    return values.since === BETWEEN ? { ...values, from, to } : values;
  }

  get isSet() {
    return Object.values(this.values).some(Boolean);
  }

  // === the address ===

  // The query of the address, with its `?`; empty without a filter.
  get address() {
    const query = new URLSearchParams(Object.entries(this.values).filter(([, value]) => value));
    return query.size ? `?${query}` : "";
  }

  // Takes the filter of an address; values that a control does not know are left out. Returns whether it is another one.
  read(query) {
    const before = this.address;
    for (const [key, control] of Object.entries(this.controls)) {
      const value = (query.get(key) ?? "").slice(0, 200);
      // The list of servers may not be read yet, and callers are known from their calls only.
      if (value && (key === "server" || key === "caller")) this.offer(control, value, value);
      control.value = value;
      if (control.value !== value) control.value = "";
    }
    this.draw();
    return this.address !== before;
  }

  clear() {
    this.read(new URLSearchParams());
    this.onchange();
  }

  // === calls ===

  // The parameters of the API; the tool is left to the screen, which knows when it is an exact name.
  get parameters() {
    const { state: wanted, server, caller } = this.values;
    const parameters = { state: wanted, server, caller };
    const [since, until] = this.bounds();
    if (since) parameters.since = since.toISOString();
    if (until) parameters.until = until.toISOString();
    return Object.entries(parameters).filter(([, value]) => value);
  }

  // From the beginning of the first day to the end of the last one, in the time of the browser.
  bounds() {
    const { since, from, to } = this.values;
    const day = (text, days) => {
      const date = new Date(`${text}T00:00`);
      date.setDate(date.getDate() + days);
      return text && !Number.isNaN(date.getTime()) ? date : null;
    };
    if (since === BETWEEN) return [day(from, 0), day(to, 1)];
    return [since ? new Date(Date.now() - Number(since) * 1000) : null, null];
  }

  matches(call) {
    const { state: wanted, server, caller, tool, since } = this.values;
    const [first, end] = since === BETWEEN ? this.bounds() : [null, null];
    const began = new Date(call.startedAt);
    const isIn = (!first || began >= first) && (!end || began < end);
    return isIn && (!wanted || call.state === wanted) && (!server || call.server === server) && (!caller || call.caller === caller || call.caller?.startsWith(`${caller}:`)) && (!tool || String(call.tool).toLowerCase().includes(tool.toLowerCase()));
  }

  // Why nothing can match; null if something could.
  get contradiction() {
    const [first, end] = this.bounds();
    return first && end && first >= end ? "The first day is after the last one." : null;
  }

  // === controls ===

  // In a narrow window all but the tool open below it.
  open() {
    const isOpen = this.node.classList.toggle("open");
    this.opener.setAttribute("aria-expanded", String(isOpen));
  }

  draw() {
    const { tool, ...others } = this.values;
    const set = Object.entries(others).filter(([key, value]) => value && key !== "from" && key !== "to").length;
    this.dates.hidden = this.controls.since.value !== BETWEEN;
    fill(this.number, set ? ` (${set})` : "");
  }

  drawServers() {
    const { server } = this.controls;
    const chosen = server.value;
    fill(server, h("option", { value: "" }, "Any server"), (state.servers ?? []).map(({ name }) => h("option", { value: name }, visible(name))));
    if (chosen) this.offer(server, chosen, chosen);
    server.value = chosen;
  }

  // Callers stay in the list while a filter hides their calls.
  addCaller(caller) {
    if (caller && this.controls.caller.options.length <= MOST_CALLERS) this.offer(this.controls.caller, caller, caller === "agent" ? "Models" : callerWords(caller));
  }

  addKnown(calls) {
    const known = (key) => new Set(calls.slice(0, 2000).map((call) => call[key]).filter(Boolean));
    known("caller").forEach((caller) => this.addCaller(caller));
    fill(this.tools, [...known("tool")].slice(0, MOST_TOOLS).map((value) => h("option", { value })));
  }

  offer(control, value, words) {
    const known = [...control.options].find((option) => option.value === value);
    if (known) fill(known, visible(words));
    else control.append(h("option", { value }, visible(words)));
  }
}
