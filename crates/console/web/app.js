// Starts the console: session, navigation, connection, theme. Each screen is a module with `create()`.

import { findSession, on } from "./api.js";
import * as add from "./add.js";
import * as calls from "./calls.js";
import * as chat from "./chat.js";
import { fill, h, icon, words } from "./dom.js";
import * as inbox from "./inbox.js";
import * as live from "./live.js";
import { callerSubject } from "./format.js";
import { command, empty, problem, toast } from "./parts.js";
import * as servers from "./servers.js";
import * as tasks from "./tasks.js";
import { refreshInbox, refreshServers, refreshSession, state, watch } from "./state.js";
import { follow, poke } from "./stream.js";

// A further screen is one line here.
const SCREENS = [
  { id: "servers", label: "Servers", module: servers, badge: () => (state.servers ?? []).filter((server) => server.state === "failed" || server.state === "sign-in-required").length, tone: "bad", words: "need attention" },
  { id: "calls", label: "Calls", module: calls },
  { id: "tasks", label: "Tasks", module: tasks },
  { id: "inbox", label: "Inbox", module: inbox, badge: () => (state.inbox ?? []).length, tone: "wait", words: "waiting" },
  { id: "chat", label: "Chat", module: chat },
];
const HIDDEN_SCREENS = [{ id: "add", label: "Add a server", module: add, within: "servers" }];

const main = document.getElementById("main");
const banner = document.getElementById("banner");
let current = null;
let lost = false;

start();

async function start() {
  drawFoot();
  drawNavigation();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  on("signed-out", signedOut);
  on("offline", () => connection(false));
  on("online", () => connection(true));
  on("changed:session", drawBanner);
  on("changed:servers", drawNavigation);
  on("changed:inbox", drawNavigation);
  on("changed:inbox", sayNewItems);
  await openSession();
}

async function openSession() {
  try {
    state.session = await findSession();
  } catch (error) {
    if (error.status !== 401) notReachable(error);
    return;
  }
  if (!state.session) return signedOut();
  state.signedOut = false;
  drawFoot();
  drawBanner();
  addEventListener("focus", () => state.signedOut || refreshSession());
  watch();
  live.watch();
  follow();
  refreshServers();
  refreshInbox();
  addEventListener("hashchange", route);
  route();
}

// === routes ===

function route() {
  const [id, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const screen = [...SCREENS, ...HIDDEN_SCREENS].find((candidate) => candidate.id === id);
  if (!screen) {
    location.replace("#/servers");
    return;
  }
  if (current?.screen !== screen) {
    current?.view.close();
    current = { screen, view: screen.module.create() };
    fill(main, h("h1", { class: "hidden" }, screen.label), current.view.node);
    main.dataset.screen = screen.id;
  }
  current.view.route(parts.filter((part) => part !== ""));
  drawNavigation();
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function drawNavigation() {
  const shown = current?.screen.within ?? current?.screen.id;
  const entry = (screen) => {
    const number = screen.badge?.() ?? 0;
    const badge = number ? h("span", { class: `badge ${screen.tone}` }, String(number), h("span", { class: "hidden" }, ` ${screen.words}`)) : null;
    return h("a", { href: `#/${screen.id}`, "aria-current": screen.id === shown ? "page" : false }, icon(screen.id), h("span", {}, screen.label), badge);
  };
  const focused = document.activeElement?.closest?.("#nav a")?.getAttribute("href");
  const nav = document.getElementById("nav");
  fill(nav, SCREENS.map(entry));
  if (focused) nav.querySelector(`a[href="${focused}"]`)?.focus();
  const waiting = state.inbox?.length ?? 0;
  document.title = `${waiting ? `(${waiting}) ` : ""}${current?.screen.label ?? "Console"} · Toolway`;
}

// === news ===

let seenItems = null;

// What begins to wait while another screen is open is said; those of the open conversation have their dialog.
function sayNewItems() {
  const items = state.inbox ?? [];
  const isNew = (item) => seenItems !== null && !seenItems.has(item.id) && !(current?.screen.id === "chat" && item.conversation);
  const added = current?.screen.id === "inbox" ? [] : items.filter(isNew);
  seenItems = new Set(items.map((item) => item.id));
  if (added.length === 0 || state.signedOut) return;
  const [item] = added;
  const words = item.outcome ? `It is not known whether a call of ${item.server} happened` : item.approval ? `${callerSubject(item.caller, item.surface)} wants to use ${item.server}` : `${item.server} asks for information`;
  toast(added.length === 1 ? words : `${added.length} questions wait for you`, "", null, { href: "#/inbox", label: "Review" });
}

// === connection ===

function connection(online) {
  if (state.signedOut) return;
  if (!online && !lost) {
    lost = true;
    drawBanner();
    drawFoot();
  } else if (online && lost) {
    lost = false;
    fill(banner, "Connected again.");
    banner.className = "banner good";
    drawFoot();
    setTimeout(drawBanner, 3000);
  }
}

function drawBanner() {
  const problem = state.session?.configProblem;
  if (lost) fill(banner, h("span", {}, "The connection to Toolway is lost. Trying again; what is shown may be old."), h("button", { type: "button", class: "small", onclick: poke }, "Try now"));
  else if (problem) fill(banner, h("span", {}, "The configuration is invalid, so the last valid one is in use: ", words(problem)));
  banner.className = "banner bad";
  banner.hidden = !lost && !problem;
}

function signedOut() {
  if (state.signedOut) return;
  state.signedOut = true;
  current?.view.close();
  current = null;
  banner.hidden = true;
  drawFoot();
  removeEventListener("hashchange", route);
  document.querySelectorAll("dialog").forEach((dialog) => dialog.remove());
  fill(
    main,
    empty(
      "key",
      "Signed out",
      h("p", {}, "This browser has no valid session: it expired, or Toolway was started again. Run this in a terminal, and open the address that it prints:"),
      h("p", {}, command("toolway console")),
      h("p", {}, h("button", { type: "button", onclick: () => location.reload() }, "Try again")),
    ),
  );
  document.title = "Signed out · Toolway";
  // Another tab may sign in meanwhile.
  addEventListener("focus", async () => (await findSession().catch(() => null)) && location.reload());
}

function notReachable(error) {
  fill(main, h("div", { class: "page" }, problem(error), h("p", {}, h("button", { type: "button", onclick: () => location.reload() }, "Try again"))));
}

// === foot ===

function drawFoot() {
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const toggle = h("button", { type: "button", class: "quiet icon-button", onclick: () => {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("toolway-theme", theme);
    } catch {
      // It holds for this page only.
    }
    drawFoot();
  }, "aria-label": dark() ? "Use light colours" : "Use dark colours" }, icon(dark() ? "sun" : "moon"));
  const hadFocus = document.activeElement?.closest?.("#foot") !== null && document.activeElement?.closest?.("#foot") !== undefined;
  const words = state.signedOut ? "Signed out" : lost ? "Reconnecting" : "Live";
  const status = h("span", { class: `live ${words === "Live" ? "good" : "bad"}`, title: state.session ? `Toolway ${state.session.version}` : "" }, words);
  fill(document.getElementById("foot"), state.session ? status : h("span", {}), toggle);
  if (hadFocus) toggle.focus();
}
