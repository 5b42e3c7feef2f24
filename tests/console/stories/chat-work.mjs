// The screen Chat at work: messages that wait, what is attached, edit and retry, export, the context, lost connections, hostile content.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { cuttable, launch, until, Window } from "../browser.mjs";
import { card, Program, SAMPLE, say } from "../program.mjs";

const call = (tool, values = {}) => ({ tool: `sample__${tool}`, arguments: values });
const slow = (text, delayMs = 60) => ({ text: `${"word ".repeat(30)}${text}`, delayMs });
const ATTACK = "<img src=x onerror=alert(1)>safe\u202egpj.exe";
const code = "fn main() { // says hello\n  let n = 42; println!(\"<b>hi</b>\"); }";
const scripts = {
  queue: { turns: [slow("one.", 250), { heard: ["and then"], text: "Then two." }, { heard: ["at last"], text: "Then three." }] },
  // A message that was stopped takes no turn of a script.
  held: { turns: [slow("It was sent.", 150)] },
  endless: { turns: [slow("never", 1000)] },
  files: { turns: [{ heard: ["a text in a file"], text: "I read the file." }, { heard: ["image/png"], text: "I see it." }, { heard: ["memo://today"], text: "I read the memo." }] },
  blind: { turns: [{ text: "never" }] },
  introduce: { turns: [{ heard: ["Introduce Ada in two sentences."], text: "Here is Ada." }] },
  again: { turns: [{ text: "I write.", calls: [call("write_memo", { text: "once" })] }, { text: "Written." }, { text: "Second answer." }] },
  broken: { turns: [{ text: "fine", expect: [{ error: false }] }, { text: "It works again." }] },
  long: { turns: Array.from({ length: 12 }, () => ({ text: `An answer ${"of many words ".repeat(60)}` })) },
  count: { turns: [{ text: "I count.", calls: [call("count", { to: 500, pause: 200 })] }, { text: "Cancelled, I see." }] },
  sum: { turns: [{ calls: [call("add", { a: 1, b: 2 })] }, { text: "Three." }] },
  hostile: { turns: [{ text: `${ATTACK} <script>alert(2)</script>\n\n| left | right | middle |\n|:--|--:|:-:|\n| ${ATTACK} | 1 | [x](javascript:alert(3)) |\n\n\`\`\`rust\n${code}\n${ATTACK}\n\`\`\`` }] },
  streamed: { turns: [slow("the end.")] },
};
let browser, program;

before(async () => {
  const models = { blind: { images: false }, long: { contextWindow: 2000 } };
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE }, scripts, models, settings: { assistants: { helper: { description: "Adds", approval: "auto", model: "sum", servers: ["sample"] } } } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const message = (window) => window.page.getByRole("textbox", { name: "Message" });
const queue = (window) => window.page.getByRole("region", { name: "Messages that wait" });
const chips = (window) => window.page.locator(".composer .attached");
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64");

async function send(window, text) {
  await message(window).fill(text);
  await window.page.keyboard.press("Enter");
}

// Gives files to the page as a paste or a drop does.
async function give(window, kind, name, type, bytes) {
  await window.page.evaluate(
    ([kind, name, type, base64]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))], name, { type }));
      const node = document.querySelector(kind === "paste" ? ".composer textarea" : ".log");
      const event = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
      node.dispatchEvent(event);
    },
    [kind, name, type, bytes.toString("base64")],
  );
}

test("messages wait while the model works, are taken back, and are sent in their order", async () => {
  const window = await Window.open(browser, program);
  await say(window, "queue", "Begin");
  await window.button("Queue").waitFor();
  for (const text of ["and then?", "not this one", "and at last?"]) await send(window, text);
  await queue(window).locator("li").nth(2).waitFor();
  // Another tab shows them, too.
  const other = await window.tab(new URL(window.page.url()).hash);
  await other.getByRole("region", { name: "Messages that wait" }).getByText("not this one").waitFor();
  await queue(window).locator("li", { hasText: "not this one" }).getByRole("button", { name: "Take back" }).click();
  await until(async () => (await message(window).inputValue()) === "not this one", "it is typed again");
  await message(window).fill("");
  await window.see("Then two.");
  await window.see("Then three.");
  await window.button("Send").waitFor();
  assert.deepEqual(await window.page.locator(".bubble").allTextContents(), ["Begin", "and then?", "and at last?"]);
  assert.equal(await queue(window).locator("li").count(), 0);
  await other.getByText("Then three.").waitFor();
  assert.deepEqual(await other.locator(".bubble").allTextContents(), ["Begin", "and then?", "and at last?"]);
  await window.close();
});

