// The screen Calls: a live list with filters, and a drawer with everything known of one call.

import { get, on, post } from "./api.js";
import { CallFilter } from "./call-filter.js";
import { fill, h, icon, name, visible, words } from "./dom.js";
import { argumentsOf, body, cutNote, isBare, picture, result } from "./content.js";
import { callerWords, CALL_STATES, clock, duration, fullTime, isOpen, isOpenTask, OUTCOMES, ruleWords, TASK_STATES } from "./format.js";
import { copyButton } from "./json.js";
import { action, command, Drawer, empty, labelled, loading, pill, problem, section, stateOf } from "./parts.js";
import { state } from "./state.js";
import { TaskLine } from "./task-line.js";
import { WindowedList } from "./window.js";

const PAGE = 200;
// Pages that are read at once to find this many calls with a text in their name.
const MOST_PAGES = 25;
const ENOUGH = 100;

export const KEYS = [["Enter", "Open the call beside the list"], ["↑ ↓", "With a call open: the one before, the next"], ["Escape", "Close it"]];

export function create() {
  const screen = new CallsScreen();
  return { node: screen.node, route: (parts, query) => screen.route(parts, query), close: () => screen.close() };
}

class CallsScreen {
  constructor() {
    this.calls = [];
    this.known = new Map();
    this.next = null;
    this.opened = null;
    this.meanwhile = new Map();
    this.loading = 0;
    this.filter = new CallFilter(() => {
      history.replaceState(null, "", this.place(this.opened));
      this.reload();
    });
    this.count = h("span.sub", { role: "status" });
    this.detail = new CallDetail(() => (location.hash = this.place(null)));
    this.list = new WindowedList({
      label: "Calls",
      rowHeight: 44,
      key: (call) => call.id,
      row,
      onopen: (call) => (location.hash = this.place(call.id)),
      onend: () => this.more(),
      followSelection: () => this.detail.drawer.isOpen,
    });
    this.list.node.addEventListener("keydown", (event) => event.key === "Escape" && this.detail.drawer.close());
    this.blank = h("div", { hidden: true });
    this.node = h(
      "div",
      { class: "calls" },
      h("header.pane-head", h("div", h("p.title", { "aria-hidden": "true" }, "Calls"), this.count), this.filter.node),
      h("div.call-head", { "aria-hidden": "true" }, ["State", "Tool", "Caller", "Started", "Worked", "Waited"].map((word) => h("span", word))),
      this.list.node,
      this.blank,
      this.detail.drawer.node,
    );
    this.stops = [
      on("call", (call) => this.take(call)),
      on("reset", () => this.reload()),
      on("online", ({ resumed }) => resumed && this.reload()),
      on("changed:servers", () => this.filter.drawServers()),
    ];
    this.ticker = setInterval(() => this.tick(), 1000);
    this.blank.hidden = false;
    this.blank.append(loading(8));
  }

  close() {
    this.stops.forEach((stop) => stop());
    this.detail.stop();
    clearInterval(this.ticker);
    this.list.close();
  }

  // The address of a call, or of the list, with the filter.
  place(id) {
    return `#/calls${id ? `/${id}` : ""}${this.filter.address}`;
  }

  route([id], query) {
    if (this.filter.read(query) || !this.isRead) this.reload();
    this.isRead = true;
    this.opened = id ?? null;
    this.markOpened();
    if (id) this.detail.open(id);
    else this.detail.drawer.close();
  }

  query(before) {
    const query = new URLSearchParams([["limit", String(PAGE)], ...this.filter.parameters]);
    const tool = this.exactTool();
    if (tool) query.set("tool", tool);
    if (before) query.set("before", before);
    return `/calls?${query}`;
  }

  // The API finds calls by the exact public name; any other text is looked for in the pages that are read.
  exactTool() {
    const { tool, server } = this.filter.values;
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
      found.push(...answer.calls.filter((call) => this.filter.matches(call)));
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
    const added = [...this.meanwhile.values()].filter((call) => !read.has(call.id) && this.filter.matches(call)).reverse();
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
    this.filter.addKnown(this.calls);
  }

