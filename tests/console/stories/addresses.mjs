// The address of the page is its state: what is shown can be opened again, shared with another tab, and left with Back; and
// the keys that open screens.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { conformance, Program, SAMPLE } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

let browser, program, client;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, jobs: { ...conformance(), trust: "full" } }, policy: { mode: "allow", rules: [{ match: { tool: "write_memo" }, then: "ask" }] } })]);
  client = await program.client();
  await client.call("sample__echo", { text: "one" });
  await client.call("sample__fail");
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const hashOf = (page) => new URL(page.url()).hash;
const rows = (page) => page.getByRole("listbox", { name: "Calls" }).getByRole("option");

test("filters of calls and the open call are in the address, for another tab and for Back", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/calls");
  await rows(page).nth(1).waitFor();
  await page.getByRole("combobox", { name: "State" }).selectOption("tool-error");
  await page.getByRole("combobox", { name: "Server" }).selectOption("sample");
  await until(() => hashOf(page).includes("state=tool-error") && hashOf(page).includes("server=sample"), "the filter is in the address");
  await rows(page).first().click();
  await page.locator(".drawer .facts").first().waitFor();
  const other = await window.tab(hashOf(page));
  await other.locator(".drawer .facts").first().waitFor();
  assert.equal(await other.getByRole("combobox", { name: "State" }).inputValue(), "tool-error");
  await until(async () => (await rows(other).count()) === 1, "the other tab has the same filter");
  await page.goBack();
  await page.locator(".drawer").waitFor({ state: "hidden" });
  assert.ok(hashOf(page).includes("state=tool-error"));
  // The entry of the navigation shows all again.
  await page.getByRole("link", { name: "Calls", exact: true }).click();
  await until(async () => (await rows(page).count()) > 1, "all calls are shown");
  assert.equal(await page.getByRole("combobox", { name: "State" }).inputValue(), "");
  await window.close();
});

test("calls between two days are found, days in the wrong order are said, and a wrong address is ignored", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const day = (days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  await window.show("#/calls?since=dates");
  await page.getByLabel("First day").fill(day(-2));
  await page.getByLabel("Last day").fill(day(1));
  await until(() => hashOf(page).includes(`to=${day(1)}`), "the days are in the address");
  await rows(page).nth(1).waitFor();
  await page.getByLabel("Last day").fill(day(-9));
  await window.see("The first day is after the last one.");
  await window.show(`#/calls?since=dates&to=${day(-1)}`);
  await window.see("No call matches");
  await window.show("#/calls?since=yesterday&state=odd&from=never&tool=%3Cb%3E");
  await window.see("No call matches");
  assert.equal(await page.getByRole("combobox", { name: "State" }).inputValue(), "");
  await window.button("Clear all filters").click();
  await rows(page).nth(1).waitFor();
  assert.equal(hashOf(page), "#/calls");
  await window.close();
});

test("a tool of a server and the filter of its tools are in the address", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/servers/sample");
  await page.getByRole("searchbox", { name: "Filter tools" }).fill("memo");
  await page.locator(".tool-row", { hasText: "write_memo" }).click();
  await page.locator(".drawer .arguments").waitFor();
  assert.equal(hashOf(page), "#/servers/sample/tools/write_memo?filter=memo");
  const other = await window.tab(hashOf(page));
  await other.locator(".drawer h2", { hasText: "memo" }).waitFor();
  assert.equal(await other.getByRole("searchbox", { name: "Filter tools" }).inputValue(), "memo");
  await page.keyboard.press("Escape");
  await until(() => hashOf(page) === "#/servers/sample?filter=memo", "the tool is closed");
  await window.show("#/servers/sample/tools/no_such_tool");
  await until(() => hashOf(page) === "#/servers/sample", "an unknown tool opens its server");
  await window.close();
});

test("an item of the inbox has an address, and one that is gone is said", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const answers = ["one", "two"].map((text) => client.call("sample__write_memo", { text }));
  await window.show("#/inbox");
  await page.locator(".item").nth(1).waitFor();
  const id = await page.locator(".item").nth(1).getAttribute("data-item");
  const other = await window.tab(`#/inbox/${id}`);
  await until(() => other.evaluate((wanted) => document.activeElement?.closest("[data-item]")?.dataset.item === wanted, id), "the item has the focus");
  // The keys of the inbox move, and the address with them.
  await page.locator(".item h2").first().focus();
  await page.keyboard.press("j");
  await until(() => hashOf(page) === `#/inbox/${id}`, "the address names the item");
  await window.button("Decline all").and(page.locator(":enabled")).click();
  await Promise.all(answers);
  await window.see("Nothing waits for you");
  await window.show("#/servers");
  await window.show(`#/inbox/${id}`);
  await window.see("This item was answered, or its call ended.");
  await window.close();
});

test("a call that its server continues leads to its task and back, and is cancelled there", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const { result } = await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 600 }, task: { ttl: 60_000 } });
  assert.ok(result.task.taskId);
  await window.show("#/calls");
  await rows(page).filter({ hasText: "Running" }).first().click();
  await page.locator(".drawer .task-line").waitFor();
  await page.locator(".drawer").getByRole("link", { name: "open it" }).click();
  const task = page.getByRole("complementary", { name: "Task" });
  await task.getByText("600").waitFor();
  await task.getByRole("link", { name: "its record" }).click();
  await page.locator(".drawer .task-line").getByRole("button", { name: "Cancel" }).click();
  await page.locator(".drawer h2 .pill", { hasText: "Cancelled" }).waitFor();
  await page.locator(".drawer dd .pill", { hasText: "Cancelled" }).waitFor();
  await window.close();
});

