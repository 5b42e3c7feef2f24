// The screen Calls: a live list with filters, and a drawer with everything known of one call.

import { get, on, post } from "./api.js";
import { fill, h, icon, name, visible, words } from "./dom.js";
import { picture, result } from "./content.js";
import { bytes, callerWords, CALL_STATES, clock, duration, fullTime, isOpen, OUTCOMES, ruleWords } from "./format.js";
import { copyButton, json } from "./json.js";
import { action, command, Drawer, empty, labelled, loading, pill, problem, section, stateOf } from "./parts.js";
import { state } from "./state.js";
import { WindowedList } from "./window.js";

const PAGE = 200;
// Pages that are read at once to find this many calls with a text in their name.
const MOST_PAGES = 25;
const ENOUGH = 100;
const SINCE = [["", "Any time"], ["3600", "Last hour"], ["86400", "Last 24 hours"], ["604800", "Last 7 days"]];

export function create() {
  const screen = new CallsScreen();
  return { node: screen.node, route: (parts) => screen.route(parts), close: () => screen.close() };
}

class CallsScreen {
  constructor() {
    this.calls = [];
    this.known = new Map();
    this.next = null;
    this.opened = null;
    this.meanwhile = new Map();
    this.loading = 0;
    this.filter = { state: "", server: "", caller: "", tool: "", since: "" };
    this.count = h("span", { class: "sub", role: "status" });
    this.detail = new CallDetail(() => (location.hash = "#/calls"));
    this.list = new WindowedList({
      label: "Calls",
      rowHeight: 44,
      key: (call) => call.id,
      row,
      onopen: (call) => (location.hash = `#/calls/${call.id}`),
      onend: () => this.more(),
      followSelection: () => this.detail.drawer.isOpen,
    });
    this.list.node.addEventListener("keydown", (event) => event.key === "Escape" && this.detail.drawer.close());
    this.blank = h("div", { hidden: true });
    this.node = h(
      "div",
      { class: "calls" },
      h("header", { class: "pane-head" }, h("div", {}, h("p", { class: "title", "aria-hidden": "true" }, "Calls"), this.count), this.filters()),
      h("div", { class: "call-head", "aria-hidden": "true" }, ["State", "Tool", "Caller", "Started", "Took"].map((word) => h("span", {}, word))),
      this.list.node,
      this.blank,
      this.detail.drawer.node,
    );
    this.stops = [
      on("call", (call) => this.take(call)),
      on("reset", () => this.reload()),
      on("online", ({ resumed }) => resumed && this.reload()),
      on("changed:servers", () => this.drawServers()),
    ];
    this.ticker = setInterval(() => this.tick(), 1000);
    this.blank.hidden = false;
    this.blank.append(loading(8));
    this.reload();
  }

  close() {
    this.stops.forEach((stop) => stop());
    clearInterval(this.ticker);
    this.list.close();
  }

  route([id]) {
    this.opened = id ?? null;
    this.markOpened();
    if (id) this.detail.open(id);
    else this.detail.drawer.close();
  }

