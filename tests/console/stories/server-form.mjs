// The form that adds and changes a server, with real servers behind it: whole walks, wrong values, other tabs, the keyboard.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { everythingOverHttp, NOTES, Program, SAMPLE, TOOLWAY } from "../program.mjs";
import { startIcons } from "../servers/icons.mjs";
import { startSigned } from "../servers/signed.mjs";

const KEY = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const file = (of = program) => join(of.home, ".config/toolway/toolway.json");
const entryOf = async (name, of = program) => JSON.parse(await readFile(file(of), "utf8")).mcpServers[name];
const paste = (window) => window.page.getByLabel("Snippet, command or URL");
const consent = (window) => window.page.getByRole("checkbox", { name: /^(Run this program|Connect to)/ });
const field = (window, label) => window.page.getByLabel(label, { exact: true }).and(window.page.locator(":visible"));

test("a server is added by its URL with a choice of transport, tested, and saved", async (story) => {
  const [reference, pictured] = await Promise.all([everythingOverHttp(), startIcons()]);
  story.after(() => {
    reference.child.kill();
    pictured.close();
  });
  const window = await Window.open(browser, program);
  const { page } = window;
  for (const { name, url, title } of [{ name: "reference", url: reference.url, title: "Everything" }, { name: "pictures", url: pictured.url, title: "Pictured" }]) {
    await window.show("#/servers");
    await page.getByRole("link", { name: "Add", exact: true }).click();
    await field(window, "Name").fill(name);
    await page.getByText("Streamable HTTP", { exact: true }).click();
    await field(window, "URL").fill(url);
    await page.locator(".difference .added", { hasText: url }).waitFor();
    await window.button("Test connection").click();
    await window.see("Confirm first what will be connected to");
    assert.equal(await consent(window).evaluate((box) => box === document.activeElement), true);
    await consent(window).check();
    await window.button("Test connection").click();
    const result = page.getByRole("status", { name: "Result of the test" });
    await result.getByText("It works").waitFor();
    await result.getByText(title).first().waitFor();
    await result.getByText("2025-11-25").or(result.getByText("2026-07-28")).first().waitFor();
    await result.locator("dt", { hasText: "Session id" }).waitFor();
    assert.match(await result.locator("dd").nth(1).innerText(), /^[0-9a-zA-Z-]{8,}$/);
    await result.getByText("tools", { exact: true }).waitFor();
    if (name === "pictures") {
      assert.equal(await result.locator("img.avatar").count(), 2, "the server's and one tool's; odd icons are letters");
      assert.equal(await result.locator(".tested-tool .avatar.letter").count(), 3);
    }
    await window.button("Add server").click();
    await page.locator(".server-title", { hasText: "Connected" }).waitFor();
    assert.equal(new URL(page.url()).hash, `#/servers/${name}`);
    assert.deepEqual(await entryOf(name), { url, type: "http" });
    await page.locator(".fact-grid > div", { hasText: "Session" }).locator("code").waitFor();
  }
  await page.locator(".tool-row img.avatar").waitFor();
  await window.close();
});

test("OAuth with a client id and endpoints: saved, authorized, connected", async (story) => {
  const tickets = await startSigned({ clientId: "toolway-story", discovery: false });
  story.after(() => tickets.close());
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/request to http:\/\/127\.0\.0\.1/);
  await window.show("#/add");
  await field(window, "Name").fill("tickets");
  await page.getByText("Streamable HTTP", { exact: true }).click();
  await field(window, "URL").fill(tickets.url);
  await field(window, "Authentication").selectOption({ label: "OAuth: sign in, where the server requires it" });
  await field(window, "Client id").fill("toolway-story");
  await field(window, "Scopes").fill("tickets.read, tickets.write");
  await page.getByText("Endpoints, instead of those discovered").click();
  await field(window, "Issuer").fill(tickets.origin);
  await field(window, "Authorization endpoint").fill(`${tickets.origin}/authorize`);
  await field(window, "Token endpoint").fill(`${tickets.origin}/token`);
  await consent(window).check();
  await window.button("Test connection").click();
  await window.see("It answers, and requires a sign-in.");
  await window.button("Save and authorize").first().click();
  // The sign-in begins on the page of the server.
  await page.locator(".sign-in .address", { hasText: tickets.origin }).waitFor();
  const [authorization] = await Promise.all([window.context.waitForEvent("page"), page.getByRole("link", { name: "Open the sign-in page" }).click()]);
  const asked = new URL(authorization.url()).searchParams;
  assert.deepEqual([asked.get("client_id"), asked.get("scope")], ["toolway-story", "tickets.read tickets.write"]);
  await authorization.getByRole("link", { name: "Agree" }).click();
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  await page.getByRole("listbox", { name: "Tools" }).getByText("list_tickets").waitFor();
  await authorization.getByRole("link", { name: "Back to Toolway" }).click();
  await authorization.waitForURL(`${program.origin}/#/servers/tickets`);
  assert.deepEqual((await entryOf("tickets")).oauth.scopes, ["tickets.read", "tickets.write"]);
  await window.close();
});

