// The screen Servers: the list at the left, one server with its tools at the right.

import { get, on, post } from "./api.js";
import { fill, h, icon, name, visible } from "./dom.js";
import { confirmRemoval } from "./entry-form.js";
import { clock, count, SERVER_STATES } from "./format.js";
import { copyButton, json } from "./json.js";
import { action, command, Drawer, empty, Fold, hints, labelled, loading, pill, problem, section, serverIcon, stateOf, warnings } from "./parts.js";
import { drawFolds, facts, recentCall, setAside } from "./server-parts.js";
import { SignInPanel } from "./sign-in.js";
import { state } from "./state.js";
import { WindowedList } from "./window.js";

const RECENT = 8;

export const KEYS = [["↑ ↓", "In the list: server before, next one"], ["Enter", "Open the server, or the tool"]];

export function create() {
  const list = h("ul", { class: "server-list", onkeydown: moveInList });
  const summary = h("p", { class: "sub" });
  const detail = h("section", { class: "pane detail", "aria-label": "Server" });
  const drawer = new Drawer("Tool", () => view && (location.hash = view.place(null)));
  const node = h(
    "div",
    { class: "split" },
    h("section", { class: "pane master", "aria-label": "Servers" }, h("header", { class: "pane-head" }, h("div", {}, h("p", { class: "title", "aria-hidden": "true" }, "Servers"), summary), h("a", { class: "button", href: "#/add" }, icon("plus"), "Add")), list),
    detail,
    drawer.node,
  );
  let shown = null;
  let view = null;
  // The shown server, if it was removed: it is read again when it is back.
  let missing = null;
  // Whether the sign-in begins as soon as the server requires it: the user said so, and no address does.
  let authorize = false;
  // The tool that the address names, and what tools are filtered by, until it is shown.
  let place = null;

  const drawList = () => {
    if (state.servers === null) return void fill(list, h("li", {}, loading()));
    fill(summary, summaryOf(state.servers));
    fill(list, state.servers.map((server) => row(server, server.name === shown)));
    if (state.servers.length === 0) fill(list, h("li", { class: "sub pad" }, "No servers yet."));
    if (state.servers.length === 1 && state.servers[0].transport === "in-process") list.append(h("li", { class: "quiet-box sub" }, "This server is a sample, to try things with. ", h("a", { href: "#/add" }, "Add your own"), " by pasting what its README shows."));
    node.classList.toggle("has-detail", shown !== null);
    if (shown === null) fill(detail, welcome());
  };

  const load = async () => {
    const wanted = shown;
    if (wanted === null) return;
    try {
      const server = await get(`/servers/${encodeURIComponent(wanted)}`);
      if (wanted !== shown) return;
      view ??= new ServerView(detail, drawer);
      view.set(server, authorize);
      arrive();
      if (server.signIn?.required) authorize = false;
    } catch (error) {
      if (wanted === shown) gone(wanted, error);
    }
  };

  const arrive = () => {
    if (place !== null && view.go(place)) place = null;
  };

  const gone = (wanted, error) => {
    missing = error.status === 404 ? wanted : null;
    view?.close();
    view = null;
    fill(detail, h("div", { class: "server-view" }, backLink(), error.status === 404 ? empty("servers", "This server is gone", h("p", {}, "It was removed from the configuration: ", name(wanted), ".")) : problem(error, `Server ${wanted}`)));
  };

  const stops = [
    on("changed:servers", () => {
      if (shown === null && isWide() && state.servers.length) show(state.servers[0].name);
      else drawList();
      if (missing !== null && missing === shown && state.servers.some((server) => server.name === shown)) {
        missing = null;
        load();
      }
    }),
    on("servers", ({ name: changed }) => changed === shown && changed !== missing && load()),
    on("call", (call) => call.server === shown && view?.callsLater()),
    on("reset", load),
    on("online", ({ resumed }) => resumed && load()),
  ];

  const show = (wanted) => {
    if (wanted !== shown) {
      view?.close();
      view = null;
      drawer.close();
      fill(detail);
    }
    shown = wanted;
    missing = null;
    drawList();
    load();
  };

  return {
    node,
    route: ([wanted, part, tool], query, intent) => {
      authorize = intent.authorize === true;
      place = { tool: part === "tools" ? tool ?? null : null, filter: (query.get("filter") ?? "").slice(0, 200) };
      const name = wanted ?? (isWide() ? state.servers?.[0]?.name ?? null : null);
      // Another place on the same page needs nothing read again.
      if (view && name === shown && missing === null && !authorize) arrive();
      else show(name);
    },
    close: () => {
      stops.forEach((stop) => stop());
      view?.close();
    },
  };
}