  filters() {
    const change = (key) => (event) => {
      this.filter[key] = event.target.value.trim();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.reload(), event.type === "input" ? 200 : 0);
    };
    const states = Object.entries(CALL_STATES).map(([word, [label]]) => h("option", { value: word }, label));
    this.servers = h("select", { "aria-label": "Server", onchange: change("server") });
    this.tools = h("datalist", { id: "known-tools" });
    this.callers = h("select", { "aria-label": "Caller", onchange: change("caller") }, h("option", { value: "" }, "Any caller"));
    this.callerNames = new Set();
    this.drawServers();
    this.form = h(
      "div",
      { class: "filters", role: "search", "aria-label": "Filter calls" },
      h("select", { "aria-label": "State", onchange: change("state") }, h("option", { value: "" }, "Any state"), states),
      this.servers,
      h("input", { type: "search", placeholder: "Tool", "aria-label": "Tool", list: "known-tools", oninput: change("tool") }),
      this.callers,
      h("select", { "aria-label": "Time", onchange: change("since") }, SINCE.map(([value, label]) => h("option", { value }, label))),
      this.tools,
    );
    return this.form;
  }

  clear() {
    for (const key of Object.keys(this.filter)) this.filter[key] = "";
    for (const control of this.form.querySelectorAll("select, input")) control.value = "";
    this.reload();
  }

  drawServers() {
    const names = (state.servers ?? []).map((server) => h("option", { value: server.name, selected: server.name === this.filter.server }, visible(server.name)));
    fill(this.servers, h("option", { value: "" }, "Any server"), names);
  }

  query(before) {
    const query = new URLSearchParams({ limit: String(PAGE) });
    for (const key of ["state", "server", "caller"]) if (this.filter[key]) query.set(key, this.filter[key]);
    const tool = this.exactTool();
    if (tool) query.set("tool", tool);
    if (this.filter.since) query.set("since", new Date(Date.now() - Number(this.filter.since) * 1000).toISOString());
    if (before) query.set("before", before);
    return `/calls?${query}`;
  }

  // The API finds calls by the exact public name; any other text is looked for in the pages that are read.
  exactTool() {
    const { tool, server } = this.filter;
    const offered = (wanted) => (state.servers ?? []).some((known) => wanted.startsWith(`${known.name}__`));
    if (!tool) return null;
    if (offered(tool) && this.calls.some((call) => call.tool === tool)) return tool;
    return server && this.calls.some((call) => call.tool === `${server}__${tool}`) ? `${server}__${tool}` : null;
  }

  // One page of the API, or as many as it takes to find a page of calls that match.
  async page(before) {
    const found = [];
    let next = before;
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const answer = await get(this.query(next));
      found.push(...answer.calls.filter((call) => this.matches(call)));
      next = answer.next;
      if (next === null || found.length >= ENOUGH) break;
    }
    return { calls: found, next };
  }

  async reload() {
    const turn = ++this.loading;
    this.meanwhile = new Map();
    try {
      const { calls, next } = await this.page(null);
      if (turn !== this.loading) return;
      this.next = next;
      this.calls = this.merge(calls);
      this.failure = null;
    } catch (error) {
      if (turn !== this.loading) return;
      this.calls = [];
      this.next = null;
      this.failure = error;
    }
    this.draw();
  }

  // What changed while the page was read is newer than the page.
  merge(calls) {
    const read = new Set(calls.map((call) => call.id));
    const added = [...this.meanwhile.values()].filter((call) => !read.has(call.id) && this.matches(call)).reverse();
    return [...added, ...calls.map((call) => this.meanwhile.get(call.id) ?? call)];
  }

  // The next page, once: drawing the list asks for it whenever its end is near.
  async more() {
    if (this.next === null || this.paging) return;
    const turn = this.loading;
    this.paging = true;
    const { calls, next } = await this.page(this.next).catch(() => ({ calls: [], next: null }));
    this.paging = false;
    if (turn !== this.loading) return;
    this.next = next;
    this.calls = [...this.calls, ...calls.filter((call) => !this.known.has(call.id))];
    this.draw();
  }

  draw() {
    this.known = new Map(this.calls.map((call) => [call.id, call]));
    this.list.set(this.calls, { anchor: true });
    this.markOpened();
    this.drawFrame();
    const known = (key) => new Set(this.calls.slice(0, 2000).map((call) => call[key]).filter(Boolean));
    fill(this.tools, [...known("tool")].slice(0, 100).map((value) => h("option", { value })));
    this.addCallers(known("caller"));
  }

  // Callers stay in the list while a filter hides their calls.
  addCallers(callers) {
    for (const caller of callers) {
      if (this.callerNames.has(caller) || this.callerNames.size >= 100) continue;
      this.callerNames.add(caller);
      this.callers.append(h("option", { value: caller }, visible(caller === "agent" ? "Models" : callerWords(caller))));
    }
  }

  markOpened() {
    const index = this.list.items.indexOf(this.known.get(this.opened));
    if (index >= 0 && index !== this.list.active) this.list.select(index);
  }

  drawFrame() {
    const filtered = Object.values(this.filter).some(Boolean);
    fill(this.count, this.calls.length ? `${this.calls.length.toLocaleString()}${this.next === null ? "" : "+"}${filtered ? " matching" : ""}, newest first` : "");
    const none = this.calls.length === 0;
    this.list.node.hidden = none;
    this.blank.hidden = !none;
    if (none) fill(this.blank, this.nothing(filtered));
  }

  nothing(filtered) {
    if (this.failure) return problem(this.failure, "The calls could not be read");
    if (filtered) return empty("search", "No call matches", h("p", {}, "Change or clear a filter."), h("p", {}, h("button", { type: "button", onclick: () => this.clear() }, "Clear all filters")));
    if (state.session?.store === false) return empty("calls", "Calls are not recorded", h("p", {}, "Toolway runs without a store. Calls appear here as they are made; start it without ", command("--no-store"), " to keep them."));
    return empty("calls", "No calls yet", h("p", {}, "Each use of a tool appears here at once: by a chat, by a program connected to Toolway, or by a command."), h("p", { class: "actions centred" }, h("a", { class: "button primary", href: "#/chat" }, icon("chat"), "Start a chat")), h("p", { class: "sub" }, "In a terminal: ", command("toolway call SERVER.TOOL")));
  }

  // A call began or changed.
  take(call) {
    this.detail.take(call);
    this.meanwhile.set(call.id, call);
    const known = this.known.get(call.id);
    if (known === undefined && this.matches(call)) {
      this.calls = [call, ...this.calls];
      this.known.set(call.id, call);
      this.addCallers([call.caller]);
      this.later();
    } else if (known !== undefined && this.matches(call)) {
      Object.assign(known, call);
      this.list.update(this.list.items.indexOf(known));
    } else if (known !== undefined) {
      this.calls = this.calls.filter((other) => other !== known);
      this.known.delete(call.id);
      this.later();
    }
  }

  // Many calls at once are drawn once.
  later() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.list.set(this.calls, { anchor: true });
      this.drawFrame();
    });
  }

  matches(call) {
    const { state: wanted, server, caller, tool } = this.filter;
    return (!wanted || call.state === wanted) && (!server || call.server === server) && (!caller || call.caller === caller || call.caller?.startsWith(`${caller}:`)) && (!tool || String(call.tool).toLowerCase().includes(tool.toLowerCase()));
  }

  tick() {
    for (const index of [...this.list.rows.keys()]) if (isOpen(this.list.items[index]?.state)) this.list.update(index);
    this.detail.tick();
  }
}