test("after Stop a message waits until the user sends it", async () => {
  const window = await Window.open(browser, program);
  await say(window, "held", "Begin");
  await window.button("Queue").waitFor();
  await send(window, "this waits");
  await queue(window).getByText("this waits").waitFor();
  await window.button("Stop").click();
  await window.see("Stopped by you.");
  await queue(window).getByText("The turn before was stopped, or failed.").waitFor();
  await window.page.reload();
  await queue(window).getByRole("button", { name: "Send now" }).click();
  await window.see("It was sent.");
  assert.equal(await queue(window).locator("li").count(), 0);
  await window.close();
});

test("files are attached by dropping and pasting, resources with @, each with its size", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Model" }).selectOption("files");
  await give(window, "drop", "notes.txt", "text/plain", Buffer.from("a text in a file"));
  await chips(window).filter({ hasText: "notes.txt" }).getByText("about 4 tokens").waitFor();
  await give(window, "drop", "gone.txt", "text/plain", Buffer.from("not wanted"));
  await chips(window).filter({ hasText: "gone.txt" }).getByRole("button", { name: "Remove gone.txt" }).click();
  assert.equal(await chips(window).count(), 1);
  await send(window, "What is in it?");
  await window.see("I read the file.");
  await page.locator(".turn.user .attached", { hasText: "notes.txt" }).waitFor();
  await give(window, "paste", "shot.png", "image/png", PNG);
  await chips(window).filter({ hasText: "shot.png" }).locator("img.thumb").waitFor();
  await chips(window).filter({ hasText: "about 1,000 tokens" }).waitFor();
  await send(window, "What is on it?");
  await window.see("I see it.");
  await message(window).pressSequentially("look at @tod");
  await page.getByRole("option", { name: /today/ }).waitFor();
  await page.keyboard.press("Enter");
  await chips(window).filter({ hasText: "memo://today" }).getByText(/about \d+ tokens/).waitFor();
  assert.equal(await message(window).inputValue(), "look at ");
  await send(window, "look at it");
  await window.see("I read the memo.");
  await page.reload();
  await page.locator(".turn.user .attached img.thumb").waitFor();
  assert.deepEqual(await page.locator(".turn.user .attached .name").allTextContents(), ["notes.txt", "shot.png", "memo://today"]);
  await window.close();
});

test("what cannot be attached is said: bytes without meaning, an image for a model without eyes, a folder's size", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 422/);
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Model" }).selectOption("blind");
  await give(window, "drop", "data.bin", "", Buffer.from([0, 1, 2, 255]));
  await window.see("neither UTF-8 text nor an image");
  await give(window, "drop", "large.bin", "", Buffer.alloc(4_000_000));
  await window.see("is larger than 3,932,160 bytes");
  assert.equal(await chips(window).count(), 0);
  await give(window, "paste", "shot.png", "image/png", PNG);
  await chips(window).getByText("about 1,000 tokens").waitFor();
  await send(window, "What is on it?");
  await window.see("takes no images");
  assert.equal(await message(window).inputValue(), "What is on it?");
  assert.equal(await chips(window).count(), 1);
  await window.close();
});

test("a prompt of the screen Prompts is used in a chat", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await message(window).pressSequentially("@introd");
  await page.getByRole("option", { name: /introduce.*needs arguments/ }).click();
  await page.getByLabel(/^name/).fill("Ada");
  await page.getByRole("button", { name: "Use in chat" }).click();
  await chips(window).filter({ hasText: "sample.introduce" }).waitFor();
  await page.getByRole("combobox", { name: "Model" }).selectOption("introduce");
  await send(window, "Do it");
  await window.see("Here is Ada.");
  await window.close();
});

