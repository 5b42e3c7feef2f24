// Tools, resources, prompts, the inbox, the chat and others while something is lost: the connection, the session, the server whose form is
// open; and in two tabs. What was typed stays, and what happened is said.
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { Program, SAMPLE } from "../program.mjs";

let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE }, scripts: { files: { turns: [{ heard: ["a text in a file"], text: "I read it." }] } } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const result = (page) => page.getByRole("region", { name: "Result" });
const text = (page) => page.getByLabel(/^text /);

// Takes the session of the browser away, as its end does.
async function signOut(window) {
  // The cookie of the next session comes before its token.
  window.expect(/status of 40[13]/);
  await window.context.clearCookies();
}

// Signs in again in another tab, and goes on in this one.
async function signIn(window) {
  const { page } = window;
  await window.see("You are signed out; what you typed is still here.");
  const other = await window.context.newPage();
  await other.goto(await window.program.newLink());
  await other.waitForSelector("#nav a[aria-current]");
  await page.bringToFront();
  // The page may have noticed by itself.
  window.button("Try again").click({ timeout: 1000 }).catch(() => {});
  await page.locator("#foot", { hasText: "Live" }).waitFor();
  await other.close();
}

// Disables or enables the server; on the page of the window, as another tab would.
async function turn(window, verb) {
  await window.page.evaluate(async (wanted) => {
    const headers = { "content-type": "application/json", "x-toolway-csrf": localStorage.getItem("toolway-key") };
    await fetch(`/api/v1/servers/sample/${wanted}`, { method: "POST", headers, body: "{}" });
  }, verb);
}

test("the arguments of a tool outlast a lost connection and the end of the session", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const { page } = window;
  window.expect(/ERR_|Failed to load|network|status of 401/);
  await window.show("#/tools/sample/echo");
  await text(page).fill("kept");
  const { host } = new URL(own.origin);
  await own.kill();
  await window.see("The connection to Toolway is lost");
  await window.button("Run").click();
  await result(page).getByText("Toolway does not respond").waitFor();
  assert.equal(await text(page).inputValue(), "kept");
  // A new process knows no session of the one before.
  await own.serve(host);
  await signIn(window);
  await window.button("Run").click();
  await result(page).locator(".pill", { hasText: "Succeeded" }).waitFor();
  await result(page).getByText("kept").first().waitFor();
  await window.close();
});

test("the values of a template and of a prompt outlast the end of the session", async () => {
  for (const [place, verb, answer] of [["#/resources/sample/greeting%3A%2F%2F%7Bname%7D", "Read", "Hello, Ada"], ["#/prompts/sample/introduce", "Preview", "Ada"]]) {
    const window = await Window.open(browser, program);
    const { page } = window;
    await window.show(place);
    await page.getByLabel("name").fill("Ada");
    await signOut(window);
    await window.button(verb).click();
    await signIn(window);
    assert.equal(await page.getByLabel("name").inputValue(), "Ada");
    await window.button(verb).click();
    await result(page).getByText(answer).first().waitFor();
    await window.close();
  }
});

test("a form in the inbox outlasts the end of the session, and is sent afterwards", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const runs = await window.tab("#/tools/sample/greet");
  await runs.getByRole("button", { name: "Run", exact: true }).click();
  await window.show("#/inbox");
  const item = page.locator(".item");
  await item.getByRole("textbox").first().fill("Grace");
  await signOut(window);
  await item.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
  await signIn(window);
  assert.equal(await item.getByRole("textbox").first().inputValue(), "Grace");
  await item.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
  await item.waitFor({ state: "detached" });
  const client = await program.client();
  await until(async () => (await client.request("ping")) && (await program.run("calls", "list", "-o", "json")).includes('"succeeded"'), "the call has ended");
  await window.close();
});

test("a message that is typed, and what is attached to it, outlast the end of the session", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/chat");
  await page.getByRole("textbox", { name: "Message" }).fill("kept in mind");
  await page.locator('.composer input[type="file"]').setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a text in a file") });
  await page.locator(".composer .attached", { hasText: "about 4 tokens" }).waitFor();
  await signOut(window);
  await window.button("Send").click();
  await signIn(window);
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "kept in mind");
  await page.locator(".composer .attached", { hasText: "notes.txt" }).waitFor();
  await window.button("Send").click();
  await window.see("I read it.");
  await page.locator(".turn.user .attached", { hasText: "notes.txt" }).waitFor();
  assert.deepEqual(await page.locator(".bubble").allTextContents(), ["kept in mind"]);
  await window.close();
});

