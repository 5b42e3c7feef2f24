// A server on the TypeScript SDK, over HTTP with a session, whose tools have icons: one a plain picture, others odd.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const installed = createRequire(new URL("../../../.interop/package.json", import.meta.url));
const { Server } = installed("@modelcontextprotocol/sdk/server/index.js");
const { StreamableHTTPServerTransport } = installed("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { ListToolsRequestSchema } = installed("@modelcontextprotocol/sdk/types.js");

const PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGUlEQVR4nGNgGAWjYBSMglEwCkbBKBgeAAAEEAABhT4i/gAAAABJRU5ErkJggg==";
const odd = { script: "javascript:alert(1)", remote: "https://127.0.0.1:1/icon.png", drawn: `data:image/svg+xml;base64,${Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>').toString("base64")}` };
const tool = (name, src) => ({ name, title: `The ${name}`, description: `Does what ${name} does`, inputSchema: { type: "object" }, annotations: { readOnlyHint: true }, icons: [{ src }] });

export async function startIcons() {
  const transports = new Map();
  const http = createServer(async (request, response) => {
    const known = transports.get(request.headers["mcp-session-id"]);
    if (known) return known.handleRequest(request, response);
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => transports.set(id, transport) });
    const server = new Server({ name: "pictured", title: "Pictured", version: "1.2.3", icons: [{ src: PICTURE }] }, { capabilities: { tools: {} }, instructions: "Look at the pictures." });
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [tool("plain", PICTURE), ...Object.entries(odd).map(([name, src]) => tool(name, src))] }));
    await server.connect(transport);
    await transport.handleRequest(request, response);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${http.address().port}/mcp`, close: () => http.closeAllConnections() ?? http.close() };
}