function isWide() {
  return matchMedia("(min-width: 900px)").matches;
}

function summaryOf(servers) {
  const connected = servers.filter((server) => server.state === "connected").length;
  const tools = servers.reduce((sum, server) => sum + (server.counts?.tools ?? 0), 0);
  return servers.length ? `${connected} of ${servers.length} connected, ${count(tools, "tool")}` : "";
}

function row(server, isShown) {
  const tools = server.state === "connected" ? count(server.counts?.tools, "tool") : server.transport === "http" ? "over the network" : "on this computer";
  return h(
    "li",
    {},
    h(
      "a",
      { class: "server-row", href: `#/servers/${encodeURIComponent(server.name)}`, "aria-current": isShown ? "true" : false },
      serverIcon(server),
      h("span", { class: "server-words" }, name(server.label, { class: "name strong" }), h("span", { class: "sub" }, tools, ownTitle(server) ? [" · ", name(ownTitle(server))] : "")),
      pill(stateOf(SERVER_STATES, server.state)),
    ),
  );
}

function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const rows = [...event.currentTarget.querySelectorAll("a")];
  const next = rows[rows.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function welcome() {
  if (state.servers.length) return empty("servers", "Choose a server", h("p", {}, "Its state, tools and errors are shown here."));
  return empty(
    "servers",
    "No servers yet",
    h("p", {}, "A server gives models and programs new tools. Add one by pasting what its README shows: a snippet, a command or a URL."),
    h("p", {}, h("a", { class: "button primary", href: "#/add" }, icon("plus"), "Add a server")),
    h("p", { class: "sub" }, "Or ", h("a", { href: "#/import" }, "import those of other applications"), "; in a terminal: ", command("toolway import"), "."),
  );
}

function backLink() {
  return h("a", { class: "back", href: "#/servers" }, icon("back"), "Servers");
}

// === one server ===

class ServerView {
  constructor(node, drawer) {
    this.drawer = drawer;
    this.head = h("div", {});
    this.panel = null;
    this.none = h("p", { class: "quiet-box", hidden: true });
    this.opened = null;
    this.filter = h("input", { type: "search", placeholder: "Filter tools", "aria-label": "Filter tools", oninput: () => {
      this.applyFilter();
      history.replaceState(null, "", this.place(this.opened));
    } });
    this.total = h("span", { class: "sub", role: "status" });
    this.tools = new WindowedList({
      label: "Tools",
      rowHeight: 58,
      key: (tool) => tool.name,
      row: toolRow,
      onopen: (tool) => (location.hash = this.place(tool.name)),
      followSelection: () => drawer.isOpen,
    });
    this.tools.node.addEventListener("keydown", (event) => event.key === "Escape" && drawer.close());
    this.toolPart = section("Tools", h("div", { class: "tools-head" }, this.total, this.filter), this.tools.node);
    this.toolPart.classList.add("grow");
    this.folds = { connections: new Fold("Connections and processes"), roots: new Fold("Roots that it is given"), capabilities: new Fold("Capabilities"), instructions: new Fold("Instructions"), calls: new Fold("Recent calls"), output: new Fold("Output on stderr") };
    fill(node, h("div", { class: "server-view" }, backLink(), this.head, h("div", { class: "folds" }, Object.values(this.folds).map((fold) => fold.node)), this.none, this.toolPart));
    this.loadCalls();
  }

  close() {
    clearTimeout(this.timer);
    this.tools.close();
  }

  // After calls: they may also have opened connections, processes and sessions.
  callsLater() {
    this.timer ??= setTimeout(async () => {
      this.timer = null;
      this.loadCalls();
      const server = await get(`/servers/${encodeURIComponent(this.server.name)}`).catch(() => null);
      if (!server || !this.head.isConnected) return;
      drawFolds(this.folds, server);
      const before = this.facts;
      before.replaceWith((this.facts = facts(server)));
    }, 1000);
  }

  async loadCalls() {
    if (!this.server) return;
    const wanted = this.server.name;
    const { calls } = await get(`/calls?limit=${RECENT}&server=${encodeURIComponent(wanted)}`).catch(() => ({ calls: [] }));
    this.folds.calls.set(calls.length ? `last ${clock(calls[0].startedAt)}` : "", calls.length ? [h("ul", { class: "recent-calls" }, calls.map(recentCall)), h("p", {}, h("a", { href: `#/calls?${new URLSearchParams({ server: wanted })}` }, "All calls of this server"))] : null);
  }

  set(server, authorize) {
    const isFirst = !this.server;
    this.server = server;
    if (isFirst) this.loadCalls();
    drawFolds(this.folds, server);
    const needsSignIn = server.signIn?.required === true;
    if (!needsSignIn) this.panel = null;
    else this.panel ??= new SignInPanel(server.name);
    this.panel?.failed(server.signIn.failure ?? null);
    const focused = this.panel?.node.contains(document.activeElement) ? document.activeElement : null;
    fill(this.head, header(server), this.panel?.node ?? trouble(server), warnings(server.setAside.map(setAside)), (this.facts = facts(server)));
    focused?.focus();
    if (authorize) this.panel?.authorize();
    this.toolPart.hidden = server.tools.length === 0;
    this.none.hidden = server.tools.length > 0;
    fill(this.none, server.state === "connected" ? "This server offers no tools." : server.state === "disabled" ? "Its tools appear here when it is enabled." : "Its tools appear here when it is connected.");
    this.applyFilter();
  }

  applyFilter() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (tool) => {
      const text = `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const found = words.length ? this.server.tools.filter(matches) : this.server.tools;
    fill(this.total, words.length ? `${found.length} of ${this.server.tools.length}` : count(found.length, "tool"));
    this.tools.set(found);
  }

  // The address of a tool of this server, or of the server, with the filter.
  place(tool) {
    const filter = this.filter.value.trim();
    return `#/servers/${encodeURIComponent(this.server.name)}${tool ? `/tools/${encodeURIComponent(tool)}` : ""}${filter ? `?${new URLSearchParams({ filter })}` : ""}`;
  }

  // Shows what the address says; returns whether that was possible.
  go({ tool: wanted, filter }) {
    if (this.filter.value.trim() !== filter) {
      this.filter.value = filter;
      this.applyFilter();
    }
    const tool = this.server.tools.find((known) => known.name === wanted);
    // It may be listed when the server is connected.
    if (wanted !== null && !tool && this.server.state !== "connected") return false;
    this.opened = tool ? wanted : null;
    if (tool) this.open(tool);
    else if (this.drawer.isOpen) this.drawer.close();
    else if (wanted !== null) history.replaceState(null, "", this.place(null));
    return true;
  }

  open(tool) {
    const index = this.tools.items.indexOf(tool);
    if (index >= 0) this.tools.select(index);
    this.drawer.show(
      name(tool.title || tool.name),
      tool.icon || hints(tool).length ? h("p", { class: "tags" }, tool.icon ? serverIcon(tool) : null, hints(tool)) : null,
      h("dl", { class: "facts" }, labelled("Name", h("code", {}, visible(tool.name))), labelled("For models", h("code", {}, visible(tool.publicName)))),
      tool.description ? section("Description", null, h("p", { class: "prose", dir: "auto" }, visible(tool.description))) : null,
      section("Arguments", copyButton(tool.inputSchema), argumentTable(tool.inputSchema), h("details", { class: "raw" }, h("summary", {}, "Schema"), json(tool.inputSchema))),
    );
  }
}

function toolRow(tool) {
  return h(
    "div",
    { class: "tool-row" },
    tool.icon ? serverIcon(tool) : null,
    h("span", { class: "tool-words" }, h("span", { class: "tool-name" }, name(tool.name), tool.title && tool.title !== tool.name ? name(tool.title, { class: "name sub" }) : null), h("span", { class: "sub one-line", dir: "auto" }, visible((tool.description ?? tool.title ?? "").slice(0, 300)))),
    h("span", { class: "tags" }, hints({ ...tool, openWorld: false })),
    icon("forward"),
  );
}

function argumentTable(schema) {
  const properties = Object.entries(schema?.properties ?? {}).slice(0, 60);
  if (properties.length === 0) return h("p", { class: "sub" }, "None.");
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return h(
    "dl",
    { class: "arguments" },
    properties.map(([key, value]) => [
      h("dt", {}, h("code", {}, visible(key.slice(0, 200))), h("span", { class: "sub" }, ` ${typeOf(value)}${required.has(key) ? ", required" : ""}`)),
      h("dd", { dir: "auto" }, visible(String(value?.description ?? "").slice(0, 600))),
    ]),
  );
}

function typeOf(schema) {
  if (Array.isArray(schema?.enum)) return `one of ${schema.enum.length}`;
  const type = Array.isArray(schema?.type) ? schema.type.join(" or ") : schema?.type;
  return typeof type === "string" ? type.slice(0, 60) : "any";
}

function header(server) {
  return h(
    "header",
    { class: "server-head" },
    serverIcon(server),
    h("div", { class: "server-title" }, h("h2", {}, name(server.label), ownTitle(server) ? name(ownTitle(server), { class: "name sub" }) : null), h("div", { class: "server-state" }, pill(stateOf(SERVER_STATES, server.state)), h("p", { class: "sub", dir: "auto" }, server.description ? visible(server.description.slice(0, 600)) : subtitle(server)))),
    h("div", { class: "actions" }, actions(server), server.transport === "in-process" ? null : [h("a", { class: "button", href: `#/edit/${encodeURIComponent(server.name)}` }, "Edit"), action("Remove", () => confirmRemoval({ noun: "Server", path: "/servers", entry: server.name, label: server.label, said: "It is ended. Its secrets stay in the vault. ", onremoved: () => (location.hash = "#/servers") }), { class: "quiet danger" })]),
  );
}

// What a server calls itself, where that is not the name that the user gave it.
function ownTitle(server) {
  return server.title && server.title !== server.label ? server.title : null;
}

function subtitle(server) {
  const words = { connected: "Ready to be used", connecting: "Starting", retrying: "Not usable at the moment", failed: "Not usable until this is fixed", disabled: "Turned off: it is not started, and its tools are not offered", disconnected: "Not connected: it is started when you connect it", "sign-in-required": "Not usable until you sign in" };
  return words[server.state] ?? "";
}

function actions(server) {
  const send = (verb) => () => post(`/servers/${encodeURIComponent(server.name)}/${verb}`);
  const button = (label, verb, props) => action(label, send(verb), { "data-verb": verb, ...props });
  if (!server.enabled || server.state === "disabled") return [button("Enable", "enable", { class: "primary" })];
  if (server.signIn?.required) return [button("Try again", "restart"), button("Disable", "disable", { class: "quiet" })];
  const isUp = server.state === "connected" || server.state === "connecting" || server.state === "retrying";
  return [isUp ? button("Disconnect", "disconnect") : button("Connect", "connect", { class: "primary" }), isUp || server.state === "failed" ? button("Restart", "restart") : null, button("Disable", "disable", { class: "quiet" })];
}

function trouble(server) {
  if (!server.error) return null;
  const hint = server.error.hint ?? (server.state === "retrying" ? "Toolway tries again by itself; Restart tries at once." : null);
  return problem({ ...server.error, hint, stderr: server.error.stderr?.length ? server.error.stderr : server.stderr }, SERVER_STATES[server.state]?.[0]);
}
