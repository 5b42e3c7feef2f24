// A stdio server that tries to get into the page: markup, scripts, hidden characters, escape sequences, pictures with
// code, results of 10 MB, deep JSON, a task with a hostile message. `--tools N` adds plain tools. Written by hand, because an SDK would refuse some of it.
import { createInterface } from "node:readline";

const ATTACK = `<img src=x onerror="alert(1)"><script>alert(2)</script><svg onload=alert(3)>`;
const HIDDEN = "safe\u202egpj.exe\u200b\u2066\u001b[31m\u0007";
const SVG = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(4)"/>`).toString("base64");
const MARKDOWN = `# ${ATTACK}\n\n[click](javascript:alert(5)) [data](data:text/html,x) ![i](http://127.0.0.1:1/x.png)\n\n${HIDDEN}`;

const count = Number(process.argv[process.argv.indexOf("--tools") + 1] || 0);
const schema = { type: "object", properties: { [ATTACK]: { type: "string", description: ATTACK } } };
const wide = { type: "object", properties: Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`property_${index}`, { type: "string", title: ATTACK, description: HIDDEN }])) };
const nested = Array.from({ length: 50 }).reduce((inner) => ({ type: "object", properties: { a: inner } }), { type: "string" });
const cycle = { type: "object", $defs: { a: { type: "object", properties: { a: { $ref: "#/$defs/a" } } } }, properties: { a: { $ref: "#/$defs/a" } } };
const tool = (name, more = {}) => ({ name, description: `${ATTACK} ${HIDDEN}`, inputSchema: schema, ...more });
const tools = [
  tool("text", { title: `${ATTACK}${HIDDEN}`, annotations: { readOnlyHint: true } }),
  tool("destroy", { title: `${ATTACK}${HIDDEN}`, annotations: { destructiveHint: true, title: HIDDEN } }),
  { name: "append", description: "Adds a line", inputSchema: { type: "object" }, annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false } },
  tool("large", { annotations: { readOnlyHint: true } }),
  tool("deep", { annotations: { readOnlyHint: true } }),
  tool("pictures", { annotations: { readOnlyHint: true } }),
  tool("ask", { annotations: { readOnlyHint: true } }),
  tool("open", { annotations: { readOnlyHint: true } }),
  tool("open_script", { annotations: { readOnlyHint: true } }),
  tool("ask_many", { annotations: { readOnlyHint: true } }),
  tool("ask_long", { annotations: { readOnlyHint: true } }),
  tool("ask_model", { annotations: { readOnlyHint: true } }),
  { name: "shapes", description: "Large schemas", inputSchema: wide, outputSchema: nested, annotations: { readOnlyHint: true } },
  { name: "cycles", description: "A schema that refers to itself", inputSchema: cycle, annotations: { readOnlyHint: true } },
  tool("task", { annotations: { readOnlyHint: true }, execution: { taskSupport: "required" } }),
  tool("fail", { annotations: { readOnlyHint: true } }),
  ...Array.from({ length: count }, (_, index) => ({ name: `plain_${index}`, description: `Plain tool number ${index}`, inputSchema: { type: "object" }, annotations: { readOnlyHint: true } })),
];

const deep = (depth) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
const text = (value) => ({ content: [{ type: "text", text: value }] });
const results = {
  text: () => text(MARKDOWN),
  destroy: () => text(MARKDOWN),
  large: () => text("x".repeat(10 * 1024 * 1024)),
  deep: () => text(deep(5000)),
  pictures: () => ({ content: [{ type: "image", mimeType: "image/svg+xml", data: SVG }, { type: "image", mimeType: "image/png", data: SVG }, { type: "image", mimeType: 'text/html"><script>', data: SVG }] }),
  fail: () => ({ ...text(`${ATTACK} ${HIDDEN}`), isError: true }),
};

// A task that never ends by itself.
const task = (status) => ({ taskId: "task-1", status, statusMessage: `${ATTACK} ${HIDDEN} ${"long ".repeat(4000)}`, createdAt: "2026-01-01T00:00:00Z", lastUpdatedAt: "2026-01-01T00:00:00Z", ttl: 60_000, pollInterval: 1000 });

const waiting = new Map();
let asked = 0;

// Requests that are too much for a page, or for a person.
const requests = {
  ask_many: () => ({ method: "elicitation/create", params: { message: MARKDOWN, requestedSchema: wide } }),
  ask_long: () => ({ method: "elicitation/create", params: { message: `${MARKDOWN}${"long ".repeat(400_000)}`, requestedSchema: { type: "object", properties: { name: { type: "string", title: "t".repeat(100_000), description: "d".repeat(100_000), default: HIDDEN } } } } }),
  ask_model: () => ({ method: "sampling/createMessage", params: { systemPrompt: MARKDOWN, maxTokens: 10, stopSequences: [HIDDEN], messages: [{ role: "user", content: { type: "text", text: `${MARKDOWN}${"long ".repeat(200_000)}` } }, { role: "assistant", content: { type: "text", text: ATTACK } }] } }),
};
const addresses = { open: "https://аррӏе.example/pay?a=<b>", open_script: "javascript:alert(7)" };

function ask(id, tool) {
  const request = `ask-${++asked}`;
  waiting.set(request, id);
  if (requests[tool]) return send({ id: request, ...requests[tool]() });
  const url = addresses[tool];
  if (url) return send({ id: request, method: "elicitation/create", params: { mode: "url", message: MARKDOWN, url, elicitationId: request } });
  const properties = { name: { type: "string", title: ATTACK, description: HIDDEN }, choice: { type: "string", enum: [ATTACK, "b"], title: HIDDEN } };
  send({ id: request, method: "elicitation/create", params: { message: MARKDOWN, requestedSchema: { type: "object", properties, required: ["name"] } } });
}

function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

const icons = [{ src: `data:image/svg+xml;base64,${SVG}`, mimeType: "image/svg+xml" }, { src: "javascript:alert(6)" }, { src: "http://127.0.0.1:1/icon.png" }];
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }, instructions: `${MARKDOWN}${"long ".repeat(20_000)}`, serverInfo: { name: HIDDEN, title: `${ATTACK}${HIDDEN}`, version: ATTACK, description: `${ATTACK} ${HIDDEN}`, icons } }),
  "tools/list": () => ({ tools }),
  "tasks/get": () => task("working"),
  "tasks/cancel": () => task("cancelled"),
  ping: () => ({}),
};

process.stderr.write(`\u001b[31m${ATTACK}\u001b[0m\n`);
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) {
    const call = waiting.get(id);
    waiting.delete(id);
    if (call !== undefined) send({ id: call, result: text(JSON.stringify(result ?? error ?? null)) });
  } else if (method === "tools/call" && (params.name === "ask" || params.name in addresses || params.name in requests)) {
    ask(id, params.name);
  } else if (method === "tools/call" && params.task) {
    send({ id, result: { task: task("working") } });
  } else if (method === "tools/call") {
    send({ id, result: (results[params.name] ?? (() => text("ok")))() });
  } else if (id !== undefined) {
    send(answers[method] ? { id, result: answers[method](params ?? {}) } : { id, error: { code: -32601, message: "method not found" } });
  }
});
