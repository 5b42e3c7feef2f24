// Hostile content on every screen: shown as text or refused, never executed, and the page stays usable. `Window.close`
// fails on any script error, dialog, refused resource or request to another origin.
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { card, hostile, Program, schemas } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

const ATTACK = "<img src=x onerror=";
const markdown = `${ATTACK}"alert(1)"> [x](javascript:alert(2)) <script>alert(3)</script>\n\n| a |\n|---|\n| ${ATTACK} |\n\nsafe\u202egpj.exe\n\n![i](http://127.0.0.1:1/x.png)`;
const scripts = {
  talk: { turns: [{ text: markdown, reasoning: markdown, calls: [{ tool: "evil__text", arguments: { [ATTACK]: ATTACK } }] }, { text: `${"#".repeat(7)} ${"> ".repeat(200)}${"*".repeat(3000)} {{result}}` }] },
  links: { turns: [{ text: "[your bank](https://evil.example/?d=SECRET) and https://other.example/x end" }] },
  task: { turns: [{ calls: [{ tool: "evil__task" }] }, { text: "begun" }, { text: "ended" }] },
  ask: { turns: [{ calls: [{ tool: "evil__ask" }] }, { text: "{{result}}" }] },
  open: { turns: [{ calls: [{ tool: "evil__open" }] }, { text: "{{result}}" }] },
  script: { turns: [{ calls: [{ tool: "evil__open_script" }] }, { text: "ended: {{result}}" }] },
  heavy: { turns: [{ calls: ["large", "deep", "pictures", "fail"].map((tool) => ({ tool: `evil__${tool}` })) }, { text: "All are seen." }] },
  attach: { turns: [{ heard: ["evil://"], text: "I read it." }] },
  destroy: { turns: [{ calls: [{ tool: "evil__destroy", arguments: { path: `${ATTACK}safe\u202egpj.exe` } }] }, { text: "end" }] },
};
let browser, program, client;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { evil: hostile(), odd: schemas("--plain") }, scripts })]);
  client = await program.client("evil-client");
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

// No element that only markup of others could have made.
async function isClean(window, page = window.page) {
  const made = await page.evaluate(() => document.querySelectorAll("script:not([src]), img[src=x], iframe, object, embed, [onerror], [onload], a[href^='javascript'], a[href^='data']").length);
  assert.equal(made, 0);
  assert.equal(await page.evaluate(() => document.body.scrollWidth <= document.documentElement.clientWidth), true);
}

async function say(window, model) {
  await window.show("#/chat");
  await window.see("New conversation");
  await window.page.getByRole("combobox", { name: "Model" }).selectOption(model);
  await window.page.getByRole("textbox", { name: "Message" }).fill(ATTACK);
  await window.page.keyboard.press("Enter");
}

test("titles, descriptions, icons and schemas of a server are text", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/servers/evil");
  await window.page.locator(".server-title", { hasText: ATTACK }).waitFor();
  await window.page.locator(".server-title .mark", { hasText: "RLO" }).first().waitFor();
  assert.equal(await window.page.locator("img.avatar").count(), 0);
  await window.page.locator(".tool-row").first().click();
  await window.page.locator(".drawer .mark", { hasText: "ESC" }).first().waitFor();
  await isClean(window);
  await window.close();
});

test("schemas that are wide, deep or endless, instructions and stderr leave the page of a server usable", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  for (const tool of ["shapes", "cycles"]) {
    await window.show(`#/servers/evil/tools/${tool}`);
    const drawer = page.getByRole("complementary", { name: "Tool" });
    await drawer.locator("h2", { hasText: tool }).waitFor();
    await drawer.getByText("Schema", { exact: true }).click();
    await drawer.locator(".json").waitFor();
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 6000, tool);
    await isClean(window);
    await page.keyboard.press("Escape");
  }
  for (const title of ["Instructions", "Output on stderr"]) {
    const part = page.locator(".folds details", { has: page.locator("summary", { hasText: title }) });
    await part.locator("summary").first().click();
    await part.getByText(ATTACK).first().waitFor();
  }
  await isClean(window);
  await window.close();
});