function took(call) {
  return duration(isOpen(call.state) ? Date.now() - new Date(call.startedAt).getTime() : call.durationMs);
}

// The server's own name of a tool, from the public one.
function toolOf(call) {
  const prefix = `${call.server}__`;
  return call.tool?.startsWith(prefix) ? call.tool.slice(prefix.length) : call.tool ?? call.kind;
}

function row(call) {
  return h(
    "div",
    { class: "call-row" },
    pill(stateOf(CALL_STATES, call.state)),
    h("span", { class: "one-line" }, call.server ? [name(call.server, { class: "name sub" }), h("span", { class: "sub" }, " / ")] : null, name(toolOf(call), { class: "name strong" })),
    h("span", { class: "one-line sub" }, name(callerWords(call.caller, call.surface))),
    h("span", { class: "number sub" }, clock(call.startedAt)),
    h("span", { class: "number sub" }, took(call)),
  );
}

// === one call ===

class CallDetail {
  constructor(onclose) {
    this.call = null;
    this.drawer = new Drawer("Call", () => {
      this.call = null;
      onclose();
    });
    this.time = h("span", {});
    this.news = h("p", { class: "news", role: "status" });
  }

  async open(id) {
    if (this.call?.id === id) return;
    this.call = { id };
    fill(this.news);
    await this.load(id);
    this.drawer.body.scrollTop = 0;
  }

  async load(id) {
    try {
      const call = await get(`/calls/${encodeURIComponent(id)}`);
      if (this.call?.id !== id) return;
      this.call = call;
      this.draw();
    } catch (error) {
      if (this.call?.id === id) this.drawer.show("Call", problem(error));
    }
  }

  take(row) {
    if (this.call?.id !== row.id) return;
    const ended = isOpen(this.call.state) && !isOpen(row.state);
    Object.assign(this.call, row);
    if (ended) fill(this.news, "This call has just ended: ", pill(stateOf(CALL_STATES, row.state)));
    this.load(row.id);
  }

  tick() {
    if (this.call && isOpen(this.call.state)) fill(this.time, took(this.call));
  }