test("a message is retried and edited as a branch; the conversation before stays, and no call is made again", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "again", "Write once", "allow");
  await window.see("Written.");
  await window.button("Send").waitFor();
  const first = new URL(page.url()).hash;
  await send(window, "And now?");
  await window.see("Second answer.");
  await window.button("Send").waitFor();
  const calls = async () => (await page.evaluate(async () => (await (await fetch("/api/v1/calls")).json()).calls)).filter(({ tool }) => tool === "sample__write_memo").length;
  const made = await calls();
  await page.locator(".turn.user", { hasText: "And now?" }).hover();
  await page.locator(".turn.user", { hasText: "And now?" }).getByRole("button", { name: "Edit" }).click();
  await window.see("Your message begins a branch");
  assert.equal(await message(window).inputValue(), "And now?");
  await send(window, "I asked differently");
  await page.locator(".bubble", { hasText: "I asked differently" }).waitFor();
  await window.see("Second answer.");
  assert.notEqual(new URL(page.url()).hash, first);
  await card(window, "succeeded").first().waitFor();
  await window.button("Send").waitFor();
  await until(async () => (await page.locator(".bubble").allTextContents()).join() === "Write once,I asked differently", "both messages are there once");
  assert.equal(await calls(), made);
  await page.reload();
  await page.locator(".meter summary").click();
  await page.locator(".meter-body").getByRole("link", { name: "this conversation" }).click();
  await until(async () => (await page.locator(".bubble").allTextContents()).join() === "Write once,And now?", "the conversation before is shown as it was");
  await page.locator(".turn.user", { hasText: "And now?" }).hover();
  await page.locator(".turn.user", { hasText: "And now?" }).getByRole("button", { name: "Retry" }).click();
  await until(() => ![first, "#/chat"].includes(new URL(page.url()).hash), "the branch is shown");
  await window.see("Second answer.");
  await window.button("Send").waitFor();
  await until(async () => (await page.locator(".bubble").allTextContents()).join() === "Write once,And now?", "the same message is sent again");
  assert.equal(await calls(), made);
  await window.close();
});

test("a turn that failed is asked again without a further message", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "broken", "Go");
  await window.see("The turn failed");
  const place = join(program.home, "broken.json");
  await writeFile(place, JSON.stringify({ turns: [{ text: "It works again." }] }));
  await page.reload();
  await page.getByRole("button", { name: "Ask it again" }).click();
  await window.see("It works again.");
  await page.reload();
  await window.see("It works again.");
  assert.deepEqual(await page.locator(".bubble").allTextContents(), ["Go"]);
  assert.equal(await page.getByRole("button", { name: "Ask it again" }).count(), 0);
  await window.close();
});

test("the context and its parts are shown, compaction is said, and stays said", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "long", "Question 0");
  for (let index = 1; index < 9; index += 1) {
    await window.page.locator(".turn.model").nth(index - 1).waitFor();
    await window.button("Send").waitFor();
    await send(window, `Question ${index}`);
  }
  await page.locator(".turn.model").nth(8).waitFor();
  await window.see("older messages were summarised to keep the context window");
  await page.locator(".meter summary").click();
  await page.locator(".meter-body dt", { hasText: "messages" }).waitFor();
  await page.locator(".meter-body dt", { hasText: "summary" }).waitFor();
  await window.see(/About [\d,]+ of 2,000 tokens/);
  await page.reload();
  await page.getByText("The model has a summary of the messages above").first().click();
  await window.see("A script has no summary.");
  await page.locator(".bubble", { hasText: "Question 0" }).waitFor();
  await window.close();
});

test("a conversation is exported as the command line exports it", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "sum", "Add", "allow");
  await window.see("Three.");
  await window.button("Send").waitFor();
  await page.locator(".meter summary", { hasText: "%" }).waitFor();
  for (const [label, format] of [["Markdown", "raw"], ["JSON", "json"]]) {
    if (!(await page.locator(".meter").evaluate((node) => node.open))) await page.locator(".meter summary").click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: label }).click()]);
    const id = new URL(page.url()).hash.split("/").at(-1);
    const saved = await readFile(await download.path(), "utf8");
    assert.equal(saved.trim(), (await program.run("history", "export", id, "-o", format)).trim());
    assert.match(download.suggestedFilename(), new RegExp(`^${id}\\.(md|json)$`));
  }
  await window.close();
});

test("a call that runs has a bar and is cancelled from its card; the model goes on", async () => {
  const window = await Window.open(browser, program);
  await say(window, "count", "Count", "allow");
  const line = window.page.getByRole("group", { name: "Running call" });
  await line.getByRole("progressbar").waitFor();
  await line.getByRole("button", { name: "Cancel" }).click();
  await card(window, "cancelled").waitFor();
  await window.see("Cancelled, I see.");
  assert.equal(await line.count(), 0);
  await window.close();
});

