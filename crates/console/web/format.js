// Numbers, times and states as words.

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false });

export function clock(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  return date.toDateString() === new Date().toDateString() ? CLOCK.format(date) : DAY.format(date);
}

export function fullTime(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : FULL.format(date);
}

export function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return DAY.format(new Date(time));
}

export function remaining(time) {
  const seconds = Math.round((new Date(time).getTime() - Date.now()) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds <= 0) return "expired";
  if (seconds < 90) return `${seconds} s left`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min left`;
  return `${Math.round(seconds / 3600)} h left`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function bytes(count) {
  if (count < 1024) return `${count} bytes`;
  if (count < 1024 * 1024) return `${Math.round(count / 1024)} KB`;
  return `${(count / 1024 / 1024).toFixed(1)} MB`;
}

export function count(number, one, many = `${one}s`) {
  return `${Number(number ?? 0).toLocaleString()} ${number === 1 ? one : many}`;
}

// 2nd
export function ordinal(number) {
  const isTeen = number % 100 >= 11 && number % 100 <= 13;
  return `${number}${(!isTeen && { 1: "st", 2: "nd", 3: "rd" }[number % 10]) || "th"}`;
}

// [label, tone]; the tone names a colour of the style sheet.
export const SERVER_STATES = {
  connected: ["Connected", "good"],
  connecting: ["Connecting", "busy"],
  retrying: ["Retrying", "wait"],
  failed: ["Failed", "bad"],
  disabled: ["Disabled", "off"],
  disconnected: ["Not connected", "off"],
  "sign-in-required": ["Sign-in required", "wait"],
};

export const CALL_STATES = {
  pending: ["Waiting", "wait"],
  running: ["Running", "busy"],
  succeeded: ["Succeeded", "good"],
  "tool-error": ["Tool error", "bad"],
  refused: ["Refused", "wait"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "off"],
  "timed-out": ["Timed out", "bad"],
  interrupted: ["Interrupted", "off"],
};

export const TASK_STATES = {
  working: ["Working", "busy"],
  "input-required": ["Waits for you", "wait"],
  completed: ["Completed", "good"],
  "tool-error": ["Tool error", "bad"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "off"],
  lost: ["Lost", "bad"],
};

export function isOpenTask(status) {
  return status === "working" || status === "input-required";
}

// Whether a call was sent and answered, for readers.
export const OUTCOMES = {
  answered: "Answered by the server",
  "not-sent": "Not sent: no byte of it reached the server",
  unknown: "Unknown: it was sent, and the server may have acted on it",
};

export function isOpen(state) {
  return state === "pending" || state === "running";
}

// === callers and tools as words ===

const AGENTS = { chat: "Chat in a terminal", run: "Prompt file", console: "Chat" };

// Who made a call, for readers who do not know the labels of the records.
export function callerWords(caller, surface) {
  const label = String(caller ?? "");
  if (label === "agent") return AGENTS[surface] ?? "Model";
  if (label === "terminal") return "Command line";
  if (label === "console") return "You, in the console";
  if (label === "program") return "Program";
  if (label.startsWith("client:@")) return "Gateway client";
  return label.startsWith("client:") ? label.slice("client:".length) : label || "Unknown";
}

// The same as the subject of a sentence.
export function callerSubject(caller, surface) {
  const label = String(caller ?? "");
  if (label === "agent") return "The model";
  if (label === "terminal") return "A command";
  if (label.startsWith("client:@")) return "A client of the gateway";
  return label.startsWith("client:") ? `The client ${label.slice("client:".length)}` : callerWords(caller, surface);
}

const RULES = {
  "mode `ask`": "every call is asked about (mode `ask`)",
  "mode `writes`": "changes are asked about (mode `writes`)",
  "mode `allow`": "every call is allowed (mode `allow`)",
};

export function ruleWords(rule) {
  return RULES[rule] ?? rule;
}

// A public name as server and tool: [server | null, tool].
export function splitTool(publicName, servers) {
  const whole = String(publicName ?? "");
  const known = (servers ?? []).map((server) => server.name).filter((name) => whole.startsWith(`${name}__`));
  const first = servers ? undefined : /^(.+?)__./.exec(whole)?.[1];
  const server = known.sort((a, b) => b.length - a.length)[0] ?? first;
  return server ? [server, whole.slice(server.length + 2)] : [null, whole];
}

export const TRUST = { untrusted: "not trusted", read: "trusted to read", full: "trusted to read and change" };