  markOpened() {
    const index = this.list.items.indexOf(this.known.get(this.opened));
    if (index >= 0 && index !== this.list.active) this.list.select(index);
  }

  drawFrame() {
    const filtered = this.filter.isSet;
    fill(this.count, this.calls.length ? `${this.calls.length.toLocaleString()}${this.next === null ? "" : "+"}${filtered ? " matching" : ""}, newest first` : "");
    const none = this.calls.length === 0;
    this.list.node.hidden = none;
    this.blank.hidden = !none;
    if (none) fill(this.blank, this.nothing(filtered));
  }

  nothing(filtered) {
    if (this.failure) return problem(this.failure, "The calls could not be read");
    if (filtered) return empty("search", "No call matches", h("p", this.filter.contradiction ?? "Change or clear a filter."), h("p", h("button", { onclick: () => this.filter.clear() }, "Clear all filters")));
    if (state.session?.store === false) return empty("calls", "Calls are not recorded", h("p", "Toolway runs without a store. Calls appear here as they are made; start it without ", command("--no-store"), " to keep them."));
    return empty("calls", "No calls yet", h("p", "Each use of a tool appears here at once: by a chat, by a program connected to Toolway, or by a command."), h("p.actions.centred", h("a.button.primary", { href: "#/chat" }, icon("chat"), "Start a chat")), h("p.sub", "In a terminal: ", command("toolway call SERVER.TOOL")));
  }

