// The screen Servers, with real servers behind it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { CRASHES, NOTES, Program, SAMPLE, TOOLWAY } from "../program.mjs";
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

test("a snippet is read, tested and added only after consent", async () => {
  const window = await Window.open(browser, program);
  await window.page.getByRole("link", { name: "Add", exact: true }).click();
  const text = window.page.getByLabel("Snippet, command or URL");
  await text.fill(JSON.stringify({ mcpServers: { "from-readme": { command: TOOLWAY, args: ["sample"], env: { GREETING: "x" } } } }));
  await window.see("GREETING");
  assert.equal(await window.button("Test connection").isDisabled(), true);
  await window.page.getByRole("checkbox").check();
  await window.button("Test connection").click();
  await window.see("It works.");
  await text.press("End");
  await text.pressSequentially(" ");
  await until(() => window.button("Add server").isDisabled(), "an edit takes the consent back");
  await until(async () => !(await window.page.getByRole("checkbox").isChecked()), "the box is empty again");
  await window.page.getByRole("checkbox").check();
  await window.button("Add server").click();
  await window.page.locator(".server-title", { hasText: "Connected" }).waitFor();
  assert.equal(new URL(window.page.url()).hash, "#/servers/from-readme");
  assert.match(await program.run("servers", "list"), /from-readme/);
  await window.close();
});

test("every shape that import reads can be added, and a misspelled URL is no program", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/add");
  const text = window.page.getByLabel("Snippet, command or URL");
  for (const snippet of [
    `mcp:\n  servers:\n    - id: pasted\n      transport: {type: stdio, executable: ${TOOLWAY}, args: [sample]}\n`,
    JSON.stringify([{ name: "pasted", command: TOOLWAY, args: ["sample"] }]),
    JSON.stringify({ context_servers: { pasted: { command: { path: TOOLWAY, args: ["sample"] } } } }),
    `[mcp_servers.pasted]\ncommand = "${TOOLWAY}"\nargs = ["sample"]\n`,
  ]) {
    await text.fill(snippet);
    await window.see(`${TOOLWAY} sample`);
    await text.fill("");
  }
  await text.fill("htp://x");
  await window.see("is not the URL of a server");
  window.expect(/status of 4\d\d/);
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

test("a server that cannot start is explained before it is added", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/add");
  await window.page.getByLabel("Snippet, command or URL").fill(`${TOOLWAY} sample --play crashes`);
  await window.page.getByRole("checkbox").check();
  await window.button("Test connection").click();
  await window.see("The test failed");
  await window.page.locator(".problem .stderr").waitFor();
  await window.page.getByLabel("Snippet, command or URL").fill("{ not a snippet");
  await window.page.locator(".problem").first().waitFor();
  window.expect(/status of 4\d\d/);
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
  await window.page.getByRole("checkbox").check();
  await window.button("Test connection").click();
  await window.see("It answers, and requires a sign-in.");
  await window.show("#/servers/tickets");
  window.expect(/request to http:\/\/127\.0\.0\.1/);
  const { page } = window;
  await page.locator('a[href="#/servers/tickets"]').getByText("Sign-in required").waitFor();
  await window.see("This server requires a sign-in");
  const decide = async (answer) => {
    await window.button("Sign in").click();
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