test("a snippet fills in the form; its secret goes to the vault, and an edit of the command takes the consent back", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await window.show("#/add");
  await paste(window).fill(JSON.stringify({ mcpServers: { "from-readme": { command: TOOLWAY, args: ["sample"], env: { GITHUB_TOKEN: KEY } } } }));
  await until(async () => (await field(window, "Command").inputValue()) === TOOLWAY, "the form is filled in");
  assert.equal(await field(window, "Name").inputValue(), "from-readme");
  await page.locator(".difference", { hasText: "${secret:from-readme-GITHUB_TOKEN}" }).waitFor();
  assert.equal(await page.locator("body").evaluate((body, key) => body.innerText.includes(key), KEY), false, "not shown outside of what was pasted");
  await consent(window).check();
  await field(window, "Arguments").fill("sample\n--play\nnotes");
  await until(async () => !(await consent(window).isChecked()), "an edit takes the consent back");
  await field(window, "Arguments").fill("sample");
  await page.locator(".difference", { hasText: "sample" }).waitFor();
  await consent(window).check();
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "Connected" }).waitFor();
  const text = await readFile(file(), "utf8");
  assert.ok(text.includes("${secret:from-readme-GITHUB_TOKEN}") && !text.includes(KEY), text);
  assert.match(await program.run("secret", "list"), /from-readme-GITHUB_TOKEN/);
  await window.close();
});

test("every shape that import reads fills in the form, and a misspelled URL is no program", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/add");
  for (const snippet of [
    `mcp:\n  servers:\n    - id: pasted\n      transport: {type: stdio, executable: ${TOOLWAY}, args: [sample]}\n`,
    JSON.stringify([{ name: "pasted", command: TOOLWAY, args: ["sample"] }]),
    JSON.stringify({ context_servers: { pasted: { command: { path: TOOLWAY, args: ["sample"] } } } }),
    `[mcp_servers.pasted]\ncommand = "${TOOLWAY}"\nargs = ["sample"]\n`,
  ]) {
    await paste(window).fill(snippet);
    await window.see(`${TOOLWAY} sample`);
    await field(window, "Command").fill("");
    await field(window, "Name").fill("");
  }
  await paste(window).fill("htp://x");
  await window.see("is not the URL of a server");
  window.expect(/status of 4\d\d/);
  await window.close();
});

test("a server that cannot start is explained before it is added", async () => {
  const window = await Window.open(browser, program);
  await window.show("#/add");
  await paste(window).fill(`${TOOLWAY} sample --play crashes`);
  await consent(window).check();
  await window.button("Test connection").click();
  await window.see("The test failed");
  await window.page.locator(".problem .stderr").waitFor();
  await paste(window).fill("{ not a snippet");
  await window.page.locator(".problem").first().waitFor();
  window.expect(/status of 4\d\d/);
  await window.close();
});

