// The screen Inbox: approvals and forms of clients of the gateway, answered here, elsewhere, and by keyboard alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { NOTES, Program, SAMPLE } from "../program.mjs";

const policy = { rules: [{ match: { tool: "write_memo" }, then: "ask", reason: "memos are read by everyone" }] };
const scripts = { asker: { turns: [{ calls: [{ tool: "notes__order_lunch" }] }, { text: "{{result}}" }] } };
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, notes: NOTES }, policy, scripts })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const item = (window) => window.page.locator(".item");
const isRefused = (answer) => Boolean(answer.error) || answer.result.isError === true;

async function ask(text) {
  const client = await program.client("asking");
  return client.call("sample__write_memo", { text });
}

async function opened() {
  const window = await Window.open(browser, program);
  await window.show("#/inbox");
  await window.see("Nothing waits for you");
  return window;
}

test("an approval shows the arguments, the warning and the rule, and allows once", async () => {
  const window = await opened();
  const answer = ask("buy milk");
  await item(window).getByText("buy milk").first().waitFor();
  await item(window).locator(".warning").first().waitFor();
  await item(window).getByText("memos are read by everyone").waitFor();
  await until(async () => (await window.page.title()).startsWith("(1)"), "the title counts");
  await window.button("Allow once").click();
  assert.equal(isRefused(await answer), false);
  await window.see("Nothing waits for you");
  await window.close();
});

test("a no refuses the call, with a reason", async () => {
  const window = await opened();
  const answer = ask("sell everything");
  await item(window).waitFor();
  await window.page.getByLabel("Reason for a no").fill("not today");
  await window.button("No").click();
  assert.equal(isRefused(await answer), true);
  await window.close();
});

test("a question that comes while another screen is open is said, and leads to the inbox", async () => {
  const window = await opened();
  await window.show("#/servers");
  const answer = ask("look here");
  await window.see("A client of the gateway wants to use sample");
  await window.page.getByRole("link", { name: "Review" }).click();
  await item(window).getByText("look here").first().waitFor();
  await window.button("No").click();
  assert.equal(isRefused(await answer), true);
  await window.close();
});

test("an item answered elsewhere disappears and is said", async () => {
  const window = await opened();
  const other = await window.tab("#/inbox");
  const answer = ask("answered in the other tab");
  await item(window).waitFor();
  await other.getByRole("button", { name: "Allow once" }).click();
  await window.see("answered elsewhere");
  await item(window).waitFor({ state: "detached" });
  assert.equal(isRefused(await answer), false);
  await window.close();
});

test("a form of a server is filled in by keyboard alone; a missing field is said", async () => {
  const window = await opened();
  const { page } = window;
  const other = await window.tab("#/chat");
  await other.getByRole("textbox", { name: "Message" }).fill("Order lunch");
  await other.keyboard.press("Enter");
  await item(window).waitFor();
  await item(window).getByRole("button", { name: "Send" }).and(page.locator(":enabled")).waitFor();
  await page.keyboard.press("Tab");
  const reach = async (locator) => {
    for (let presses = 0; presses < 40; presses += 1) {
      if (await locator.evaluate((node) => node === document.activeElement)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error("the control is not reached by Tab");
  };
  await reach(item(window).getByRole("combobox", { name: "Dish" }));
  await page.keyboard.press("Home");
  await reach(item(window).getByRole("button", { name: "Send" }));
  await page.keyboard.press("Enter");
  await item(window).getByText("This is required.").first().waitFor();
  await page.keyboard.type("curry");
  await reach(item(window).getByRole("button", { name: "Send" }));
  await page.keyboard.press("Enter");
  await other.locator(".markdown", { hasText: "curry" }).waitFor();
  await window.close();
});

test("an approval is given by keyboard alone, and focus goes on to the next item", async () => {
  const window = await opened();
  const { page } = window;
  const answers = [ask("first")];
  await item(window).first().waitFor();
  answers.push(ask("second"));
  await item(window).nth(1).waitFor();
  await item(window).nth(1).getByRole("button", { name: "Allow once" }).and(page.locator(":enabled")).waitFor();
  for (const number of [0, 1]) {
    const button = item(window).first().getByRole("button", { name: "Allow once" });
    for (let presses = 0; !(await button.evaluate((node) => node === document.activeElement)); presses += 1) {
      assert.ok(presses < 40, "the button is not reached by Tab");
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Enter");
    await until(async () => (await item(window).count()) === 1 - number, "the item is gone");
  }
  for (const answer of await Promise.all(answers)) assert.equal(isRefused(answer), false);
  await window.close();
});

test("never refuses this call and the next one, without asking again, and is listed", async () => {
  const window = await opened();
  const names = new Set((await program.run("trust", "list")).split("\n"));
  const answer = ask("never");
  await window.button("Never").click();
  assert.equal(isRefused(await answer), true);
  assert.equal(isRefused(await ask("never again")), true);
  await window.see("Nothing waits for you");
  const added = (await program.run("trust", "list", "-o", "json").then(JSON.parse)).find((entry) => JSON.stringify(entry).includes("write_memo"));
  assert.ok(added, [...names].join("\n"));
  await program.run("trust", "remove", added.id);
  await window.close();
});

test("always lifts the question, and is listed", async () => {
  const window = await opened();
  const answer = ask("always");
  await window.button("Always allow").click();
  assert.equal(isRefused(await answer), false);
  assert.equal(isRefused(await ask("always")), false);
  assert.match(await program.run("trust", "list"), /write_memo/);
  await window.close();
});
