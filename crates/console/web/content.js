// The result of a call: its content blocks, structured content and pictures, each within bounds.

import { h, isImage, link, visible } from "./dom.js";
import { externalLink } from "./external.js";
import { bytes } from "./format.js";
import { json, plain, written } from "./json.js";

const MOST_BLOCKS = 50;
const PICTURES = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);

export function result(value) {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") return [plain(value)];
  if (!Array.isArray(value.content)) return [json(value)];
  const structured = value.structuredContent === undefined ? null : written(value.structuredContent);
  const blocks = value.content.filter((item) => !repeats(item, structured)).slice(0, MOST_BLOCKS).map(block);
  const rest = value.content.length - MOST_BLOCKS;
  if (rest > 0) blocks.push(h("p.note", `${rest} more content blocks are not shown.`));
  const { content, isError, structuredContent, ...others } = value;
  if (structuredContent !== undefined) blocks.push(json(structuredContent));
  if (Object.keys(others).length) blocks.push(h("details.raw", h("summary", "Other fields"), json(others)));
  return blocks;
}

// Servers repeat structured content as text, for clients that do not know it.
function repeats(item, structured) {
  if (structured === null || item?.type !== "text" || !(item.text?.length < 200_000)) return false;
  try {
    return written(JSON.parse(item.text)) === structured;
  } catch {
    return false;
  }
}

function block(item) {
  if (item?.type === "text" && typeof item.text === "string") return text(item.text);
  if (item?.type === "image") return picture(`data:${item.mimeType};base64,${item.data}`, item.mimeType, item.data?.length);
  if (item?.type === "resource_link") return resourceLink(item);
  return json(item ?? null);
}

// JSON inside a text block is shown as such.
export function text(value) {
  if (/^\s*[[{]/.test(value) && value.length < 200_000) {
    try {
      return json(JSON.parse(value));
    } catch {
      // Shown as it is.
    }
  }
  return plain(value);
}

export function picture(address, mime = /^data:([^;,]*)/.exec(address)?.[1], length = address.length) {
  if (!PICTURES.has(mime) || !isImage(address)) {
    return h("p.note", "Picture not shown: ", visible(mime ?? "no type"), ` (${bytes(length ?? 0)}); PNG, JPEG, WebP and GIF are.`);
  }
  const node = h("img.picture", { src: address, alt: `Picture in the result (${mime})`, loading: "lazy" });
  node.addEventListener("error", () => node.replaceWith(h("p.note", `Picture not shown: it is not a valid ${mime}.`)));
  return node;
}

function resourceLink(item) {
  const target = link(item.uri ?? "");
  const label = visible(item.title ?? item.name ?? item.uri ?? "resource");
  const where = target ? externalLink(visible(item.uri), target) : h("code", visible(item.uri ?? ""));
  return h("p.note", "Resource: ", label, " ", where);
}

// === the arguments of a call ===

// What is recorded of a tool call are the parameters of the request.
export function argumentsOf(call) {
  const values = call.arguments ?? null;
  return call.kind === "tool" && typeof values?.name === "string" && "arguments" in values ? values.arguments : values;
}

export function body(value) {
  return typeof value === "string" ? h("pre.plain", { tabindex: "0" }, visible(value.slice(0, 20_000))) : json(value);
}

export function cutNote(call, field) {
  const size = call.truncated?.[field];
  return size ? h("p.note", `Only the beginning is shown, of ${bytes(size)} in all.`) : null;
}

export function isBare(values) {
  return typeof values === "object" && Object.keys(values).length === 0;
}
