// The screen Tools, with real servers: found, filled in, run on the path of a call, and shown; with hostile schemas and results.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { drifting, everything, NOTES, Program, SAMPLE, schemas } from "../program.mjs";

let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, notes: NOTES, every: everything(), odd: schemas() } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const list = (window, name = "Tools") => window.page.getByRole("listbox", { name });
const result = (window) => window.page.getByRole("region", { name: "Result" });
const field = (window, label) => window.page.getByLabel(new RegExp(`^${label} `));
const run = (window) => window.button("Run").click();
const state = (window, words) => result(window).locator(".pill", { hasText: words }).waitFor();
const last = (window) => window.page.evaluate(async () => {
  const id = new URLSearchParams(location.hash.split("?")[1]).get("run");
  return (await (await fetch(`/api/v1/runs/${id}`)).json()).result.blocks[0].text;
});

async function show(window, server, tool) {
  await window.show(`#/tools/${server}/${tool}`);
  await window.button("Run").waitFor();
}

test("tools of all servers are found by words, and the address keeps search, tool and result", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/tools");
  await list(window).getByText("list_notes").waitFor();
  await page.getByRole("searchbox", { name: "Search tools" }).fill("sample add");
  await until(async () => (await page.locator(".tool-row").count()) === 1, "one tool matches");
  await page.locator(".tool-row").click();
  await window.see("It only reads");
  await field(window, "a").fill("20");
  await field(window, "b").fill("22");
  await run(window);
  await state(window, "Succeeded");
  await result(window).getByText("42").first().waitFor();
  assert.match(await page.evaluate(() => location.hash), /^#\/tools\/sample\/add\?q=sample\+add&run=[0-9a-f-]{36}$/);
  await page.reload();
  await result(window).getByText("42").first().waitFor();
  assert.equal(await field(window, "a").inputValue(), "20");
  assert.equal(await page.getByRole("searchbox", { name: "Search tools" }).inputValue(), "sample add");
  // It is a call like any other.
  await page.getByRole("link", { name: "Its record" }).click();
  await page.locator(".drawer", { hasText: "You, in the console" }).waitFor();
  await window.close();
});

test("a wrong value names its field and keeps what was typed", async () => {
  const window = await Window.open(browser, program);
  await show(window, "odd", "checked");
  await run(window);
  await window.see("Fill this in; for an empty text use JSON.");
  await field(window, "title").fill("Party");
  await field(window, "count").fill("many");
  await run(window);
  await window.see("This must be a number.");
  await field(window, "count").fill("0");
  await run(window);
  await state(window, "Refused");
  await window.page.locator(".slot", { hasText: "count" }).locator(".field-problem:visible", { hasText: "minimum" }).waitFor();
  assert.equal(await field(window, "title").inputValue(), "Party");
  await field(window, "count").fill("12345678901234567890");
  await run(window);
  await state(window, "Succeeded");
  assert.equal(await last(window), '{"title":"Party","count":12345678901234567000}');
  await window.close();
});