test("results of calls are text, cut, folded or refused", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  const open = async (tool) => {
    await client.call(`evil__${tool}`);
    await window.page.locator(".call-row", { hasText: tool }).first().click();
    await window.page.locator(".drawer h2", { hasText: tool }).waitFor();
  };
  await open("text");
  await window.page.locator(".drawer", { hasText: ATTACK }).waitFor();
  await open("pictures");
  await window.page.locator(".drawer", { hasText: "Picture not shown: image/svg+xml" }).waitFor();
  await open("deep");
  await window.page.locator(".drawer .json, .drawer .plain").first().waitFor();
  await open("large");
  await window.page.locator(".drawer", { hasText: "of 10.0 MB in all" }).waitFor();
  await open("fail");
  await window.page.locator(".drawer .pill", { hasText: "Tool error" }).first().waitFor();
  await isClean(window);
  await window.close();
});

test("a link of a model is no address before a click that shows its host", async () => {
  const window = await Window.open(browser, program);
  await say(window, "links");
  await window.page.locator(".turn.model .markdown", { hasText: "end" }).waitFor();
  const outside = () => window.page.evaluate(() => [...document.querySelectorAll("a[href]")].map((a) => a.href).filter((href) => !href.startsWith(location.origin)));
  assert.deepEqual(await outside(), []);
  await window.page.getByRole("button", { name: "your bank" }).click();
  await window.page.getByRole("link", { name: "Open evil.example" }).waitFor();
  assert.deepEqual(await outside(), ["https://evil.example/?d=SECRET"]);
  await window.page.getByRole("button", { name: "your bank" }).click();
  await window.page.locator(".link-open").waitFor({ state: "detached" });
  assert.deepEqual(await outside(), []);
  await isClean(window);
  await window.close();
});

test("a form and its choices are text, and can be answered", async () => {
  const window = await Window.open(browser, program);
  const inbox = await window.tab("#/inbox");
  await say(window, "ask");
  const item = inbox.locator(".item");
  await item.locator(".quoted", { hasText: ATTACK }).waitFor();
  await item.locator(".quoted .mark", { hasText: "RLO" }).first().waitFor();
  await isClean(window, inbox);
  await item.getByRole("textbox").first().fill("ok");
  await item.getByRole("combobox").selectOption({ index: 1 });
  await item.getByRole("button", { name: "Send" }).click();
  await window.page.locator(".markdown", { hasText: '"action":"accept"' }).waitFor();
  await window.close();
});

test("an address to open shows its real host; one that is a script cannot be opened", async () => {
  const window = await Window.open(browser, program);
  await say(window, "open");
  const dialog = window.page.getByRole("dialog");
  assert.equal(await dialog.getByRole("link", { name: "Open" }).getAttribute("href"), "https://xn--80ak6aa92e.example/pay?a=%3Cb%3E");
  await dialog.getByRole("link", { name: "Open xn--80ak6aa92e.example" }).waitFor();
  await dialog.getByRole("button", { name: "Decline" }).click();
  await window.page.locator(".markdown", { hasText: '"action":"decline"' }).waitFor();
  await say(window, "script");
  await window.page.locator(".markdown", { hasText: "ended:" }).or(dialog.getByText("cannot be opened")).first().waitFor();
  assert.equal(await window.page.locator("a[href^='javascript']").count(), 0);
  await window.close();
});

test("a server with a hostile name, title and tools is tested, added and edited as text", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 4\d\d/);
  const label = `${ATTACK}"alert(9)">`;
  const entry = { ...hostile(), description: `${ATTACK}safe\u202egpj.exe` };
  await window.show("#/add");
  await page.getByLabel("Snippet, command or URL").fill(JSON.stringify({ mcpServers: { [label]: entry } }));
  await page.locator(".problem, .field-problem:visible", { hasText: "letters" }).or(page.locator(".difference")).first().waitFor();
  await isClean(window);
  await page.getByLabel("Name", { exact: true }).fill("second-evil");
  await page.getByLabel("Command", { exact: true }).fill(entry.command);
  await page.getByLabel("Arguments", { exact: true }).fill(entry.args.join("\n"));
  await page.getByRole("checkbox", { name: "Run this program" }).check();
  await window.button("Test connection").click();
  const result = page.getByRole("status", { name: "Result of the test" });
  await result.locator(".mark", { hasText: "RLO" }).first().waitFor();
  assert.equal(await result.locator("img").count(), 0);
  await isClean(window);
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "Connected" }).waitFor();
  await window.show("#/edit/second-evil");
  await page.getByLabel("Arguments", { exact: true }).waitFor();
  await isClean(window);
  await window.close();
});

