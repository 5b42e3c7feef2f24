// A server of both eras on the TypeScript SDK 2.x, over HTTP, with the four tools of that SDK's own conformance server
// (`test/conformance/src/everythingServer.ts`, MIT) that send requests to the client. The SDK can send them only in a
// session, and a tool that cannot says so in its result. Its resource can be subscribed to in a session only. Prints
// `listening on <url>`.
//
//     pushing_typescript.mjs
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const load = (name) => import(pathToFileURL(peers.resolve(name)).href);
const { McpServer, WebStandardStreamableHTTPServerTransport, createMcpHandler, fromJsonSchema, isLegacyRequest } =
  await load("@modelcontextprotocol/server");

const form = (properties) => ({ type: "object", properties, required: [] });
const elicitation = (message, properties) => ({
  method: "elicitation/create",
  params: { message, requestedSchema: form(properties) },
});
const messages = [{ role: "user", content: { type: "text", text: "Say something" } }];

/** Each tool, and the request that it sends. */
const tools = {
  test_sampling: { method: "sampling/createMessage", params: { messages, maxTokens: 100 } },
  test_elicitation: elicitation("Who are you?", { name: { type: "string" } }),
  test_elicitation_sep1034_defaults: elicitation("Review the defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    verified: { type: "boolean", default: true },
  }),
  test_elicitation_sep1330_enums: elicitation("Select", {
    titledSingle: { type: "string", oneOf: [{ const: "value1", title: "First" }, { const: "value2", title: "Second" }] },
    untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2"] } },
  }),
};

function build(resources) {
  const server = new McpServer({ name: "pushing", version: "1" }, { capabilities: { tools: {}, resources } });
  server.registerResource("watched", "test://watched", {}, (uri) => ({ contents: [{ uri: uri.href, text: "one" }] }));
  for (const [name, request] of Object.entries(tools)) {
    const inputSchema = fromJsonSchema({ type: "object", properties: {} });
    server.registerTool(name, { description: request.method, inputSchema }, async (_arguments, context) => {
      const text = (value) => ({ content: [{ type: "text", text: value }] });
      try {
        return text(`answered: ${JSON.stringify(await context.mcpReq.send(request))}`);
      } catch (error) {
        return text(`not supported or error: ${error.message}`);
      }
    });
  }
  if (resources.subscribe) server.server.setRequestHandler("resources/subscribe", () => ({}));
  return server;
}

const stateless = createMcpHandler(() => build({}));
const sessions = new Map();

async function inSession(request) {
  const known = sessions.get(request.headers.get("mcp-session-id"));
  if (known) return known.handleRequest(request);
  const onsessioninitialized = (id) => void sessions.set(id, transport);
  const sessionIdGenerator = () => crypto.randomUUID();
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator, onsessioninitialized });
  await build({ subscribe: true }).connect(transport);
  return transport.handleRequest(request);
}

async function answer(incoming, outgoing) {
  const body = incoming.method === "POST" ? await Readable.toWeb(incoming) : undefined;
  const { method, headers } = incoming;
  const request = new Request(`http://127.0.0.1${incoming.url}`, { method, headers, body, duplex: "half" });
  const response = await ((await isLegacyRequest(request)) ? inSession(request) : stateless.fetch(request));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (!response.body) return outgoing.end();
  const reading = Readable.fromWeb(response.body);
  outgoing.on("close", () => reading.destroy());
  reading.on("error", () => outgoing.destroy()).pipe(outgoing);
}

const server = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch((error) => outgoing.destroy(error));
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
