// Requests to the API and the stream of events, with resume. Emits `online`, `offline` and `signed-out`.

const RETRY_MS = [300, 1000, 2000, 4000, 5000];
// The server sends a comment at least every 15 seconds; silence for longer means a dead connection.
const SILENCE_MS = 45_000;

const listeners = new Map();

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(listener);
  return () => listeners.get(type).delete(listener);
}

export function emit(type, data) {
  for (const listener of [...(listeners.get(type) ?? [])]) {
    try {
      listener(data);
    } catch (error) {
      console.error(error);
    }
  }
}

export class ApiError extends Error {
  constructor(status, error, fields) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "unknown";
    this.hint = error?.hint ?? null;
    this.fields = fields ?? null;
  }
}

let csrf = "";

export function setCsrf(token) {
  csrf = token;
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);

async function request(method, path, body) {
  const headers = { accept: "application/json" };
  const options = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (method !== "GET") {
    headers["content-type"] = "application/json";
    headers["x-toolway-csrf"] = csrf;
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`/api/v1${path}`, options);
  } catch {
    poke();
    throw new ApiError(0, { code: "unreachable", message: "Toolway does not answer", hint: "is `toolway serve` still running?" });
  }
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  if (response.status === 401) emit("signed-out");
  throw new ApiError(response.status, answer?.error, answer?.fields);
}

// === events ===

let lastId = null;
let wake = null;
let running = false;

// Follows the stream until signed out; events are emitted under their own names.
export async function follow() {
  if (running) return;
  running = true;
  const stop = on("signed-out", () => (running = false));
  for (let failures = 0; running; ) {
    const outcome = await stream(() => {
      failures = 0;
      emit("online", { resumed: lastId !== null });
    });
    if (!running) break;
    if (outcome === 401) {
      emit("signed-out");
      break;
    }
    if (failures > 0 || outcome !== "ended") emit("offline");
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }
  stop();
  running = false;
}

// Tries again at once.
export function poke() {
  wake?.();
}

function pause(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

async function stream(opened) {
  const abort = new AbortController();
  let timer = setTimeout(() => abort.abort(), SILENCE_MS);
  const stop = on("signed-out", () => abort.abort());
  try {
    const headers = { accept: "text/event-stream" };
    if (lastId !== null) headers["last-event-id"] = lastId;
    const response = await fetch("/api/v1/events", { headers, cache: "no-store", signal: abort.signal });
    if (!response.ok) return response.status;
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "ended";
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE_MS);
      for (const event of parser.push(value)) dispatch(event);
    }
  } catch {
    return "lost";
  } finally {
    clearTimeout(timer);
    stop();
  }
}

function dispatch({ id, type, data }) {
  if (id !== null) lastId = id;
  try {
    emit(type, JSON.parse(data || "{}"));
  } catch {
    // An event that is not JSON is not ours.
  }
}

class EventParser {
  #rest = "";
  #event = { id: null, type: "message", data: [] };

  push(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop();
    return lines.map((line) => this.#line(line)).filter(Boolean);
  }

  #line(line) {
    if (line === "") return this.#finish();
    const [, field, value] = /^([^:]*):? ?([\s\S]*)$/.exec(line);
    if (field === "data") this.#event.data.push(value);
    if (field === "event") this.#event.type = value;
    if (field === "id") this.#event.id = value;
    return null;
  }

  #finish() {
    const { id, type, data } = this.#event;
    this.#event = { id: null, type: "message", data: [] };
    return data.length || id !== null ? { id, type, data: data.join("\n") } : null;
  }
}
