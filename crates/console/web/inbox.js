// The screen Inbox: everything that waits for a person, oldest first.

import { on } from "./api.js";
import { Batch } from "./batch.js";
import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { ItemView } from "./item.js";
import { canNotify, isNotifying, setNotifying } from "./news.js";
import { command, empty, loading, toast } from "./parts.js";
import { state } from "./state.js";

export const KEYS = [["↑ ↓ or j k", "Item before, next item"], ["Tab", "Through its fields and answers"]];

export function create() {
  const summary = h("p.sub", { role: "status" });
  const list = h("div.items", { onkeydown: move });
  const blank = h("div");
  const node = h("div.page", h("header.page-head.with-button", h("div", h("p.title", { "aria-hidden": "true" }, "Inbox"), summary), notifying()), blank);
  const views = new Map();
  // The item that the address names, until it was shown.
  let wanted = null;
  // What was allowed always: identical calls that wait are allowed with it.
  const allowed = new Set();
  const batch = new Batch((words) => {
    toast(`${words}.`);
    (list.querySelector("h2") ?? document.getElementById("main")).focus();
  });
  node.append(batch.node, list);

  const draw = () => {
    if (state.inbox === null) return void fill(blank, loading(2));
    const waiting = new Set(state.inbox.map((item) => item.id));
    for (const [id, view] of views) {
      if (waiting.has(id)) continue;
      if (view.item.signIn) toast(`The sign-in of ${view.item.server} no longer waits.`);
      else if (!view.answering) toast(allowed.has(subject(view.item)) ? "An identical call was allowed with it." : "An item was answered elsewhere, or its call ended.");
      remove(id);
    }
    for (const item of state.inbox) views.has(item.id) ? views.get(item.id).update(item) : append(item);
    fill(summary, waiting.size ? `${count(waiting.size, "item")} waiting for your answer` : "");
    blank.hidden = waiting.size > 0;
    batch.update([...views.values()].filter((view) => view.item.approval));
    if (!waiting.size && !blank.querySelector(".empty")) fill(blank, nothing());
    if (wanted !== null) reveal(wanted);
  };

  const reveal = (id) => {
    wanted = null;
    const view = views.get(id);
    if (!view) return void toast("This item was answered, or its call ended.");
    view.node.scrollIntoView({ block: "start" });
    view.title.focus({ preventScroll: true });
  };

  const append = (item) => {
    const view = new ItemView(item, {
      heading: "h2",
      onlock: () => batch.draw(),
      onanswered: (words, body) => {
        if (words) toast(`${words}.`);
        if (body?.answer === "always") allowed.add(subject(item));
        view.answering = true;
        remove(item.id);
        state.inbox = state.inbox.filter((other) => other.id !== item.id);
        draw();
      },
    });
    views.set(item.id, view);
    list.append(view.node);
  };

  // Focus goes to the next item, so that one can go on without the mouse.
  const remove = (id) => {
    const { node: gone } = views.get(id);
    const next = gone.contains(document.activeElement) ? gone.nextElementSibling ?? gone.previousElementSibling : null;
    const had = gone.contains(document.activeElement);
    gone.remove();
    views.delete(id);
    if (had) (next?.querySelector("[tabindex]") ?? document.getElementById("main")).focus();
  };

  // Items with something typed in, which outlasts the session.
  const typed = new Set();
  list.addEventListener("input", (event) => typed.add(event.target.closest("[data-item]")?.dataset.item));
  // The item that has the focus is the one of the address.
  list.addEventListener("focusin", (event) => {
    const id = event.target.closest("[data-item]")?.dataset.item;
    if (id) history.replaceState(null, "", `#/inbox/${encodeURIComponent(id)}`);
  });
  const stops = [on("changed:inbox", draw)];
  const ticker = setInterval(() => views.forEach((view) => view.tick()), 1000);
  return {
    node,
    route: ([id]) => {
      wanted = id ?? null;
      draw();
    },
    holdsInput: () => [...views.keys()].some((id) => typed.has(id)),
    close: () => {
      stops.forEach((stop) => stop());
      clearInterval(ticker);
      batch.end();
    },
  };
}

// Turns notifications of the browser on and off, where it has them.
function notifying() {
  if (!canNotify()) return null;
  const box = h("input", { type: "checkbox", checked: isNotifying(), onchange: async () => {
    const isWanted = box.checked;
    box.checked = await setNotifying(isWanted);
    if (isWanted && !box.checked) toast("The browser does not permit notifications of this page.", "bad");
  } });
  return h("label.check", box, h("span", "Notify me while this page is in the background"));
}

function subject({ server, approval, caller }) {
  return JSON.stringify([server, approval?.tool, caller]);
}

// Arrow keys go from item to item when no control has the focus.
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!step || !event.target.matches("h2")) return;
  const headings = [...event.currentTarget.querySelectorAll(".item h2")];
  const next = headings[headings.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function nothing() {
  return empty(
    "inbox",
    "Nothing waits for you",
    h("p", "When a model or a program wants to change something, or a server asks a question, you decide here."),
    h("p.sub", "In a terminal: ", command("toolway inbox"), ". The first answer counts."),
  );
}
