// The client of the TypeScript SDK 1.x, which declares sampling (`declares`), roots (URIs) and elicitation (values of a form) or
// does not: lists tools and calls one that asks.
//
//     answering_typescript.mjs '{"url", "key", "declares", "roots", "form", "call"}'
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { Client } = peers("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = peers("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = peers("@modelcontextprotocol/sdk/types.js");

const plan = JSON.parse(process.argv[2]);
const capabilities = {};
if (plan.declares) capabilities.sampling = {};
if (plan.roots) capabilities.roots = {};
if (plan.form) capabilities.elicitation = {};
const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities });
if (plan.roots) {
  client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: plan.roots.map((uri) => ({ uri })) }));
}
if (plan.form) {
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: plan.form }));
}
if (plan.declares) {
  client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => ({
    role: "assistant",
    model: "none",
    content: { type: "text", text: `heard ${[params.messages[0].content].flat()[0].text}` },
  }));
}
const headers = { authorization: `Bearer ${plan.key}` };
const transport = new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } });
await client.connect(transport);
const tools = (await client.listTools()).tools.map(({ name }) => name);
const [name, args] = plan.call;
const said = await client.callTool({ name, arguments: args }).then(
  (result) => result.content[0].text,
  (error) => `error: ${error.message}`,
);
await client.close();
console.log(JSON.stringify({ tools, said }));
