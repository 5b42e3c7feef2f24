// What an assistant asks about, by its approval: `auto`, `always-ask` also where an answer was saved, `trusted-only`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, Window } from "../browser.mjs";
import { card, Program, SAMPLE, say, sayAs } from "../program.mjs";

const memo = { tool: "sample__write_memo", arguments: { text: "milk" } };
const scripts = {
  write: { turns: [{ calls: [memo] }, { text: "It is written." }] },
  both: { turns: [{ calls: [memo] }, { calls: [{ tool: "sample__echo", arguments: { text: "hello" } }] }, { text: "Both are done." }] },
};
const assistants = {
  free: { model: "write", servers: ["sample"], approval: "auto" },
  careful: { model: "write", servers: ["sample"], approval: "always-ask" },
  picky: { model: "both", servers: ["sample"], approval: "trusted-only", trustedTools: ["sample.write_memo"] },
};
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE }, scripts, settings: { assistants } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const dialog = (window) => window.page.getByRole("dialog");

const begin = (window, assistant) => sayAs(window, assistant, "Note the milk");

test("auto asks about nothing", async () => {
  const window = await Window.open(browser, program);
  await begin(window, "free");
  await window.see("It is written.");
  await card(window, "succeeded").waitFor();
  assert.equal(await dialog(window).count(), 0);
  await window.close();
});

test("always-ask asks also about a call that is always allowed", async () => {
  const window = await Window.open(browser, program);
  await say(window, "write", "Note the milk", "writes");
  await dialog(window).getByRole("button", { name: "Always allow" }).click();
  await dialog(window).getByRole("button", { name: "Yes, always" }).click();
  await window.see("It is written.");
  // It holds without the assistant.
  await say(window, "write", "Once more", "writes");
  await window.see("It is written.");
  assert.equal(await dialog(window).count(), 0);
  for (let time = 0; time < 2; time += 1) {
    await begin(window, "careful");
    await dialog(window).getByText("milk").first().waitFor();
    await dialog(window).getByRole("button", { name: time === 0 ? "Allow once" : "No", exact: true }).click();
    await card(window, time === 0 ? "succeeded" : "refused").waitFor();
    await window.see("It is written.");
  }
  await window.close();
});

test("trusted-only passes a trusted tool that writes, and asks about one that reads and is not trusted", async () => {
  const window = await Window.open(browser, program);
  await begin(window, "picky");
  await dialog(window).locator("h2", { hasText: "echo" }).waitFor();
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  await window.see("Both are done.");
  assert.equal(await card(window, "succeeded").count(), 2);
  await card(window, "succeeded").first().getByText("Write the memo").waitFor();
  await window.close();
});
