// Every screen with axe-core: light and dark, wide and narrow; and its pictures, kept with UPDATE_IMAGES=1.
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { conformance, CRASHES, NOTES, Program, SAMPLE } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

const IMAGES = new URL("../../../docs/images/", import.meta.url);
const scripts = {
  lunch: { turns: [{ text: "I ask the server for the menu.", calls: [{ tool: "notes__order_lunch" }] }, { text: "{{result}}" }] },
  assistant: {
    turns: [
      { text: "I look at the notes first.", calls: [{ tool: "notes__list_notes" }] },
      { text: "There is a note for this week. I add the milk to it.", calls: [{ tool: "notes__write_note", arguments: { name: "shopping", text: "- bread\n- milk" } }] },
      { text: "Done. The note **shopping** now reads:\n\n- bread\n- milk\n\n| note | changed |\n|---|---|\n| `shopping` | just now |" },
    ],
  },
};
let browser, program, client, tickets;

before(async () => {
  tickets = await startSigned();
  const servers = { tickets: { url: tickets.url }, notes: NOTES, sample: SAMPLE, jobs: { ...conformance(), trust: "full" }, weather: CRASHES, archive: { ...SAMPLE, disabled: true } };
  [browser, program] = await Promise.all([launch(), Program.start({ servers, scripts, policy: { mode: "writes" } })]);
  client = await program.client("claude-code");
  for (const text of ["a", "b", "c", "d"]) await client.call("sample__echo", { text });
  await client.call("sample__fail");
  await client.call("sample__picture");
  await client.call("notes__list_notes");
  await client.call("sample__add", { a: 20, b: 22 });
  await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 0.1 }, task: { ttl: 60_000 } });
  await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 600 }, task: { ttl: 60_000 } });
  await chat();
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

let conversation;

async function say(window, model, text) {
  await window.show("#/chat");
  await window.see("New conversation");
  await window.page.getByRole("combobox", { name: "Model" }).selectOption(model);
  await window.page.getByRole("textbox", { name: "Message" }).fill(text);
  await window.page.keyboard.press("Enter");
}

// A conversation that waits for a form.
async function order() {
  const window = await Window.open(browser, program);
  await say(window, "lunch", "Order lunch for me");
  await window.page.getByRole("dialog").waitFor();
  await window.close();
}

async function chat() {
  const window = await Window.open(browser, program);
  await say(window, "assistant", "Put milk on my shopping list");
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
    await window.button("Sign in").click();
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
    await window.page.getByRole("checkbox").check();
  },
  calls: async (window) => {
    await window.show("#/calls");
    await window.page.locator(".call-row").nth(6).waitFor();
  },
  tasks: async (window) => {
    await window.show("#/tasks");
    await window.page.locator(".task-row").first().click();
    await window.page.locator(".drawer .facts").waitFor();
  },
  call: async (window) => {
    await window.show("#/calls");
    await window.page.locator(".call-row", { hasText: "picture" }).first().click();
    await window.page.locator(".picture").waitFor();
  },
  inbox: async (window) => {
    await window.show("#/inbox");
    await window.page.locator(".item").nth(1).waitFor();
    await until(async () => (await window.page.locator(".item button:disabled").count()) === 0, "the buttons are enabled");
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
  chat: async (window) => {
    await window.show(conversation);
    await window.page.locator(".markdown td").first().waitFor();
  },
  "chat-new": async (window) => {
    await window.show("#/chat");
    await window.see("Talk to a model");
  },
  dialog: async (window) => {
    await say(window, "assistant", "Put milk on my shopping list");
    await window.page.getByRole("dialog").getByRole("button", { name: "Allow once" }).and(window.page.locator(":enabled")).waitFor();
  },
};

async function keep(window, name) {
  if (!process.env.UPDATE_IMAGES || name.startsWith("inbox-always") || name.startsWith("inbox-several")) return;
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
  for (const [hash, words] of [["#/servers", "This server is a sample"], ["#/calls", "No calls yet"], ["#/inbox", "Nothing waits for you"], ["#/chat", "No model is configured"]]) {
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
