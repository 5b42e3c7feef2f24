// The screen Inbox: approvals and forms of clients of the gateway, answered here, elsewhere, and by keyboard alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { hostile, NOTES, Program, SAMPLE } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

const policy = { rules: [{ match: { tool: "write_memo" }, then: "ask", reason: "memos are read by everyone" }, { match: { tool: ["write_note", "append"] }, then: "ask" }] };
const scripts = { asker: { turns: [{ calls: [{ tool: "notes__order_lunch" }] }, { text: "{{result}}" }] } };
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, notes: NOTES, local: { ...hostile(), trust: "full" } }, policy, scripts })]);
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
  await window.see("The client story wants to use sample");
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

// Text that hides a part of itself, with the marks that show it.
const HOSTILE = [
  ["ls -la \u001b]; rm -rf ~/important ; echo \u0007", "ls -la ESC]; rm -rf ~/important ; echo BEL"],
  ["ls\u001bP; rm -rf x;\u001b\\", "lsESCP; rm -rf x;ESC\\"],
  ["ls\u009b;rm -rf x;m", "lsU+009B;rm -rf x;m"],
  ["rm -rf x\rls -la", "rm -rf xCRls -la"],
  ["rm\u0008\u0008ls", "rmBSBSls"],
  ["safe\u202egpj.exe", "safeRLOgpj.exe"],
  ["r\u200bm\u00ad", "rZWSPmSHY"],
  ["go\u{e0072}\u{e006d}", "goU+E0072U+E006D"],
  ["\u3164=1\u2028", "U+3164=1U+2028"],
  ["a\u0301\u0301\u0301\u0301\u0301", "a\u0301\u0301\u0301\u0301U+0301"],
];

test("hidden characters are drawn as marks, and need a second click", async () => {
  const window = await opened();
  for (const [text, shown] of HOSTILE) {
    const answer = ask(text);
    await item(window).waitFor();
    assert.equal(await item(window).locator(".argument-rows .value").innerText(), shown);
    await item(window).getByText("contains hidden characters").waitFor();
    const allow = item(window).getByRole("button", { name: "Allow once" });
    await allow.and(window.page.locator(":enabled")).click();
    await window.button("Allow once despite hidden characters").click();
    assert.equal(isRefused(await answer), false);
    await window.see("Nothing waits for you");
  }
  await window.close();
});

test("hidden characters are named when such a call is always allowed, and covered only as they are", async () => {
  const window = await opened();
  const answer = ask("r\u200bm");
  await item(window).waitFor();
  assert.equal(await item(window).getByText("Change what it covers").count(), 0);
  await window.button("Always allow").click();
  await item(window).locator(".confirm .warning", { hasText: "hidden characters" }).waitFor();
  await item(window).locator(".confirm .mark", { hasText: "ZWSP" }).waitFor();
  await window.button("Yes, always").click();
  assert.equal(isRefused(await answer), false);
  assert.equal((await forget("write_memo")).length, 1);
  await window.close();
});

test("emoji and joiners of a script are text, and a backslash is not an escape", async () => {
  const window = await opened();
  const answer = ask("\u{1f468}\u200d\u{1f469} نمی\u200cخواهم \\u{1b}");
  await item(window).waitFor();
  assert.equal(await item(window).locator(".argument-rows .mark").count(), 0);
  await window.button("No").click();
  assert.equal(isRefused(await answer), true);
  await window.close();
});

test("nothing is cut, and what is folded has to be opened before the call is allowed", async () => {
  const window = await opened();
  const client = await program.client("folding");
  const more = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`extra${index}`, `value ${index}`]));
  const long = `${"x".repeat(5000)} the end`;
  const answer = client.call("sample__write_memo", { text: long, ...more });
  const allow = item(window).getByRole("button", { name: "Allow once" });
  await item(window).getByText("5,008 characters").waitFor();
  await item(window).getByRole("button", { name: "Never" }).and(window.page.locator(":enabled")).waitFor();
  assert.equal(await allow.isDisabled(), true);
  await item(window).locator("h2", { hasText: "write_memo" }).and(item(window).locator("h2", { hasText: "sample" })).waitFor();
  await item(window).locator(".fold > summary", { hasText: "characters" }).click();
  assert.ok((await item(window).locator(".fold .value").innerText()).endsWith("the end"));
  assert.equal(await allow.isDisabled(), true);
  await item(window).getByText("19 more arguments").click();
  await item(window).getByText("value 29").first().waitFor();
  await allow.and(window.page.locator(":enabled")).click();
  assert.equal(isRefused(await answer), false);
  await window.close();
});

