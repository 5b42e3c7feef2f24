// A server with sessions on the TypeScript SDK 2.x, over HTTP. Each session has its own counter; a request with an unknown
// session id is answered with 404. Prints `listening on <url>`.
//
//     counting_typescript.mjs
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const load = (name) => import(pathToFileURL(peers.resolve(name)).href);
const { McpServer, WebStandardStreamableHTTPServerTransport, fromJsonSchema } = await load("@modelcontextprotocol/server");

function build() {
  let count = 0;
  const server = new McpServer({ name: "counting", version: "1" }, { capabilities: { tools: {} } });
  const inputSchema = fromJsonSchema({ type: "object", properties: {} });
  server.registerTool("count", { description: "Adds one", inputSchema }, () => {
    count += 1;
    return { content: [{ type: "text", text: `${count}` }] };
  });
  return server;
}

const sessions = new Map();
let handshakes = 0;

async function begin() {
  handshakes += 1;
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => crypto.randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await build().connect(transport);
  return transport;
}

async function respond(request) {
  const id = request.headers.get("mcp-session-id");
  if (id && !sessions.has(id)) return new Response("unknown session", { status: 404 });
  return (sessions.get(id) ?? (await begin())).handleRequest(request);
}

async function answer(incoming, outgoing) {
  const body = incoming.method === "POST" ? await Readable.toWeb(incoming) : undefined;
  const { method, headers } = incoming;
  const response = await respond(new Request(`http://127.0.0.1${incoming.url}`, { method, headers, body, duplex: "half" }));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (!response.body) return outgoing.end();
  const reading = Readable.fromWeb(response.body);
  outgoing.on("close", () => reading.destroy());
  reading.on("error", () => outgoing.destroy()).pipe(outgoing);
}

const server = createServer((incoming, outgoing) => {
  // For the test: how many sessions there are, and how many handshakes there were.
  const counts = JSON.stringify({ sessions: sessions.size, handshakes });
  if (incoming.url === "/counts") return outgoing.writeHead(200, { "content-length": counts.length }).end(counts);
  answer(incoming, outgoing).catch((error) => outgoing.destroy(error));
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
