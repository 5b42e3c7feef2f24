// Every screen with axe-core: light and dark, wide and narrow; and its pictures, kept with UPDATE_IMAGES=1.
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { launch, until, Window } from "../browser.mjs";
import { conformance, CRASHES, everything, NOTES, offers, Program, SAMPLE, say, schemas } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

const IMAGES = new URL("../../../docs/images/", import.meta.url);
const scripts = {
  small: { turns: [{ text: "A light grey." }] },
  painter: { turns: [{ text: "I paint the wall.", calls: [{ tool: "walls__paint", arguments: { pause: 20, until: 4 } }] }, { text: "It has begun. I tell you when it is done." }] },
  lunch: { turns: [{ text: "I ask the server for the menu.", calls: [{ tool: "notes__order_lunch" }] }, { text: "{{result}}" }] },
  demo: {
    turns: [
      { text: "I look at the notes first.", calls: [{ tool: "notes__list_notes" }] },
      { text: "There is a note for this week. I add the milk to it.", calls: [{ tool: "notes__write_note", arguments: { name: "shopping", text: "- bread\n- milk" } }] },
      { text: "Done. The note **shopping** now reads:\n\n- bread\n- milk\n\n| note | changed |\n|---|---|\n| `shopping` | just now |" },
    ],
  },
};
const assistants = {
  librarian: { description: "Keeps the notes, and asks before it changes one.", model: "demo", system: "You keep the notes.", servers: ["notes"], approval: "trusted-only", trustedTools: ["notes.list_*", "notes.read_*"] },
  planner: { description: "Plans the week.", servers: ["notes", "weather"], budgets: { maxToolCalls: 20, maxTime: "10m" } },
};
let browser, program, client, tickets;

before(async () => {
  tickets = await startSigned();
  const servers = { tickets: { url: tickets.url }, notes: NOTES, sample: SAMPLE, jobs: { ...conformance(), includeTools: ["long_job"], trust: "full" }, weather: CRASHES, odd: schemas("--plain"), every: { ...everything(), trust: "full" }, walls: { command: process.execPath, args: [fileURLToPath(new URL("../servers/progress.mjs", import.meta.url))] }, archive: { ...SAMPLE, disabled: true } };
  [browser, program] = await Promise.all([launch(), Program.start({ servers, scripts, policy: { mode: "writes" }, settings: { assistants, defaultModel: "small", sampling: { allow: "ask", tokensPerDay: 1000 } }, indent: 2 })]);
  await mkdir(join(program.home, ".cursor"));
  const files = { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] };
  await writeFile(join(program.home, ".cursor/mcp.json"), JSON.stringify({ mcpServers: { files, issues: { url: "https://issues.example/mcp", headers: { authorization: "Bearer sk-0123456789abcdef0123456789abcdef" } }, notes: NOTES } }));
  client = await program.client("claude-code");
  const offered = async () => JSON.stringify(await client.request("tools/list", {}));
  for (const tool of ["notes__write_note", "sample__echo", "jobs__long_job", "odd__rich", "every__trigger-sampling-request"]) await until(async () => (await offered()).includes(tool), `${tool} is offered`);
  for (const text of ["a", "b", "c", "d"]) await client.call("sample__echo", { text });
  await client.call("sample__fail");
  await client.call("sample__picture");
  await client.call("notes__list_notes");
  await client.call("sample__add", { a: 20, b: 22 });
  await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 0.1 }, task: { ttl: 60_000 } });
  await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 600 }, task: { ttl: 60_000 } });
  await chat();
  await paint();
  const first = client.call("sample__write_memo", { text: "Release on Thursday." });
  await program.run("inbox", "answer", await until(async () => (await program.run("inbox", "list", "-o", "raw")).trim(), "the call waits"));
  await first;
  // Both wait until the end of the stories.
  client.call("sample__write_memo", { text: "Release on Thursday, freeze on Tuesday." }).catch(() => {});
  await order();
});
after(async () => {
  await browser?.close();
  await program?.stop();
  tickets?.close();
});

let conversation, painting;