test("arguments that are too large are one row with size and digest", async () => {
  const window = await opened();
  const answer = ask(`${"y".repeat(90_000)} the end`);
  await item(window).locator(".fold > summary", { hasText: /All arguments: .*SHA-256 [0-9a-f]{64}/ }).click();
  await item(window).locator(".fold .plain", { hasText: "yyyy" }).waitFor();
  await item(window).getByRole("button", { name: "Allow once" }).and(window.page.locator(":enabled")).click();
  assert.equal(isRefused(await answer), false);
  await window.close();
});

// What is saved for a tool, removed again.
async function forget(tool) {
  const saved = JSON.parse(await program.run("trust", "list", "-o", "json")).filter((entry) => JSON.stringify(entry).includes(tool));
  for (const { id } of saved) await program.run("trust", "remove", id);
  return saved;
}

const enabled = (window, label) => window.button(label).and(window.page.locator(":enabled"));

test("never says what it covers, refuses this call and the next one, and is listed", async () => {
  const window = await opened();
  const answer = ask("never");
  await window.button("Never").click();
  await item(window).locator(".confirm", { hasText: /write_memo.*any arguments/ }).getByText("toolway trust").waitFor();
  await window.button("Back").click();
  await window.button("Never").click();
  await window.button("Yes, never").click();
  assert.equal(isRefused(await answer), true);
  assert.equal(isRefused(await ask("never again")), true);
  await window.see("Nothing waits for you");
  assert.equal((await forget("write_memo")).length, 1);
  await window.close();
});

test("always needs a confirmation that says what it covers, and is listed with that", async () => {
  const window = await opened();
  const answer = ask("always");
  // The click that asks is not the one that confirms.
  const isLocked = await enabled(window, "Always allow").evaluate((button) => {
    button.click();
    return button.closest(".answers").querySelector(".confirm .primary").disabled;
  });
  assert.equal(isLocked, true);
  await item(window).locator(".confirm", { hasText: 'text = "always"' }).getByText("as it is configured now").waitFor();
  assert.match(await program.run("trust", "list"), /^((?!write_memo).)*$/s);
  await window.button("Yes, always").click();
  assert.equal(isRefused(await answer), false);
  assert.equal(isRefused(await ask("always")), false);
  assert.match(await program.run("trust", "list"), /write_memo.*text = "always"/s);
  assert.equal((await forget("write_memo")).length, 1);
  await window.close();
});

test("the second approval says so, compares the arguments, and proposes what both have in common", async () => {
  const window = await opened();
  const client = await program.client("writing");
  const write = (name, text) => client.call("notes__write_note", { name, text });
  const first = write("shopping", "bread");
  await item(window).locator(".covered", { hasText: 'name = "shopping", text = "bread"' }).waitFor();
  assert.equal(await item(window).locator("h2 .tag, .row .tag").count(), 0);
  await window.button("Allow once").click();
  assert.equal(isRefused(await first), false);
  const second = write("shopping", "bread, tea");
  await item(window).locator("h2", { hasText: "2nd time" }).waitFor();
  await item(window).locator(".row", { hasText: "shopping" }).getByText("as before").waitFor();
  await item(window).locator(".row", { hasText: "bread, tea" }).getByText("differs").waitFor();
  assert.equal(await item(window).locator(".covered").innerText(), 'name = "shopping", any text');
  await window.button("Allow in this session").click();
  assert.equal(isRefused(await second), false);
  assert.equal(isRefused(await write("shopping", "bread, tea, milk")), false);
  const other = write("letters", "bread, tea, milk");
  await item(window).locator("h2", { hasText: "3rd time" }).waitFor();
  await window.button("No").click();
  assert.equal(isRefused(await other), true);
  await window.close();
});

