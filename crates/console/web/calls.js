// The screen Calls: a live list with filters, and a drawer with everything known of one call.

import { get, on, post } from "./api.js";
import { fill, h, name, visible } from "./dom.js";
import { picture, result } from "./content.js";
import { bytes, CALL_STATES, clock, duration, fullTime, isOpen } from "./format.js";
import { copyButton, json } from "./json.js";
import { action, command, Drawer, empty, labelled, pill, problem, section, stateOf } from "./parts.js";
import { state } from "./state.js";
import { WindowedList } from "./window.js";

const PAGE = 200;
const SINCE = [["", "Any time"], ["3600", "Last hour"], ["86400", "Last 24 hours"], ["604800", "Last 7 days"]];

export function create() {
  const screen = new CallsScreen();
  return { node: screen.node, route: (parts) => screen.route(parts), close: () => screen.close() };
}

class CallsScreen {
  constructor() {
    this.calls = [];
    this.places = new Map();
    this.next = null;
    this.opened = null;
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
    this.callers = h("datalist", { id: "known-callers" });
    this.drawServers();
    return h(
      "div",
      { class: "filters", role: "search", "aria-label": "Filter calls" },
      h("select", { "aria-label": "State", onchange: change("state") }, h("option", { value: "" }, "Any state"), states),
      this.servers,
      h("input", { type: "search", placeholder: "Tool", "aria-label": "Tool", list: "known-tools", oninput: change("tool") }),
      h("input", { type: "search", placeholder: "Caller", "aria-label": "Caller", list: "known-callers", oninput: change("caller") }),
      h("select", { "aria-label": "Time", onchange: change("since") }, SINCE.map(([value, label]) => h("option", { value }, label))),
      this.tools,
      this.callers,
    );
  }

  drawServers() {
    const names = (state.servers ?? []).map((server) => h("option", { value: server.name, selected: server.name === this.filter.server }, visible(server.name)));
    fill(this.servers, h("option", { value: "" }, "Any server"), names);
  }

  query(before) {
    const query = new URLSearchParams({ limit: String(PAGE) });
    for (const key of ["state", "server", "caller", "tool"]) if (this.filter[key]) query.set(key, this.filter[key]);
    if (this.filter.since) query.set("since", new Date(Date.now() - Number(this.filter.since) * 1000).toISOString());
    if (before) query.set("before", before);
    return `/calls?${query}`;
  }

  async reload() {
    const turn = ++this.loading;
    try {
      const { calls, next } = await get(this.query());
      if (turn !== this.loading) return;
      this.next = next;
      this.calls = calls;
      this.failure = null;
    } catch (error) {
      if (turn !== this.loading) return;
      this.calls = [];
      this.next = null;
      this.failure = error;
    }
    this.draw();
  }

  // The next page, once: drawing the list asks for it whenever its end is near.
  async more() {
    if (this.next === null || this.paging) return;
    const turn = this.loading;
    this.paging = true;
    const { calls, next } = await get(this.query(this.next)).catch(() => ({ calls: [], next: null }));
    this.paging = false;
    if (turn !== this.loading) return;
    this.next = next;
    this.calls.push(...calls.filter((call) => !this.places.has(call.id)));
    this.draw();
  }

  draw() {
    this.places = new Map(this.calls.map((call, index) => [call.id, index]));
    this.list.set(this.calls, { anchor: true });
    this.markOpened();
    this.drawFrame();
    const known = (key) => [...new Set(this.calls.slice(0, 2000).map((call) => call[key]).filter(Boolean))].slice(0, 100).map((value) => h("option", { value }));
    fill(this.tools, known("tool"));
    fill(this.callers, known("caller"));
  }

  markOpened() {
    const index = this.opened === null ? undefined : this.places.get(this.opened);
    if (index !== undefined && index !== this.list.active) this.list.select(index);
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
    if (filtered) return empty("No call matches", h("p", {}, "Change or clear a filter."));
    if (state.session?.store === false) return empty("Calls are not recorded", h("p", {}, "The store is off. Calls appear here while they run; to keep them, remove ", command("store: off"), " from the configuration."));
    return empty("No calls yet", h("p", {}, "A call from the command line, a chat or a client of the gateway appears here at once. Try:"), h("p", {}, command("toolway call SERVER.TOOL")));
  }

