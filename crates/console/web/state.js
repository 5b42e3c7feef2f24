// What several screens show: the session, the servers and the inbox. Emits `changed:session`, `changed:servers` and
// `changed:inbox`.

import { emit, findSession, get, on } from "./api.js";

export const state = { session: null, servers: null, inbox: null, online: true };

// An address only shows: any page can open one. What a click here does on the screen that it opens is kept beside the address,
// and is for the next screen only.
let intent = null;

export function open(place, does) {
  intent = { place, does };
  location.hash = place;
}

export function takeIntent() {
  const taken = intent?.place === location.hash ? intent.does : {};
  intent = null;
  return taken;
}

// The configuration may have been edited in another window.
async function loadSession() {
  state.session = (await findSession()) ?? state.session;
  emit("changed:session");
}

export async function loadServers() {
  state.servers = await get("/servers");
  emit("changed:servers");
  // Sign-ins are items, and begin, fail and end with the state of their server.
  const sorted = (signIns) => JSON.stringify(signIns.sort());
  const of = (server, { failure }) => JSON.stringify([server, failure]);
  const required = state.servers.filter((server) => server.signIn?.required).map(({ name, signIn }) => of(name, signIn));
  const listed = state.inbox?.filter((item) => item.signIn).map(({ server, signIn }) => of(server, signIn));
  if (listed && sorted(required) !== sorted(listed)) refreshInbox();
}

export async function loadInbox() {
  state.inbox = await get("/inbox");
  emit("changed:inbox");
}

// One request at a time; what comes in while one is under way leads to exactly one more.
function coalesce(load) {
  let active = false;
  let again = false;
  return async () => {
    again = true;
    if (active) return;
    active = true;
    while (again) {
      again = false;
      await load().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    active = false;
  };
}

export const refreshSession = coalesce(loadSession);
export const refreshServers = coalesce(loadServers);
export const refreshInbox = coalesce(loadInbox);

export function watch() {
  on("servers", refreshServers);
  on("inbox", refreshInbox);
  on("reset", refreshAll);
  on("online", ({ resumed }) => resumed || state.servers === null ? refreshAll() : undefined);
}

function refreshAll() {
  refreshServers();
  refreshInbox();
}