test("a wrong value names its field and keeps what was typed", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  window.expect(/status of 4\d\d/);
  await window.show("#/add");
  await window.button("Add server").click();
  await until(() => field(window, "Name").evaluate((input) => input === document.activeElement), "the name is asked for");
  await field(window, "Name").fill("sample");
  await field(window, "Command").fill(TOOLWAY);
  await window.see("already exists");
  assert.equal(await field(window, "Name").getAttribute("aria-invalid"), "true");
  await field(window, "Name").fill("other");
  await page.getByText("Times, retries and protocol").click();
  await field(window, "Time to connect").fill("soon");
  await page.locator(".field", { hasText: "Time to connect" }).getByText("must be").waitFor();
  await window.button("Test connection").click();
  await until(() => field(window, "Time to connect").evaluate((input) => input === document.activeElement), "the wrong field has the focus");
  assert.deepEqual([await field(window, "Time to connect").inputValue(), await field(window, "Command").inputValue()], ["soon", TOOLWAY]);
  await field(window, "Time to connect").fill("10s");
  await page.locator(".difference", { hasText: "10s" }).waitFor();
  await page.getByText("Streamable HTTP", { exact: true }).click();
  await field(window, "URL").fill("ftp://example.org");
  await window.see("is neither");
  await window.close();
});

test("an entry is changed: only what differs is written, comments stay, and its sharing, filter, roots and trust with it", async (story) => {
  const own = await Program.start({ servers: { notes: { ...NOTES, env: { TOKEN: KEY } } } });
  story.after(() => own.stop());
  const text = await readFile(file(own), "utf8");
  await writeFile(file(own), text.replace("{", "{\n  // kept\n  ").replace('"notes":', '\n    "notes":'));
  await own.run("config", "reload");
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/servers/notes");
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await window.see("A secret stands in clear in the file.");
  await window.see("Nothing changes");
  await field(window, "Description").fill("My notes");
  for (const title of ["Trust, tools and start", "What it may ask for"]) await page.getByText(title).click();
  await field(window, "Trust").selectOption("full");
  await field(window, "Processes or connections").selectOption("shared");
  await field(window, "Do not offer these tools").fill("delete_*");
  await field(window, "It may ask a model (sampling)").selectOption("ask");
  await window.button("Root").click();
  await page.getByLabel("Folder or URI 1").fill("~/work");
  await page.locator(".difference .added", { hasText: "My notes" }).waitFor();
  assert.equal(await page.locator("body").evaluate((body, key) => body.innerText.includes(key), KEY), false);
  assert.equal(await consent(window).isVisible(), false, "the same program as before");
  await window.button("Save changes").click();
  await page.locator(".server-title", { hasText: "My notes" }).waitFor();
  const written = await readFile(file(own), "utf8");
  assert.ok(written.includes("// kept") && !written.includes(KEY), written);
  const entry = JSON.parse(written.replace("// kept", "")).mcpServers.notes;
  assert.deepEqual(entry, { ...NOTES, env: { TOKEN: "${secret:notes-TOKEN}" }, description: "My notes", trust: "full", sharing: "shared", excludeTools: ["delete_*"], sampling: { allow: "ask" }, roots: [{ path: "~/work" }] });
  await window.close();
});

