// The client of the TypeScript SDK 1.x, which declares sampling or does not: lists tools and calls one that asks a model.
//
//     sampling_typescript.mjs '{"url", "key", "declares", "call"}'
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { Client } = peers("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = peers("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CreateMessageRequestSchema } = peers("@modelcontextprotocol/sdk/types.js");

const plan = JSON.parse(process.argv[2]);
const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities: plan.declares ? { sampling: {} } : {} });
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
