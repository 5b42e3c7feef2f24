// Markdown of a model as nodes: a small, safe part of the language. HTML in it is text, images are links, links are
// http or https, and open only after a click that shows where they lead. `Markdown` redraws only the blocks that changed while text streams in.

import { h, link, visible } from "./dom.js";
import { externalLink } from "./external.js";
import { highlighted } from "./highlight.js";
import { longText } from "./json.js";

const MOST_NESTING = 6;
const MOST_CELLS = 600;
const LONG_BLOCK = 20_000;

export class Markdown {
  #sources = [];
  #text = "";

  constructor() {
    this.node = h("div.markdown");
  }

  get text() {
    return this.#text;
  }

  set(text) {
    this.#text = text;
    const blocks = split(text);
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.#sources[same]) same += 1;
    while (this.node.childNodes.length > same) this.node.lastChild.remove();
    for (const block of blocks.slice(same)) this.node.append(draw(block, 0));
    this.#sources = blocks.map((block) => block.source);
    return this;
  }
}

export function markdown(text) {
  return new Markdown().set(text).node;
}

// === blocks ===

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const TABLE_LINE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function split(text) {
  const lines = String(text).replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const start = at;
    const block = read(lines, at);
    at = block.end;
    blocks.push({ ...block, source: lines.slice(start, at).join("\n") });
  }
  return blocks;
}

function read(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { kind: "heading", level: heading[1].length, text: withoutClosing(heading[2]), end: at + 1 };
  if (RULE.test(line)) return { kind: "rule", end: at + 1 };
  if (QUOTE.test(line)) return readQuote(lines, at);
  if (ITEM.test(line)) return readList(lines, at);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && TABLE_LINE.test(lines[at + 1])) return readTable(lines, at);
  return readParagraph(lines, at);
}

// A heading may end with as many `#` as one likes.
function withoutClosing(text) {
  let end = text.trimEnd().length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  return (end === 0 || text[end - 1] === " " ? text.slice(0, end) : text).trim();
}

function readFence(lines, at, [, fence, language]) {
  let end = at + 1;
  const closes = (line) => line.trim().length >= fence.length && line.trim() === fence[0].repeat(line.trim().length);
  while (end < lines.length && !closes(lines[end])) end += 1;
  return { kind: "code", language, text: lines.slice(at + 1, end).join("\n"), end: Math.min(lines.length, end + 1) };
}

function readQuote(lines, at) {
  let end = at;
  const inner = [];
  while (end < lines.length && QUOTE.test(lines[end])) inner.push(QUOTE.exec(lines[end++])[1]);
  return { kind: "quote", text: inner.join("\n"), end };
}

function readList(lines, at) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (item && /\d/.test(item[2]) === ordered && !RULE.test(lines[end])) {
      items.push([item[4]]);
      end += 1;
    } else if (items.length && /^\s{2,}\S/.test(lines[end])) {
      items.at(-1).push(lines[end++].replace(/^\s{2,4}/, ""));
    } else if (lines[end].trim() === "" && end + 1 < lines.length && (/^\s{2,}\S/.test(lines[end + 1]) || ITEM.test(lines[end + 1]))) {
      items.at(-1).push("");
      end += 1;
    } else {
      break;
    }
  }
  const start = ordered ? Number.parseInt(ITEM.exec(lines[at])[2], 10) : null;
  return { kind: "list", ordered, start, items: items.map((item) => item.join("\n")), end };
}

function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim() !== "") end += 1;
  const rows = [lines[at], ...lines.slice(at + 2, end)].map(cells);
  if (rows.length * rows[0].length > MOST_CELLS) return { kind: "code", language: "", text: lines.slice(at, end).join("\n"), end };
  // `:-`, `-:` and `:-:`
  const sides = cells(lines[at + 1]).map((cell) => ["", "start", "end", "centre"][cell.startsWith(":") + 2 * cell.endsWith(":")]);
  return { kind: "table", rows, sides, end };
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function readParagraph(lines, at) {
  let end = at + 1;
  const starts = (line) => line.trim() === "" || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || RULE.test(line);
  while (end < lines.length && !starts(lines[end])) end += 1;
  return { kind: "paragraph", text: lines.slice(at, end).join("\n"), end };
}