test("one argument is freed by keyboard, and only that one", async () => {
  const window = await opened();
  const { page } = window;
  const client = await program.client("freeing");
  const write = (name, text) => client.call("notes__write_note", { name, text });
  const first = write("shopping", "bread");
  await item(window).getByText("Change what it covers").focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("End");
  assert.equal(await item(window).locator(".covered").innerText(), 'name = "shopping", any text');
  await item(window).getByRole("checkbox", { name: "Any arguments" }).check();
  assert.equal(await item(window).locator(".covered").innerText(), "any arguments");
  await item(window).getByRole("checkbox", { name: "Any arguments" }).uncheck();
  await window.button("Always allow").click();
  await item(window).locator(".confirm", { hasText: 'name = "shopping", any text' }).waitFor();
  await item(window).getByRole("combobox", { name: "name" }).selectOption("any");
  await item(window).locator(".confirm").waitFor({ state: "hidden" });
  await item(window).getByRole("combobox", { name: "name" }).selectOption("the same");
  await window.button("Allow in this session").click();
  assert.equal(isRefused(await first), false);
  assert.equal(isRefused(await write("shopping", "tea")), false);
  const other = write("letters", "tea");
  await item(window).getByText("letters").first().waitFor();
  await window.button("No").click();
  assert.equal(isRefused(await other), true);
  await window.close();
});

test("what differs between this session and always is said, until the user changes it", async () => {
  const window = await opened();
  const client = await program.client("adding");
  const first = client.call("local__append", { line: "one" });
  const covered = async () => (await item(window).locator(".covers dl").innerText()).split("\n");
  await item(window).waitFor();
  assert.deepEqual(await covered(), ["This session covers", "any arguments", "Always covers", 'line = "one"']);
  await item(window).getByText("Change what it covers").click();
  await item(window).getByRole("checkbox", { name: "Any arguments" }).check();
  assert.deepEqual(await covered(), ["Covers", "any arguments"]);
  await item(window).getByRole("checkbox", { name: "Any arguments" }).uncheck();
  assert.deepEqual(await covered(), ["Covers", 'line = "one"']);
  await window.button("Allow in this session").click();
  assert.equal(isRefused(await first), false);
  const second = client.call("local__append", { line: "two" });
  await item(window).getByText("two").first().waitFor();
  await window.button("Allow in this session").click();
  assert.equal(isRefused(await second), false);
  assert.equal(isRefused(await client.call("local__append", { line: "three" })), false);
  await window.close();
});

// A window that opens the inbox when all of these calls wait.
async function waiting(...texts) {
  const window = await Window.open(browser, program);
  await window.show("#/servers");
  const answers = [];
  for (const text of texts) {
    answers.push(ask(text));
    await until(async () => (await window.page.title()).startsWith(`(${answers.length})`), "the call waits");
  }
  await window.show("#/inbox");
  await window.see(`${texts.length} calls wait`);
  return { window, answers };
}

test("three calls that wait are allowed at once", async () => {
  const { window, answers } = await waiting("one", "two", "three");
  await item(window).nth(2).getByText("3 of 3").waitFor();
  await enabled(window, "Allow all once").click();
  for (const answer of await Promise.all(answers)) assert.equal(isRefused(answer), false);
  await window.see("3 calls allowed once");
  await window.see("Nothing waits for you");
  await window.close();
});

test("all calls that wait are declined at once", async () => {
  const { window, answers } = await waiting("one", "r\u200bm");
  await enabled(window, "Decline all").click();
  for (const answer of await Promise.all(answers)) assert.equal(isRefused(answer), true);
  await window.close();
});

test("all are allowed only after what is folded was opened, and without hidden characters", async () => {
  const { window, answers } = await waiting("short", `${"x".repeat(2000)} the end`, "r\u200bm");
  await enabled(window, "Decline all").waitFor();
  assert.equal(await window.button("Allow all once").isDisabled(), true);
  await window.see("Answer 3 (write_memo) alone because of hidden characters.");
  await item(window).nth(2).getByRole("button", { name: "No", exact: true }).click();
  await until(async () => (await item(window).count()) === 2, "the third is gone");
  await enabled(window, "Decline all").waitFor();
  await window.see("Open everything that is folded in 2 (write_memo) before you allow all.");
  assert.equal(await window.button("Allow all once").isDisabled(), true);
  await item(window).nth(1).locator(".fold > summary").click();
  await enabled(window, "Allow all once").click();
  assert.deepEqual((await Promise.all(answers)).map(isRefused), [false, false, true]);
  await window.close();
});

