// A server of 2025-11-25 on the TypeScript SDK 1.x, over stdio, which runs its own loop: its tool lets the client's model call
// a tool of the server until the model answers with text.
//
//     looping_typescript.mjs
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const { McpServer } = peers("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = peers("@modelcontextprotocol/sdk/server/stdio.js");

const server = new McpServer({ name: "looping", version: "1" }, { capabilities: { tools: {} } });
const add = {
  name: "add",
  description: "Add two numbers",
  inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
};

server.registerTool("solve", { description: "Let a model add 2 and 3" }, async () => {
  const messages = [{ role: "user", content: { type: "text", text: "What is 2 and 3? Use the tool." } }];
  const used = [];
  for (let round = 0; round < 5; round += 1) {
    const answer = await server.server.createMessage({
      messages,
      maxTokens: 200,
      systemPrompt: "You are exact.",
      tools: [add],
      toolChoice: { mode: round === 0 ? "required" : "auto" },
    });
    const blocks = [answer.content].flat();
    const calls = blocks.filter(({ type }) => type === "tool_use");
    if (calls.length === 0) {
      const text = `${answer.stopReason} after ${used.join(", ")}: ${blocks.map((block) => block.text).join("")}`;
      return { content: [{ type: "text", text }] };
    }
    messages.push({ role: "assistant", content: calls });
    const results = calls.map(({ id, name, input }) => {
      used.push(`${name}(${input.a}, ${input.b})`);
      return { type: "tool_result", toolUseId: id, content: [{ type: "text", text: String(input.a + input.b) }] };
    });
    messages.push({ role: "user", content: results });
  }
  throw new Error("the model does not end");
});

await server.connect(new StdioServerTransport());
