// Pieces that every screen uses: state labels, empty states, errors, the drawer, messages at the edge.

import { cut, fill, h, icon, isImage, visible, words } from "./dom.js";
import { plain } from "./json.js";

export function pill([label, tone]) {
  return h("span", { class: `pill ${tone}` }, label);
}

export function stateOf(states, word) {
  return states[word] ?? [String(word ?? "unknown"), "off"];
}

export const MUST_OPEN = "Open everything that is folded before you allow this.";

// The server's own icon where it is a plain picture, else the first letter of its name.
export function serverIcon(server) {
  if (isImage(server.icon)) {
    const picture = h("img", { class: "avatar", src: server.icon, alt: "", width: 32, height: 32, onerror: () => picture.replaceWith(serverIcon({ name: server.name })) });
    return picture;
  }
  const letter = [...String(server.name ?? "?")][0]?.toUpperCase() ?? "?";
  const tone = [...String(server.name ?? "")].reduce((sum, char) => (sum + char.codePointAt(0)) % 6, 0);
  return h("span", { class: `avatar letter tint${tone}`, "aria-hidden": "true" }, visible(letter));
}

export function hints(tool) {
  const tags = [];
  if (tool.readOnly) tags.push(h("span", { class: "tag calm" }, "read-only"));
  if (tool.destructive) tags.push(h("span", { class: "tag bad" }, "destructive"));
  if (tool.idempotent && !tool.readOnly) tags.push(h("span", { class: "tag" }, "idempotent"));
  if (tool.openWorld) tags.push(h("span", { class: "tag" }, "open world"));
  return tags;
}

// What a person should know before deciding; lower-case phrases of Toolway.
export function warnings(list) {
  if (list.length === 0) return null;
  const lines = list.map((warning) => h("p", {}, words(sentence(warning, false))));
  return h("div", { class: "warning" }, icon("warning"), h("div", {}, lines));
}

export function empty(picture, title, ...body) {
  return h("div", { class: "empty" }, h("span", { class: "empty-icon" }, icon(picture)), h("h2", {}, title), body);
}

// Shown while a list is read; appears only if that takes a while.
export function loading(rows = 4) {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "hidden" }, "Loading"), Array.from({ length: rows }, () => h("div", { class: "bone", "aria-hidden": "true" })));
}

export function command(text) {
  return h("code", { class: "command" }, text);
}

// An error as the API gives it: message, hint, and what the server wrote to stderr.
export function problem(error, title) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-message" }, icon("warning"), h("span", {}, title ? `${title}: ` : "", words(cut(sentence(error.message, Boolean(title)), 4000)))),
    error.hint ? h("p", { class: "hint" }, "Hint: ", words(cut(error.hint, 4000))) : null,
    error.stderr?.length ? stderr(error.stderr) : null,
  );
}

export function sentence(text, inside = false) {
  const whole = String(text ?? "");
  return inside ? whole : whole.charAt(0).toUpperCase() + whole.slice(1);
}

export function stderr(lines) {
  return h("div", { class: "stderr-part" }, h("p", { class: "sub" }, "What the server wrote last (stderr)"), plain(lines.join("\n"), { class: "plain stderr", "aria-label": "stderr of the server" }));
}

export function labelled(label, value) {
  return value === null || value === undefined || value === "" ? [] : [h("dt", {}, label), h("dd", {}, value)];
}

// A button that runs something of the API: disabled meanwhile, and its failure is said.
export function action(label, run, props) {
  const node = h("button", { type: "button", ...props, onclick: async () => {
    node.disabled = true;
    try {
      await run();
    } catch (error) {
      toast(error.message, "bad", error.hint);
    }
    node.disabled = false;
  } }, label);
  return node;
}

export function toast(message, tone = "", hint = null, place = null) {
  const open = place ? h("a", { class: "button small", href: place.href, onclick: () => node.remove() }, place.label) : null;
  const node = h("div", { class: `toast ${tone}` }, h("div", { class: "grow" }, h("p", {}, words(cut(message, 500))), hint ? h("p", { class: "hint" }, words(cut(hint, 500))) : null), open);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), tone === "bad" ? 9000 : 5000);
}

// A panel at the right that leaves the list beside it usable. Escape closes it and focus returns.
export class Drawer {
  constructor(label, onclose) {
    this.heading = h("h2", { tabindex: "-1" });
    this.body = h("div", { class: "drawer-body" });
    this.onclose = onclose;
    this.before = null;
    this.node = h(
      "aside",
      { class: "drawer", "aria-label": label, hidden: true, onkeydown: (event) => event.key === "Escape" && this.close() },
      h("header", {}, this.heading, h("button", { class: "quiet icon-button", type: "button", "aria-label": "Close", onclick: () => this.close() }, icon("close"))),
      this.body,
    );
  }

  get isOpen() {
    return !this.node.hidden;
  }

  show(title, ...body) {
    const inside = this.body.contains(document.activeElement);
    if (this.node.hidden) this.before = document.activeElement;
    this.node.hidden = false;
    fill(this.heading, title);
    fill(this.body, body);
    if (inside) this.heading.focus();
  }

  close() {
    if (this.node.hidden) return;
    const inside = this.node.contains(document.activeElement);
    this.node.hidden = true;
    fill(this.body);
    if (inside) this.before?.focus?.();
    this.onclose?.();
  }
}

// A part that is closed at first. `set(words, body)` draws it again and leaves it open; without a body it is not there.
export class Fold {
  constructor(title) {
    this.title = title;
    this.summary = h("summary", {});
    this.body = h("div", { class: "fold-part" });
    this.node = h("details", { class: "raw", hidden: true }, this.summary, this.body);
  }

  set(words, body) {
    this.node.hidden = body === null;
    fill(this.summary, this.title, words ? [" ", h("span", { class: "sub" }, words)] : null);
    fill(this.body, body ?? []);
  }
}

export function section(title, extra, ...body) {
  return h("section", { class: "part" }, h("div", { class: "part-head" }, h("h3", {}, title), extra), body);
}
