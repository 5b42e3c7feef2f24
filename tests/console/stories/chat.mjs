// The screen Chat, with a scripted model: the walk from a URL to a record, questions in place, errors, stopping, modes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { card, Program, SAMPLE, say, TOOLWAY } from "../program.mjs";

const call = (tool, values = {}) => ({ tool, arguments: values });
const scripts = {
  walk: { turns: [{ text: "I will write the **memo** now.", calls: [call("added__write_memo", { text: "buy milk" })] }, { text: "Done: {{result}}\n\n- one\n- two\n\n```sh\nls\n```" }] },
  form: { turns: [{ text: "I ask.", calls: [call("sample__greet")] }, { text: "The server said: {{result}}" }] },
  error: { turns: [{ text: "I try.", calls: [call("sample__fail")] }, { text: "It failed, as expected." }] },
  long: { turns: [{ text: "I count.", calls: [call("sample__count", { to: 1000, pause: 1000 })] }, { text: "never" }] },
  read: { turns: [{ text: "I read.", calls: [call("sample__echo", { text: "hello" })] }, { text: "I read it." }] },
  write: { turns: [{ text: "I write.", calls: [call("sample__write_memo", { text: "x" })] }, { text: "I am done." }] },
  twice: { turns: [{ calls: [call("sample__write_memo", { text: "1" })] }, { calls: [call("sample__write_memo", { text: "2" })] }, { text: "Both are written." }] },
  same: { turns: [{ calls: [call("sample__write_memo", { text: "1" })] }, { calls: [call("sample__write_memo", { text: "1" })] }, { text: "Both are written." }] },
  three: { turns: [{ calls: ["1", "2", "3"].map((text) => call("sample__write_memo", { text })) }, { text: "All are written." }] },
  reach: { turns: [...["https://news.example/a", "https://news.example/b", "https://other.example/c", "https://third.example/d"].map((text) => ({ calls: [call("sample__echo", { text })] })), { text: "All are read." }] },
  goes_on: { turns: [{ text: "The first answer." }, { text: "The second answer." }] },
  slow: { turns: [{ text: "word ".repeat(40), delayMs: 60 }] },
};
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE }, scripts })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const dialog = (window) => window.page.getByRole("dialog");

// A server over HTTP, written by the program itself.
async function sampleUrl() {
  const child = spawn(TOOLWAY, ["sample", "--http"], { stdio: ["ignore", "pipe", "pipe"] });
  const url = await new Promise((resolve, reject) => {
    let said = "";
    const look = (data) => {
      said += data;
      const found = /https?:\/\/[^\s"]+/.exec(said);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", look);
    child.stderr.on("data", look);
    child.once("exit", () => reject(new Error(said)));
  });
  return { child, url };
}

test("a script goes on in the next message of its conversation", async () => {
  const window = await Window.open(browser, program);
  await say(window, "goes_on", "one");
  await window.see("The first answer.");
  await window.page.getByRole("textbox", { name: "Message" }).fill("two");
  await window.page.keyboard.press("Enter");
  await window.see("The second answer.");
  await window.close();
});

test("from a URL to a record: add, test, chat, the warning, approve, result", async (story) => {
  const { child, url } = await sampleUrl();
  story.after(() => child.kill());
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/add");
  await page.getByLabel("Snippet, command or URL").fill(url);
  await page.getByLabel("Name", { exact: true }).fill("added");
  await page.getByRole("checkbox", { name: /^Connect to/ }).check();
  await window.button("Test connection").click();
  await window.see("It works");
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "Connected" }).waitFor();

  await say(window, "walk", "Write a memo, please");
  await dialog(window).locator(".warning").first().waitFor();
  await dialog(window).getByText("buy milk").first().waitFor();
  await card(window, "waiting").waitFor();
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  await card(window, "succeeded").waitFor();
  await page.locator(".markdown li", { hasText: "two" }).waitFor();
  await page.locator(".markdown strong", { hasText: "memo" }).waitFor();
  await page.locator(".reply-foot", { hasText: "tokens" }).waitFor();

  await card(window, "succeeded").locator("summary .number", { hasText: /\d m?s/ }).waitFor();
  await card(window, "succeeded").locator("summary").first().click();
  await page.getByRole("link", { name: "Open the record" }).click();
  const drawer = page.getByRole("complementary", { name: "Call" });
  await drawer.getByText("buy milk").first().waitFor();
  await drawer.locator("dt", { hasText: "Approved by" }).waitFor();
  await window.close();
});

