// Makes elements and text. Everything on the page is made here; markup is never parsed from a string.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected", "required", "indeterminate"]);
const IMAGE = /^(data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]+|\/[a-z-]+\.svg)$/;
const SOUND = /^data:audio\/(mpeg|wav|x-wav|ogg|webm|flac|mp4);base64,[A-Za-z0-9+/=]+$/;

// h("button.primary", { onclick: run, "aria-label": "…" }, "Run", node, [more]); what follows a dot is a class, properties may be
// left out, and a button submits no form unless it says so.
export function h(kind, props, ...children) {
  const [tag, ...classes] = kind.split(".");
  const isProps = props !== null && typeof props === "object" && !Array.isArray(props) && !(props instanceof Node);
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  if (tag === "button") node.type = "button";
  if (isProps) for (const [name, value] of Object.entries(props)) setProperty(node, name, value);
  add(node, isProps ? children : [props, children]);
  return node;
}

function setProperty(node, name, value) {
  if (value === undefined || value === null) return;
  if (name.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${name} must be a function`);
    node.addEventListener(name.slice(2), value);
  } else if (PROPERTIES.has(name)) {
    node[name] = value;
  } else if (value === false) {
    // An absent attribute.
  } else if (name === "href") {
    const address = link(value);
    if (address) node.setAttribute("href", address);
  } else if (name === "src") {
    if (node.tagName === "AUDIO" ? SOUND.test(value) : isImage(value)) node.setAttribute("src", value);
  } else if (name === "style" || name === "srcdoc") {
    throw new TypeError(`${name} is not set from here`);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

// An address a user may follow: http, https, or a place in this page; null for everything else.
export function link(address) {
  const text = String(address);
  if (text.startsWith("#/")) return text;
  // Hidden characters would lead somewhere else than the text says.
  if (text.includes("\ufdd0")) return null;
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

export function isImage(address) {
  return typeof address === "string" && address.length < 8_000_000 && IMAGE.test(address);
}

// === icons ===

const ICONS = {
  servers: "M4 5h16v5H4zM4 14h16v5H4zM7.5 7.5h.01M7.5 16.5h.01",
  calls: "M4 7h9M4 12h13M4 17h6M20 12l-3-3m3 3l-3 3",
  tasks: "M12 4a8 8 0 1 0 8 8M12 8v4l3 2M16 4.5l1.5 1.5M19 8l.8 2",
  inbox: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 2h4l1-2h5",
  chat: "M5 5h14v10h-8l-4 4v-4H5z",
  tools: "M14 6a4 4 0 0 0 5 5l-9 9-3-3 9-9a4 4 0 0 0-2-2zM14 6l3-2 3 3-2 3",
  resources: "M7 4h7l4 4v12H7zM14 4v4h4M10 12h5M10 16h5",
  prompts: "M5 7l4 5-4 5M12 17h7",
  assistants: "M6 9h12v9H6zM12 9V5M9.5 13h.01M14.5 13h.01M3 12v3M21 12v3",
  play: "M8 5.5v13l10-6.5z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M18.4 5.6L17 7M7 17l-1.4 1.4",
  moon: "M19 14.5A7.5 7.5 0 0 1 9.5 5 7.5 7.5 0 1 0 19 14.5z",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  back: "M15 5l-7 7 7 7",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  stop: "M7 7h10v10H7z",
  send: "M5 12l14-7-5 14-2.5-5.5z",
  copy: "M8 8h11v11H8zM5 16V5h11",
  list: "M5 7h14M5 12h14M5 17h14",
  forward: "M9 5l7 7-7 7",
  key: "M8.5 11a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM11 12l8-8M16 7l3 3M13.5 9.5l2 2",
  check: "M5 12.5l4.5 4.5L19 7.5",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM15.5 15.5L20 20",
  open: "M14 5h5v5M19 5l-8 8M17 14v5H5V7h5",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// === text of others ===

// The API marks hidden characters: the code point in hexadecimal between these two. The page only draws the marks.
const MARKED = /\ufdd0([0-9a-f]+)\ufdd1/g;
const NAMES = {
  0x1b: "ESC", 0x07: "BEL", 0x08: "BS", 0x00: "NUL", 0x0d: "CR", 0x200b: "ZWSP", 0x200c: "ZWNJ", 0x200d: "ZWJ",
  0x200e: "LRM", 0x200f: "RLM", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO", 0x202e: "RLO",
  0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0xfeff: "BOM", 0xad: "SHY", 0x2060: "WJ",
};

// The nodes of a text: each hidden character is a small visible mark.
export function visible(text) {
  const parts = String(text ?? "").split(MARKED);
  return parts.map((part, index) => (index % 2 ? mark(parseInt(part, 16)) : part));
}

// Marks hidden characters as the API does, for text that does not come from it.
export function marked(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (char) => `\ufdd0${char.codePointAt(0).toString(16)}\ufdd1`);
}

// The text without marks, as it was before the API marked it: for the clipboard.
export function unmarked(text) {
  return String(text ?? "").replace(MARKED, (_, code) => String.fromCodePoint(parseInt(code, 16)));
}

function mark(point) {
  const code = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  return h("span.mark", { title: `Hidden character ${code}` }, NAMES[point] ?? code);
}

// A message of Toolway: values between backticks are set as code.
export function words(text) {
  const parts = String(text ?? "").split(/`([^`\n]+)`/);
  return h("span.words", parts.map((part, index) => (index % 2 ? h("code", visible(part)) : visible(part))));
}

// A short text of a server, on one line, kept apart from the direction of the text around it.
export function name(text, props) {
  return h("bdi.name", { ...props }, visible(cut(text, 400)));
}

export function cut(text, most) {
  const whole = String(text ?? "");
  return whole.length > most ? `${whole.slice(0, most)}…` : whole;
}