function draw(block, depth) {
  const nested = (text) => (depth < MOST_NESTING ? split(text).map((inner) => draw(inner, depth + 1)) : visible(text));
  switch (block.kind) {
    case "heading":
      return h(`h${Math.min(6, block.level + 2)}`, { dir: "auto" }, inline(block.text));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", nested(block.text));
    case "code":
      return h("pre.code", { tabindex: "0", "data-language": block.language || false }, h("code", highlighted(block.text, block.language) ?? longText(block.text, LONG_BLOCK)));
    case "list":
      return h(block.ordered ? "ol" : "ul", { start: block.ordered && block.start !== 1 ? block.start : false }, block.items.map((item) => h("li", { dir: "auto" }, listItem(item, nested))));
    case "table":
      return table(block.rows, block.sides);
    default:
      return h("p", { dir: "auto" }, inline(block.text));
  }
}

// A one-line item is its text; one with more is blocks.
function listItem(item, nested) {
  return item.includes("\n") ? nested(item) : inline(item);
}

function table([head, ...rows], sides) {
  const row = (tag, values) => h("tr", head.map((_, column) => h(tag, { dir: "auto", "data-side": sides[column] || false }, inline(values[column] ?? ""))));
  return h("div.table-scroll", { tabindex: "0", role: "group", "aria-label": "Table" }, h("table", h("thead", row("th", head)), h("tbody", rows.map((values) => row("td", values)))));
}

// === inline ===

// Code, links, bold, italic, struck through, bare addresses; in this order of strength.
const INLINE = /(?<!`)``(?!`)((?:[^`]|`(?!`)){1,2000})``(?!`)|(?<!`)`(?!`)([^`]{1,2000})`(?!`)|!?\[((?:[^\[\]\\]|\\.){0,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s()]*\)[^\s<>()]*)?)>?(?:\s+"[^"]{0,200}")?\s*\)|(\*\*|__)(?=[^\s*_])([\s\S]{0,2000}?\S)\5|(?<![A-Za-z0-9_*])([*_])(?=\S)([^*_\n]{0,2000}?[^\s*_])\7(?![A-Za-z0-9])|~~(?=\S)([\s\S]{1,2000}?\S)~~|(https?:\/\/[^\s<>"'`)\]]{1,2000})|\\([!-/:-@[-`{-~])/g;

function inline(text, depth = 0) {
  if (text.length > LONG_BLOCK) return [longText(text, LONG_BLOCK)];
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    nodes.push(...visible(text.slice(end, found.index)));
    end = found.index + found[0].length;
    nodes.push(span(found, depth));
  }
  nodes.push(...visible(text.slice(end)));
  return nodes;
}

function span(found, depth) {
  const [whole, quoted, code, label, address, , bold, , italic, struck, bare, escaped] = found;
  const inner = (text) => (depth < MOST_NESTING ? inline(text, depth + 1) : visible(text));
  if (quoted !== undefined) return h("code", visible(quoted.trim()));
  if (code !== undefined) return h("code", visible(code));
  if (address !== undefined) return anchor(label, address);
  if (bold !== undefined) return h("strong", inner(bold));
  if (italic !== undefined) return h("em", inner(italic));
  if (struck !== undefined) return h("s", inner(struck));
  if (bare !== undefined) return bareAnchor(bare);
  return escaped ?? whole;
}

// A link says where it leads, because its words are chosen by others.
function anchor(label, address) {
  const target = link(address);
  const words = visible(label || address);
  if (target === null || target.startsWith("#")) return h("span.no-link", words, " (", visible(address), ")");
  const shown = label && label !== address ? h("span.link-host", ` (${new URL(target).host})`) : null;
  return h("span", externalLink(words, target), shown);
}

function bareAnchor(address) {
  const tail = /[.,;:!?]+$/.exec(address)?.[0] ?? "";
  const clean = address.slice(0, address.length - tail.length);
  const target = link(clean);
  return target ? h("span", externalLink(visible(clean), target), tail) : address;
}
