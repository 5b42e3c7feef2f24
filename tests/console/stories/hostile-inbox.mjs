// Hostile items in the inbox: approvals, forms and requests to a model whose text, size or shape is made to deceive or to
// hold up the page. Everything is text, bounded or folded, and can be answered.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { hostile, Program } from "../program.mjs";

const ATTACK = "<img src=x onerror=";
const policy = { rules: [{ match: { tool: "append" }, then: "ask" }] };
const settings = { defaultModel: "small", sampling: { allow: "ask", tokensPerDay: 1_000_000 } };
const scripts = { small: { turns: Array(5).fill({ text: `${ATTACK}"alert(1)"> safe\u202egpj.exe` }) } };
let browser, program, client;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { evil: hostile() }, scripts, policy, settings })]);
  client = await program.client("evil-client");
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const item = (window) => window.page.locator(".item");
const button = (window, name) => item(window).getByRole("button", { name, exact: true }).and(window.page.locator(":enabled"));

async function opened() {
  const window = await Window.open(browser, program);
  await window.show("#/inbox");
  return window;
}

// Only text of ours made elements, nothing is wider than the window, and the page answers at once.
async function isClean(window) {
  const { page } = window;
  const made = await page.evaluate(() => document.querySelectorAll("script:not([src]), img[src=x], iframe, object, embed, [onerror], [onload], a[href^='javascript'], a[href^='data']").length);
  assert.equal(made, 0);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is too wide");
  const began = Date.now();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.ok(Date.now() - began < 2000, "the page answers");
}

const nested = (levels) => Array.from({ length: levels }).reduce((inner) => ({ [ATTACK]: inner }), "end");

for (const [what, values] of [
  ["100 levels", nested(100)],
  ["5,000 members", Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`${ATTACK}${index}`, "safe\u202egpj.exe"]))],
  ["a text of 2 MB", { text: `${ATTACK}${"long ".repeat(400_000)}` }],
]) {
  test(`a call with ${what} is opened before it can be allowed, and is sent as it is`, async () => {
    const window = await opened();
    const answer = client.call("evil__append", values);
    await item(window).waitFor();
    await window.see("Open everything that is folded before you allow this.");
    await isClean(window);
    for (const fold of await item(window).locator(".fold > summary").all()) await fold.click();
    await button(window, "Allow once").click();
    // What has hidden characters needs a second click.
    await item(window).waitFor({ state: "detached", timeout: 1500 }).catch(() => item(window).getByRole("button", { name: /despite hidden/ }).click());
    await isClean(window);
    assert.equal((await answer).result.isError ?? false, false);
    await window.close();
  });
}

test("a call with 1,000 levels is refused before it is asked about", async () => {
  const window = await opened();
  const answer = await client.call("evil__append", nested(1000)).catch((error) => ({ error }));
  assert.ok(answer?.error, JSON.stringify(answer));
  await window.see("Nothing waits for you");
  await window.close();
});

// Runs a tool in another tab, where what its server asks comes to the inbox.
async function runs(window, tool) {
  const tab = await window.tab(`#/tools/evil/${tool}`);
  await tab.getByRole("button", { name: "Run", exact: true }).click();
  return tab.getByRole("region", { name: "Result" });
}

test("a form of 5,000 fields is refused, and its server is told", async () => {
  const window = await opened();
  const result = await runs(window, "ask_many");
  await result.getByText("at most 200 fields").first().waitFor();
  await window.see("Nothing waits for you");
  await window.close();
});

test("a form with a text of 2 MB is folded, and its hidden characters are marked", async () => {
  const window = await opened();
  const result = await runs(window, "ask_long");
  await item(window).getByRole("button", { name: /Show more \(1\.9 MB left\)/ }).waitFor();
  await item(window).locator(".quoted .mark", { hasText: "RLO" }).first().waitFor();
  await isClean(window);
  await item(window).getByRole("textbox").fill("ok");
  await button(window, "Send").click();
  await result.getByText("accept").first().waitFor();
  await isClean(window);
  await window.close();
});

test("a request to a model is text, folded where it is long, and its hidden characters need a second click", async () => {
  const window = await opened();
  const answer = client.call("evil__ask_model");
  await item(window).locator(".sampled .mark", { hasText: "RLO" }).first().waitFor();
  await item(window).locator(".sampled", { hasText: ATTACK }).first().waitFor();
  await isClean(window);
  assert.ok((await item(window).evaluate((node) => node.textContent.length)) < 100_000, "what is long is folded");
  await window.see("Open everything that is folded before you allow this.");
  for (let more = item(window).getByRole("button", { name: /Show more/ }); await more.count(); ) await more.first().click();
  await button(window, "Let the model answer once").click();
  await item(window).getByRole("button", { name: "Let the model answer once despite hidden characters" }).click();
  assert.match(JSON.stringify(await answer), /onerror/);
  await until(async () => (await item(window).count()) === 0, "the item is gone");
  await window.close();
});