test("references, variants, null, nested lists, maps and endless trees are filled in, and JSON keeps all of it", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await show(window, "odd", "rich");
  const group = (label) => page.locator("fieldset.slot", { has: page.locator(`> legend code:text-is("${label}")`) });
  const begin = (label) => group(label).getByRole("button", { name: "Fill in", exact: true }).first().click();
  await field(window, "title").fill("Party");
  await page.locator(".slot", { has: page.locator('> label code:text-is("ratio")') }).getByLabel("null", { exact: true }).check();
  await field(window, "urgent").selectOption("Yes");
  await field(window, "colour").selectOption("7");
  await begin("home");
  await field(window, "street").fill("Main 1");
  await begin("contact");
  await group("contact").getByRole("combobox", { name: "Which form it has" }).selectOption("By phone");
  await field(window, "number").fill("555");
  await begin("matrix");
  await group("matrix").getByRole("button", { name: "Item", exact: true }).first().click();
  await page.getByRole("textbox", { name: "Item 1" }).fill("1.5");
  await begin("labels");
  await group("labels").getByRole("button", { name: "Member" }).click();
  await page.getByRole("textbox", { name: "Name of the member" }).fill("a");
  await page.getByRole("textbox", { name: "Value", exact: true }).fill("b");
  await begin("tree");
  await field(window, "label").fill("root");
  await begin("children");
  await field(window, "other").fill('{"free": [1]}');
  const expected = { title: "Party", ratio: null, urgent: true, colour: 7, home: { street: "Main 1" }, contact: { kind: "phone", number: "555" }, matrix: [[1.5]], labels: { a: "b" }, tree: { label: "root", children: [{}] }, other: { free: [1] } };
  await run(window);
  await state(window, "Succeeded");
  assert.deepEqual(JSON.parse(await last(window)), expected);
  // There and back, with something that the form has no field for, and a value of a wrong type.
  await window.button("JSON").click();
  const json = page.getByRole("textbox", { name: "Arguments as JSON" });
  assert.deepEqual(JSON.parse(await json.inputValue()), expected);
  const changed = { ...expected, count: [1], home: { street: "Main 2", floor: 3 } };
  await json.fill(`${JSON.stringify(changed)},`);
  await window.button("JSON").click();
  await window.see("this is not JSON yet");
  await json.fill(JSON.stringify(changed));
  await window.button("JSON").click();
  assert.equal(await field(window, "street").inputValue(), "Main 2");
  await window.button("JSON").click();
  assert.equal(await json.inputValue(), JSON.stringify(changed), "the text as it was typed");
  await window.close();
});

test("results of all kinds are shown within bounds, and checked against the schema", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const of = async (tool) => {
    await show(window, "odd", tool);
    await run(window);
    await state(window, "Succeeded");
  };
  await of("media");
  await result(window).locator("img.picture").waitFor();
  await result(window).locator("audio").waitFor();
  await result(window).getByText("00 01 02 ff").waitFor();
  assert.equal(await result(window).locator("img, audio").count(), 2);
  assert.equal(await result(window).locator("a[href^='javascript']").count(), 0);
  await of("wrong");
  await result(window).locator(".warning", { hasText: "the result does not match" }).waitFor();
  await of("large");
  await result(window).getByText("Only the beginning is shown, of 10.0 MB.").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), result(window).getByRole("link", { name: "Save as a file" }).click()]);
  assert.equal((await import("node:fs")).statSync(await download.path()).size, 10 * 1024 * 1024);
  await of("nested");
  await result(window).locator(".json, .plain").first().waitFor();
  // Deeper than a message may be.
  await show(window, "odd", "structured");
  await run(window);
  await state(window, "Failed");
  await result(window).getByText("nested deeper than").waitFor();
  await show(window, "every", "get-structured-content");
  await field(window, "location").selectOption({ index: 1 });
  await run(window);
  await result(window).getByText("Structured content").waitFor();
  await window.close();
});

test("a tool says its hints in words, whether it runs as a task, and both of its schemas", async () => {
  const window = await Window.open(browser, program);
  const hints = window.page.locator(".hint-list");
  await show(window, "odd", "rich");
  for (const words of ["It may delete or overwrite", "Running it twice may act twice", "It may reach beyond its server"]) await hints.getByText(words).waitFor();
  await show(window, "every", "simulate-research-query");
  await hints.getByText("It runs as a task").waitFor();
  await show(window, "every", "get-structured-content");
  for (const [title, words] of [["Input schema", "location"], ["Output schema", "temperature"]]) {
    await window.page.locator("summary", { hasText: title }).click();
    await window.page.locator("details.raw", { hasText: title }).locator(".json", { hasText: words }).waitFor();
  }
  await window.close();
});

test("schemas that are endless, very deep or very wide leave the form usable", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await show(window, "odd", "wide");
  await page.getByRole("searchbox", { name: "Find an argument" }).fill("property_77");
  await field(window, "property_77").fill("x");
  await field(window, "property_4321").or(page.getByRole("searchbox", { name: "Find an argument" })).first().fill("");
  await field(window, "property_4321").fill("y");
  const began = Date.now();
  await run(window);
  await state(window, "Succeeded");
  assert.ok(Date.now() - began < 5000);
  assert.deepEqual(JSON.parse(await last(window)), { property_77: "x", property_4321: "y" });
  for (const tool of ["deep", "endless", "needy"]) {
    await show(window, "odd", tool);
    await page.locator("h2", { hasText: tool }).waitFor();
    assert.ok((await page.locator(".slot").count()) < 50, tool);
  }
  await window.close();
});

