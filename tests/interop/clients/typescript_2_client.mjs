// The client package of the TypeScript SDK 2.x: lists, calls, answers server requests, listens. See `README.md` for the
// output.
//
//     typescript_2_client.mjs <plan>
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { Client, StreamableHTTPClientTransport } = peers("@modelcontextprotocol/client");

const plan = JSON.parse(process.argv[2]);
const manifest = new URL("../../../.interop/node_modules/@modelcontextprotocol/client/package.json", import.meta.url);
const did = { client: "@modelcontextprotocol/client", version: JSON.parse(readFileSync(manifest)).version };

const client = new Client(
  { name: "typescript-2", version: "1" },
  { capabilities: { elicitation: { form: {} }, sampling: {} }, versionNegotiation: { mode: plan.mode } },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  did.asked = params.message;
  return { action: "accept", content: plan.answer };
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => ({
  role: "assistant",
  model: "none",
  content: { type: "text", text: `heard ${[params.messages[0].content].flat()[0].text}` },
}));
const changed = new Promise((told, late) => {
  client.setNotificationHandler("notifications/tools/list_changed", async () => told(true));
  setTimeout(() => late(new Error("no news of the change")), 20_000).unref();
});
changed.catch(() => {});

const headers = plan.key ? { authorization: `Bearer ${plan.key}` } : {};
const transport = new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } });
await client.connect(transport);
did.revision = client.getNegotiatedProtocolVersion();
did.tools = (await client.listTools()).tools.length;
did.called = await call(plan.call);
did.elicited = await call(plan.elicit);
did.sampled = await call(plan.sample);
const end = await subscribe();
if (plan.change) {
  await call(plan.change);
  did.changed = await changed;
}
await end();
await client.close();
console.log(JSON.stringify(did));

// Subscribes in the form of the revision; returns a function that ends the subscription.
async function subscribe() {
  if (did.revision < "2026") {
    await client.subscribeResource({ uri: plan.watch });
    did.subscribed = "resources/subscribe";
    return () => client.unsubscribeResource({ uri: plan.watch });
  }
  const heard = await client.listen({ toolsListChanged: true, resourceSubscriptions: [plan.watch] });
  did.subscribed = "subscriptions/listen";
  return () => heard.close();
}

async function call([name, args]) {
  return (await client.callTool({ name, arguments: args })).content[0].text;
}