// A conversation that waits for a form.
async function order() {
  const window = await Window.open(browser, program);
  await say(window, "lunch", "Order lunch for me");
  await window.page.getByRole("dialog").waitFor();
  await window.close();
}

// A conversation with a task that goes on.
async function paint() {
  const window = await Window.open(browser, program);
  await offers(window, "walls", "paint");
  await say(window, "painter", "Paint the wall, please", "allow");
  await window.see("It has begun.");
  await window.page.locator(".task-line").getByText("40 %").waitFor();
  painting = new URL(window.page.url()).hash;
  await window.close();
}

async function chat() {
  const window = await Window.open(browser, program);
  await say(window, "demo", "Put milk on my shopping list");
  await window.page.getByRole("dialog").getByRole("button", { name: "Allow once" }).click();
  await window.page.locator(".markdown td").first().waitFor();
  await window.button("Send").waitFor();
  conversation = new URL(window.page.url()).hash;
  await window.close();
}

// What a screen began, ended after its check.
const ends = [];

const SCREENS = {
  servers: async (window) => {
    await window.show("#/servers/sample");
    await window.page.locator(".tool-row").first().waitFor();
  },
  "server-failed": async (window) => {
    await window.show("#/servers/weather");
    await window.page.locator(".problem").waitFor();
  },
  "sign-in": async (window) => {
    await window.show("#/servers/tickets");
    await window.button("Authorize").click();
    await window.page.locator(".sign-in .address").waitFor();
  },
  tool: async (window) => {
    await window.show("#/servers/sample");
    await window.page.locator(".tool-row", { hasText: "write_memo" }).click();
    await window.page.locator(".drawer .arguments").waitFor();
  },
  add: async (window) => {
    await window.show("#/add");
    await window.page.getByLabel("Snippet, command or URL").fill("npx -y @modelcontextprotocol/server-everything");
    await window.page.getByRole("checkbox", { name: "Run this program" }).check();
    await window.page.getByLabel("Snippet, command or URL").evaluate((box) => box.closest("main").scrollTo(0, 0));
  },
  "add-oauth": async (window) => {
    await window.show("#/servers");
    await window.show("#/add");
    await window.page.getByLabel("Snippet, command or URL").fill(tickets.url);
    await window.page.locator(".difference").waitFor();
    await window.page.getByText("Endpoints, instead of those discovered").click();
    await window.page.getByLabel("Authentication", { exact: true }).evaluate((list) => list.closest("section").scrollIntoView({ block: "start" }));
  },
  tested: async (window) => {
    await window.page.getByRole("checkbox", { name: "Connect to" }).check();
    await window.button("Test connection").click();
    await window.see("It answers, and requires a sign-in.");
  },
  edit: async (window) => {
    await window.show("#/edit/notes");
    await window.page.getByLabel("Description", { exact: true }).fill("My notes");
    for (const title of await window.page.locator(".form-groups > details > summary").all()) await title.click();
    await window.button("Root").click();
    await window.page.locator(".difference").waitFor();
  },
  remove: async (window) => {
    await window.show("#/servers/notes");
    await window.button("Remove").click();
    await window.page.getByRole("dialog").waitFor();
    ends.push(() => window.page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click());
  },
  import: async (window) => {
    await window.show("#/import");
    await window.page.getByRole("checkbox", { name: /^issues/ }).check();
  },
  "server-parts": async (window) => {
    await window.show("#/servers/notes");
    await window.page.locator(".recent-call").first().waitFor({ state: "attached" });
    for (const part of await window.page.locator(".folds summary:visible").all()) await part.click();
  },
  assistants: async (window) => {
    await window.show("#/assistants");
    await window.see("Plans the week.");
  },
  assistant: async (window) => {
    await window.show("#/edit-assistant/librarian");
    await window.page.locator(".import-row summary").first().click();
    await window.page.getByLabel("Offered: write_note").uncheck();
    await window.page.locator(".difference .added").first().waitFor();
    await window.page.locator(".import-group").evaluate((list) => list.scrollIntoView({ block: "start" }));
  },
  tools: async (window) => {
    await window.show("#/tools/sample/add");
    await window.page.getByLabel(/^a /).fill("20");
    await window.page.getByLabel(/^b /).fill("22");
    await window.button("Run").click();
    await window.page.locator(".run .pill", { hasText: "Succeeded" }).waitFor();
  },
  "tool-form": async (window) => {
    await window.show("#/tools/odd/rich");
    await window.page.getByLabel(/^title /).fill("Party");
    for (const begin of (await window.page.getByRole("button", { name: "Fill in", exact: true }).all()).slice(0, 3).reverse()) await begin.click();
    await window.page.getByRole("heading", { name: "Rich form" }).scrollIntoViewIfNeeded();
  },
  "tool-json": async (window) => {
    await window.button("JSON").click();
    await window.page.getByRole("textbox", { name: "Arguments as JSON" }).waitFor();
  },
  resources: async (window) => {
    await window.show("#/resources/sample/memo%3A%2F%2Ftoday");
    await window.button("Read").click();
    await window.page.locator(".run .plain").waitFor();
  },
  prompts: async (window) => {
    await window.show("#/prompts/sample/introduce?arg.name=Ada");
    await window.button("Preview").click();
    await window.page.locator(".run .plain").waitFor();
  },
  calls: async (window) => {
    await window.show("#/calls");
    await window.page.locator(".call-row").nth(6).waitFor();
  },
  "calls-filtered": async (window) => {
    await window.show("#/calls?since=dates&from=2026-01-01&server=sample");
    await window.page.locator(".call-row").nth(2).waitFor();
    const opener = window.button("Filters (2)");
    if (await opener.isVisible()) await opener.click();
    await window.page.getByLabel("First day").waitFor();
  },
  tasks: async (window) => {
    await window.show("#/tasks");
    await window.page.locator(".task-row").nth(1).waitFor();
  },
  task: async (window) => {
    await window.page.locator(".task-row").first().click();
    await window.page.locator(".drawer .facts").waitFor();
  },
  call: async (window) => {
    // The newest one, so that it is in view.
    await client.call("sample__picture");
    await window.show("#/calls");
    await window.page.locator(".call-row", { hasText: "picture" }).first().click();
    await window.page.locator(".picture").waitFor();
  },
  inbox: async (window) => {
    await window.show("#/inbox");
    await window.page.locator(".item").nth(1).waitFor();
    await until(async () => (await window.page.locator(".item button:disabled").count()) === 0, "the buttons are enabled");
  },
  "inbox-sampling": async (window) => {
    // Its server waits for a minute.
    const answer = client.call("every__trigger-sampling-request", { prompt: "Name a colour that goes with the walls.", maxTokens: 50 });
    const id = await window.page.locator(".item.sampling").getAttribute("data-item");
    await window.show(`#/inbox/${id}`);
    await window.button("Let the model answer once").and(window.page.locator(":enabled")).waitFor();
    ends.push(async () => {
      await window.page.locator(".item.sampling").getByRole("button", { name: "No", exact: true }).click();
      await answer;
      await window.show("#/inbox");
    });
  },
  "inbox-always": async (window) => {
    await window.page.getByText("Change what it covers").click();
    await window.button("Always allow").click();
    await window.button("Yes, always").and(window.page.locator(":enabled")).waitFor();
  },
  "inbox-several": async (window) => {
    const second = client.call("sample__write_memo", { text: `${"x".repeat(2000)} the end` });
    await window.see("2 calls wait");
    await window.button("Decline all").and(window.page.locator(":enabled")).waitFor();
    ends.push(async () => {
      await window.page.locator(".item", { hasText: "2,008 characters" }).getByRole("button", { name: "No", exact: true }).click();
      await second;
      await window.see("Refused.");
      await window.page.evaluate(() => document.getElementById("toasts").replaceChildren());
    });
  },
  keys: async (window) => {
    await window.page.keyboard.press("?");
    await window.page.getByRole("dialog", { name: "Keys" }).waitFor();
    ends.push(() => window.page.keyboard.press("Escape"));
  },
  more: async (window) => {
    const more = window.button("More");
    if (await more.isVisible()) await more.click();
    ends.push(async () => {
      await window.page.keyboard.press("Escape");
      await window.page.evaluate(() => document.activeElement.blur());
    });
  },
  chat: async (window) => {
    await window.show(conversation);
    await window.page.locator(".markdown td").first().waitFor();
  },
  "chat-task": async (window) => {
    await window.show(painting);
    await window.page.locator(".task-line").getByText("40 %").waitFor();
    await window.page.locator('.composer input[type="file"]').setInputFiles({ name: "colours.txt", mimeType: "text/plain", buffer: Buffer.from("white, or a very light grey") });
    await window.page.locator(".composer .attached").getByText(/about \d+ tokens/).waitFor();
  },
  "chat-context": async (window) => {
    await window.page.locator(".meter summary").click();
    await window.page.locator(".meter-body dt").first().waitFor();
    ends.push(async () => {
      await window.page.keyboard.press("Escape");
      await window.page.getByRole("button", { name: "Remove colours.txt" }).click();
    });
  },
  "chat-new": async (window) => {
    await window.show("#/chat");
    await window.see("Talk to a model");
  },
  dialog: async (window) => {
    await say(window, "demo", "Put milk on my shopping list");
    await window.page.getByRole("dialog").getByRole("button", { name: "Allow once" }).and(window.page.locator(":enabled")).waitFor();
  },
};