test("schemas of 1,000 levels are refused, and the page of their server says so", async (story) => {
  const own = await Program.start({ servers: { odd: schemas("--too-deep") } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  await window.show("#/servers/odd");
  await window.page.locator(".detail .warning", { hasText: "nested deeper than" }).waitFor();
  await window.show("#/resources?q=data");
  await window.page.locator(".tool-row", { hasText: "bin://data" }).waitFor();
  await window.close();
});

test("hostile names, schemas and icons are text", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await show(window, "odd", "evil");
  await page.locator(".offer-head .mark", { hasText: "RLO" }).first().waitFor();
  await page.locator(".tool-form .mark", { hasText: "RLO" }).first().waitFor();
  assert.equal(await page.evaluate(() => document.querySelectorAll("script:not([src]), img[src=x], .offers img, [onerror], [onload], a[href^='javascript']").length), 0);
  await page.locator(".tool-form textarea").first().fill("ok");
  await page.locator(".tool-form select").selectOption({ index: 2 });
  await run(window);
  await state(window, "Succeeded");
  const sent = JSON.parse(await last(window));
  assert.ok(Object.values(sent).some((value) => String(value).includes("gpj.exe")), JSON.stringify(sent));
  await window.close();
});

test("icons of odd addresses and types are letters, and nothing is requested for them", async () => {
  const window = await Window.open(browser, program);
  for (const tool of ["pictured", "lying"]) {
    await show(window, "odd", tool);
    const head = window.page.locator(".offer-head");
    await head.getByText(tool).first().waitFor();
    await until(async () => (await head.locator("img").count()) === 0, "no broken picture");
  }
  await window.show("#/tools?q=odd");
  await until(async () => (await window.page.locator(".tool-row img").count()) === 0, "no broken picture in the list");
  await window.close();
});

test("what a tool was accepted as, and what has changed since, is shown; all of it can be copied", async (story) => {
  const folder = await mkdtemp(join(tmpdir(), "toolway-drifting-"));
  const own = await Program.start({ servers: { files: drifting(folder) } });
  story.after(async () => {
    await own.stop();
    await rm(folder, { recursive: true });
  });
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await show(window, "files", "read");
  await window.see("Not used yet");
  await field(window, "path").fill("it's here");
  await run(window);
  await state(window, "Succeeded");
  await window.see("It is what was accepted");
  const copied = async (name) => {
    await page.getByRole("button", { name, exact: true }).first().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    await page.getByRole("button", { name, exact: true }).first().waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.equal(await copied("Copy as command"), `toolway call files__read --args '{"path":"it'\\''s here"}'`);
  assert.deepEqual(JSON.parse(await copied("Copy as JSON-RPC")), { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "read", arguments: { path: "it's here" } } });
  await page.locator("summary", { hasText: "Input schema" }).click();
  assert.deepEqual(Object.keys(JSON.parse(await copied("Copy as schema")).properties), ["path"]);
  await writeFile(join(folder, "drifted"), "");
  await page.evaluate(async () => {
    const headers = { "content-type": "application/json", "x-toolway-csrf": localStorage.getItem("toolway-key") };
    await fetch("/api/v1/servers/files/restart", { method: "POST", headers, body: "{}" });
  });
  await page.getByText("It has changed since it was accepted").click();
  await page.locator(".change-list", { hasText: "description" }).waitFor();
  await window.close();
});

test("a call that policy asks about waits, and is run when it is approved", async (story) => {
  const strict = await Program.start({ servers: { sample: SAMPLE }, policy: { mode: "ask" } });
  story.after(() => strict.stop());
  const window = await Window.open(browser, strict);
  const inbox = await window.tab("#/inbox");
  await show(window, "sample", "echo");
  await field(window, "text").fill("hello");
  await run(window);
  await result(window).getByRole("link", { name: "It waits for you: review" }).waitFor();
  await state(window, "Waiting");
  await inbox.getByRole("button", { name: "Allow once" }).click();
  await state(window, "Succeeded");
  await result(window).getByText("waiting for you").waitFor();
  await window.close();
});

test("a run shows its progress, asks what its server asks, and can be cancelled", async () => {
  const window = await Window.open(browser, program);
  const inbox = await window.tab("#/inbox");
  await show(window, "sample", "greet");
  await run(window);
  await result(window).getByRole("link", { name: "It waits for you: review" }).waitFor();
  await inbox.locator(".item.form").getByRole("textbox").first().fill("Ada");
  await inbox.locator(".item.form").getByRole("button", { name: "Send" }).click();
  await result(window).getByText("Ada").first().waitFor();
  await show(window, "every", "trigger-long-running-operation");
  await field(window, "duration").fill("60");
  await field(window, "steps").fill("120");
  await run(window);
  await result(window).locator("progress").and(window.page.locator(":visible")).waitFor();
  await result(window).getByRole("button", { name: "Cancel" }).click();
  await state(window, "Cancelled");
  await window.close();
});

test("the form is used with the keyboard alone", async () => {
  const window = await Window.open(browser, program, { bypassCSP: true });
  const { page } = window;
  const { keyboard } = page;
  const reach = async (target) => {
    for (let presses = 0; presses < 80; presses += 1) {
      if (await target.evaluate((node) => node === document.activeElement)) return;
      await keyboard.press("Tab");
    }
    assert.fail("not reached with Tab");
  };
  const open = async (words) => {
    await page.getByRole("searchbox", { name: "Search tools" }).focus();
    await keyboard.press("Control+A");
    await keyboard.type(words);
    await until(async () => (await page.locator(".tool-row").count()) === 1, "one tool matches");
    await keyboard.press("Enter");
    await window.button("Run").waitFor();
  };
  await window.show("#/tools");
  await list(window).getByText("echo").first().waitFor();
  await open("sample echo");
  await reach(field(window, "text"));
  await keyboard.type("by hand");
  await keyboard.press("Control+Enter");
  await result(window).getByText("by hand").first().waitFor();
  // Choices, parts that are begun, lists, and the switch to JSON.
  await open("odd rich form");
  await reach(field(window, "title"));
  await keyboard.type("Party");
  await reach(field(window, "urgent"));
  await keyboard.type("Y");
  const home = page.locator("fieldset.slot", { has: page.locator('> legend code:text-is("home")') });
  await reach(home.getByRole("button", { name: "Fill in" }));
  await keyboard.press("Enter");
  await until(() => field(window, "street").evaluate((node) => node === document.activeElement), "the begun part has the focus");
  await keyboard.type("Main 1");
  await page.locator("main").focus();
  await reach(window.button("JSON"));
  await keyboard.press("Enter");
  await reach(page.getByRole("textbox", { name: "Arguments as JSON" }));
  await keyboard.press("Control+End");
  await keyboard.press("Backspace");
  await keyboard.type(', "count": 2}');
  await reach(window.button("Run"));
  await keyboard.press("Enter");
  await state(window, "Succeeded");
  assert.deepEqual(JSON.parse(await last(window)), { title: "Party", urgent: true, home: { street: "Main 1" }, count: 2 });
  await reach(result(window).getByRole("link", { name: "Its record" }));
  assert.deepEqual(await window.violations(), []);
  await window.close();
});

test("a tool and its server can go while the form is open, and what was typed stays", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  await show(window, "sample", "echo");
  await field(window, "text").fill("kept");
  await own.run("servers", "disconnect", "sample").catch(() => {});
  await window.page.evaluate(async () => {
    const headers = { "content-type": "application/json", "x-toolway-csrf": localStorage.getItem("toolway-key") };
    await fetch("/api/v1/servers/sample/disable", { method: "POST", headers, body: "{}" });
  });
  await window.see("The server does not offer this tool now.");
  assert.equal(await field(window, "text").inputValue(), "kept");
  await run(window);
  await result(window).locator(".problem").waitFor();
  assert.equal(await field(window, "text").inputValue(), "kept");
  await window.close();
});
