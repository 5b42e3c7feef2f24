// A stdio server on the TypeScript SDK whose tool runs as a task, and reports how far it is by progress notifications.
import { createRequire } from "node:module";

const installed = createRequire(new URL("../../../.interop/package.json", import.meta.url));
const { McpServer } = installed("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = installed("@modelcontextprotocol/sdk/server/stdio.js");
const { InMemoryTaskStore } = installed("@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js");
const { z } = installed("zod");

const STEPS = 10;
const server = new McpServer({ name: "progress", version: "1.0.0" }, { capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }, taskStore: new InMemoryTaskStore() });

server.experimental.tasks.registerToolTask(
  "paint",
  { description: "Paints a wall, in ten steps", inputSchema: { pause: z.number().default(300), until: z.number().default(10) }, execution: { taskSupport: "required" }, annotations: { readOnlyHint: true } },
  {
    createTask: async ({ pause, until }, extra) => {
      const task = await extra.taskStore.createTask({ ttl: 300_000, pollInterval: 1000 });
      paint(task.taskId, pause, until, extra).catch((error) => process.stderr.write(`${error}\n`));
      return { task };
    },
    getTask: (_, extra) => extra.taskStore.getTask(extra.taskId),
    getTaskResult: (_, extra) => extra.taskStore.getTaskResult(extra.taskId),
  },
);

// Stays where it is after the step `until`, unless that is the last one.
async function paint(taskId, pause, until, { taskStore, _meta }) {
  for (let step = 1; step <= until; step += 1) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    const { status } = await taskStore.getTask(taskId);
    if (status !== "working") return;
    const params = { progressToken: _meta?.progressToken ?? taskId, progress: step, total: STEPS, message: `coat ${step}` };
    await server.server.notification({ method: "notifications/progress", params: { ...params, _meta: { "io.modelcontextprotocol/related-task": { taskId } } } });
  }
  if (until === STEPS) await taskStore.storeTaskResult(taskId, "completed", { content: [{ type: "text", text: "The wall is painted." }] });
}

await server.connect(new StdioServerTransport());
