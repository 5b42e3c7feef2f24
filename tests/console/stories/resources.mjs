// The screens Resources and Prompts, with real servers: reading, templates with completion, updates, previews; hostile content.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { everything, Program, SAMPLE, schemas } from "../program.mjs";

let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE, every: everything(), odd: schemas() } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const result = (window) => window.page.getByRole("region", { name: "Result" });
const proposals = (window) => window.page.locator("datalist option").evaluateAll((options) => options.map((option) => option.value));
const place = (window) => window.page.evaluate(() => location.hash);

async function choose(window, screen, words) {
  await window.show(`#/${screen}`);
  await window.page.getByRole("searchbox").first().fill(words);
  await until(async () => (await window.page.locator(".offers .tool-row").count()) === 1, `one of ${screen} matches ${words}`);
  await window.page.locator(".offers .tool-row").click();
}

test("a resource is read, its updates are followed, and what is shown is read again", async () => {
  const window = await Window.open(browser, program);
  await choose(window, "resources", "memo");
  await window.button("Read").click();
  await result(window).getByText("Buy bread.").waitFor();
  await window.button("Follow updates").click();
  await window.button("Following updates").waitFor();
  const other = await window.tab("#/tools/sample/write_memo");
  await other.getByLabel(/^text /).fill("Buy milk.");
  await other.getByRole("button", { name: "Run", exact: true }).click();
  await window.see("It has changed");
  await result(window).getByText("Buy milk.").waitFor();
  const tab = await window.tab(await place(window));
  await tab.getByRole("button", { name: "Following updates" }).click();
  await tab.getByRole("button", { name: "Follow updates" }).waitFor();
  await window.close();
});

test("a template is filled in with completion, and the address keeps its values", async () => {
  const window = await Window.open(browser, program);
  await choose(window, "resources", "greeting");
  await window.page.getByLabel("name").fill("");
  await window.page.getByLabel("name").focus();
  await until(async () => (await proposals(window)).includes("Grace"), "names are proposed");
  await window.page.getByLabel("name").fill("Grace");
  await window.page.locator(".facts", { hasText: "greeting://Grace" }).waitFor();
  await window.button("Read").click();
  await result(window).getByText("Hello, Grace.").waitFor();
  assert.match(await place(window), /v\.name=Grace&run=/);
  await window.page.reload();
  await result(window).getByText("Hello, Grace.").waitFor();
  assert.equal(await window.page.getByLabel("name").inputValue(), "Grace");
  await window.close();
});

test("pictures and data are shown as what they are", async () => {
  const window = await Window.open(browser, program);
  const read = async (words) => {
    await choose(window, "resources", words);
    await window.button("Read").click();
  };
  await read("bin://picture");
  await result(window).locator("img.picture").waitFor();
  await read("bin://data");
  await result(window).getByText("00 01 02 ff").waitFor();
  await read("bin://drawing");
  await result(window).getByText("<svg onload").waitFor();
  assert.equal(await result(window).locator("img, svg").count(), 0);
  await window.close();
});

test("a prompt is completed, previewed, and used in a chat", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await choose(window, "prompts", "introduce");
  await window.button("Preview").click();
  await window.see("Fill this in.");
  await page.getByLabel("name").fill("A");
  await until(async () => (await proposals(window)).includes("Ada"), "names are proposed");
  await page.getByLabel("name").fill("Ada & Bob");
  await window.button("Preview").click();
  await result(window).getByText("Ada & Bob").first().waitFor();
  await result(window).locator(".tag", { hasText: "User" }).waitFor();
  assert.match(await place(window), /^#\/prompts\/sample\/introduce\?.*arg\.name=Ada(\+|%20)%26(\+|%20)Bob/);
  await choose(window, "prompts", "every resource");
  await page.getByRole("button", { name: "Preview" }).waitFor();
  await window.close();
});

test("hostile resources, templates, prompts and completions are text", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const isClean = async () => {
    assert.equal(await page.evaluate(() => document.querySelectorAll("script:not([src]), img[src=x], .offers svg[onload], [onerror], [onload], a[href^='javascript']").length), 0);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  };
  await choose(window, "resources", "evil://<img");
  await page.locator(".offer .mark", { hasText: "RLO" }).first().waitFor();
  await window.button("Read").click();
  await result(window).locator(".mark", { hasText: "RLO" }).first().waitFor();
  await isClean();
  await choose(window, "resources", "odd template");
  await page.getByLabel("path").fill("a/b c");
  await page.getByLabel("q", { exact: true }).fill("ä");
  await window.see("evil:///a/b%20c?q=%C3%A4");
  await isClean();
  await choose(window, "prompts", "odd evil");
  await page.locator(".offer input").first().fill("x");
  await until(async () => (await proposals(window)).includes("plain"), "proposals");
  await window.button("Preview").click();
  await result(window).locator(".mark", { hasText: "RLO" }).first().waitFor();
  await result(window).getByText("Save as a file").first().waitFor();
  await isClean();
  await window.close();
});

test("what is large, nested or not what it says is shown within bounds", async () => {
  const window = await Window.open(browser, program);
  const read = async (words) => {
    await choose(window, "resources", words);
    await window.button("Read").click();
    await result(window).locator(".pill", { hasText: "Succeeded" }).waitFor();
  };
  await read("bin://large");
  await result(window).getByText("Only the beginning is shown, of 10.0 MB.").waitFor();
  assert.ok((await window.page.evaluate(() => document.body.textContent.length)) < 400_000);
  await read("bin://nested");
  await result(window).locator(".json, .plain").first().waitFor();
  await read("bin://sound");
  await result(window).locator("audio").waitFor();
  await read("bin://lie");
  await result(window).getByText("Picture not shown: it is not a valid image/png.").waitFor();
  await choose(window, "prompts", "odd endless");
  await window.button("Preview").click();
  await result(window).getByText("Only the beginning is shown, of 10.0 MB.").waitFor();
  await result(window).locator(".json, .plain").nth(1).waitFor();
  assert.equal(await window.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  await window.close();
});

test("what is not offered any more is said", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/prompts/sample/none");
  await window.see("This prompt is not offered");
  await window.show("#/resources/sample/memo%3A%2F%2Fnowhere");
  await window.button("Read").click();
  await result(window).locator(".problem").waitFor();
  await window.close();
});