async function keep(window, name) {
  if (!process.env.UPDATE_IMAGES || /^(tested|remove|keys|inbox-always|inbox-several|more)/.test(name)) return;
  await window.page.mouse.move(0, 0);
  const session = await window.context.newCDPSession(window.page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 72 });
  await mkdir(IMAGES, { recursive: true });
  await writeFile(new URL(`${name}.webp`, IMAGES), Buffer.from(data, "base64"));
}

const LOOKS = [["light", 1280, 800, ""], ["dark", 1280, 800, "-dark"], ["light", 360, 740, "-narrow"]];
if (process.env.UPDATE_IMAGES) LOOKS.push(["dark", 360, 740, "-narrow-dark"]);

for (const [scheme, width, height, suffix] of LOOKS) {
  test(`every screen is accessible: ${scheme}, ${width} pixels wide`, async () => {
    const window = await Window.open(browser, program, { scheme, width, height, bypassCSP: true });
    for (const [name, show] of Object.entries(SCREENS)) {
      await show(window);
      // What dark changes are the colours.
      assert.deepEqual(await window.violations(scheme === "dark" ? ["color-contrast"] : undefined), [], `${name}${suffix}`);
      const overflow = await window.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name}${suffix} is ${overflow} pixels too wide`);
      await keep(window, `${name}${suffix}`);
      for (const end of ends.splice(0)) await end();
    }
    await window.page.getByRole("dialog").getByRole("button", { name: "No", exact: true }).click();
    await window.button("Send").waitFor();
    await window.close();
  });
}

test("screens without content are accessible and say what to do", async (story) => {
  const bare = await Program.start({ servers: {} });
  story.after(() => bare.stop());
  const window = await Window.open(browser, bare, { bypassCSP: true });
  for (const [hash, words] of [["#/servers", "This server is a sample"], ["#/calls", "No calls yet"], ["#/tools", "Choose a tool"], ["#/resources", "Choose a resource"], ["#/prompts", "Choose a prompt"], ["#/tasks", "No tasks"], ["#/inbox", "Nothing waits for you"], ["#/chat", "No model is configured"], ["#/assistants", "No assistants yet"], ["#/add-assistant", "Add an assistant"]]) {
    await window.show(hash);
    await window.see(words);
    assert.deepEqual(await window.violations(), [], hash);
  }
  await window.close();
});

test("the theme is switched by hand and kept", async () => {
  const window = await Window.open(browser, program, { scheme: "light" });
  const paper = () => window.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await window.button("Use dark colours").click();
  const dark = await paper();
  assert.notEqual(dark, light);
  await window.page.reload();
  await window.button("Use light colours").waitFor();
  assert.equal(await paper(), dark);
  await window.close();
});
