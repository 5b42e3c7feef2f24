// A stdio server whose tools have schemas that forms find hard: references, variants, null, nested lists, maps, endless and
// very large ones; and whose resources and prompts are hostile. Each tool answers with its arguments.
import { createInterface } from "node:readline";

const ATTACK = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;
const HIDDEN = "safe\u202egpj.exe\u200b\u001b[31m";
const SVG = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"/>`).toString("base64");
const WAV = Buffer.concat([Buffer.from("RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\b\0data\0\0\0\0", "latin1")]).toString("base64");

const rich = {
  type: "object",
  $defs: {
    address: { type: "object", properties: { street: { type: "string" }, zip: { type: "string", pattern: "^[0-9]{5}$" } }, required: ["street"] },
    tree: { type: "object", properties: { label: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } } },
  },
  properties: {
    title: { type: "string", description: "What it is called", minLength: 1 },
    count: { type: "integer", minimum: 1, default: 3 },
    ratio: { type: ["number", "null"] },
    urgent: { type: "boolean" },
    colour: { enum: ["red", "green", 7, null] },
    home: { $ref: "#/$defs/address" },
    contact: { oneOf: [{ title: "By mail", type: "object", properties: { kind: { const: "mail" }, to: { type: "string" } }, required: ["kind", "to"] }, { title: "By phone", type: "object", properties: { kind: { const: "phone" }, number: { type: "string" } }, required: ["kind", "number"] }] },
    matrix: { type: "array", items: { type: "array", items: { type: "number" } } },
    labels: { type: "object", additionalProperties: { type: "string" } },
    tree: { $ref: "#/$defs/tree" },
    nothing: { anyOf: [{ type: "string" }, { type: "null" }] },
    other: {},
    elsewhere: { $ref: "https://example.com/schema.json" },
  },
  required: ["title"],
};
// For a model: one tool, with a schema that it can have.
const isPlain = process.argv.includes("--plain");
if (isPlain) delete rich.properties.elsewhere;
const wide = { type: "object", properties: Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`property_${index}`, { type: "string" }])), required: ["property_4321"] };
const levels = process.argv.includes("--too-deep") ? 1000 : 50;
const deep = Array.from({ length: levels }).reduce((inner) => ({ type: "object", properties: { a: inner }, required: ["a"] }), { type: "string" });
const evil = { type: "object", properties: { [`${ATTACK}${HIDDEN}`]: { type: "string", title: ATTACK, description: `${ATTACK}${HIDDEN}`, default: HIDDEN }, choice: { enum: [ATTACK, HIDDEN] }, __proto__x: { type: "string" } }, required: [`${ATTACK}${HIDDEN}`] };
const endless = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, type: "object" };
const needy = { type: "object", $defs: { a: { type: "object", properties: { a: { $ref: "#/$defs/a" } }, required: ["a"] } }, properties: { a: { $ref: "#/$defs/a" } }, required: ["a"] };

// Icons that are no pictures which a page shows.
const odd = [`data:image/svg+xml;base64,${SVG}`, `data:text/html;base64,${SVG}`, `data:image/png,${ATTACK}`, `data:image/png;base64,${ATTACK}`, `data:image/png;base64,${"A".repeat(300_000)}`, "blob:http://127.0.0.1:1/x", "file:///etc/passwd", "http://127.0.0.1:1/x.png", "/icon.svg", "", 7, null, { src: "x" }];
const tool = (name, inputSchema, more = {}) => ({ name, description: `Answers with its arguments: ${name}`, inputSchema, ...more });
const tools = [
  tool("rich", rich, { title: "Rich form", annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true } }),
  tool("checked", { type: "object", properties: { title: { type: "string", minLength: 1 }, count: { type: "integer", minimum: 1 } }, required: ["title"] }),
  tool("wide", wide),
  tool("deep", deep),
  tool("evil", evil, { title: `${ATTACK}${HIDDEN}`, description: `${ATTACK}${HIDDEN}`, icons: [{ src: "javascript:alert(4)" }, { src: `data:image/svg+xml;base64,${SVG}` }, { src: "//127.0.0.1:1/x.png" }] }),
  tool("endless", endless),
  tool("needy", needy),
  tool("large", { type: "object" }),
  tool("nested", { type: "object" }),
  tool("structured", { type: "object" }),
  tool("media", { type: "object" }),
  tool("pictured", { type: "object" }, { icons: odd.map((src) => ({ src, mimeType: "image/png", sizes: ATTACK })) }),
  tool("lying", { type: "object" }, { icons: [{ src: `data:image/png;base64,${SVG}` }] }),
  tool("wrong", { type: "object" }, { outputSchema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } }),
];

