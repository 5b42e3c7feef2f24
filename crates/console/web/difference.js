// What a change writes to a file: the lines around it.

import { h, visible } from "./dom.js";

const SIGNS = { added: "+", removed: "−", same: " ", skipped: "…" };
const WORDS = { added: "added: ", removed: "removed: " };

export function difference(lines) {
  const row = ({ kind, text }) => h("div", { class: `line ${kind}` }, h("span.sign", { "aria-hidden": "true" }, SIGNS[kind] ?? " "), WORDS[kind] ? h("span.hidden", WORDS[kind]) : null, h("span.line-text", visible(text)));
  return h("div.difference", { tabindex: "0", role: "group", "aria-label": "Difference of the file" }, lines.map(row));
}
