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
    emit("unreachable");
    throw new ApiError(0, { code: "unreachable", message: "Toolway does not answer", hint: "is `toolway serve` still running?" });
  }
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  if (response.status === 401) emit("signed-out");
  throw new ApiError(response.status, answer?.error, answer?.fields);
}
