// The screens of assistants, with real servers and a scripted model: created, used, changed and removed in the page; approvals;
// hostile content, other tabs, the keyboard, a narrow window.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { card, hostile, NOTES, Program, SAMPLE, sayAs } from "../program.mjs";
import { startIcons } from "../servers/icons.mjs";

const memo = { tool: "sample__write_memo", arguments: { text: "buy milk" } };
const script = (...calls) => ({ turns: [...calls.map((call) => ({ calls: [call] })), { text: "I am done." }] });
const scripts = { write: script(memo), twice: script(memo, memo) };
// A comment that stays, and an assistant for the list.
const settings = { assistants: { reader: { description: "Reads", servers: ["sample"], approval: "always-ask", budgets: { maxTime: "10m" } } } };
let browser, program, pictured;

before(async () => {
  pictured = await startIcons();
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, notes: NOTES, pictures: { url: pictured.url }, hostile: hostile() }, scripts, settings })]);
});
after(async () => {
  pictured?.close();
  await browser?.close();
  await program?.stop();
});

const file = () => join(program.home, ".config/toolway/toolway.json");
const assistants = async () => JSON.parse((await readFile(file(), "utf8")).replace("// mine", "")).assistants ?? {};
const field = (window, label) => window.page.getByLabel(label, { exact: true }).and(window.page.locator(":visible"));
const server = (window, label) => window.page.locator(".import-row", { has: window.page.locator(".name", { hasText: new RegExp(`^${label}$`) }) });
const only = async (window, ...labels) => {
  await window.page.getByLabel("All, also those that are added later").uncheck();
  for (const label of labels) await server(window, label).getByRole("checkbox").first().check();
};
const added = (window, text) => window.page.locator(".difference .added", { hasText: text }).first().waitFor();
const removed = (window, text) => window.page.locator(".difference .removed", { hasText: text }).first().waitFor();
const dialog = (window) => window.page.getByRole("dialog");
// After it was saved, the list is shown.
const listed = (window) => until(() => new URL(window.page.url()).hash === "#/assistants", "the list is shown");
const chat = (window, assistant, model) => sayAs(window, assistant, "go", model);

test("an assistant with one server is created, its tools are seen with icons and hints, and it works", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await window.see("Reads");
  await page.getByRole("link", { name: "Add", exact: true }).click();
  await field(window, "Name").fill("writer");
  await field(window, "Description").fill("Writes memos");
  await field(window, "Model").selectOption("write");
  await field(window, "Prompt").fill("You write memos.\nBriefly.");
  await only(window, "sample", "pictures");
  await server(window, "pictures").getByText("Connected").waitFor();
  await server(window, "pictures").locator("summary").click();
  const tools = server(window, "pictures").locator(".tested-tool");
  await tools.first().waitFor();
  assert.equal(await tools.count(), 4);
  assert.equal(await server(window, "pictures").locator(".tested-tool img.avatar").count(), 1, "odd icons are letters");
  await tools.first().getByText("read-only").waitFor();
  await server(window, "pictures").getByRole("checkbox").first().uncheck();
  await added(window, '"servers": ["sample"]');
  await added(window, '"system": "You write memos.\\nBriefly."');
  assert.equal((await assistants()).writer, undefined, "nothing is written before it is saved");
  await window.button("Add assistant").click();
  await window.see("Assistant writer is added.");
  assert.deepEqual((await assistants()).writer, { description: "Writes memos", model: "write", system: "You write memos.\nBriefly.", servers: ["sample"], approval: "always-ask" });
  assert.match(await program.run("assistants", "show", "writer"), /approval: always-ask/);
  const shown = page.getByRole("region", { name: "writer" });
  await shown.getByText("Writes memos").waitFor();
  await shown.getByText("Connected").waitFor();
  await shown.getByRole("link", { name: "Chat", exact: true }).click();
  const chosen = page.getByRole("combobox", { name: "Assistant" });
  await until(async () => (await chosen.inputValue()) === "writer", "its assistant is chosen");
  await page.getByRole("textbox", { name: "Message" }).fill("go");
  await page.keyboard.press("Enter");
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  await window.see("I am done.");
  await card(window, "succeeded").waitFor();
  await window.close();
});

