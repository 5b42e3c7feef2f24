// Starts the console: session, navigation, connection, theme. Each screen is a module with `create()`: { node, close(),
// route(parts, query, intent) } with what its address says after its name, and what the click that led to it does there.

import { findSession, on } from "./api.js";
import * as assistantForm from "./assistant-form.js";
import * as assistants from "./assistants.js";
import * as calls from "./calls.js";
import * as chat from "./chat.js";
import { fill, h, icon, marked, words } from "./dom.js";
import * as importing from "./import.js";
import * as inbox from "./inbox.js";
import * as live from "./live.js";
import { Keys } from "./keys.js";
import { News } from "./news.js";
import { command, empty, problem } from "./parts.js";
import * as prompts from "./prompts.js";
import * as resources from "./resources.js";
import * as form from "./server-form.js";
import * as servers from "./servers.js";
import * as tasks from "./tasks.js";
import * as tools from "./tools.js";
import { refreshInbox, refreshServers, refreshSession, state, takeIntent, watch } from "./state.js";
import { follow, poke } from "./stream.js";

// The entries of the navigation, in their order. A further screen is one line here.
const SCREENS = [
  { id: "servers", label: "Servers", module: servers, badge: () => (state.servers ?? []).filter((server) => server.needsPerson).length, tone: "bad", words: "need attention" },
  { id: "tools", label: "Tools", module: tools },
  { id: "resources", label: "Resources", module: resources },
  { id: "prompts", label: "Prompts", module: prompts },

  { id: "inbox", label: "Inbox", module: inbox, badge: () => (state.inbox ?? []).length, tone: "wait", words: "waiting" },
  { id: "tasks", label: "Tasks", module: tasks },

  { id: "chat", label: "Chat", module: chat },
  { id: "assistants", label: "Assistants", module: assistants },

  { id: "calls", label: "Calls", module: calls },
];
// A narrow window shows these, and the others behind a button.
const ALWAYS_SHOWN = new Set(["servers", "inbox", "tasks", "chat"]);
// Screens without an entry in the navigation, which marks the one that they belong to.
const HIDDEN_SCREENS = [
  { id: "add", label: "Add a server", module: form, within: "servers" },
  { id: "edit", label: "Edit a server", module: form, within: "servers" },
  { id: "add-assistant", label: "Add an assistant", module: assistantForm, within: "assistants" },
  { id: "edit-assistant", label: "Edit an assistant", module: assistantForm, within: "assistants" },
  { id: "import", label: "Import servers", module: importing, within: "servers" },
];

const main = document.getElementById("main");
const banner = document.getElementById("banner");
let current = null;
let lost = false;
const keys = new Keys(SCREENS, () => current?.screen);

start();