test("a page opened on the chat says what the model can use once the servers are read", async () => {
  const window = await Window.open(browser, program);
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await window.context.route("**/api/v1/servers", async (route) => {
    await released;
    await route.continue();
  });
  const page = await window.tab("#/chat");
  await page.getByText("Talk to a model").waitFor();
  assert.equal(await page.getByText("No server is connected").count(), 0);
  release();
  await page.getByText(/The model can use [1-9]\d* tools of [12] servers?\./).waitFor();
  await page.getByRole("button", { name: "What can you do with my tools?" }).waitFor();
  // What is asked about is said as it is chosen.
  for (const [mode, words] of [["writes", "before it changes something"], ["allow", "only where a rule does"], ["ask", "before every call"]]) {
    await page.getByRole("combobox", { name: "Approvals" }).selectOption(mode);
    await page.getByText(`You are asked ${words}.`).waitFor();
  }
  await window.close();
});

test("a form in the middle of a chat is answered in place", async () => {
  const window = await Window.open(browser, program);
  await say(window, "form", "Greet me");
  await dialog(window).getByRole("textbox").first().fill("Grace");
  await dialog(window).getByRole("button", { name: "Send" }).click();
  await window.page.locator(".markdown", { hasText: "Grace" }).waitFor();
  await window.close();
});

test("a tool error is shown on its card, and the model goes on", async () => {
  const window = await Window.open(browser, program);
  await say(window, "error", "Try it");
  await card(window, "tool-error").waitFor();
  await window.see("It failed, as expected.");
  await window.close();
});

test("a running turn is stopped, its call cancelled, and the conversation can go on", async () => {
  const window = await Window.open(browser, program);
  await say(window, "long", "Count");
  await card(window, "running").waitFor();
  await window.button("Stop").click();
  await window.see("Stopped by you.");
  await card(window, "cancelled").waitFor();
  await window.button("Send").waitFor();
  await window.close();
});

test("a no is given to the model as the result", async () => {
  const window = await Window.open(browser, program);
  await say(window, "write", "Write");
  await dialog(window).getByRole("button", { name: "No", exact: true }).click();
  await card(window, "refused").waitFor();
  await window.see("I am done.");
  await window.close();
});

test("mode ask asks before a read, writes before a write, allow never", async () => {
  const window = await Window.open(browser, program);
  await say(window, "read", "Read", "ask");
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  await window.see("I read it.");
  await say(window, "read", "Read again", "writes");
  await card(window, "succeeded").waitFor();
  await window.see("I read it.");
  await say(window, "write", "Write", "allow");
  await card(window, "succeeded").waitFor();
  await window.see("I am done.");
  assert.equal(await dialog(window).count(), 0);
  await window.close();
});

test("allowed in this conversation holds for the same call again, and for what was freed", async () => {
  const window = await Window.open(browser, program);
  await say(window, "same", "Write the same twice");
  await dialog(window).locator(".covered", { hasText: 'text = "1"' }).waitFor();
  await dialog(window).getByRole("button", { name: "Allow in this conversation" }).click();
  await window.see("Both are written.");
  assert.equal(await card(window, "succeeded").count(), 2);
  await say(window, "twice", "Write twice");
  await dialog(window).getByText("Change what it covers").click();
  await dialog(window).getByRole("combobox", { name: "text" }).selectOption("any");
  await dialog(window).locator(".covered", { hasText: "any text" }).waitFor();
  await dialog(window).getByRole("button", { name: "Allow in this conversation" }).click();
  await window.see("Both are written.");
  assert.equal(await card(window, "succeeded").count(), 2);
  await window.close();
});

test("another value is asked about again, as the second time", async () => {
  const window = await Window.open(browser, program);
  await say(window, "twice", "Write twice");
  await dialog(window).getByRole("button", { name: "Allow in this conversation" }).click();
  await dialog(window).locator("h2", { hasText: "2nd time" }).waitFor();
  await dialog(window).getByText("differs").waitFor();
  await dialog(window).getByRole("button", { name: "No", exact: true }).click();
  await window.see("Both are written.");
  await window.close();
});

test("a new host is allowed for the conversation, and then any host", async () => {
  const window = await Window.open(browser, program);
  await say(window, "reach", "Read these");
  await dialog(window).getByText("any call that only reads and reaches news.example").waitFor();
  assert.equal(await dialog(window).getByText("Change what it covers").count(), 0);
  await dialog(window).getByRole("button", { name: "This host, always" }).click();
  await dialog(window).locator(".confirm", { hasText: /every tool of sample.*news\.example/ }).waitFor();
  await dialog(window).getByRole("button", { name: "Back" }).click();
  await dialog(window).getByRole("button", { name: "Never" }).click();
  await dialog(window).locator(".confirm", { hasText: /Refuse echo of sample.*any arguments/ }).waitFor();
  await dialog(window).getByRole("button", { name: "Back" }).click();
  await dialog(window).getByRole("button", { name: "This host, this conversation" }).click();
  await dialog(window).getByText("https://other.example/c").first().waitFor();
  await dialog(window).getByRole("button", { name: "Any host, this conversation" }).click();
  await window.see("All are read.");
  assert.equal(await card(window, "succeeded").count(), 4);
  await window.close();
});