test("trusted-only passes the tools of its list, and a box takes one from a pattern", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/add-assistant");
  await field(window, "Name").fill("trusting");
  await only(window, "sample");
  await window.page.getByText("Trusted tools only", { exact: true }).click();
  await server(window, "sample").locator("summary").click();
  await window.page.getByLabel("Trusted: write_memo").check();
  assert.equal(await field(window, "Trusted tools").inputValue(), "sample.write_memo");
  await window.page.getByLabel("Offered: fail").uncheck();
  const offered = (await field(window, "Tools").inputValue()).split("\n");
  assert.ok(offered.includes("sample.write_memo") && !offered.includes("sample.fail") && !offered.includes("sample.*"), offered.join());
  await field(window, "Tools").fill("sample.*");
  assert.equal(await window.page.getByLabel("Offered: fail").isChecked(), true, "the boxes follow the patterns");
  await window.button("Add assistant").click();
  await listed(window);
  assert.deepEqual((await assistants()).trusting, { servers: ["sample"], tools: ["sample.*"], approval: "trusted-only", trustedTools: ["sample.write_memo"] });
  await chat(window, "trusting", "write");
  await card(window, "succeeded").waitFor();
  await window.see("I am done.");
  assert.equal(await dialog(window).count(), 0);
  await window.show("#/edit-assistant/trusting");
  await field(window, "Trusted tools").fill("");
  await removed(window, "trustedTools");
  await window.button("Save changes").click();
  await listed(window);
  await chat(window, "trusting", "write");
  await dialog(window).getByRole("button", { name: "No", exact: true }).click();
  await window.close();
});

test("always-ask asks where an answer of always is saved, and auto does not ask", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/add-assistant");
  await field(window, "Name").fill("careful");
  await page.getByText("Trusted tools only", { exact: true }).click();
  await window.button("Add assistant").click();
  await listed(window);
  await chat(window, "careful", "twice");
  await dialog(window).getByRole("button", { name: "Always allow" }).click();
  await dialog(window).getByRole("button", { name: /always/i }).last().click();
  // The second call of the same is covered.
  await window.see("I am done.");
  assert.match(await program.run("trust", "list"), /write_memo/);
  await window.show("#/edit-assistant/careful");
  await page.getByText("Always ask", { exact: true }).click();
  await window.button("Save changes").click();
  await listed(window);
  await chat(window, "careful", "write");
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  await window.see("I am done.");
  await window.show("#/edit-assistant/careful");
  await page.getByText("Automatic", { exact: true }).click();
  await window.see("None of its calls is asked about");
  await window.button("Save changes").click();
  await listed(window);
  assert.equal((await assistants()).careful.approval, "auto");
  await chat(window, "careful", "write");
  await card(window, "succeeded").waitFor();
  await window.see("I am done.");
  assert.equal(await dialog(window).count(), 0);
  await window.close();
});

test("only what differs is written, comments stay, and a look is had before it is removed", async () => {
  const before = await readFile(file(), "utf8");
  await writeFile(file(), before.replace('"reader":{', '// mine\n"reader":{'));
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/edit-assistant/reader");
  await window.see("Nothing changes");
  await page.getByText("Background tasks, limits, resources").click();
  assert.equal(await field(window, "Time for one answer").inputValue(), "10m", "as it is written");
  await field(window, "Tool calls in one answer").fill("3");
  await field(window, "While a task runs").selectOption({ label: "Wait for the end" });
  await field(window, "Resources").fill("notes://a\nnotes://b");
  await added(window, "maxToolCalls");
  await window.button("Save changes").click();
  await window.see("Assistant reader is saved.");
  const text = await readFile(file(), "utf8");
  assert.ok(text.includes("// mine") && text.includes('"maxTime": "10m"') === before.includes('"maxTime": "10m"'), text);
  assert.match(await program.run("assistants", "show", "reader"), /budgets.maxToolCalls: 3[\s\S]*resources: notes:\/\/a, notes:\/\/b/);
  const shown = page.getByRole("region", { name: "reader" });
  await shown.getByRole("button", { name: "Remove" }).click();
  await dialog(window).locator(".removed", { hasText: "reader" }).waitFor();
  await dialog(window).getByRole("button", { name: "Remove" }).click();
  await window.see("Assistant reader is removed.");
  await shown.waitFor({ state: "detached" });
  assert.equal((await program.run("assistants", "list")).includes("reader"), false);
  await window.close();
});

