// Shows JSON of any shape: folded, bounded in depth, width and length.

import { add, cut, fill, h, unmarked, visible } from "./dom.js";
import { bytes, count } from "./format.js";

const OPEN_DEPTH = 3;
const MOST_DEPTH = 60;
const PAGE = 100;
const LONG_TEXT = 2000;
const TEXT_PAGE = 40_000;

export function json(value) {
  return h("div", { class: "json" }, tree(value, 0));
}

function tree(value, depth) {
  if (value === null || typeof value !== "object") return leaf(value);
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return h("span", { class: "json-mark" }, open + close);
  if (depth >= MOST_DEPTH) return h("span", { class: "json-note" }, `${open}… nested deeper than ${MOST_DEPTH} levels${close}`);
  const body = h("div", { class: "json-body" });
  let drawn = false;
  const draw = () => {
    if (drawn) return;
    drawn = true;
    page(body, entries, 0, depth, Array.isArray(value));
  };
  const isOpen = depth < OPEN_DEPTH && (depth === 0 || entries.length <= PAGE);
  const summary = h("summary", {}, h("span", { class: "json-mark" }, open), h("span", { class: "json-note" }, size(value, entries)));
  const node = h("details", { open: isOpen, ontoggle: () => node.open && draw() }, summary, body, h("span", { class: "json-mark json-close" }, close));
  if (isOpen) draw();
  return node;
}

function size(value, entries) {
  return Array.isArray(value) ? count(entries.length, "item") : count(entries.length, "field");
}

function page(body, entries, from, depth, isArray) {
  for (const [key, item] of entries.slice(from, from + PAGE)) {
    const label = isArray ? h("span", { class: "json-index" }, `${key}`) : h("span", { class: "json-key" }, visible(cut(key, 300)));
    body.append(h("div", { class: "json-line" }, label, ": ", tree(item, depth + 1)));
  }
  const rest = entries.length - from - PAGE;
  if (rest <= 0) return;
  const more = h("button", { class: "small", type: "button", onclick: () => {
    more.remove();
    page(body, entries, from + PAGE, depth, isArray);
  } }, `Show more (${rest.toLocaleString()} left)`);
  body.append(more);
}

function leaf(value) {
  if (typeof value === "string") {
    const text = value.length > LONG_TEXT ? longText(value) : visible(value);
    return h("span", { class: "json-text" }, text);
  }
  return h("span", { class: typeof value === "number" ? "json-number" : "json-word" }, String(value));
}

// A text of any length: the beginning, and a button for the next part.
export function longText(text, first = LONG_TEXT) {
  const node = h("span", { class: "long" });
  const show = (from, to) => {
    add(node, visible(text.slice(from, to)));
    if (to >= text.length) return;
    const more = h("button", { class: "small", type: "button", onclick: () => {
      more.remove();
      show(to, to + TEXT_PAGE);
    } }, `Show more (${bytes(text.length - to)} left)`);
    node.append(more);
  };
  show(0, first);
  return node;
}

// The text of a result or of a log, as it is.
export function plain(text, props) {
  return h("pre", { class: "plain", tabindex: "0", ...props }, longText(String(text ?? ""), 8000));
}

// Text for the clipboard; null for what is nested too deeply to be written.
export function written(value) {
  try {
    return typeof value === "string" ? unmarked(value) : JSON.stringify(value, (_, part) => (typeof part === "string" ? unmarked(part) : part), 2);
  } catch {
    return null;
  }
}

// The value may be a function that gives it.
export function copyButton(value, label = "Copy") {
  const node = h("button", { class: "small quiet", type: "button", onclick: async () => {
    const text = written(typeof value === "function" ? value() : value);
    try {
      if (text === null) throw new RangeError();
      await navigator.clipboard.writeText(text);
      fill(node, "Copied");
    } catch {
      fill(node, "Copying is not possible here");
    }
    setTimeout(() => fill(node, label), 1500);
  } }, label);
  return node;
}
