// Calls whose outcome is unknown: in the inbox until the user says what happened.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, Window } from "../browser.mjs";
import { card, offers, Program, say, sdkExample } from "../program.mjs";

// A tool that is not idempotent: its server asks for a form, and the connection ends before the answer.
const scripts = { asks: { turns: [{ calls: [{ tool: "users__register_user", arguments: {} }] }, { expect: [{ error: true, contains: "outcome unknown" }], text: "I do not know whether it happened." }] } };
let browser, program, server;

before(async () => {
  server = await sdkExample("elicitationFormExample");
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { users: { url: server.url } }, scripts })]);
});
after(async () => {
  server?.child.kill("SIGKILL");
  await browser?.close();
  await program?.stop();
});

test("a call that was cut waits in the inbox, and is settled there with a note", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await offers(window, "users", "register_user");
  await say(window, "asks", "ask me", "allow");
  await page.getByRole("dialog").getByText("asks for information").first().waitFor();
  await program.run("servers", "disconnect", "users");
  await window.see("I do not know whether it happened.");
  await card(window, "failed").first().waitFor();
  await page.locator("nav .badge", { hasText: "1 waiting" }).waitFor();
  // It holds up nothing: the dialog of the form is gone, and none opens for the call.
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  await window.show("#/inbox");
  const item = page.locator(".item");
  await item.getByText("Did users__register_user happen?").waitFor();
  await item.getByLabel("Note (optional): how you know").fill("the log of the server has it");
  await item.getByRole("button", { name: "It happened" }).click();
  await window.see("Nothing waits for you");
  assert.equal(await page.locator("nav .badge.wait").count(), 0);
  const [call] = JSON.parse(await program.run("calls", "list", "-o", "json"));
  await window.show(`#/calls/${call.id}`);
  const drawer = page.getByRole("complementary", { name: "Call" });
  await drawer.getByText("Unknown: it was sent").waitFor();
  await drawer.getByText("the log of the server has it").waitFor();
  const shown = JSON.parse(await program.run("calls", "show", call.id, "-o", "json"));
  assert.equal(shown.settlement.finding, "happened");
  const [entry] = JSON.parse(await program.run("audit", "query", "--kind", "settlement", "-o", "json"));
  assert.equal(entry.caller, "console");
  await window.close();
});
