// The screen Servers: the list at the left, one server with its tools at the right.

import { get, on, post } from "./api.js";
import { fill, h, icon, name, visible, words } from "./dom.js";
import { bytes, count, SERVER_STATES, TRUST } from "./format.js";
import { copyButton, json } from "./json.js";
import { action, command, Drawer, empty, hints, labelled, loading, pill, problem, section, sentence, serverIcon, stateOf, stderr } from "./parts.js";
import { SignInPanel } from "./sign-in.js";
import { state } from "./state.js";
import { WindowedList } from "./window.js";

const ERAS = { legacy: "with a session", modern: "stateless" };
const TRANSPORTS = { stdio: "Local program (stdio)", http: "Remote (http)", "in-process": "Built in" };

export function create() {
  const list = h("ul", { class: "server-list", onkeydown: moveInList });
  const summary = h("p", { class: "sub" });
  const detail = h("section", { class: "pane detail", "aria-label": "Server" });
  const drawer = new Drawer("Tool");
  const node = h(
    "div",
    { class: "split" },
    h("section", { class: "pane master", "aria-label": "Servers" }, h("header", { class: "pane-head" }, h("div", {}, h("p", { class: "title", "aria-hidden": "true" }, "Servers"), summary), h("a", { class: "button", href: "#/add" }, icon("plus"), "Add")), list),
    detail,
    drawer.node,
  );
  let shown = null;
  let view = null;

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
      view.set(server);
    } catch (error) {
      if (wanted === shown) fill(detail, backLink(), problem(error, `Server ${wanted}`));
    }
  };

  const stops = [
    on("changed:servers", () => {
      if (shown === null && isWide() && state.servers.length) show(state.servers[0].name);
      else drawList();
    }),
    on("servers", ({ name: changed }) => changed === shown && load()),
    on("reset", load),
    on("online", ({ resumed }) => resumed && load()),
  ];

  const show = (wanted) => {
    if (wanted !== shown) {
      drawer.close();
      view?.close();
      view = null;
      fill(detail);
    }
    shown = wanted;
    drawList();
    load();
  };

  return {
    node,
    route: ([wanted]) => show(wanted ?? (isWide() ? state.servers?.[0]?.name ?? null : null)),
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
      h("span", { class: "server-words" }, name(server.label, { class: "name strong" }), h("span", { class: "sub" }, ownTitle(server) ? [name(ownTitle(server)), " · "] : "", tools)),
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
    h("p", { class: "sub" }, "Servers of other applications are found by ", command("toolway import"), "."),
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
    this.filter = h("input", { type: "search", placeholder: "Filter tools", "aria-label": "Filter tools", oninput: () => this.applyFilter() });
    this.total = h("span", { class: "sub", role: "status" });
    this.tools = new WindowedList({
      label: "Tools",
      rowHeight: 58,
      key: (tool) => tool.name,
      row: toolRow,
      onopen: (tool) => this.open(tool),
      followSelection: () => drawer.isOpen,
    });
    this.tools.node.addEventListener("keydown", (event) => event.key === "Escape" && drawer.close());
    this.toolPart = section("Tools", h("div", { class: "tools-head" }, this.total, this.filter), this.tools.node);
    this.toolPart.classList.add("grow");
    fill(node, h("div", { class: "server-view" }, backLink(), this.head, this.none, this.toolPart));
  }

  close() {
    this.tools.close();
  }

  set(server) {
    this.server = server;
    const needsSignIn = server.signIn?.required === true;
    if (!needsSignIn) this.panel = null;
    else this.panel ??= new SignInPanel(server.name);
    this.panel?.failed(server.signIn.failure ?? null);
    const focused = this.panel?.node.contains(document.activeElement) ? document.activeElement : null;
    fill(this.head, header(server), this.panel?.node ?? trouble(server), facts(server), this.panel || server.error ? null : output(server));
    focused?.focus();
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

  open(tool) {
    this.drawer.show(
      name(tool.title || tool.name),
      h("p", { class: "tags" }, hints(tool)),
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
    h("div", { class: "server-title" }, h("h2", {}, name(server.label), ownTitle(server) ? name(ownTitle(server), { class: "name sub" }) : null, pill(stateOf(SERVER_STATES, server.state))), h("p", { class: "sub", dir: "auto" }, server.description ? visible(server.description.slice(0, 600)) : subtitle(server))),
    h("div", { class: "actions" }, actions(server)),
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

function facts(server) {
  const era = server.era ? `${server.revision ?? ""} (${ERAS[server.era] ?? server.era})`.trim() : server.revision;
  const { tools, prompts, resources } = server.counts ?? {};
  return h(
    "dl",
    { class: "fact-grid" },
    fact("Name", h("code", {}, visible(server.name))),
    fact("Offers", server.state === "connected" ? [count(tools, "tool"), ", ", count(prompts, "prompt"), ", ", count(resources, "resource")] : null),
    fact("Kind", TRANSPORTS[server.transport] ?? server.transport),
    fact(server.transport === "http" ? "Address" : "Command", server.address ? h("code", {}, visible(server.address)) : null),
    fact("Protocol", era),
    fact("Session", sessions(server)),
    fact("Processes", processes(server.processes)),
    fact("Trust", server.trust ? sentence(TRUST[server.trust] ?? server.trust) : null),
    fact("Detail", server.detail && !server.error && !server.signIn?.required ? words(server.detail) : null),
  );
}

function sessions(server) {
  const shared = server.sessionId ? [h("code", {}, visible(server.sessionId))] : [];
  const own = (server.sessions ?? []).map(({ caller, id }) => h("div", {}, h("code", {}, visible(id)), " of ", visible(caller)));
  return shared.length + own.length ? [shared, own] : null;
}

function processes(running) {
  if (!running?.length) return null;
  const memory = running.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
  const one = (process, index) => [index ? ", " : "", process.caller ? visible(process.caller) : "shared", process.bytes ? ` ${bytes(process.bytes)}` : ""];
  return [count(running.length, "process", "processes"), memory ? `, ${bytes(memory)}` : "", " (", running.map(one), ")"];
}

function fact(label, value) {
  return value === null || value === undefined || value === "" ? null : h("div", {}, h("dt", {}, label), h("dd", {}, value));
}

function trouble(server) {
  if (!server.error) return null;
  const hint = server.error.hint ?? (server.state === "retrying" ? "Toolway tries again by itself; Restart tries at once." : null);
  return problem({ ...server.error, hint, stderr: server.error.stderr?.length ? server.error.stderr : server.stderr }, SERVER_STATES[server.state]?.[0]);
}

function output(server) {
  if (!server.stderr?.length) return null;
  return h("details", { class: "raw" }, h("summary", {}, `Output on stderr (${count(server.stderr.length, "line")})`), stderr(server.stderr));
}