test("an assistant is chosen for a new conversation, with its model and approval; a card has structured content", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Assistant" }).selectOption("helper");
  assert.equal(await page.getByRole("combobox", { name: "Model" }).inputValue(), "sum");
  await page.getByRole("combobox", { name: "Approvals" }).getByText("As the assistant: auto").waitFor({ state: "attached" });
  await window.see("You are asked only where mode or rules do.");
  await send(window, "Add");
  await window.see("Three.");
  await card(window, "succeeded").locator("summary").first().click();
  await card(window, "succeeded").getByRole("heading", { name: "Structured content" }).waitFor();
  await page.reload();
  await page.locator(".meter summary").click();
  await page.locator(".meter-body").getByText("helper").waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Assistant" }).isVisible(), false);
  await window.close();
});

test("hostile text in a message, a table, code and a file's name stays text", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Model" }).selectOption("hostile");
  await give(window, "drop", ATTACK.replaceAll("/", "_"), "text/plain", Buffer.from(ATTACK));
  await chips(window).locator(".mark", { hasText: "RLO" }).waitFor();
  await send(window, ATTACK);
  await page.locator(".markdown td .mark", { hasText: "RLO" }).waitFor();
  await page.locator(".markdown pre .mark", { hasText: "RLO" }).waitFor();
  await page.locator(".bubble .mark", { hasText: "RLO" }).waitFor();
  const sides = await page.locator(".markdown td").evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell).textAlign));
  assert.deepEqual(sides, ["start", "end", "center"]);
  assert.equal(await page.locator(".code-word", { hasText: /^fn$/ }).count(), 1);
  assert.equal(await page.locator(".code-text", { hasText: '"<b>hi</b>"' }).count(), 1);
  assert.equal(await page.locator(".code-comment", { hasText: "// says hello" }).count(), 1);
  const made = await page.evaluate(() => document.querySelectorAll("script:not([src]), img[src=x], iframe, [onerror], .markdown b, a[href^='javascript']").length);
  assert.equal(made, 0);
  await window.close();
});

test("a connection that is lost while text streams is said, and the text is whole afterwards", async (story) => {
  const wire = await cuttable();
  story.after(() => wire.close());
  const window = await Window.open(browser, program, { proxy: { server: wire.url, bypass: "<-loopback>" } });
  const { page } = window;
  window.expect(/ERR_|Failed to load|network/);
  await say(window, "streamed", "Talk");
  await page.locator(".turn.model .markdown", { hasText: "word" }).waitFor();
  wire.cut();
  await window.see("The connection to Toolway is lost");
  wire.mend();
  await page.locator(".turn.model .markdown", { hasText: /^(word ?){30}the end\.$/ }).waitFor();
  assert.equal(await page.locator(".turn.model").count(), 1);
  await window.close();
});

test("what is typed and attached stays with its conversation while another screen is open", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/chat");
  await message(window).fill("not sent yet");
  await give(window, "drop", "kept.txt", "text/plain", Buffer.from("kept"));
  await chips(window).getByText("about 1 token").waitFor();
  await window.show("#/servers");
  await window.page.locator(".chat").waitFor({ state: "detached" });
  await window.show("#/chat");
  await until(async () => (await message(window).inputValue()) === "not sent yet", "it is still typed");
  await chips(window).filter({ hasText: "kept.txt" }).waitFor();
  await window.close();
});

test("the screen has no violations of axe-core with attachments, proposals, a queue and the context open", async () => {
  for (const scheme of ["light", "dark"]) {
    const window = await Window.open(browser, program, { scheme, bypassCSP: true });
    await say(window, "endless", "Begin");
    await window.button("Queue").waitFor();
    await send(window, "this waits");
    await queue(window).getByText("this waits").waitFor();
    await give(window, "drop", "kept.txt", "text/plain", Buffer.from("kept"));
    await chips(window).waitFor();
    await message(window).pressSequentially("@");
    await window.page.getByRole("option").first().waitFor();
    assert.deepEqual(await window.violations(), []);
    await window.page.locator(".meter summary").click();
    assert.deepEqual(await window.violations(), []);
    await window.button("Stop").click();
    await window.see("Stopped by you.");
    await window.close();
  }
});