test("keys open screens, the search and their own list, and can be turned off", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keys" });
  await dialog.getByText("Search on this screen").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  for (const [letter, place] of [["l", "#/calls"], ["i", "#/inbox"], ["k", "#/tasks"], ["c", "#/chat"], ["a", "#/assistants"], ["s", "#/servers"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(letter);
    await until(() => hashOf(page).startsWith(place), place);
  }
  await page.locator(".tool-row").first().waitFor();
  await page.keyboard.press("/");
  // In a field they are text.
  await page.keyboard.type("g?/l");
  assert.equal(await page.getByRole("searchbox", { name: "Filter tools" }).inputValue(), "g?/l");
  await page.locator("main").focus();
  await window.button("Keys").click();
  await dialog.getByRole("checkbox").uncheck();
  await page.keyboard.press("Escape");
  await page.locator("main").focus();
  await page.keyboard.press("?");
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  assert.equal(await dialog.count(), 0);
  assert.ok(hashOf(page).startsWith("#/servers"));
  await window.close();
});

test("a notification of the browser tells of an item while the page is in the background, and opens it", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.context.addInitScript(() => {
    window.told = [];
    window.Notification = class {
      static permission = "default";
      static async requestPermission() {
        return (this.permission = "granted");
      }
      constructor(title, options) {
        this.said = { title, ...options };
        window.told.push(this);
      }
      close() {
        this.closed = true;
      }
    };
    document.hasFocus = () => window.watched ?? true;
  });
  await page.goto(`${program.origin}/#/inbox`);
  await page.reload();
  await page.getByRole("checkbox", { name: "Notify me while this page is in the background" }).check();
  const first = client.call("sample__write_memo", { text: "while it is watched" });
  await page.locator(".item", { hasText: "while it is watched" }).waitFor();
  assert.equal(await page.evaluate(() => window.told.length), 0, "none while the page has the focus");
  await page.evaluate(() => (window.watched = false));
  await window.show("#/servers");
  const second = client.call("sample__write_memo", { text: "while it is not" });
  await until(() => page.evaluate(() => window.told.length === 1), "one notification");
  const { title, body } = await page.evaluate(() => window.told[0].said);
  assert.deepEqual([title, body], ["Toolway", "The client story wants to use sample"]);
  const waiting = await page.evaluate(async () => (await (await fetch("/api/v1/inbox")).json()).length);
  await until(async () => (await page.title()).startsWith(`(${waiting})`), "the title counts what waits");
  await page.evaluate(() => window.told[0].onclick());
  await until(() => hashOf(page).startsWith("#/inbox/"), "it opens the item");
  await window.button("Decline all").and(page.locator(":enabled")).click();
  await Promise.all([first, second]);
  await until(() => page.evaluate(() => window.told[0].closed), "it is closed with its item");
  await page.getByRole("checkbox", { name: "Notify me while this page is in the background" }).uncheck();
  await window.close();
});

test("an address calls no server and begins no sign-in: what acts is a click on the page", async (story) => {
  const tickets = await startSigned();
  story.after(() => tickets.close());
  const scripts = { introduce: { turns: [{ text: "never" }] } };
  const own = await Program.start({ servers: { sample: SAMPLE, tickets: { url: tickets.url } }, scripts, settings: { assistants: { helper: { description: "Helps", model: "introduce", servers: ["sample"] } } } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const { page } = window;
  const calls = async () => (await page.evaluate(async () => (await fetch("/api/v1/calls?limit=100")).json())).calls;
  const registered = () => tickets.asked.filter((path) => path === "/register").length;
  const opened = async (address, check) => {
    const tab = await window.tab(address);
    await check(tab);
    await tab.close();
    await window.show("#/calls");
    await window.show(address);
    await check(page);
  };
  const blank = async (tab) => {
    await tab.getByText("New conversation").first().waitFor();
    await tab.getByRole("textbox", { name: "Message" }).waitFor();
    assert.equal(await tab.locator(".composer .attached").count(), 0);
  };
  await opened("#/chat?prompt=sample/introduce&arg.name=Eve", blank);
  await opened("#/chat?assistant=helper&prompt=sample%2Fintroduce&arg.name=Eve", blank);
  await opened("#/prompts/sample/introduce?arg.name=Eve&run=01981111-0000-7000-8000-000000000000", async (tab) => {
    await until(async () => (await tab.getByLabel("name").inputValue()) === "Eve", "it is filled in");
    await tab.getByRole("button", { name: "Preview" }).waitFor();
  });
  await opened("#/resources/sample/memo:%2F%2Ftoday", (tab) => tab.getByRole("button", { name: "Read" }).waitFor());
  await opened("#/servers/tickets/authorize", (tab) => tab.getByRole("button", { name: "Authorize" }).and(tab.locator(":enabled")).waitFor());
  assert.deepEqual(await calls(), []);
  assert.equal(registered(), 0);
  // The same by clicks; Back and Forward do not repeat them.
  await window.button("Authorize").click();
  await page.locator(".sign-in .address", { hasText: tickets.origin }).waitFor();
  assert.equal(registered(), 1);
  await window.show("#/prompts/sample/introduce?arg.name=Ada");
  await until(async () => (await page.getByLabel("name").inputValue()) === "Ada", "it is filled in");
  await window.button("Use in chat").click();
  await page.locator(".composer .attached", { hasText: "token" }).waitFor();
  await page.goBack();
  await window.button("Use in chat").waitFor();
  await page.goForward();
  await window.see("New conversation");
  await until(async () => (await calls()).length === 1, "the prompt is read once");
  assert.equal(await page.locator(".composer .attached").count(), 1);
  window.expect(/404/);
  await window.close();
});
