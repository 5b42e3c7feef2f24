// The screen Servers, with real servers behind it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { CRASHES, everythingOverHttp, NOTES, Program, SAMPLE } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, notes: NOTES, broken: CRASHES, off: { ...SAMPLE, disabled: true } } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

test("servers are listed with their state, a failed one with its cause", async () => {
  const window = await Window.open(browser, program);
  const row = (name) => window.page.locator(`a[href="#/servers/${name}"]`);
  await row("sample").getByText("Connected").waitFor();
  await row("off").getByText("Disabled").waitFor();
  await row("broken").click();
  await window.page.locator(".detail .problem").waitFor();
  await window.page.locator(".detail .stderr").waitFor();
  await row("notes").click();
  await window.page.locator(".detail").getByText("2025-11-25").or(window.page.locator(".detail").getByText("2026-07-28")).first().waitFor();
  await window.page.locator(".detail .fact-grid").getByText("stdio").waitFor();
  await window.close();
});

test("a tool shows its hints, arguments and schema; Escape returns to the list", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/servers/sample");
  const list = window.page.getByRole("listbox", { name: "Tools" });
  await list.getByText("write_memo").waitFor();
  await window.page.getByRole("searchbox", { name: "Filter tools" }).fill("memo");
  await until(async () => (await list.getByRole("option").count()) === 1, "the filter leaves one tool");
  await list.getByRole("option").click();
  const drawer = window.page.getByRole("complementary", { name: "Tool" });
  await drawer.getByText("destructive").waitFor();
  await drawer.getByText("string, required").waitFor();
  await drawer.getByText("sample__write_memo").waitFor();
  await list.focus();
  await window.page.keyboard.press("Escape");
  await drawer.waitFor({ state: "hidden" });
  await window.close();
});

test("a server is disconnected, connected, restarted, disabled and enabled, in every tab", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/servers/notes");
  const other = await window.tab("#/servers/notes");
  const state = (word) => Promise.all([window.page, other].map((page) => page.locator(".server-title .pill", { hasText: new RegExp(`^${word}$`) }).waitFor()));
  await state("Connected");
  for (const [button, word] of [["Disconnect", "Not connected"], ["Connect", "Connected"], ["Restart", "Connected"], ["Disable", "Disabled"], ["Enable", "Connected"]]) {
    await window.button(button).click();
    await state(word);
  }
  await window.close();
});

test("a server shows its whole command, capabilities, roots with their origin, processes and recent calls", async (story) => {
  const reference = await everythingOverHttp();
  const servers = { notes: { ...NOTES, roots: [{ uri: "file:///home/ada/notes", name: "notes" }], env: { LOG: "1" } }, every: { url: reference.url } };
  const own = await Program.start({ servers, settings: { roots: [{ uri: "file:///srv/shared" }], gateway: { clients: { story: { roots: [{ uri: "file:///srv/story" }] } } } } });
  story.after(async () => {
    reference.child.kill();
    await own.stop();
  });
  const client = await own.client();
  await client.call("notes__list_notes");
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/servers/notes");
  await page.locator(".fact-grid").getByText("toolway sample --play notes").waitFor();
  const fold = async (title) => {
    const part = page.locator(".folds details", { has: page.locator("summary", { hasText: title }) });
    await part.locator("summary").click();
    return part;
  };
  const roots = await fold("Roots that it is given");
  assert.deepEqual(await roots.locator(".root").allInnerTexts(), ["file:///srv/shared for all servers", "file:///home/ada/notes notes of its own entry", "file:///srv/story configured for the client story, in its calls"]);
  await (await fold("Capabilities")).getByText("tools", { exact: true }).waitFor();
  await (await fold("Recent calls")).getByText("list_notes").waitFor();
  const connections = await fold("Connections and processes");
  await connections.getByRole("cell", { name: "story" }).waitFor();
  assert.match(await connections.innerText(), /MB|KB/);
  await window.show("#/servers/every");
  await page.locator(".fact-grid > div", { hasText: "Session" }).locator("code").waitFor();
  const id = await page.locator(".fact-grid > div", { hasText: "Session" }).locator("code").innerText();
  assert.match(await own.run("servers", "show", "every"), new RegExp(id));
  await window.close();
});

test("the reason of a failure stays while it is tried again, and the badge counts what needs a person", async (story) => {
  const tickets = await startSigned();
  story.after(() => tickets.close());
  const own = await Program.start({ servers: { sample: SAMPLE, gone: { url: "http://127.0.0.1:1/mcp", reconnect: { initialDelay: "100ms", maxDelay: "100ms" } }, tickets: { url: tickets.url } } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  await window.show("#/servers/gone");
  await window.page.locator(".detail .problem").waitFor();
  // Over several attempts.
  const lost = window.page.evaluate(() => new Promise((done) => {
    const detail = document.querySelector(".detail");
    let changes = 0;
    let isLost = false;
    const observer = new MutationObserver(() => {
      isLost ||= detail.querySelector(".problem") === null;
      if (++changes > 6) done(isLost);
    });
    observer.observe(detail, { childList: true, subtree: true });
    setTimeout(() => done(isLost), 4000);
  }));
  assert.equal(await lost, false);
  // The one that is tried again does not.
  await window.page.locator('#nav a[href="#/servers"] .badge', { hasText: "1" }).waitFor();
  await window.close();
});

test("the name of a server is the user's, its own title stands beside it", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/servers/sample");
  const heading = window.page.locator(".server-title h2");
  await heading.waitFor();
  assert.equal(await heading.locator(".name").first().innerText(), "sample");
  assert.equal(await heading.locator(".name.sub").count(), 1);
  await window.close();
});

test("a server that requires a sign-in says so, opens its page, tells of a refusal, and is connected afterwards", async (story) => {
  const tickets = await startSigned();
  story.after(() => tickets.close());
  const signed = await Program.start({ servers: { tickets: { url: tickets.url } }, scripts: { reader: { turns: [{ calls: [{ tool: "tickets__list_tickets" }] }, { text: "The server said: {{result}}" }] } } });
  story.after(() => signed.stop());
  const window = await Window.open(browser, signed);
  await window.show("#/add");
  await window.page.getByLabel("Snippet, command or URL").fill(tickets.url);
  await window.page.getByRole("checkbox", { name: "Connect to" }).check();
  await window.button("Test connection").click();
  await window.see("It answers, and requires a sign-in.");
  await window.show("#/servers/tickets");
  window.expect(/request to http:\/\/127\.0\.0\.1/);
  const { page } = window;
  await page.locator('a[href="#/servers/tickets"]').getByText("Sign-in required").waitFor();
  await window.see("This server requires a sign-in");
  const decide = async (answer) => {
    await window.button("Authorize").click();
    await page.locator(".sign-in .address", { hasText: new URL(tickets.url).origin }).waitFor();
    const [authorization] = await Promise.all([window.context.waitForEvent("page"), page.getByRole("link", { name: "Open the sign-in page" }).click()]);
    await window.see("Waiting for you to finish there");
    await authorization.getByRole("link", { name: answer }).click();
  };
  // The page that a refusal ends at.
  window.expect(/status of 400/);
  await decide("Refuse");
  await window.see("The sign-in failed");
  await decide("Agree");
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  await page.getByRole("listbox", { name: "Tools" }).getByText("list_tickets").waitFor();
  await window.show("#/chat");
  await page.getByRole("textbox", { name: "Message" }).fill("List my tickets");
  await page.keyboard.press("Enter");
  await window.see("The server said: No open tickets.");
  await window.close();
});