test("every field stands for the key that is written", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE }, scripts: { small: { turns: [] } } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const { page } = window;
  window.expect(/status of 4\d\d/);
  const fill = async (values) => {
    for (const [label, value] of Object.entries(values)) {
      if (typeof value === "boolean") await field(window, label).setChecked(value);
      else if (typeof value === "object") await field(window, label).selectOption(value);
      else await field(window, label).fill(value);
    }
  };
  const open = () => page.locator(".form-groups > details").evaluateAll((folds) => folds.forEach((fold) => (fold.open = true)));
  await window.show("#/add");
  await open();
  await fill({ Name: "local", Description: "Mine", Command: "toolway", Arguments: "sample\n--play\nnotes", Folder: "/tmp", Trust: { value: "read" }, "Processes or connections": { value: "caller" }, "Offer only these tools": "read_*\nwrite_note", "Do not offer these tools": "write_*", "Always ask before these tools": "read_note", Enabled: false, "Connect at the first use, not at the start": true });
  await fill({ "It may ask a model (sampling)": { value: "ask" }, "With this model": { value: "small" }, "Most tokens of an answer": "100", "It may ask you for information": false });
  await fill({ "Time to connect": "10s", "A call without progress": "1m", "A call in all": "5m", "Retries after a failure": "3", "Before the first retry": "2s", "Longest time between retries": "20s", Protocol: { value: "legacy" }, "Its session, when Toolway ends": { value: "end" } });
  await window.button("Variable").click();
  await fill({ "Variable 1": "LEVEL", "Value 1": "high" });
  await window.button("Root").click();
  await fill({ "Folder or URI 1": "file:///srv/notes", "Name 1": "notes" });
  await consent(window).check();
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "Mine" }).waitFor();
  assert.deepEqual(await entryOf("local", own), {
    description: "Mine", command: "toolway", args: ["sample", "--play", "notes"], env: { LEVEL: "high" }, cwd: "/tmp", trust: "read", sharing: "caller", includeTools: ["read_*", "write_note"], excludeTools: ["write_*"], requireConfirmation: ["read_note"], enabled: false, lazy: true,
    sampling: { allow: "ask", model: "small", maxTokens: 100 }, elicitation: false, roots: [{ uri: "file:///srv/notes", name: "notes" }], timeouts: { connect: "10s", idle: "1m", total: "5m" }, reconnect: { attempts: 3, initialDelay: "2s", maxDelay: "20s" }, era: "legacy", sessions: "end",
  });

  await window.show("#/add");
  await open();
  await page.getByText("HTTP+SSE", { exact: true }).click();
  await fill({ Name: "remote", URL: "http://127.0.0.1:1/sse", Authentication: { value: "oauth" }, "Client id": "me", "Client secret": "a-secret-of-the-story", Scopes: "read write", Enabled: false });
  await window.button("Header").click();
  await fill({ "Header 1": "x-team", "Value 1": "red" });
  await page.getByText("Endpoints, instead of those discovered").click();
  await fill({ Issuer: "https://issuer.example", "Metadata URL": "https://issuer.example/metadata", "Authorization endpoint": "https://issuer.example/authorize", "Token endpoint": "https://issuer.example/token", "Callback port": "7999" });
  await consent(window).check();
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "remote" }).waitFor();
  assert.deepEqual(await entryOf("remote", own), {
    url: "http://127.0.0.1:1/sse", type: "sse", headers: { "x-team": "${secret:remote-x-team}" }, enabled: false,
    oauth: { clientId: "me", clientSecret: "${secret:remote-clientSecret}", scopes: ["read", "write"], issuer: "https://issuer.example", metadataUrl: "https://issuer.example/metadata", authorizationUrl: "https://issuer.example/authorize", tokenUrl: "https://issuer.example/token", callbackPort: 7999 },
  });
  await window.close();
});

test("two tabs edit one server: the second is told, and keeps what it typed", async (story) => {
  const own = await Program.start({ servers: { notes: NOTES } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  window.expect(/status of 4\d\d/);
  const { page } = window;
  const other = await window.tab("#/edit/notes");
  await window.show("#/edit/notes");
  await field(window, "Description").fill("mine");
  await page.locator(".difference", { hasText: "mine" }).waitFor();
  await other.getByLabel("Description", { exact: true }).fill("theirs");
  await other.locator(".difference", { hasText: "theirs" }).waitFor();
  await other.getByRole("button", { name: "Save changes" }).click();
  await other.locator(".server-title", { hasText: "theirs" }).waitFor();
  await window.see("was changed after this page had read it");
  assert.equal(await field(window, "Description").inputValue(), "mine");
  await window.button("Keep what I typed").click();
  await page.locator(".difference .removed", { hasText: "theirs" }).waitFor();
  await window.button("Save changes").click();
  await page.locator(".server-title", { hasText: "mine" }).waitFor();
  // One that is removed while its form is open.
  await window.show("#/edit/notes");
  await field(window, "Description").fill("still here");
  await page.locator(".difference", { hasText: "still here" }).waitFor();
  await own.run("servers", "remove", "notes");
  await window.see("is not in the configuration");
  assert.equal(await field(window, "Description").inputValue(), "still here");
  await window.button("Keep it as a new server").click();
  await consent(window).check();
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "still here" }).waitFor();
  await window.close();
});

test("what was typed stays when the connection is lost and when the session ends", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const { page } = window;
  window.expect(/ERR_|Failed to load|network|status of 4\d\d/);
  await window.show("#/add");
  await field(window, "Name").fill("later");
  await field(window, "Command").fill("toolway");
  await field(window, "Arguments").fill("sample");
  await page.locator(".difference").waitFor();
  const { host } = new URL(own.origin);
  await own.kill();
  await window.see("The connection to Toolway is lost");
  assert.equal(await field(window, "Command").inputValue(), "toolway");
  // A new process knows no session of the one before.
  await own.serve(host);
  await window.see("You are signed out; what you typed is still here.");
  await page.bringToFront();
  const other = await window.context.newPage();
  await other.goto(await own.newLink());
  await other.waitForSelector("#nav a[aria-current]");
  await window.button("Try again").click();
  await page.locator("#foot", { hasText: "Live" }).waitFor();
  await consent(window).check();
  await window.button("Add server").click();
  await page.locator(".server-title", { hasText: "Connected" }).waitFor();
  await window.close();
});

