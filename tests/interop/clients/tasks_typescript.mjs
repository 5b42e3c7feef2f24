// The client of the TypeScript SDK 1.x with tasks of 2025-11-25: one step of a story with the tasks of a server.
//
//     tasks_typescript.mjs '{"url", "key", "step", "call", "task"}'
//
// Steps: `walk` creates a task and gets its result, `start` creates one and leaves, `find` gets the result of `task` in a
// session of its own, `cancel` creates one and cancels it, `plain` calls without a task.
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { Client } = peers("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = peers("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CallToolResultSchema } = peers("@modelcontextprotocol/sdk/types.js");

const plan = JSON.parse(process.argv[2]);
const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities: {} });
const headers = { authorization: `Bearer ${plan.key}` };
const transport = new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } });
await client.connect(transport);
const tasks = client.experimental.tasks;
const [name, args] = plan.call;
const text = (result) => result.content[0].text;
const listed = async () => {
  const ids = [];
  let cursor;
  do {
    const page = await tasks.listTasks(cursor);
    ids.push(...page.tasks.map(({ taskId }) => taskId));
    cursor = page.nextCursor;
  } while (cursor);
  return ids;
};

// The SDK polls at the interval that the gateway names.
const stream = () => tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 120_000 } });
const created = async () => {
  for await (const message of stream()) {
    if (message.type === "taskCreated") return message.task.taskId;
    throw new Error(`a task was expected: ${JSON.stringify(message)}`);
  }
};

const steps = {
  async walk() {
    let task;
    const seen = [];
    for await (const message of stream()) {
      if (message.type === "taskCreated") task = message.task.taskId;
      if (message.type === "taskStatus") seen.push(message.task.status);
      if (message.type === "error") throw message.error;
      if (message.type === "result") {
        return { task, seen, listed: await listed(), text: text(message.result) };
      }
    }
  },
  async start() {
    return { task: await created() };
  },
  async find() {
    const before = await tasks.getTask(plan.task);
    const result = await tasks.getTaskResult(plan.task, CallToolResultSchema);
    const after = await tasks.getTask(plan.task);
    return { before: before.status, after: after.status, listed: await listed(), text: text(result) };
  },
  async cancel() {
    const task = await created();
    const cancelled = await tasks.cancelTask(task);
    return { task, cancelled: cancelled.status, after: (await tasks.getTask(task)).status };
  },
  async plain() {
    return { text: text(await client.callTool({ name, arguments: args })) };
  },
  async list() {
    return { listed: await listed() };
  },
};

const did = await steps[plan.step]();
await client.close();
console.log(JSON.stringify(did));
process.exit(0);
