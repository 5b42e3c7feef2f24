// Requests to the API, and events inside the page. Emits `unreachable` and `signed-out`; stream.js emits the rest.

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

// The token for changes. It comes once, in the fragment of the address after signing in, and is kept in storage of this
// origin: a cookie alone, which programs on other ports can receive, changes nothing.
const KEY = "toolway-key";
let csrf = "";

// The session of this browser, or null. A link on any page may bring a wrong token; only the right one is kept.
export async function findSession() {
  const given = /^#key=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (given) history.replaceState(null, "", "/");
  for (const candidate of [given, key()].filter(Boolean)) {
    const session = await request("GET", "/session", undefined, candidate);
    if (session.key) {
      keep(candidate);
      return session;
    }
  }
  return null;
}

function keep(token) {
  csrf = token;
  try {
    localStorage.setItem(KEY, token);
  } catch {
    // It holds for this page only.
  }
}

// Another tab may have signed in meanwhile.
function key() {
  try {
    return localStorage.getItem(KEY) ?? csrf;
  } catch {
    return csrf;
  }
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);

// Asks about a draft that may be half written: what is wrong with it is thrown as a refusal would be.
export async function judge(path, draft) {
  const answer = await post(path, draft);
  if (answer.error) throw new ApiError(200, answer.error, answer.fields);
  return answer;
}

async function request(method, path, body, token = method === "GET" ? null : key()) {
  const headers = { accept: "application/json" };
  const options = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (token !== null) headers["x-toolway-csrf"] = token;
  if (method !== "GET") {
    const isFile = body instanceof Blob;
    headers["content-type"] = isFile ? "application/octet-stream" : "application/json";
    options.body = isFile ? body : JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`/api/v1${path}`, options);
  } catch {
    emit("unreachable");
    throw new ApiError(0, { code: "unreachable", message: "Toolway does not respond", hint: "is `toolway serve` still running?" });
  }
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  if (response.status === 401) emit("signed-out");
  throw new ApiError(response.status, answer?.error, answer?.fields);
}