  draw() {
    const { call } = this;
    fill(this.time, took(call));
    this.drawer.show(
      [name(toolOf(call)), " ", pill(stateOf(CALL_STATES, call.state))],
      this.news,
      isOpen(call.state) ? h("div", { class: "actions" }, action("Cancel this call", () => post(`/calls/${call.id}/cancel`), { class: "danger" })) : null,
      h(
        "dl",
        { class: "facts" },
        labelled("Server", call.server ? h("a", { href: `#/servers/${encodeURIComponent(call.server)}` }, name(call.server)) : null),
        labelled("Caller", [name(callerWords(call.caller, call.surface)), call.conversation ? [" (", h("a", { href: `#/chat/${encodeURIComponent(call.conversation)}` }, "open the conversation"), ")"] : ""]),
        labelled("Started", fullTime(call.startedAt)),
        labelled("Took", this.time),
        labelled("Waited for a person", call.waitedMs ? duration(call.waitedMs) : null),
        labelled("Outcome", OUTCOMES[call.outcome] ?? null),
        labelled("You found out", settled(call)),
        labelled("Rule", call.rule ? words(ruleWords(call.rule)) : null),
        labelled(call.state === "refused" ? "Declined by" : "Approved by", call.approvedBy ? visible(call.approvedBy) : null),
      ),
      call.error ? problem(typeof call.error === "string" ? { message: call.error } : call.error, CALL_STATES[call.state]?.[0]) : null,
      this.argumentPart(call),
      this.resultPart(call),
      technical(call),
    );
  }

  argumentPart(call) {
    const values = argumentsOf(call);
    return section("Arguments", values === null || isBare(values) ? null : copyButton(values), cutNote(call, "arguments"), values === null ? h("p", { class: "sub" }, call.state === "pending" ? ["They are shown where the call is decided: ", h("a", { href: "#/inbox" }, "in the inbox"), "."] : "None, or not kept.") : isBare(values) ? h("p", { class: "sub" }, "None.") : body(values));
  }

  resultPart(call) {
    if (isOpen(call.state)) return section("Result", null, h("p", { class: "sub" }, call.state === "pending" ? "The call waits for approval or for its turn." : "The call is running."));
    if (call.result === null || call.result === undefined) return null;
    return section("Result", copyButton(call.result), cutNote(call, "result"), result(call.result), typeof call.result === "string" ? (call.images ?? []).map((address) => picture(address)) : null);
  }
}

const FINDINGS = { happened: "It happened", "did-not-happen": "It did not happen" };

function settled({ settlement, outcome }) {
  if (settlement) return [FINDINGS[settlement.finding], ` (${fullTime(settlement.at)})`, settlement.note ? [": ", visible(settlement.note)] : ""];
  const waits = outcome === "unknown" && (state.inbox ?? []).some((item) => item.outcome);
  return waits ? h("a", { href: "#/inbox" }, "not yet: see the inbox") : null;
}

function isBare(values) {
  return typeof values === "object" && Object.keys(values).length === 0;
}

function technical(call) {
  return h(
    "details",
    { class: "raw" },
    h("summary", {}, "For commands and logs"),
    h(
      "dl",
      { class: "facts small-facts" },
      labelled("Id", h("code", { class: "wrap" }, call.id)),
      labelled("Name for models", call.tool ? h("code", { class: "wrap" }, visible(call.tool)) : null),
      labelled("Recorded as", h("code", { class: "wrap" }, visible(`${call.caller}${call.surface ? ` (${call.surface})` : ""}`))),
      labelled("Command", h("code", { class: "wrap" }, `toolway calls show ${call.id}`)),
    ),
  );
}

// What is recorded of a tool call are the parameters of the request.
function argumentsOf(call) {
  const values = call.arguments ?? null;
  return call.kind === "tool" && typeof values?.name === "string" && "arguments" in values ? values.arguments : values;
}

function body(value) {
  return typeof value === "string" ? h("pre", { class: "plain", tabindex: "0" }, visible(value.slice(0, 20_000))) : json(value);
}

function cutNote(call, field) {
  const size = call.truncated?.[field];
  return size ? h("p", { class: "note" }, `Only the beginning is shown, of ${bytes(size)} in all.`) : null;
}
