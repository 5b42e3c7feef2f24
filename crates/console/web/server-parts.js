// What is known of a server besides its tools: facts in a grid, and parts that open: connections, roots, capabilities,
// instructions, recent calls, output.

import { h, name, visible, words } from "./dom.js";
import { bytes, callerWords, CALL_STATES, clock, count, duration, fullTime, splitTool, TRUST } from "./format.js";
import { pill, sentence, stateOf, stderr } from "./parts.js";
import { state } from "./state.js";

const ERAS = { legacy: "with a session", modern: "stateless" };
const TRANSPORTS = { stdio: "Local program (stdio)", http: "Remote (http)", "in-process": "Built in" };

export function facts(server) {
  const era = server.era ? `${server.revision ?? ""} (${ERAS[server.era] ?? server.era})`.trim() : server.revision;
  const { tools, prompts, resources } = server.counts ?? {};
  const target = server.command || server.address;
  return h(
    "dl",
    { class: "fact-grid" },
    fact("Name", h("code", visible(server.name))),
    fact("Offers", server.state === "connected" ? [count(tools, "tool"), ", ", count(prompts, "prompt"), ", ", count(resources, "resource")] : null),
    fact("Kind", TRANSPORTS[server.transport] ?? server.transport),
    fact("Protocol", era),
    fact("Session", sessions(server)),
    fact("Processes", processes(server)),
    fact("Trust", server.trust ? sentence(TRUST[server.trust] ?? server.trust) : null),
    fact("Connected", server.connectedAt && server.state === "connected" ? `since ${fullTime(server.connectedAt)}` : null),
    fact("Version", server.version ? name(server.version) : null),
    fact("Detail", server.detail && !server.error && !server.signIn?.required ? words(server.detail) : null),
    target ? h("div.whole", h("dt", server.transport === "http" ? "Address" : "Command"), h("dd", h("code.wrap", visible(target)))) : null,
  );
}

function sessions(server) {
  const all = (server.callers ?? []).filter((caller) => caller.sessionId);
  if (all.length === 0) return null;
  const [first] = all;
  return [h("code", visible(first.sessionId)), first.caller ? [" of ", visible(first.caller)] : null, all.length > 1 ? h("span.sub", ` and ${all.length - 1} more below`) : null];
}

function processes(server) {
  const running = (server.callers ?? []).filter((caller) => caller.process !== null).length;
  return running ? [count(running, "process", "processes"), server.memory ? `, ${bytes(server.memory)}` : ""] : null;
}

export function drawFolds(folds, server) {
  const callers = server.callers ?? [];
  folds.connections.set(callers.length ? String(callers.length) : "", callers.length ? connections(callers) : null);
  const roots = server.roots ?? [];
  folds.roots.set(String(roots.length), roots.length ? rootList(roots) : h("p.sub", "None: it is not told that there are any. Roots are set for all servers, for this one, or for a client of the gateway."));
  const can = server.capabilities ?? [];
  folds.capabilities.set(String(can.length), can.length ? h("p.chips", can.map((word) => h("code.chip", visible(word)))) : null);
  folds.instructions.set("", server.instructions ? h("p.prose.fold-text", { dir: "auto", tabindex: "0" }, visible(server.instructions)) : null);
  folds.output.set(count(server.stderr?.length ?? 0, "line"), server.stderr?.length && !server.error ? stderr(server.stderr) : null);
}

function connections(callers) {
  const row = (caller) => h(
    "tr",
    {},
    h("td", caller.caller ? name(callerWords(caller.caller)) : "Shared"),
    h("td.number", caller.process === null ? "" : String(caller.process)),
    h("td.number", caller.bytes === null ? "" : bytes(caller.bytes)),
    h("td", caller.sessionId ? h("code", visible(caller.sessionId)) : ""),
    h("td.number", caller.calls === null ? "" : String(caller.calls)),
    h("td", caller.declares.join(", ")),
  );
  const head = ["Caller", "Process", "Memory", "Session id", "Calls now", "Told that it can"];
  return h("div.table-scroll", { tabindex: "0", role: "group", "aria-label": "Connections and processes" }, h("table.plain-table", h("thead", h("tr", head.map((word) => h("th", { scope: "col" }, word)))), h("tbody", callers.map(row))));
}

const ORIGINS = { command: "given when Toolway was started", all: "for all servers", server: "of its own entry", client: "configured for the client ", supplied: "supplied by the client " };

function rootList(roots) {
  const row = (root) => h("li.root", h("code.wrap", visible(root.uri)), " ", root.name ? [name(root.name), " "] : null, h("span.sub", ORIGINS[root.origin] ?? root.origin, root.client ? [name(root.client), ", in its calls"] : null));
  return [h("ul", roots.map(row)), h("p.sub", "A client with roots of its own gives those instead of the ones for all.")];
}

function fact(label, value) {
  return value === null || value === undefined || value === "" ? null : h("div", h("dt", label), h("dd", value));
}

export function recentCall(call) {
  return h("li", h("a.recent-call", { href: `#/calls/${encodeURIComponent(call.id)}` }, pill(stateOf(CALL_STATES, call.state)), name(splitTool(call.tool, state.servers)[1], { class: "name strong one-line" }), h("span.sub.one-line", name(callerWords(call.caller, call.surface))), h("span.sub.number", clock(call.startedAt), call.durationMs === null ? "" : `, ${duration(call.durationMs)}`)));
}

// What it lists and is not offered.
export function setAside({ kind, name: item, reason }) {
  return item ? `${kind} \`${item}\` is not offered: ${reason}` : reason;
}