test("a wrong value names its field and keeps what was typed", async () => {
  await program.run("assistants", "add", "taken");
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/409/);
  await window.show("#/add-assistant");
  await window.button("Add assistant").click();
  const wrong = (label) => field(window, label).and(page.locator("[aria-invalid=true]")).waitFor();
  await wrong("Name");
  await field(window, "Name").fill("taken");
  await page.locator(".field-problem", { hasText: "already exists" }).waitFor();
  await field(window, "Name").fill("a<b>\u202e");
  await page.locator(".field-problem", { hasText: "1 to 64 letters" }).waitFor();
  await field(window, "Name").fill("fine");
  await page.getByText("Trusted tools only", { exact: true }).click();
  await field(window, "Trusted tools").fill("read");
  await wrong("Trusted tools");
  await field(window, "Trusted tools").fill("nothere.read");
  await page.locator(".field-problem", { hasText: "unknown server" }).waitFor();
  await field(window, "Trusted tools").fill("");
  await page.getByText("Background tasks, limits, resources").click();
  await field(window, "Requests to the model in one answer").fill("0");
  await page.locator(".field-problem", { hasText: "greater than zero" }).waitFor();
  await field(window, "Requests to the model in one answer").fill("");
  await field(window, "Time between two looks at a task").fill("1h");
  await page.locator(".field-problem", { hasText: "from `1s` to `60s`".replaceAll("`", "") }).waitFor();
  await window.button("Add assistant").click();
  assert.equal(await field(window, "Time between two looks at a task").inputValue(), "1h");
  assert.equal(await field(window, "Name").inputValue(), "fine");
  assert.equal((await assistants()).fine, undefined);
  await window.close();
});

test("two tabs, a command and a server that is removed meanwhile are said", async () => {
  await program.run("servers", "add", "passing", "--stdio", "toolway sample");
  await program.run("config", "reload");
  await program.run("assistants", "add", "shared", "--servers", "sample");
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/409/);
  await window.show("#/edit-assistant/shared");
  await window.see("Nothing changes");
  await server(window, "passing").getByRole("checkbox").first().check();
  await added(window, "passing");
  await program.run("servers", "remove", "passing");
  await program.run("config", "reload");
  await server(window, "passing").getByText("Not configured").waitFor();
  await page.locator(".field-problem", { hasText: "unknown server passing" }).waitFor();
  await server(window, "passing").getByRole("checkbox").first().click();
  await server(window, "passing").waitFor({ state: "detached" });
  await field(window, "Description").fill("mine");
  await added(window, "mine");
  await program.run("assistants", "set", "shared", "--description", "of the terminal");
  await window.button("Save changes").click();
  await window.see("was changed after this page had read it");
  assert.equal(await field(window, "Description").inputValue(), "mine");
  await window.button("Keep what I typed").click();
  await page.locator(".difference .removed", { hasText: "of the terminal" }).waitFor();
  await program.run("assistants", "remove", "shared");
  await window.button("Save changes").click();
  await window.see("is not in the configuration");
  await window.button("Keep it as a new assistant").click();
  await window.button("Add assistant").click();
  await window.see("Assistant shared is added.");
  assert.equal((await assistants()).shared.description, "mine");
  await window.close();
});

test("what was typed stays when the session ends", async () => {
  const window = await Window.open(browser, program);
  window.expect(/401/);
  await window.show("#/add-assistant");
  await field(window, "Name").fill("kept");
  await window.context.clearCookies();
  await window.button("Add assistant").click();
  await window.see("You are signed out; what you typed is still here.");
  assert.equal(await field(window, "Name").inputValue(), "kept");
  const again = await window.context.newPage();
  await again.goto(await program.newLink());
  await again.waitForSelector("#nav a[aria-current]");
  await window.button("Try again").click();
  await window.button("Add assistant").click();
  await window.see("Assistant kept is added.");
  await window.close();
});

test("hostile texts, icons and tool names stay text", async () => {
  const ATTACK = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
  await program.run("assistants", "add", "hostile", "--description", `${ATTACK} safe\u202egpj.exe\u200b`, "--system", `${ATTACK}\u2066`, "--servers", "hostile");
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/assistants");
  const shown = page.getByRole("region", { name: "hostile" });
  await shown.getByText("<img src=x").waitFor();
  await shown.locator(".mark", { hasText: "RLO" }).waitFor();
  await shown.locator(".mark", { hasText: "ZWSP" }).waitFor();
  await shown.getByRole("link", { name: "Edit" }).click();
  await window.see("Nothing changes");
  await server(window, "hostile").locator("summary").click();
  await server(window, "hostile").locator(".tested-tool .mark").first().waitFor();
  assert.equal(await server(window, "hostile").locator("img").count(), 0, "no icon of it is a plain picture");
  assert.equal(await page.locator("main script, main svg[onload], main img[onerror]").count(), 0);
  // A change of another key leaves the hidden characters as they are.
  await page.getByText("Automatic", { exact: true }).click();
  await window.button("Save changes").click();
  await window.see("Assistant hostile is saved.");
  const { hostile: kept } = await assistants();
  assert.deepEqual([kept.description, kept.approval], [`${ATTACK} safe\u202egpj.exe\u200b`, "auto"]);
  await window.close();
});