test("snippets that are very large or very deep are refused, and stay as they were pasted", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 4\d\d/);
  await window.show("#/add");
  const box = page.getByLabel("Snippet, command or URL");
  const levels = `${'{"mcpServers":'.repeat(1000)}{}${"}".repeat(1000)}`;
  for (const text of [levels, `{"mcpServers":{"a":{"command":"${"x".repeat(3_000_000)}"}}}`, `{"mcpServers":{"${ATTACK}":${"[".repeat(1000)}${"]".repeat(1000)}}}`]) {
    await box.evaluate((input, value) => {
      input.value = value;
      input.dispatchEvent(new Event("input"));
    }, text);
    await page.locator(".problem").first().waitFor();
    assert.equal(await box.evaluate((input) => input.value.length), text.length);
    await isClean(window);
    await box.fill("");
    await page.locator(".problem").first().waitFor({ state: "detached" });
  }
  await window.close();
});

test("markup cannot be made from a string in this page", async () => {
  const window = await Window.open(browser, program);
  window.expect(/TrustedHTML|Trusted/);
  await assert.rejects(window.page.evaluate(() => (document.createElement("div").innerHTML = "<b>x</b>")), /TrustedHTML/);
  await window.close();
});

test("a chat with a hostile model and tool stays a page of text", async () => {
  const window = await Window.open(browser, program);
  await say(window, "talk");
  await window.page.locator('.card[data-state="succeeded"]').waitFor();
  await window.page.locator(".reply-body > .markdown td", { hasText: ATTACK }).first().waitFor();
  await window.page.locator(".reply-body > .markdown .no-link", { hasText: "javascript:" }).first().waitFor();
  await window.button("Send").waitFor();
  await window.page.locator(".conversation", { hasText: ATTACK }).first().waitFor();
  await isClean(window);
  await say(window, "destroy");
  await window.page.getByRole("dialog").locator(".mark", { hasText: "RLO" }).first().waitFor();
  await isClean(window);
  await window.page.getByRole("dialog").getByRole("button", { name: "Never" }).click();
  await window.page.getByRole("dialog").getByRole("button", { name: "Yes, never" }).click();
  await window.page.locator('.card[data-state="refused"]').waitFor();
  await window.close();
});

test("results of 10 MB, deep JSON and false pictures leave a conversation usable", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "heavy");
  await window.see("All are seen.");
  await window.button("Send").waitFor();
  assert.deepEqual([await card(window, "succeeded").count(), await card(window, "tool-error").count()], [3, 1]);
  for (const summary of await page.locator(".card > summary").all()) await summary.click();
  await until(async () => (await page.locator(".card[open]").count()) === 4, "all cards are open");
  await isClean(window);
  assert.ok((await page.evaluate(() => document.body.textContent.length)) < 2_000_000, "results are cut");
  await page.reload();
  await card(window, "succeeded").nth(2).waitFor();
  await isClean(window);
  const began = Date.now();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.ok(Date.now() - began < 2000, "the page answers");
  await window.close();
});

test("hostile resources and prompts that @ proposes are text, and are attached as text", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Model" }).selectOption("attach");
  await page.getByRole("textbox", { name: "Message" }).pressSequentially("@odd.evil");
  const options = page.getByRole("option");
  await options.filter({ hasText: "prompt" }).locator(".mark, .name").first().waitFor();
  await options.filter({ hasText: ATTACK }).first().waitFor();
  await isClean(window);
  await options.filter({ hasText: "resource" }).first().click();
  await page.locator(".composer .attached", { hasText: ATTACK }).getByText(/about \d+ tokens/).waitFor();
  await isClean(window);
  await page.getByRole("textbox", { name: "Message" }).fill("read it");
  await page.keyboard.press("Enter");
  await window.see("I read it.");
  await page.locator(".turn.user .attached", { hasText: ATTACK }).waitFor();
  await isClean(window);
  await window.close();
});

