// The stream of events, one for all tabs of a browser: a browser opens six connections to one address, and a stream in each
// tab would use them up. The tab that holds a lock reads the stream and passes events on to the others; when it closes,
// another one takes over after the last event. Emits each event under its name, `online` and `offline`.

import { emit, on } from "./api.js";

const NAME = "toolway-events";
const RETRY_MS = [300, 1000, 2000, 4000, 5000];
// The server sends a comment at least every 15 seconds; silence for longer means a dead connection.
const SILENCE_MS = 45_000;

let lastId = null;
let wake = null;
let running = false;
let leads = false;
let status = null;
let channel = null;

// Follows the stream until signed out.
export async function follow() {
  if (running) return;
  running = true;
  const done = new AbortController();
  const stops = [on("signed-out", () => done.abort()), on("unreachable", poke)];
  // Without locks (an address that is not this machine, over http) each tab has a stream of its own.
  if (navigator.locks && "BroadcastChannel" in self) {
    channel = new BroadcastChannel(NAME);
    channel.onmessage = ({ data }) => hear(data);
    channel.postMessage({ ask: true });
    const first = await navigator.locks.request(NAME, { ifAvailable: true }, (lock) => lock && lead(done.signal, true));
    if (first === null) await navigator.locks.request(NAME, { signal: done.signal }, () => lead(done.signal, false)).catch(() => {});
    channel.close();
  } else {
    await lead(done.signal, true);
  }
  stops.forEach((stop) => stop());
  running = false;
}

// Tries again at once.
export function poke() {
  if (leads) wake?.();
  else channel?.postMessage({ poke: true });
}

// === between tabs ===

function hear({ event, say, ask, poke: again }) {
  if (event) dispatch(event);
  if (say && !leads) tell(say);
  if (ask && leads && status) channel.postMessage({ say: { ...status, resumed: false } });
  if (again && leads) wake?.();
}

// The state of the connection, here and in the other tabs.
function announce(say) {
  status = say;
  channel?.postMessage({ say });
  tell(say);
}

function tell({ online, resumed }) {
  emit(online ? "online" : "offline", { resumed });
}

// === the stream ===

async function lead(done, isFirst) {
  leads = true;
  let isNew = isFirst;
  for (let failures = 0; !done.aborted; ) {
    const outcome = await stream(done, () => {
      failures = 0;
      announce({ online: true, resumed: lastId !== null });
      // Nothing to resume after: what happened meanwhile is read again.
      if (lastId === null && !isNew) pass({ id: null, type: "reset", data: "{}" });
      isNew = false;
    });
    if (done.aborted) break;
    if (outcome === 401) {
      emit("signed-out");
      break;
    }
    if (failures > 0 || outcome !== "ended") announce({ online: false });
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }
  leads = false;
  return true;
}

// An event, here and in the other tabs.
function pass(event) {
  channel?.postMessage({ event });
  dispatch(event);
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

async function stream(done, opened) {
  const abort = new AbortController();
  const stop = () => abort.abort();
  done.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const headers = { accept: "text/event-stream" };
    if (lastId !== null) headers["last-event-id"] = lastId;
    const response = await fetch("/api/v1/events", { headers, cache: "no-store", signal: abort.signal });
    if (!response.ok) return response.status;
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done: isOver, value } = await reader.read();
      if (isOver) return "ended";
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      parser.push(value).forEach(pass);
    }
  } catch {
    return "lost";
  } finally {
    clearTimeout(timer);
    done.removeEventListener("abort", stop);
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
