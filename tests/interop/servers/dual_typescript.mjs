// A server of both eras on the TypeScript SDK 2.x, over stdio: its tool asks the client with a request of its own, which
// the SDK can send only in a session.
//
//     dual_typescript.mjs
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const load = (name) => import(pathToFileURL(peers.resolve(name)).href);
const { McpServer, fromJsonSchema } = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");

const form = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

serveStdio(() => {
  const server = new McpServer({ name: "dual", version: "1" }, { capabilities: { tools: {} } });
  const nothing = fromJsonSchema({ type: "object", properties: {} });
  server.registerTool("greet", { description: "Ask for a name", inputSchema: nothing }, async (_arguments, context) => {
    const answer = await context.mcpReq.elicitInput({ mode: "form", message: "Who are you?", requestedSchema: form });
    return { content: [{ type: "text", text: `hello ${answer.content?.name}` }] };
  });
  return server;
});