test("several questions of a turn are counted", async () => {
  const window = await Window.open(browser, program);
  await say(window, "three", "Write three");
  for (const number of [1, 2, 3]) {
    await dialog(window).getByText(`${number} of 3`).waitFor();
    await dialog(window).getByRole("button", { name: "Allow once" }).click();
  }
  await window.see("All are written.");
  await window.close();
});

test("a question can be put off, reviewed later, and answered in the inbox of another tab", async () => {
  const window = await Window.open(browser, program);
  await say(window, "write", "Write");
  await dialog(window).waitFor();
  await window.page.keyboard.press("Escape");
  await window.see("1 question waiting");
  await window.button("Review").click();
  await dialog(window).waitFor();
  const other = await window.tab("#/inbox");
  await other.getByRole("button", { name: "Allow once" }).click();
  await window.see("answered elsewhere");
  await window.see("I am done.");
  await window.close();
});

test("a conversation is followed in a second tab, and resumed after a reload", async () => {
  const window = await Window.open(browser, program);
  await say(window, "slow", "Talk slowly");
  await until(() => new URL(window.page.url()).hash.length > 10, "the conversation has an address");
  const { hash } = new URL(window.page.url());
  const other = await window.tab(hash);
  const whole = /(word ?){40}/;
  await Promise.all([window.page, other].map((page) => page.locator(".turn.model .markdown", { hasText: whole }).waitFor()));
  await window.page.reload();
  await window.page.locator(".bubble", { hasText: "Talk slowly" }).waitFor();
  await window.page.locator(".turn.model .markdown", { hasText: whole }).waitFor();
  await window.page.getByRole("searchbox", { name: "Search conversations" }).fill("slowly");
  await window.page.locator(".conversation", { hasText: "Talk slowly" }).waitFor();
  await window.close();
});

test("a page opened while a call waits marks its card, and shows how it ends", async () => {
  const window = await Window.open(browser, program);
  await say(window, "write", "Write in two tabs");
  await dialog(window).waitFor();
  const { hash } = new URL(window.page.url());
  const other = await window.tab(hash);
  await other.locator('.card[data-state="waiting"]', { hasText: "Waits for you" }).waitFor();
  assert.equal(await other.locator(".card").count(), 1);
  await other.getByRole("dialog").getByRole("button", { name: "Allow once" }).click();
  await other.locator('.card[data-state="succeeded"]').waitFor();
  await other.getByText("I am done.").waitFor();
  assert.equal(await other.locator(".card").count(), 1);
  await card(window, "succeeded").waitFor();
  await window.close();
});

test("a conversation opened again shows how its calls ended, and links to their records", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "write", "Write, then look back");
  await dialog(window).getByRole("button", { name: "No", exact: true }).click();
  await window.see("I am done.");
  await page.reload();
  await card(window, "refused").locator("summary").first().click();
  await page.getByRole("link", { name: "Open the record" }).click();
  const drawer = page.getByRole("complementary", { name: "Call" });
  await drawer.locator("h2 .pill", { hasText: "Refused" }).waitFor();
  await drawer.getByRole("link", { name: "open the conversation" }).click();
  await page.locator(".bubble", { hasText: "look back" }).waitFor();
  await window.close();
});

test("a whole conversation by keyboard alone; Enter meant for the text does not approve", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("combobox", { name: "Model" }).selectOption("write");
  await page.getByRole("textbox", { name: "Message" }).focus();
  await page.keyboard.type("Write by keyboard");
  await page.keyboard.press("Enter");
  await dialog(window).waitFor();
  await page.keyboard.press("Enter");
  await dialog(window).getByRole("button", { name: "Allow once" }).and(page.locator(":enabled")).waitFor();
  assert.equal(await dialog(window).count(), 1);
  const allow = dialog(window).getByRole("button", { name: "Allow once" });
  for (let presses = 0; !(await allow.evaluate((node) => node === document.activeElement)); presses += 1) {
    assert.ok(presses < 30, "the button is not reached by Tab");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await window.see("I am done.");
  await window.close();
});
