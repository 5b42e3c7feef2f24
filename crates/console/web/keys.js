// Keys that work everywhere, and the dialog that lists them: `?` shows it, `/` goes to the search of the screen, and `g` with
// a letter opens a screen. They can be turned off, because single keys collide with some speech input.

import { h } from "./dom.js";

const OFF = "toolway-keys";
// The second key after `g`, by screen.
const LETTERS = { servers: "s", tools: "t", resources: "r", prompts: "p", inbox: "i", tasks: "k", chat: "c", assistants: "a", calls: "l" };
// How long `g` waits for its letter.
const PREFIX_MS = 1500;
const LISTS = [["↑ ↓", "Row before, next row"], ["Page Up, Page Down, Home, End", "Further"], ["Enter", "Open"], ["Escape", "Close what is open"]];

export class Keys {
  // current(): the screen that is shown: { id, label, module }; its module may export `KEYS`, a list of [keys, words].
  constructor(screens, current) {
    this.screens = screens.filter((screen) => LETTERS[screen.id]);
    this.current = current;
    this.prefixed = -Infinity;
    addEventListener("keydown", (event) => this.take(event));
  }

  take(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]") || isOff()) return;
    const act = this.actOf(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }

  actOf(key) {
    const isSecond = performance.now() - this.prefixed < PREFIX_MS;
    this.prefixed = key === "g" && !isSecond ? performance.now() : -Infinity;
    if (isSecond) {
      const screen = this.screens.find(({ id }) => LETTERS[id] === key);
      return screen && (() => (location.hash = `#/${screen.id}`));
    }
    const search = key === "/" && [...document.querySelectorAll('main input[type="search"]')].find((input) => input.checkVisibility());
    return { g: () => {}, "?": () => this.show(), "/": search ? () => search.focus() : undefined }[key];
  }

  show() {
    const { label, module } = this.current() ?? {};
    const own = module?.KEYS ?? [];
    const everywhere = [["?", "These keys"], ["/", "Search on this screen"], ...this.screens.map((screen) => [`g ${LETTERS[screen.id]}`, screen.label])];
    const off = h("input", { type: "checkbox", checked: !isOff(), onchange: () => turn(off.checked) });
    const dialog = h(
      "dialog",
      { class: "ask keys", "aria-labelledby": "keys-title", onclose: () => dialog.remove(), onclick: (event) => event.target === dialog && dialog.close() },
      h(
        "div",
        { class: "item" },
        h("header", h("h2", { id: "keys-title", tabindex: "-1" }, "Keys")),
        h("div.key-parts", part("Everywhere", everywhere), h("div.stack", own.length ? part(label, own) : null, part("In lists", LISTS))),
        h("label.check", off, h("span", "Single keys (?, /, g) are on")),
        h("div.answers", h("div.actions", h("button", { onclick: () => dialog.close() }, "Close"))),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("h2").focus();
  }
}

function part(title, keys) {
  return h("section.part", h("h3", title), h("dl.facts", keys.map(([key, words]) => [h("dt", h("kbd", key)), h("dd", words)])));
}

function isTyping(target) {
  return target.closest?.("input:not([type='checkbox'], [type='radio']), textarea, select, [contenteditable]") !== null;
}

function isOff() {
  try {
    return localStorage.getItem(OFF) === "off";
  } catch {
    return false;
  }
}

function turn(isOn) {
  try {
    localStorage.setItem(OFF, isOn ? "on" : "off");
  } catch {
    // Without storage they stay on.
  }
}
