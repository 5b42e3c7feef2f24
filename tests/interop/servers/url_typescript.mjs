// A server of 2025-11-25 on the TypeScript SDK 1.x, over stdio. Its tool `connect` is refused with
// `URLElicitationRequiredError` until the file of the command line exists; then the server announces the completion.
//
//     url_typescript.mjs FILE
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const load = (name) => import(pathToFileURL(peers.resolve(name)).href);
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { UrlElicitationRequiredError } = await load("@modelcontextprotocol/sdk/types.js");

const file = process.argv[2];
const elicitationId = "connection-1";
const server = new McpServer({ name: "url", version: "1" });
let completed = false;
let calls = 0;

server.registerTool("connect", { description: "Connect an account" }, async () => {
  calls += 1;
  if (completed) return { content: [{ type: "text", text: `connected in call ${calls}` }] };
  const announce = server.server.createElicitationCompletionNotifier(elicitationId);
  const timer = setInterval(async () => {
    if (!existsSync(file)) return;
    clearInterval(timer);
    completed = true;
    await announce();
  }, 20);
  const message = "Connect your account";
  throw new UrlElicitationRequiredError([{ mode: "url", elicitationId, url: "https://account.example/connect", message }]);
});

await server.connect(new StdioServerTransport());