test("a server is removed after a look at what is taken out", async () => {
  const own = await Program.start({ servers: { sample: SAMPLE, notes: NOTES } });
  const window = await Window.open(browser, own);
  const { page } = window;
  // It is looked for once more when it is gone.
  window.expect(/status of 404/);
  await window.show("#/servers/notes");
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  await window.button("Remove").click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".difference .removed", { hasText: "notes" }).first().waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await window.button("Remove").click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await window.see("Server notes is removed.");
  await page.locator('a[href="#/servers/notes"]').waitFor({ state: "detached" });
  assert.equal(await entryOf("notes", own), undefined);
  await window.close();
  await own.stop();
});

test("servers of other applications are chosen from a list", async (story) => {
  const own = await Program.start({ servers: { sample: SAMPLE } });
  story.after(() => own.stop());
  await mkdir(join(own.home, ".cursor"));
  const entry = { command: TOOLWAY, args: ["sample"], env: { API_TOKEN: KEY } };
  await writeFile(join(own.home, ".cursor/mcp.json"), JSON.stringify({ mcpServers: { one: entry, two: entry, sample: entry } }));
  const window = await Window.open(browser, own);
  const { page } = window;
  await window.show("#/add");
  await page.getByRole("link", { name: "Import from other applications" }).click();
  await page.getByRole("checkbox", { name: /^one/ }).check();
  assert.equal(await page.getByRole("checkbox", { name: /^sample/ }).isDisabled(), true);
  await window.see("already exists");
  await window.button("Import 1 server").click();
  await window.see("1 server imported");
  await page.getByRole("link", { name: "one", exact: true }).click();
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  assert.equal((await entryOf("one", own)).env.API_TOKEN, "${secret:one-API_TOKEN}");
  assert.equal(await entryOf("two", own), undefined);
  await window.close();
});

test("the form is filled in, tested and saved with the keyboard alone", async () => {
  const window = await Window.open(browser, program, { bypassCSP: true });
  const { page } = window;
  const { keyboard } = page;
  await window.show("#/add");
  await until(() => paste(window).evaluate((input) => input === document.activeElement), "the paste box has the focus");
  const focusOn = async (target) => {
    for (let step = 0; step < 60; step += 1) {
      if (await target.evaluate((node) => node === document.activeElement)) return;
      await keyboard.press("Tab");
    }
    assert.fail("not reached with Tab");
  };
  await focusOn(field(window, "Name"));
  await keyboard.type("typed");
  await focusOn(page.getByRole("radio", { name: /Program on this computer/ }));
  await keyboard.press("ArrowDown");
  await field(window, "URL").waitFor();
  await keyboard.press("ArrowUp");
  await focusOn(field(window, "Command"));
  await keyboard.type("toolway");
  await focusOn(field(window, "Arguments"));
  await keyboard.type("sample");
  await focusOn(window.button("Variable"));
  await keyboard.press("Enter");
  await keyboard.type("LEVEL");
  await keyboard.press("Tab");
  await keyboard.type("high");
  await page.locator(".difference", { hasText: "LEVEL" }).waitFor();
  await focusOn(consent(window));
  await keyboard.press("Space");
  await focusOn(window.button("Test connection"));
  await keyboard.press("Enter");
  await window.see("It works");
  assert.deepEqual(await window.violations(), []);
  assert.equal(await window.button("Test connection").evaluate((button) => button === document.activeElement), true);
  await keyboard.press("Shift+Tab");
  await keyboard.press("Enter");
  await page.locator(".server-title", { hasText: "typed" }).getByText("Connected").waitFor();
  assert.deepEqual(await entryOf("typed"), { command: "toolway", args: ["sample"], env: { LEVEL: "high" } });
  await window.close();
});
