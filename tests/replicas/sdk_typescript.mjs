// A load of the client of the TypeScript SDK 2.x: calls until its standard input ends, and prints a line for each call.
// Plan and lines are those of `sdk_python.py`.
//
//     sdk_typescript.mjs PLAN
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../.interop/peers.js", import.meta.url));
const { Client, StreamableHTTPClientTransport } = peers("@modelcontextprotocol/client");

const plan = JSON.parse(process.argv[2]);
// Milliseconds that a call may take.
const PATIENCE = 20_000;
const CALLS_OF_A_CONNECTION = 40;
let ended = false;
process.stdin.on("end", () => (ended = true)).resume();
// A connection that fails in the background is noticed by the next call.
process.on("unhandledRejection", (error) => console.error(`${plan.name}: ${error}`));

let number = 0;
while (!ended) {
  const client = new Client(
    { name: "load", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: plan.era === "2025" ? "legacy" : "auto" } },
  );
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { sure: true } }));
  try {
    const headers = { authorization: `Bearer ${plan.key}` };
    await client.connect(new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } }));
    for (let calls = 0; calls < CALLS_OF_A_CONNECTION && !ended; calls += 1) {
      if ((await call(client)) === "lost") break;
    }
  } catch (error) {
    console.error(`${plan.name}: ${error}`);
    await new Promise((resume) => setTimeout(resume, 200));
  }
  await client.close().catch(() => {});
}
process.exit(0);

async function call(client) {
  number += 1;
  const id = `${plan.name}-${number}`;
  const server = plan.servers[number % plan.servers.length];
  const tool = number % 7 === 0 && plan.asking.includes(server) ? "ask" : "act";
  const attempt = { sent: now() };
  try {
    const args = { id, afterMs: number % 5 === 0 ? 40 : 0 };
    const result = await client.callTool({ name: `${server}__${tool}`, arguments: args }, { timeout: PATIENCE });
    attempt.said = result._meta?.["toolway/outcome"] ?? "answered";
    attempt.text = result.content.map((part) => part.text).join(" ");
  } catch (error) {
    attempt.said = error.data?.outcome ?? "lost";
    attempt.text = String(error);
  }
  attempt.ended = now();
  console.log(JSON.stringify({ id, era: `${plan.era} typescript`, server, tool, attempts: [attempt] }));
  return attempt.said;
}

// Seconds of the clock that the witness uses, too.
function now() {
  return Number(process.hrtime.bigint()) / 1e9;
}