  // A call began or changed.
  take(call) {
    this.detail.take(call);
    this.meanwhile.set(call.id, call);
    const known = this.known.get(call.id);
    if (known === undefined && this.filter.matches(call)) {
      this.calls = [call, ...this.calls];
      this.known.set(call.id, call);
      this.filter.addCaller(call.caller);
      this.later();
    } else if (known !== undefined && this.filter.matches(call)) {
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

  tick() {
    for (const index of [...this.list.rows.keys()]) if (isOpen(this.list.items[index]?.state)) this.list.update(index);
    this.detail.tick();
  }
}

// The time of the tool: without the person who was waited for.
function worked(call) {
  if (call.state === "pending") return "";
  return duration(isOpen(call.state) ? Math.max(0, Date.now() - new Date(call.startedAt).getTime() - (call.waitedMs ?? 0)) : call.durationMs);
}

function waited(call) {
  return duration(call.state === "pending" ? Date.now() - new Date(call.startedAt).getTime() : call.waitedMs || null);
}

// What the state does not say: what was called, if it is no tool, and what became of it at the server.
function tags(call) {
  const kind = call.kind !== "tool" ? h("span.tag", call.kind) : null;
  const isLost = call.outcome === "unknown";
  const isUnsent = call.outcome === "not-sent" && call.state !== "refused";
  return [kind, isLost || isUnsent ? h("span", { class: isLost ? "tag bad" : "tag" }, isLost ? "outcome unknown" : "not sent") : null];
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
    h("span.one-line", call.server ? [name(call.server, { class: "name sub" }), h("span.sub", " / ")] : null, name(toolOf(call), { class: "name strong" }), tags(call).map((tag) => tag && [" ", tag])),
    h("span.one-line.sub", name(callerWords(call.caller, call.surface))),
    h("span.number.sub", clock(call.startedAt)),
    h("span.number.sub", worked(call)),
    h("span.number.sub", waited(call)),
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
    this.time = h("span");
    this.waiting = h("span");
    this.line = null;
    this.stop = on("task", (task) => this.takeTask(task));
    this.news = h("p.news", { role: "status" });
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
    if (this.call && isOpen(this.call.state)) this.drawTimes();
  }

  drawTimes() {
    fill(this.time, worked(this.call));
    fill(this.waiting, waited(this.call));
  }

  // The task of this call changed.
  takeTask(task) {
    if (this.call?.id !== task.id) return;
    if (this.line && isOpenTask(task.status)) this.line.set(task);
    else this.load(task.id);
  }

  draw() {
    const { call } = this;
    this.drawTimes();
    const { task } = call;
    this.line = task && isOpenTask(task.status) ? new TaskLine(task) : null;
    this.drawer.show(
      [name(toolOf(call)), " ", pill(stateOf(CALL_STATES, call.state))],
      this.news,
      this.line ? this.line.node : isOpen(call.state) ? h("div.actions", action("Cancel this call", () => post(`/calls/${call.id}/cancel`), { class: "danger" })) : null,
      h(
        "dl",
        { class: "facts" },
        labelled("Server", call.server ? h("a", { href: `#/servers/${encodeURIComponent(call.server)}` }, name(call.server)) : null),
        labelled("Caller", [name(callerWords(call.caller, call.surface)), call.conversation ? [" (", h("a", { href: `#/chat/${encodeURIComponent(call.conversation)}` }, "open the conversation"), ")"] : ""]),
        labelled("Started", fullTime(call.startedAt)),
        labelled("Worked", call.state === "pending" ? null : this.time),
        labelled(call.state === "pending" ? "Waits since" : "Waited for a person", call.state === "pending" || call.waitedMs ? this.waiting : null),
        labelled("Task", task ? [pill(stateOf(TASK_STATES, task.status)), " ", h("a", { href: `#/tasks/${encodeURIComponent(call.id)}` }, "open it")] : null),
        labelled("Outcome", OUTCOMES[call.outcome] ?? null),
        labelled("You found out", settled(call)),
        labelled("Models answered", call.sampling?.length ? call.sampling.map(sampled) : null),
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
    return section("Arguments", values === null || isBare(values) ? null : copyButton(values), cutNote(call, "arguments"), values === null ? h("p.sub", call.state === "pending" ? ["They are shown where the call is decided: ", h("a", { href: "#/inbox" }, "in the inbox"), "."] : "None, or not kept.") : isBare(values) ? h("p.sub", "None.") : body(values));
  }

  resultPart(call) {
    if (isOpen(call.state)) return section("Result", null, h("p.sub", call.state === "pending" ? "The call waits for approval or for its turn." : "The call is running."));
    if (call.result === null || call.result === undefined) return null;
    return section("Result", copyButton(call.result), cutNote(call, "result"), result(call.result), typeof call.result === "string" ? (call.images ?? []).map((address) => picture(address)) : null);
  }
}

// What a model answered its server.
function sampled({ model, reason, outcome, tokens, inputTokens, outputTokens }) {
  const cost = inputTokens === null ? `at most ${tokens} tokens` : `${inputTokens} tokens in, ${outputTokens} out`;
  return h("div", h("code", visible(model)), `, ${outcome ?? "open"}: ${cost} (`, visible(reason), ")");
}

const FINDINGS = { happened: "It happened", "did-not-happen": "It did not happen" };

function settled({ settlement, outcome }) {
  if (settlement) return [FINDINGS[settlement.finding], ` (${fullTime(settlement.at)})`, settlement.note ? [": ", visible(settlement.note)] : ""];
  const waits = outcome === "unknown" && (state.inbox ?? []).some((item) => item.outcome);
  return waits ? h("a", { href: "#/inbox" }, "not yet: see the inbox") : null;
}

function technical(call) {
  return h(
    "details",
    { class: "raw" },
    h("summary", "For commands and logs"),
    h(
      "dl",
      { class: "facts small-facts" },
      labelled("Id", h("code.wrap", call.id)),
      labelled("Name for models", call.tool ? h("code.wrap", visible(call.tool)) : null),
      labelled("Recorded as", h("code.wrap", visible(`${call.caller}${call.surface ? ` (${call.surface})` : ""}`))),
      labelled("Command", h("code.wrap", `toolway calls show ${call.id}`)),
    ),
  );
}