async function start() {
  drawFoot();
  drawNavigation();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const leaveMore = (event) => document.querySelector("#nav.open") && (event.type === "click" ? !event.target.closest("#nav") : event.key === "Escape") && openMore(false);
  addEventListener("click", leaveMore);
  addEventListener("keydown", leaveMore);
  on("signed-out", signedOut);
  on("offline", () => connection(false));
  on("online", () => connection(true));
  on("changed:session", drawBanner);
  on("changed:servers", drawNavigation);
  on("changed:inbox", drawNavigation);
  on("changed:inbox", () => news.take());
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
  const intent = takeIntent();
  const [place, ...query] = location.hash.replace(/^#\/?/, "").split("?");
  const [id, ...parts] = place.split("/").map(decode);
  const screen = [...SCREENS, ...HIDDEN_SCREENS].find((candidate) => candidate.id === id);
  if (!screen) {
    location.replace("#/servers");
    return;
  }
  if (current?.screen !== screen) {
    current?.view.close();
    current = { screen, view: screen.module.create() };
    fill(main, h("h1.hidden", screen.label), current.view.node);
    main.dataset.screen = screen.id;
  }
  const values = [...new URLSearchParams(query.join("?"))].map(([key, value]) => [key, marked(value)]);
  current.view.route(parts.filter((part) => part !== ""), new URLSearchParams(values), intent);
  drawNavigation();
}

function decode(part) {
  try {
    return marked(decodeURIComponent(part));
  } catch {
    return part;
  }
}

function drawNavigation() {
  const shown = current?.screen.within ?? current?.screen.id;
  const entry = (screen) => {
    const number = screen.badge?.() ?? 0;
    const badge = number ? h("span", { class: `badge ${screen.tone}` }, String(number), h("span.hidden", ` ${screen.words}`)) : null;
    return h("a", { id: `nav-${screen.id}`, class: ALWAYS_SHOWN.has(screen.id) ? false : "further", href: `#/${screen.id}`, "aria-current": screen.id === shown ? "page" : false, onclick: () => openMore(false) }, icon(screen.id), h("span", screen.label), badge);
  };
  const focused = document.activeElement?.closest?.("#nav > *")?.id;
  const nav = document.getElementById("nav");
  const isOpen = nav.classList.contains("open");
  const more = h("button", { id: "nav-more", class: ALWAYS_SHOWN.has(shown) ? "quiet" : "quiet within", "aria-expanded": String(isOpen), onclick: () => openMore(!isOpen) }, icon("list"), h("span", "More"));
  fill(nav, SCREENS.map(entry), more);
  if (focused) document.getElementById(focused)?.focus();
  const waiting = state.inbox?.length ?? 0;
  document.title = `${waiting ? `(${waiting}) ` : ""}${current?.screen.label ?? "Console"} · Toolway`;
}

// In a narrow window, the entries that have no room.
function openMore(isOpen) {
  document.getElementById("nav").classList.toggle("open", isOpen);
  drawNavigation();
}

// === news ===

const news = new News((item) => {
  const { id, within } = current?.screen ?? {};
  return id === "inbox" || (id === "chat" && item.conversation) || (item.signIn && (within ?? id) === "servers");
});

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
  if (lost) fill(banner, h("span", "The connection to Toolway is lost. Trying again; what is shown may be old."), h("button", { class: "small", onclick: poke }, "Try now"));
  else if (problem) fill(banner, h("span", "The configuration is invalid, so the last valid one is in use: ", words(problem)));
  banner.className = "banner bad";
  banner.hidden = !lost && !problem;
}

function signedOut() {
  if (state.signedOut) return;
  state.signedOut = true;
  if (current?.view.holdsInput?.()) return keepInput();
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
      h("p", "This browser has no valid session: it expired, or Toolway was started again. Run this in a terminal, and open the address that it prints:"),
      h("p", command("toolway console")),
      h("p", h("button", { onclick: () => location.reload() }, "Try again")),
    ),
  );
  document.title = "Signed out · Toolway";
  // Another tab may sign in meanwhile.
  addEventListener("focus", async () => (await findSession().catch(() => null)) && location.reload());
}

// What was typed stays; a link in another tab signs in again.
function keepInput() {
  drawFoot();
  fill(banner, h("span", "You are signed out; what you typed is still here. Run ", command("toolway console"), " in a terminal and open the address that it prints."), h("button", { class: "small", onclick: resume }, "Try again"));
  banner.className = "banner bad";
  banner.hidden = false;
  addEventListener("focus", resume);
}

async function resume() {
  const session = await findSession().catch(() => null);
  if (!session || !state.signedOut) return;
  removeEventListener("focus", resume);
  state.session = session;
  state.signedOut = false;
  lost = false;
  drawFoot();
  drawBanner();
  follow();
  refreshServers();
  refreshInbox();
}

function notReachable(error) {
  fill(main, h("div.page", problem(error), h("p", h("button", { onclick: () => location.reload() }, "Try again"))));
}

// === foot ===

function drawFoot() {
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const toggle = h("button", { class: "quiet icon-button", onclick: () => {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("toolway-theme", theme);
    } catch {
      // It holds for this page only.
    }
    drawFoot();
  }, "aria-label": dark() ? "Use light colours" : "Use dark colours" }, icon(dark() ? "sun" : "moon"));
  const help = h("button", { class: "quiet icon-button", "aria-label": "Keys", title: "Keys (?)", onclick: () => keys.show() }, "?");
  const hadFocus = document.activeElement?.closest?.("#foot") !== null && document.activeElement?.closest?.("#foot") !== undefined;
  const words = state.signedOut ? "Signed out" : lost ? "Reconnecting" : "Live";
  const status = h("span", { class: `live ${words === "Live" ? "good" : "bad"}`, title: state.session ? `Toolway ${state.session.version}` : "" }, words);
  fill(document.getElementById("foot"), state.session ? status : h("span"), h("span.foot-buttons", state.session ? help : null, toggle));
  if (hadFocus) toggle.focus();
}
