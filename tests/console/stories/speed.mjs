// Size and times of the page with 1,000 tools and 10,000 calls, printed; measured as `toolway-bench console` does, which
// holds them to their limits. Here only a page that hangs fails: ten times the limit, for a busy machine.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { after, before, test } from "node:test";

import { launch, Window } from "../browser.mjs";
import { figures } from "../measure.mjs";
import { hostile, Program } from "../program.mjs";

const CALLS = 10_000;
const TOOLS = 1_000;
const WEB = new URL("../../../crates/console/web/", import.meta.url);
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { many: hostile("--tools", String(TOOLS)) }, flags: ["--log", "off"] })]);
  const clients = await Promise.all(Array.from({ length: 16 }, () => program.client()));
  let left = CALLS;
  await Promise.all(clients.map(async (client) => {
    while (left-- > 0) await client.call("many__plain_7");
  }));
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

function report(what, value, limit, unit = "ms") {
  console.log(`${what}: ${value.toFixed(unit === "ms" ? 1 : 0)} ${unit} (limit ${limit})`);
  assert.ok(value < (unit === "ms" ? 10 * limit : limit), `${what}: ${value} ${unit}`);
}

test("all files of the page are small", async () => {
  const sizes = (await readdir(WEB)).map(async (name) => (await (await fetch(`${program.origin}/${name}`)).arrayBuffer()).byteLength);
  const total = (await Promise.all(sizes)).reduce((sum, size) => sum + size);
  report("page size", total / 1000, 400, "KB");
});

test("text that is meant to take long to draw does not", async () => {
  const window = await Window.open(browser, program);
  const times = await window.page.evaluate(async () => {
    const { Markdown } = await import("/markdown.js");
    const parts = ["*", "* ", "**a", "_a ", "__a", "[", "[a](", "`", "`a``", "~~a", "|", "-|", "# #", ">", "- a\n", "http://a ", "\\*", "\u202e", " ", "```\n", "*a b ", "![", "<", "1. a\n  "];
    return parts.map((part) => {
      const text = `# ${part.repeat(19_000 / part.length)}x`;
      const began = performance.now();
      new Markdown().set(text);
      new Markdown().set(`a|b\n${text.slice(2)}`);
      return performance.now() - began;
    });
  });
  report("slowest text", Math.max(...times), 1000);
  await window.close();
});

test(`the first paint, and interactions with ${TOOLS} tools and ${CALLS} calls, are fast`, async () => {
  const window = await Window.open(browser, program);
  const { figures: measured, rows } = await figures(window.page, { origin: program.origin, server: "many", calls: CALLS });
  for (const { what, ms, limit } of measured) report(what, ms, limit);
  assert.ok(rows.tools < 60 && rows.calls < 80, "only rows in view exist");
  await window.show("#/calls");
  const client = await program.client();
  await client.call("many__plain_8");
  await window.page.locator(".call-row", { hasText: "plain_8" }).first().waitFor();
  await window.close();
});