test("one of a thousand tools is taken out", async (story) => {
  const own = await Program.start({ servers: { many: hostile("--tools", "1000") } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/add-assistant");
  await field(window, "Name").fill("most");
  await server(window, "many").locator("summary").click();
  await page.getByLabel("Offered: plain_7", { exact: true }).uncheck();
  await page.getByLabel("Offered: plain_8", { exact: true }).uncheck();
  await server(window, "many").getByText("1,014 of 1,016 tools").waitFor();
  await server(window, "many").getByText("and 816 more: name them below").waitFor();
  const patterns = await page.getByRole("textbox", { name: "Tools", exact: true }).inputValue();
  assert.ok(patterns.includes("many.plain_999") && !/plain_[78]$/m.test(patterns));
  await page.getByRole("textbox", { name: "Tools", exact: true }).fill("*.plain_1*");
  assert.equal(await page.getByLabel("Offered: plain_1", { exact: true }).isDisabled(), true, "a pattern of all servers is changed as text");
  await window.close();
});

test("an assistant is added with the keyboard alone", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/add-assistant");
  await until(() => field(window, "Name").evaluate((input) => input === document.activeElement), "the name has the focus");
  await page.keyboard.type("typed");
  const reach = async (what) => {
    for (let step = 0; step < 60; step += 1) {
      if (await what.evaluate((node) => node === document.activeElement)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error("Tab does not lead there");
  };
  await reach(page.getByRole("radio", { name: /^Always ask/ }));
  await page.keyboard.press("ArrowDown");
  await reach(page.getByLabel("All, also those that are added later"));
  await page.keyboard.press("Space");
  await reach(server(window, "sample").getByRole("checkbox").first());
  await page.keyboard.press("Space");
  await reach(server(window, "sample").locator("summary"));
  await page.keyboard.press("Enter");
  await reach(page.getByLabel("Trusted: add", { exact: true }));
  await page.keyboard.press("Space");
  assert.equal(await page.getByLabel("Trusted: add", { exact: true }).evaluate((box) => box === document.activeElement && box.checked), true, "the focus stays");
  await reach(window.button("Add assistant"));
  await page.keyboard.press("Enter");
  await window.see("Assistant typed is added.");
  assert.deepEqual((await assistants()).typed, { servers: ["sample"], approval: "trusted-only", trustedTools: ["sample.add"] });
  await window.close();
});

test("nothing is cut in a narrow window, in light and dark, and axe-core finds nothing", async () => {
  await program.run("assistants", "add", "pictured", "--servers", "sample,pictures", "--description", "Looks at pictures and writes memos about them, one after the other.", "--approval", "trusted-only", "--trusted-tools", "sample.add");
  for (const [width, scheme] of [[1280, "light"], [1280, "dark"], [360, "light"], [360, "dark"]]) {
    const window = await Window.open(browser, program, { width, height: width === 360 ? 740 : 800, scheme, bypassCSP: true });
    const { page } = window;
    for (const place of ["#/assistants", "#/edit-assistant/pictured"]) {
      await window.show(place);
      await page.getByText(place === "#/assistants" ? "Looks at pictures" : "Nothing changes").first().waitFor();
      if (place !== "#/assistants") {
        await server(window, "pictures").locator("summary").click();
        await server(window, "pictures").locator(".tested-tool").first().waitFor();
      }
      assert.deepEqual(await window.violations(), [], `${place} at ${width} in ${scheme}`);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth || document.querySelector("main").scrollWidth > document.querySelector("main").clientWidth), false, `${place} at ${width}`);
      if (process.env.PICTURES) {
        await page.evaluate(() => document.querySelector("main").scrollTo(0, 0));
        await page.screenshot({ path: join(process.env.PICTURES, `${place.slice(2).replace("/", "-")}-${width}-${scheme}.png`) });
        await page.evaluate(() => document.querySelector(".import-group, .panel").scrollIntoView({ block: "center" }));
        await page.screenshot({ path: join(process.env.PICTURES, `${place.slice(2).replace("/", "-")}-${width}-${scheme}-below.png`) });
      }
    }
    await window.close();
  }
});
