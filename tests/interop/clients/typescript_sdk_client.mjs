// The client of the TypeScript SDK 1.x: lists, calls, answers server requests, subscribes. See `README.md` for the
// output.
//
//     typescript_sdk_client.mjs <plan>
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { Client } = peers("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = peers("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = peers("@modelcontextprotocol/sdk/types.js");

const plan = JSON.parse(process.argv[2]);
const manifest = new URL("../../../.interop/node_modules/@modelcontextprotocol/sdk/package.json", import.meta.url);
const did = { client: "@modelcontextprotocol/sdk", version: JSON.parse(readFileSync(manifest)).version };

const client = new Client(
  { name: "typescript-sdk", version: "1" },
  { capabilities: { elicitation: { form: {} }, sampling: {} } },
);
client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) => {
  did.asked = params.message;
  return { action: "accept", content: plan.answer };
});
client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }) => ({
  role: "assistant",
  model: "none",
  content: { type: "text", text: `heard ${[params.messages[0].content].flat()[0].text}` },
}));
const changed = new Promise((told, late) => {
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, async () => told(true));
  setTimeout(() => late(new Error("no news of the change")), 20_000).unref();
});
changed.catch(() => {});

const headers = plan.key ? { authorization: `Bearer ${plan.key}` } : {};
const transport = new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } });
await client.connect(transport);
did.revision = transport.protocolVersion;
did.tools = (await client.listTools()).tools.length;
did.called = await call(plan.call);
did.elicited = await call(plan.elicit);
did.sampled = await call(plan.sample);
await client.subscribeResource({ uri: plan.watch });
did.subscribed = "resources/subscribe";
if (plan.change) {
  await call(plan.change);
  did.changed = await changed;
}
await client.unsubscribeResource({ uri: plan.watch });
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(did));

async function call([name, args]) {
  return (await client.callTool({ name, arguments: args })).content[0].text;
}