test("entries of other applications with hostile names, commands and shapes are text, and those that cannot be read are said", async (story) => {
  const own = await Program.start({ servers: {} });
  story.after(() => own.stop());
  const folders = { ".cursor/mcp.json": { "evil\u202egpj": { command: "x", args: [] }, deep: { command: "x", args: [["a"]] }, [ATTACK]: { command: `${ATTACK}\u200b`, args: [`${ATTACK}"alert(1)">\u202egpj.exe`], env: { TOKEN: ATTACK } } } };
  for (const [place, mcpServers] of Object.entries(folders)) {
    await mkdir(join(own.home, dirname(place)), { recursive: true });
    await writeFile(join(own.home, place), JSON.stringify({ mcpServers }));
  }
  await mkdir(join(own.home, ".gemini"));
  await writeFile(join(own.home, ".gemini/settings.json"), `{ "mcpServers": ${ATTACK}`);
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/import");
  await page.locator(".import-row", { hasText: ATTACK }).locator(".mark", { hasText: "RLO" }).first().waitFor();
  const unread = page.locator("main .warning");
  await unread.getByText("must be a list of strings").waitFor();
  await unread.getByText("file ignored").waitFor();
  await isClean(window);
  await window.button("Choose all").click();
  await window.button(/^Import \d/).click();
  await window.see("imported");
  await isClean(window);
  await window.show("#/servers");
  await page.locator(".server-row").first().waitFor();
  await isClean(window);
  await window.close();
});

test("endpoints of a sign-in that are no web address are refused, and are no links", async (story) => {
  const tickets = await startSigned({ clientId: "toolway-story", discovery: false });
  story.after(() => tickets.close());
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 4\d\d/);
  const field = (label) => page.getByLabel(label, { exact: true }).and(page.locator(":visible"));
  await window.show("#/servers");
  await window.show("#/add");
  await field("Name").fill("scripted");
  await page.getByText("Streamable HTTP", { exact: true }).click();
  await field("URL").fill(tickets.url);
  await field("Client id").fill("toolway-story");
  await page.getByText("Endpoints, instead of those discovered").click();
  await field("Issuer").fill(tickets.origin);
  await field("Authorization endpoint").fill("javascript:alert(1)//");
  await field("Token endpoint").fill(`${tickets.origin}/token`);
  await field("Authorization endpoint").and(page.locator("[aria-invalid=true]")).waitFor();
  assert.equal(await field("Authorization endpoint").inputValue(), "javascript:alert(1)//");
  await isClean(window);
  await window.close();
});

test("the message of a task is text, in the chat and on the screen Tasks", async () => {
  const window = await Window.open(browser, program);
  await say(window, "task");
  const line = window.page.locator(".task-line");
  await line.getByText(ATTACK).waitFor();
  for (const letter of ["RLO", "ESC", "BEL"]) await line.locator(".mark", { hasText: letter }).first().waitFor();
  await isClean(window);
  await window.show("#/tasks");
  await window.page.locator(".task-row", { hasText: ATTACK }).first().click();
  const drawer = window.page.getByRole("complementary", { name: "Task" });
  await drawer.locator(".mark", { hasText: "ZWSP" }).first().waitFor();
  await isClean(window);
  await drawer.getByRole("button", { name: "Cancel" }).click();
  await drawer.getByText("Cancelled").first().waitFor();
  await isClean(window);
  await window.close();
});

test("hostile text in an address is text or nothing, on every screen that reads one", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 40\d/);
  const text = encodeURIComponent('<img src=x onerror=alert(1)>"\'\u202eevil\u200b');
  for (const place of [`#/calls?tool=${text}&server=${text}&caller=${text}&since=${text}`, `#/calls/${text}`, `#/tasks/${text}`, `#/inbox/${text}`, `#/servers/${text}`, `#/servers/${text}/tools/${text}?filter=${text}`, `#/edit/${text}`, "#/calls?%", "#/tasks/%", `#/${text}`]) {
    await window.show(place);
    await page.locator("main > *").first().waitFor();
    await isClean(window);
  }
  await window.show(`#/servers/${text}`);
  await page.locator(".detail .mark", { hasText: "RLO" }).waitFor();
  await window.show("#/servers");
  await page.locator('#nav a[aria-current][href="#/servers"]').waitFor();
  await window.close();
});