const large = () => "x".repeat(10 * 1024 * 1024);
const nested = () => `${'{"a":'.repeat(1000)}1${"}".repeat(1000)}`;
const text = (value) => ({ content: [{ type: "text", text: value }] });
const results = {
  large: () => text(large()),
  nested: () => text(nested()),
  structured: () => ({ ...text("{}"), structuredContent: JSON.parse(nested()) }),
  media: () => ({
    content: [
      { type: "image", mimeType: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGUlEQVR4nGNgGAWjYBSMglEwCkbBKBgeAAAEEAABhT4i/gAAAABJRU5ErkJggg==" },
      { type: "image", mimeType: "image/svg+xml", data: SVG },
      { type: "audio", mimeType: "audio/wav", data: WAV },
      { type: "audio", mimeType: "text/html", data: SVG },
      { type: "resource", resource: { uri: "bin://x", mimeType: "application/octet-stream", blob: "AAEC/w==" } },
      { type: "resource_link", uri: "javascript:alert(5)", name: ATTACK, description: HIDDEN },
      { type: "resource_link", uri: "https://example.com/x", name: "elsewhere" },
    ],
    structuredContent: { [ATTACK]: HIDDEN },
  }),
  wrong: () => ({ ...text('{"n":"one"}'), structuredContent: { n: "one" } }),
};

const resources = [
  { uri: `evil://${ATTACK}`, name: `${ATTACK}${HIDDEN}`, title: ATTACK, description: HIDDEN, mimeType: ATTACK },
  { uri: "bin://picture", name: "picture", mimeType: "image/png" },
  { uri: "bin://drawing", name: "drawing", mimeType: "image/svg+xml" },
  { uri: "bin://data", name: "data", mimeType: "application/octet-stream", size: 4 },
  { uri: "bin://sound", name: "sound", mimeType: "audio/wav" },
  { uri: "bin://lie", name: "lie", mimeType: "image/png" },
  { uri: "bin://large", name: "large", mimeType: "text/plain", size: -1, description: "y".repeat(100_000) },
  { uri: "bin://nested", name: "nested", mimeType: "application/json" },
];
const contents = (uri) => {
  if (uri === "bin://picture") return [{ uri, mimeType: "image/png", blob: results.media().content[0].data }];
  if (uri === "bin://drawing") return [{ uri, mimeType: "image/svg+xml", text: `<svg onload="alert(6)"/>` }];
  if (uri === "bin://sound") return [{ uri, mimeType: "audio/wav", blob: WAV }];
  if (uri === "bin://lie") return [{ uri, mimeType: "image/png", blob: SVG }];
  if (uri === "bin://large") return [{ uri, mimeType: "text/plain", text: large() }];
  if (uri === "bin://nested") return [{ uri, mimeType: "application/json", text: nested() }];
  if (uri === "bin://data") return [{ uri, mimeType: "application/octet-stream", blob: "AAEC/w==" }];
  return [{ uri, mimeType: "text/html", text: `${ATTACK}${HIDDEN}` }];
};
const bulky = [large(), nested()].map((value) => ({ role: "user", content: { type: "text", text: value } }));
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} }, serverInfo: { name: "schemas", version: "1" } }),
  "tools/list": () => ({ tools: isPlain ? tools.slice(0, 1) : tools }),
  "tools/call": ({ name, arguments: given }) => results[name]?.() ?? text(JSON.stringify(given ?? null)),
  "resources/list": () => ({ resources }),
  "resources/templates/list": () => ({ resourceTemplates: [{ uriTemplate: "evil://{name}/{+path}{?q}", name: `${ATTACK}template`, description: HIDDEN }] }),
  "resources/read": ({ uri }) => ({ contents: contents(uri) }),
  "prompts/list": () => ({ prompts: [{ name: "evil", title: ATTACK, description: HIDDEN, arguments: [{ name: ATTACK, description: HIDDEN, required: true }] }, { name: "endless", description: "z".repeat(100_000) }] }),
  "prompts/get": ({ name, arguments: given }) => ({ messages: name === "endless" ? bulky : [{ role: "user", content: { type: "text", text: `${ATTACK}${HIDDEN}${JSON.stringify(given)}` } }, { role: ATTACK, content: [{ type: "image", mimeType: "image/svg+xml", data: SVG }] }] }),
  "completion/complete": () => ({ completion: { values: [ATTACK, HIDDEN, "plain"] } }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  const answer = answers[method] ? { result: answers[method](params ?? {}) } : { error: { code: -32601, message: "method not found" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});
