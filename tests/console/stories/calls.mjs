// The screen Calls: live rows, filters, the drawer, cancelling.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { Program } from "../program.mjs";

let browser, program, client;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start()]);
  client = await program.client("story-client");
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const rows = (window) => window.page.getByRole("listbox", { name: "Calls" }).getByRole("option");
const drawer = (window) => window.page.getByRole("complementary", { name: "Call" });

test("without calls the screen says what to do", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  await window.see("No calls yet");
  await window.see("toolway call SERVER.TOOL");
  await window.close();
});

test("a call appears at once and shows arguments, result, rule and times", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  await client.call("sample__add", { a: 2, b: 40 });
  await rows(window).filter({ hasText: "add" }).first().click();
  await drawer(window).getByText("Succeeded").first().waitFor();
  await drawer(window).locator(".json-number", { hasText: "40" }).waitFor();
  await drawer(window).locator(".json-key", { hasText: "sum" }).waitFor();
  for (const word of ["Rule", "Started", "Worked", "Outcome", "Caller"]) await drawer(window).locator("dt", { hasText: word }).waitFor();
  await window.close();
});

test("pictures of a result are shown", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  await client.call("sample__picture");
  await rows(window).filter({ hasText: "picture" }).first().click();
  const picture = drawer(window).getByRole("img");
  await picture.waitFor();
  await until(() => picture.evaluate((image) => image.complete && image.naturalWidth > 0), "the picture is drawn");
  await window.close();
});

test("filters leave the calls that match, also of those that come in", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  await client.call("sample__fail");
  await rows(window).filter({ hasText: "fail" }).first().waitFor();
  await window.page.getByRole("combobox", { name: "State" }).selectOption("tool-error");
  await until(async () => (await rows(window).filter({ hasNotText: "Tool error" }).count()) === 0, "only tool errors are left");
  await client.call("sample__echo", { text: "not shown" });
  await client.call("sample__fail");
  await until(async () => (await rows(window).count()) >= 2, "the new one is added");
  assert.equal(await rows(window).filter({ hasText: "echo" }).count(), 0);
  await window.page.getByRole("combobox", { name: "Tool" }).fill("no_such_tool");
  await window.see("No call matches");
  await window.button("Clear all filters").click();
  await window.page.getByRole("combobox", { name: "Tool" }).fill("ech");
  await until(async () => (await rows(window).count()) > 0 && (await rows(window).filter({ hasNotText: "echo" }).count()) === 0, "a part of a name finds its calls");
  await window.page.getByRole("combobox", { name: "Caller" }).selectOption({ label: "story" });
  await rows(window).filter({ hasText: "echo" }).first().waitFor();
  await window.close();
});

test("a running call is cancelled from its drawer, which says that it ended", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  const answer = client.call("sample__count", { to: 1000, pause: 1000 });
  await rows(window).filter({ hasText: "Running" }).first().click();
  await window.button("Cancel this call").click();
  await drawer(window).getByText("This call has just ended").waitFor();
  await drawer(window).locator("h2 .pill", { hasText: "Cancelled" }).waitFor();
  assert.ok(await answer);
  await window.close();
});

test("a call that ends while its drawer is open is said", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  const answer = client.call("sample__count", { to: 3, pause: 700 });
  await rows(window).filter({ hasText: "Running" }).first().click();
  await drawer(window).getByText("The call is running").waitFor();
  await drawer(window).getByText("This call has just ended").waitFor();
  await drawer(window).locator("h2 .pill", { hasText: "Succeeded" }).waitFor();
  await answer;
  await window.close();
});

test("arrow keys go through the list and the drawer follows", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/calls");
  await rows(window).nth(2).waitFor();
  await window.page.getByRole("listbox", { name: "Calls" }).focus();
  await window.page.keyboard.press("ArrowDown");
  await window.page.keyboard.press("Enter");
  await drawer(window).locator("h2").waitFor();
  const first = new URL(window.page.url()).hash;
  await window.page.keyboard.press("ArrowDown");
  await until(() => new URL(window.page.url()).hash !== first, "the drawer shows the next call");
  await window.page.keyboard.press("Escape");
  await drawer(window).waitFor({ state: "hidden" });
  await window.close();
});

test("a call that waits for an approval names its server, live and read again", async (story) => {
  const asked = await Program.start({ policy: { mode: "ask" } });
  story.after(() => asked.stop());
  const window = await Window.open(browser, asked);
  await window.show("#/calls");
  await window.see("No calls yet");
  const answer = (await asked.client()).call("sample__echo", { text: "wait" });
  const row = rows(window).filter({ hasText: "Waiting" });
  await row.getByText("sample /").waitFor();
  await window.page.reload();
  await row.getByText("sample /").waitFor();
  await row.click();
  await drawer(window).getByRole("link", { name: "in the inbox" }).click();
  await window.button("Allow once").click();
  assert.equal((await answer).result.isError ?? false, false);
  await window.show("#/calls");
  await rows(window).filter({ hasText: "Succeeded" }).first().click();
  for (const word of ["Worked", "Waited for a person"]) assert.match(await drawer(window).locator("dt", { hasText: word }).locator("+ dd").innerText(), /\d+(\.\d)? m?s/);
  await window.close();
});
