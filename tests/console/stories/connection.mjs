// Signing in, a lost connection, an expired session, a link used twice, an invalid configuration.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { cuttable, launch, Window } from "../browser.mjs";
import { Program } from "../program.mjs";

let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start()]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

test("the link that serve prints signs in once", async () => {
  const window = await Window.open(browser, program, { link: program.link });
  await window.page.locator('a[href="#/servers/sample"]').waitFor();
  await window.close();
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(program.link);
  await page.getByText("toolway console").waitFor();
  await context.close();
});

test("a lost connection is said, and what happened meanwhile is there afterwards", async (story) => {
  const wire = await cuttable();
  story.after(() => wire.close());
  const window = await Window.open(browser, program, { proxy: { server: wire.url, bypass: "<-loopback>" } });
  await window.show("#/calls");
  window.expect(/Failed to load resource|ERR_/);
  const client = await program.client();
  await client.call("sample__echo", { text: "before" });
  const rows = window.page.getByRole("listbox", { name: "Calls" }).getByRole("option");
  await rows.first().waitFor();
  const count = await rows.count();
  wire.cut();
  await window.see("The connection to Toolway is lost");
  await client.call("sample__echo", { text: "meanwhile" });
  // The page also tries by itself, and may be first.
  const reconnecting = window.page.locator(".live", { hasText: "Reconnecting" });
  window.button("Try now").click().catch(() => {});
  await reconnecting.waitFor();
  wire.mend();
  await window.page.locator(".live", { hasText: "Live" }).waitFor();
  await rows.nth(count).waitFor();
  await window.close();
});

test("an invalid configuration is said until it is repaired", async () => {
  const file = join(program.home, ".config/toolway/toolway.json");
  const valid = await readFile(file, "utf8");
  const window = await Window.open(browser, program);
  const banner = window.page.locator("#banner");
  const edit = async (text) => {
    await writeFile(file, text);
    await window.page.evaluate(() => dispatchEvent(new Event("focus")));
  };
  await edit(valid.replace("{", '{ "defaultModel": 7,'));
  await window.see("The configuration is invalid, so the last valid one is in use");
  await banner.getByText("defaultModel").waitFor();
  await edit(valid);
  await banner.waitFor({ state: "hidden" });
  await window.close();
});

test("eight tabs share one stream; each sees every call, and another takes over when its reader closes", async () => {
  const window = await Window.open(browser, program);
  const streams = [];
  window.context.on("request", (sent) => sent.url().endsWith("/api/v1/events") && streams.push(sent));
  await window.show("#/calls");
  const tabs = [window.page];
  while (tabs.length < 8) tabs.push(await window.tab("#/calls"));
  const client = await program.client();
  const row = (page, state) => page.locator(".call-row", { hasText: "count" }).filter({ hasText: state }).first().waitFor();
  const counting = client.call("sample__count", { to: 1000, pause: 1000 });
  await Promise.all(tabs.map((page) => row(page, "Running")));
  assert.equal(streams.length, 0, "the first tab reads the stream for all");
  await window.page.close();
  await tabs[1].locator(".call-row", { hasText: "count" }).first().click();
  await tabs[1].getByRole("button", { name: "Cancel this call" }).click();
  await counting;
  await Promise.all(tabs.slice(1).map((page) => row(page, "Cancelled")));
  assert.equal(streams.length, 1);
  await window.close();
});

test("without a session every screen says how to sign in, and a new link does", async () => {
  const window = await Window.open(browser, program);
  window.expect(/401/);
  await window.context.clearCookies();
  await window.show("#/calls");
  await window.see("Signed out");
  await window.see("toolway console");
  await window.page.goto(await program.newLink());
  await window.page.locator('a[href="#/servers/sample"]').waitFor();
  await window.close();
});

test("the token for changes is in the storage of the page only; without it the page is signed out", async () => {
  const window = await Window.open(browser, program);
  await window.page.locator('a[href="#/servers/sample"]').waitFor();
  const key = await window.page.evaluate(() => localStorage.getItem("toolway-key"));
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.ok(!window.page.url().includes(key), window.page.url());
  const [cookie] = await window.context.cookies(`${program.origin}/api/`);
  const session = await window.page.evaluate(async () => (await fetch("/api/v1/session")).text());
  assert.ok(cookie.value !== key && !session.includes(key));
  await window.page.evaluate(() => localStorage.removeItem("toolway-key"));
  await window.page.reload();
  await window.see("Signed out");
  await window.page.goto(await program.newLink());
  await window.page.locator('a[href="#/servers/sample"]').waitFor();
  await window.close();
});

test("a link with a wrong token changes nothing for the pages that are open", async () => {
  const window = await Window.open(browser, program);
  const stored = () => window.page.evaluate(() => localStorage.getItem("toolway-key"));
  const before = await stored();
  const other = await window.tab("#key=00");
  await other.locator('a[href="#/servers/sample"]').waitFor();
  assert.ok(!other.url().includes("key"), other.url());
  assert.equal(await stored(), before);
  await window.close();
});

test("after a restart the page says that it is signed out", async () => {
  const window = await Window.open(browser, program);
  window.expect(/401|Failed to load resource|ERR_/);
  const { origin } = program;
  await program.kill();
  await window.see("The connection to Toolway is lost");
  await program.serve(origin.replace("http://", ""));
  assert.equal(program.origin, origin);
  await window.see("Signed out");
  await window.close();
});
