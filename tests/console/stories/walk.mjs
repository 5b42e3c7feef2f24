// The walk of docs/guide/console.md, following only the page: from nothing to an approved call of an assistant.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { Program } from "../program.mjs";

const guide = await readFile(new URL("../../../docs/guide/console.md", import.meta.url), "utf8");

test("from nothing to an approved call of an assistant", async (story) => {
  const begin = Date.now();
  const [browser, program] = await Promise.all([launch(), Program.start({ servers: {}, scripts: { demo: JSON.parse(guide.match(/<<'END'\n(\{ "turns"[\s\S]*?)\nEND/)[1]) } })]);
  story.after(async () => {
    await browser.close();
    await program.stop();
  });
  const window = await Window.open(browser, program);
  const { page } = window;
  const main = page.getByRole("main");
  const screen = (name) => page.getByRole("navigation").getByRole("link", { name }).first().click();
  await screen("Servers");
  await main.getByRole("link", { name: "Add", exact: true }).first().click();
  await page.getByLabel("Snippet, command or URL").fill("toolway sample --play notes");
  await page.getByLabel("Name", { exact: true }).fill("notes");
  await page.getByRole("checkbox", { name: "Run this program" }).check();
  await window.button("Test connection").click();
  await window.see("It works");
  await window.button("Add server").click();
  await until(() => new URL(page.url()).hash === "#/servers/notes", "the page of the server is shown");
  await page.locator(".tool-row", { hasText: "write_note" }).waitFor();
  await screen("Assistants");
  await main.getByRole("link", { name: "Add", exact: true }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("helper");
  await page.getByLabel("Model", { exact: true }).selectOption("demo");
  await page.getByText("Trusted tools only", { exact: true }).click();
  const server = page.locator(".import-row", { hasText: "notes" });
  await server.locator("summary").click();
  for (const tool of ["list_notes"]) await page.getByLabel(`Trusted: ${tool}`, { exact: true }).check();
  await window.button("Add assistant").click();
  await page.getByRole("region", { name: "helper" }).getByRole("link", { name: "Chat", exact: true }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Hello");
  await window.button("Send").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("write_note").first().waitFor();
  await dialog.getByRole("button", { name: "Allow once" }).click();
  await window.see("The milk is on the list.");
  await screen("Calls");
  await main.locator(".call-row", { hasText: "write_note" }).click();
  await page.getByRole("complementary", { name: "Call" }).getByText("Succeeded").first().waitFor();
  assert.ok(Date.now() - begin < 60_000);
  await until(async () => (await program.run("assistants", "list")).includes("helper"), "it is in the configuration");
  await window.close();
});
