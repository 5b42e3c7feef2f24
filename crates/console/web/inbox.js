// The screen Inbox: everything that waits for a person, oldest first.

import { on } from "./api.js";
import { Batch } from "./batch.js";
import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { ItemView } from "./item.js";
import { command, empty, loading, toast } from "./parts.js";
import { state } from "./state.js";

export function create() {
  const summary = h("p", { class: "sub", role: "status" });
  const list = h("div", { class: "items", onkeydown: move });
  const blank = h("div", {});
  const node = h("div", { class: "page" }, h("header", { class: "page-head" }, h("p", { class: "title", "aria-hidden": "true" }, "Inbox"), summary), blank);
  const views = new Map();
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
      if (!view.answering) toast(allowed.has(subject(view.item)) ? "An identical call was allowed with it." : "An item was answered elsewhere, or its call ended.");
      remove(id);
    }
    for (const item of state.inbox) if (!views.has(item.id)) append(item);
    fill(summary, waiting.size ? `${count(waiting.size, "item")} waiting for your answer` : "");
    blank.hidden = waiting.size > 0;
    batch.update([...views.values()].filter((view) => view.item.approval));
    if (!waiting.size && !blank.querySelector(".empty")) fill(blank, nothing());
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

  const stops = [on("changed:inbox", draw)];
  const ticker = setInterval(() => views.forEach((view) => view.tick()), 1000);
  return {
    node,
    route: draw,
    close: () => {
      stops.forEach((stop) => stop());
      clearInterval(ticker);
      batch.end();
    },
  };
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
    h("p", {}, "When a model or a program wants to change something, or a server asks a question, you decide here."),
    h("p", { class: "sub" }, "In a terminal: ", command("toolway inbox"), ". The first answer counts."),
  );
}