  // A call began or changed.
  take(call) {
    this.detail.take(call);
    const index = this.places.get(call.id);
    if (index !== undefined) {
      Object.assign(this.calls[index], call);
      this.list.update(index);
    } else if (this.matches(call)) {
      this.calls.unshift(call);
      this.later();
    }
  }

  // Many calls at once are drawn once.
  later() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.places = new Map(this.calls.map((call, index) => [call.id, index]));
      this.list.set(this.calls, { anchor: true });
      this.drawFrame();
    });
  }

  matches(call) {
    const { state: wanted, server, caller, tool } = this.filter;
    return (!wanted || call.state === wanted) && (!server || call.server === server) && (!caller || call.caller === caller) && (!tool || call.tool === tool) && !this.places.has(call.id);
  }

  tick() {
    for (const index of [...this.list.rows.keys()]) if (isOpen(this.list.items[index]?.state)) this.list.update(index);
    this.detail.tick();
  }
}

function took(call) {
  return duration(isOpen(call.state) ? Date.now() - new Date(call.startedAt).getTime() : call.durationMs);
}

function row(call) {
  return h(
    "div",
    { class: "call-row" },
    pill(stateOf(CALL_STATES, call.state)),
    h("span", { class: "one-line" }, name(call.server, { class: "name sub" }), h("span", { class: "sub" }, " / "), name(call.tool, { class: "name strong" })),
    h("span", { class: "one-line sub" }, name(call.caller), call.surface && call.surface !== call.caller ? ` · ${call.surface}` : ""),
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
      [name(call.tool ?? call.kind), " ", pill(stateOf(CALL_STATES, call.state))],
      this.news,
      isOpen(call.state) ? h("div", { class: "actions" }, action("Cancel this call", () => post(`/calls/${call.id}/cancel`), { class: "danger" })) : null,
      h(
        "dl",
        { class: "facts" },
        labelled("Server", call.server ? h("a", { href: `#/servers/${encodeURIComponent(call.server)}` }, name(call.server)) : null),
        labelled("Caller", [name(call.caller), call.surface ? ` on ${call.surface}` : ""]),
        labelled("Started", fullTime(call.startedAt)),
        labelled("Took", this.time),
        labelled("Rule", call.rule ? h("code", {}, visible(call.rule)) : null),
        labelled("Approved by", call.approvedBy ? visible(call.approvedBy) : null),
        labelled("Conversation", call.conversation ? h("a", { href: `#/chat/${encodeURIComponent(call.conversation)}` }, "open") : null),
        labelled("Id", h("code", { class: "wrap" }, call.id)),
      ),
      call.error ? problem(typeof call.error === "string" ? { message: call.error } : call.error, CALL_STATES[call.state]?.[0]) : null,
      section("Arguments", copyButton(call.arguments), cutNote(call, "arguments"), call.arguments === null || call.arguments === undefined ? h("p", { class: "sub" }, "None, or not kept.") : body(call.arguments)),
      this.resultPart(call),
    );
  }

  resultPart(call) {
    if (isOpen(call.state)) return section("Result", null, h("p", { class: "sub" }, call.state === "pending" ? "The call waits for approval or for its turn." : "The call is running."));
    if (call.result === null || call.result === undefined) return null;
    return section("Result", copyButton(call.result), cutNote(call, "result"), result(call.result), typeof call.result === "string" ? (call.images ?? []).map((address) => picture(address)) : null);
  }
}

function body(value) {
  return typeof value === "string" ? h("pre", { class: "plain", tabindex: "0" }, visible(value.slice(0, 20_000), "prose")) : json(value);
}

function cutNote(call, field) {
  const size = call.truncated?.[field];
  return size ? h("p", { class: "note" }, `Only the beginning is shown, of ${bytes(size)} in all.`) : null;
}