test("a call that comes after the bar was drawn is not answered by it, unless it is included", async () => {
  const { window, answers } = await waiting("one", "two");
  await enabled(window, "Allow all once").waitFor();
  answers.push(ask("three"));
  await window.see("1 of them came since and is not included.");
  await enabled(window, "Allow all once").click();
  assert.deepEqual((await Promise.all(answers.slice(0, 2))).map(isRefused), [false, false]);
  await until(async () => (await item(window).count()) === 1, "the third waits");
  await item(window).getByText("three").first().waitFor();
  answers.push(ask("four"));
  await enabled(window, "Allow all once").waitFor();
  answers.push(ask("five"));
  await enabled(window, "Include all").click();
  await window.button("Include all").waitFor({ state: "hidden" });
  await enabled(window, "Allow all once").click();
  assert.deepEqual((await Promise.all(answers)).map(isRefused), [false, false, false, false, false]);
  await window.close();
});

test("a call that comes when another goes does not take its place", async () => {
  const { window, answers } = await waiting("one", "two");
  await enabled(window, "Allow all once").waitFor();
  const [, second] = (await program.run("inbox", "list", "-o", "raw")).trim().split("\n");
  answers.push(ask("three"));
  await window.see("1 of them came since and is not included.");
  await program.run("inbox", "decline", second);
  await until(async () => (await item(window).count()) === 2, "the second is gone");
  assert.equal(await window.button("Allow all once").isDisabled(), true);
  await enabled(window, "Include all").click();
  await enabled(window, "Allow all once").click();
  assert.deepEqual((await Promise.all(answers)).map(isRefused), [false, true, false]);
  await window.close();
});

test("a call that comes while all are being answered waits on", async () => {
  const { window, answers } = await waiting("one", "two");
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await window.context.route("**/answer", async (route) => {
    await released;
    await route.continue();
  });
  await enabled(window, "Allow all once").click();
  answers.push(ask("three"));
  await until(async () => (await item(window).count()) === 3, "the third is shown");
  release();
  assert.deepEqual((await Promise.all(answers.slice(0, 2))).map(isRefused), [false, false]);
  await until(async () => (await item(window).count()) === 1, "the third waits");
  await window.button("No").click();
  assert.equal(isRefused(await answers[2]), true);
  await window.close();
});

test("identical calls that wait are allowed with the one that is allowed always", async () => {
  const { window, answers } = await waiting("same", "same", "other");
  await item(window).first().getByRole("button", { name: "Always allow" }).click();
  await window.button("Yes, always").click();
  await window.see("An identical call was allowed with it.");
  assert.deepEqual((await Promise.all(answers.slice(0, 2))).map(isRefused), [false, false]);
  await item(window).getByText("other").first().waitFor();
  assert.equal(await item(window).count(), 1);
  await window.button("No").click();
  assert.equal(isRefused(await answers[2]), true);
  await forget("write_memo");
  await window.close();
});

test("a server that requires a sign-in is an item, which goes when the user has signed in there", async (story) => {
  const tickets = await startSigned();
  const own = await Program.start({ servers: { sample: SAMPLE, tickets: { url: tickets.url } } });
  story.after(async () => {
    tickets.close();
    await own.stop();
  });
  const window = await Window.open(browser, own);
  const { page } = window;
  window.expect(/request to http:\/\/127\.0\.0\.1|status of 400/);
  await window.show("#/inbox");
  await item(window).getByText("tickets requires a sign-in").waitFor();
  await until(async () => (await page.title()).startsWith("(1)"), "the title counts it");
  const decide = async (answer) => {
    await item(window).getByRole("button", { name: "Authorize" }).click();
    await item(window).locator(".address", { hasText: tickets.origin }).waitFor();
    const [authorization] = await Promise.all([window.context.waitForEvent("page"), item(window).getByRole("link", { name: "Open the sign-in page" }).click()]);
    await authorization.getByRole("link", { name: answer }).click();
  };
  await decide("Refuse");
  await item(window).getByText("The sign-in failed").waitFor();
  await decide("Agree");
  await window.see("The sign-in of tickets no longer waits.");
  await window.see("Nothing waits for you");
  await window.close();
});
