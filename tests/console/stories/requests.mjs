// What servers written by others ask for during a call in the chat: a form, an address, a model's answer, folders; and the
// session that they issue.
import assert from "node:assert/strict";
import { fileURLToPath, pathToFileURL } from "node:url";
import { after, before, test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { card, everything, fastmcp, listening, offers, Program, say, sdkExample, sdkExampleOverStdio } from "../program.mjs";

const walk = (tool, values = {}) => ({ turns: [{ calls: [{ tool, arguments: values }] }, { text: "It said: {{result}}" }] });
const scripts = {
  // Answers what servers ask.
  small: { turns: Array(5).fill({ text: "Blue, as always." }) },
  form: walk("users__register_user"),
  url: walk("asking__opened"),
  sampling: walk("summing__summarize", { text: "The sky was blue, as always." }),
  roots: walk("every__get-roots-list"),
  count: { turns: [...walk("counting__count").turns, ...walk("counting__count").turns] },
};
let browser, program, users, counting, folder;

before(async () => {
  folder = fileURLToPath(new URL(".", import.meta.url));
  [users, counting] = await Promise.all([sdkExample("elicitationFormExample"), listening("counting_typescript.mjs")]);
  const servers = { users: { url: users.url }, every: everything(), asking: fastmcp("asking_fastmcp.py"), summing: sdkExampleOverStdio("toolWithSampleServer"), counting: { url: counting.url, era: "legacy" } };
  const settings = { defaultModel: "small", sampling: { allow: "ask", model: "small", tokensPerDay: 1000, review: true }, roots: [{ path: folder, name: "stories" }] };
  [browser, program] = await Promise.all([launch(), Program.start({ servers, scripts, settings })]);
});
after(async () => {
  users?.child.kill();
  counting?.child.kill();
  await browser?.close();
  await program?.stop();
});

const dialog = (window) => window.page.getByRole("dialog");

test("a form is filled in, checked and sent in the conversation", async () => {
  const window = await Window.open(browser, program);
  await offers(window, "users", "register_user");
  await say(window, "form", "register me", "allow");
  await dialog(window).getByText("Please provide your registration information").first().waitFor();
  await dialog(window).getByLabel("Username").fill("ada");
  await dialog(window).getByLabel("Email").fill("ada@example.com");
  await dialog(window).getByLabel("Password").fill("short");
  await dialog(window).getByRole("button", { name: "Send" }).click();
  // The server wants eight characters at least.
  await dialog(window).locator("[aria-invalid=true]").first().waitFor();
  await dialog(window).getByLabel("Password").fill("long enough");
  await dialog(window).getByLabel("backend").check();
  await dialog(window).getByRole("button", { name: "Send" }).click();
  await card(window, "succeeded").first().locator("summary").click();
  await window.see("Email: ada@example.com");
  await window.close();
});

test("an address is shown with its host, and the call goes on when the user is done", async () => {
  const window = await Window.open(browser, program);
  await offers(window, "asking", "opened");
  await say(window, "url", "pay", "allow");
  await dialog(window).getByText("Confirm the payment").first().waitFor();
  await dialog(window).getByRole("link", { name: "Open pay.example" }).waitFor();
  await dialog(window).getByRole("button", { name: "Done" }).click();
  await card(window, "succeeded").first().waitFor();
  await window.close();
});

test("a request to a model asks with messages, model and quota, and its answer is reviewed", async () => {
  const window = await Window.open(browser, program);
  await offers(window, "summing", "summarize");
  await say(window, "sampling", "ask a model", "writes");
  await dialog(window).getByRole("button", { name: "Allow once" }).click();
  for (const text of ["The sky was blue, as always.", "at most 500", /4\d\d tokens today/]) await dialog(window).getByText(text).first().waitFor();
  await dialog(window).getByRole("button", { name: "Let the model answer once" }).click();
  await dialog(window).getByText("Blue, as always.").first().waitFor();
  await dialog(window).getByRole("button", { name: "Send this answer" }).click();
  await card(window, "succeeded").first().waitFor();
  await window.see("It said:");
  await window.close();
});

test("the model of the conversation answers where no other is configured", async (story) => {
  const own = await Program.start({
    servers: { summing: sdkExampleOverStdio("toolWithSampleServer") },
    scripts: { small: { turns: [{ text: "Not asked." }] }, talks: { turns: [...walk("summing__summarize", { text: "The sky." }).turns.slice(0, 1), { text: "Blue." }, { text: "It said: {{result}}" }] } },
    settings: { defaultModel: "small", sampling: { allow: "always" } },
  });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  await offers(window, "summing", "summarize");
  await say(window, "talks", "ask a model", "allow");
  await window.see("It said:");
  const audit = JSON.parse(await own.run("audit", "query", "--kind", "sampling", "-o", "json"));
  assert.deepEqual(audit.map(({ details }) => [details.model, details.reason]), [["talks", "the model of the conversation"]]);
  await window.show("#/calls");
  await window.page.locator(".call-row", { hasText: "summarize" }).click();
  await window.page.getByRole("complementary", { name: "Call" }).getByText(/talks, answered: at most \d+ tokens \(the model of the conversation\)/).waitFor();
  await window.close();
});

test("a server is given the configured folders", async () => {
  const window = await Window.open(browser, program);
  await offers(window, "every", "get-roots-list");
  await say(window, "roots", "which folders?", "allow");
  await card(window, "succeeded").first().locator("summary").click();
  await window.see(pathToFileURL(folder).href.replace(/\/$/, ""));
  await window.close();
});

test("a call goes on after its server forgot the session, and the page of the server shows the new one", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  await say(window, "count", "count", "allow");
  await window.see("It said: 1");
  // This page stays open, and is not read again by hand.
  const other = await window.tab("#/servers/counting");
  const fact = other.locator(".fact-grid div", { has: other.getByText("Session", { exact: true }) });
  await fact.waitFor();
  const sessions = () => other.evaluate(async () => (await (await fetch("/api/v1/servers/counting")).json()).callers.map(({ sessionId }) => sessionId));
  const before = await sessions();
  assert.ok(before.includes(await fact.locator("code").first().innerText()));
  await Promise.all(before.map((id) => fetch(counting.url, { method: "DELETE", headers: { "mcp-session-id": id } })));
  await page.getByRole("combobox", { name: "Approvals" }).selectOption("allow");
  await page.getByRole("textbox", { name: "Message" }).fill("again");
  await page.keyboard.press("Enter");
  await card(window, "succeeded").nth(1).waitFor();
  await until(async () => {
    const shown = await other.locator("main").evaluate((node) => node.textContent);
    return (await sessions()).some((id) => !before.includes(id) && shown.includes(id));
  }, "the page shows the new session by itself");
  await window.close();
});
