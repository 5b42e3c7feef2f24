// docs/reference/console-api.md: the kinds of inbox items that need real servers have the members of their examples there.
// The other examples are compared in crates/console/tests/it/documented.rs.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { everything, fastmcp, offers, Program, say, sdkExample } from "../program.mjs";
import { startSigned } from "../servers/signed.mjs";

const PAGE = await readFile(new URL("../../../docs/reference/console-api.md", import.meta.url), "utf8");
const scripts = {
  small: { turns: [{ text: "Blue." }] },
  opens: { turns: [{ calls: [{ tool: "asking__opened", arguments: {} }] }, { text: "opened" }] },
  asks: { turns: [{ calls: [{ tool: "users__register_user", arguments: {} }] }, { text: "I do not know." }] },
};
let browser, program, tickets, users;

before(async () => {
  [tickets, users] = await Promise.all([startSigned(), sdkExample("elicitationFormExample")]);
  const servers = { tickets: { url: tickets.url }, users: { url: users.url }, every: everything(), asking: fastmcp("asking_fastmcp.py") };
  const settings = { defaultModel: "small", sampling: { allow: "ask", tokensPerDay: 1000 } };
  [browser, program] = await Promise.all([launch(), Program.start({ servers, scripts, settings })]);
});
after(async () => {
  tickets?.close();
  users?.child.kill("SIGKILL");
  await browser?.close();
  await program?.stop();
});

function example(name) {
  const [, text] = PAGE.match(new RegExp(`\`\`\`json ${name}\\n([\\s\\S]*?)\`\`\``)) ?? assert.fail(`no example ${name}`);
  return JSON.parse(text);
}

// Both have the same members, in objects of lists too, where both have some.
function same(name, documented, answered) {
  if (Array.isArray(documented) && Array.isArray(answered)) return documented.length && answered.length ? same(name, documented[0], answered[0]) : undefined;
  if (![documented, answered].every((value) => value !== null && typeof value === "object" && !Array.isArray(value))) return;
  assert.deepEqual(Object.keys(answered).sort(), Object.keys(documented).sort(), name);
  for (const key of Object.keys(documented)) same(`${name}.${key}`, documented[key], answered[key]);
}

test("requests of servers, a sign-in and a call of unknown outcome have the members of their examples", async () => {
  const window = await Window.open(browser, program);
  const item = (kind) => until(() => window.page.evaluate(async (wanted) => (await (await fetch("/api/v1/inbox")).json()).find((found) => found.kind === wanted), kind), `an item: ${kind}`);
  same("item-sign-in", example("item-sign-in"), await item("sign-in"));
  await offers(window, "every", "trigger-sampling-request");
  const asked = (await program.client()).call("every__trigger-sampling-request", { prompt: "Name a colour", maxTokens: 50 });
  const sampling = await item("sampling");
  same("item-sampling", example("item-sampling"), sampling);
  await program.run("inbox", "decline", sampling.id);
  await asked;
  await offers(window, "asking", "opened");
  await say(window, "opens", "pay", "allow");
  const opened = await item("url");
  same("item-url", example("item-url"), opened);
  await program.run("inbox", "decline", opened.id);
  await window.see("opened");
  await offers(window, "users", "register_user");
  await say(window, "asks", "ask me", "allow");
  await item("form");
  await program.run("servers", "disconnect", "users");
  same("item-outcome", example("item-outcome"), await item("unknown-outcome"));
  await window.see("I do not know.");
  await window.close();
});
