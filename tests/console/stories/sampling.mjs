// The screen Inbox: a server asks a model in the call of a client that declares no sampling.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, Window } from "../browser.mjs";
import { everything, Program } from "../program.mjs";

const scripts = { small: { turns: Array(5).fill({ text: "Blue, as always." }) } };
const settings = { sampling: { allow: "ask", tokensPerDay: 1000 } };
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { every: everything() }, scripts, settings })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const item = (window) => window.page.locator(".item");

async function ask() {
  const client = await program.client("asking");
  return client.call("every__trigger-sampling-request", { prompt: "Name a colour", maxTokens: 50 });
}

test("a request shows messages, model, tokens and quota, and the model answers once", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/inbox");
  const answer = ask();
  await item(window).getByText("Name a colour").first().waitFor();
  for (const text of ["You are a helpful test server.", "small", "at most 50", /9[0-4]\d tokens today in all left after this/]) await item(window).getByText(text).first().waitFor();
  await window.button("Let the model answer once").click();
  assert.match(JSON.stringify(await answer), /Blue, as always/);
  await window.close();
});

test("a no keeps the model from answering", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/inbox");
  const answer = ask();
  await item(window).getByText("Name a colour").first().waitFor();
  await window.button("No").click();
  assert.doesNotMatch(JSON.stringify(await answer), /Blue/);
  await window.close();
});