test("what was chosen for an import outlasts the end of the session", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE } });
  story.after(() => own.stop());
  await mkdir(join(own.home, ".cursor"));
  await writeFile(join(own.home, ".cursor/mcp.json"), JSON.stringify({ mcpServers: { one: SAMPLE, two: SAMPLE } }));
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/import");
  await page.getByRole("checkbox", { name: /^two/ }).check();
  await signOut(window);
  await window.button("Import 1 server").click();
  await signIn(window);
  assert.equal(await page.getByRole("checkbox", { name: /^two/ }).isChecked(), true);
  await window.button("Import 1 server").click();
  await window.see("1 server imported");
  await window.close();
});

test("screens that hold nothing typed say that the session ended, and are back after signing in", async () => {
  for (const [place, words] of [["#/calls", "Calls"], ["#/tasks", "Tasks"], ["#/assistants", "Assistants"], ["#/tools", "Choose a tool"]]) {
    const window = await Window.open(browser, program);
    const { page } = window;
    await window.show(place);
    await window.see(words);
    await window.context.clearCookies();
    window.expect(/status of 40[13]/);
    // Another place is read, without a session.
    await window.show("#/servers");
    await window.show(place);
    await window.see("Signed out");
    const other = await window.context.newPage();
    await other.goto(await program.newLink());
    await other.waitForSelector("#nav a[aria-current]");
    await window.button("Try again").click();
    await page.getByRole("main").getByText(words).first().waitFor();
    await window.close();
  }
});

test("two tabs show one run: its progress, and that the other one cancelled it", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/tools/sample/count");
  await page.getByLabel(/^to /).fill("1000");
  await page.getByLabel(/^pause /).fill("1000");
  await window.button("Run").click();
  await until(() => page.url().includes("run="), "the address has the run");
  const other = await window.tab(new URL(page.url()).hash);
  await other.getByLabel(/^to /).waitFor();
  await until(async () => (await other.getByLabel(/^to /).inputValue()) === "1000", "the arguments are there");
  await result(other).locator(".pill", { hasText: "Running" }).waitFor();
  await result(other).getByRole("button", { name: "Cancel" }).click();
  await Promise.all([page, other].map((tab) => result(tab).locator(".pill", { hasText: "Cancelled" }).waitFor()));
  // What one tab types is its own.
  await page.getByLabel(/^to /).fill("7");
  assert.equal(await other.getByLabel(/^to /).inputValue(), "1000");
  await window.close();
});

test("a server that goes while the form of its prompt or template is open is said, and again when it is back", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  for (const [place, verb] of [["#/prompts/sample/introduce", "Preview"], ["#/resources/sample/greeting%3A%2F%2F%7Bname%7D", "Read"]]) {
    await window.show(place);
    await page.getByLabel("name").fill("Ada");
    await turn(window, "disable");
    await window.see("The server does not offer this now. What you typed stays here.");
    await window.button(verb).click();
    await result(page).locator(".problem").waitFor();
    assert.equal(await page.getByLabel("name").inputValue(), "Ada");
    await turn(window, "enable");
    await page.getByText("The server does not offer this now.").waitFor({ state: "detached" });
    await window.button(verb).click();
    await result(page).getByText("Ada").first().waitFor();
  }
  window.expect(/status of 4\d\d/);
  await window.close();
});

test("an item of a server that goes is taken away, and that is said", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const runs = await window.tab("#/tools/sample/greet");
  await runs.getByRole("button", { name: "Run", exact: true }).click();
  await window.show("#/inbox");
  await page.locator(".item.form").getByRole("textbox").first().fill("half a na");
  await turn(window, "disable");
  await page.locator(".item.form").waitFor({ state: "detached" });
  await window.see("An item was answered elsewhere, or its call ended.");
  await turn(window, "enable");
  await window.close();
});
