// One walk over all screens, with a server and an authorization server of the TypeScript SDK: added by its URL with OAuth, a
// client id and endpoints, signed in, given to an assistant, used in a chat after an approval, and found among the calls.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { launch, until, Window } from "../browser.mjs";
import { card, freePort, listening, Program } from "../program.mjs";

const scripts = { greeter: { turns: [{ text: "I greet you.", calls: [{ tool: "protected__hello" }] }, { text: "It said: {{result}}" }] } };

// Registers a client by hand, as an administrator does.
async function registered(origin, callback) {
  const body = JSON.stringify({ client_name: "console", redirect_uris: [`http://127.0.0.1:${callback}/callback`], token_endpoint_auth_method: "none" });
  const response = await fetch(`${origin}/register`, { method: "POST", headers: { "content-type": "application/json" }, body });
  assert.equal(response.status, 201);
  return (await response.json()).client_id;
}

test("from a URL with OAuth to an approved call of an assistant", async (story) => {
  const [browser, server, program, callback] = await Promise.all([launch(), listening("protected_typescript.mjs"), Program.start({ servers: {}, scripts }), freePort()]);
  story.after(async () => {
    server.child.kill();
    await browser.close();
    await program.stop();
  });
  const { origin } = new URL(server.url);
  const client = await registered(origin, callback);
  const window = await Window.open(browser, program);
  window.expect(/request to http:\/\/127\.0\.0\.1/);
  const { page } = window;
  const main = page.getByRole("main");
  const screen = (name) => page.getByRole("navigation").getByRole("link", { name }).first().click();
  const field = (label) => page.getByLabel(label, { exact: true }).and(page.locator(":visible"));

  await screen("Servers");
  await main.getByRole("link", { name: "Add", exact: true }).first().click();
  await field("Name").fill("protected");
  await page.getByText("Streamable HTTP", { exact: true }).click();
  await field("URL").fill(server.url);
  await field("Authentication").selectOption({ label: "OAuth: sign in, where the server requires it" });
  await field("Client id").fill(client);
  await field("Scopes").fill("notes");
  await page.getByText("Endpoints, instead of those discovered").click();
  // The issuer as its metadata says it.
  await field("Issuer").fill(`${origin}/`);
  await field("Authorization endpoint").fill(`${origin}/authorize`);
  await field("Token endpoint").fill(`${origin}/token`);
  await field("Callback port").fill(String(callback));
  await page.getByRole("checkbox", { name: "Connect to" }).check();
  await window.button("Test connection").click();
  await window.see("It answers, and requires a sign-in.");
  await window.button("Save and authorize").first().click();
  await page.locator(".sign-in .address", { hasText: `${origin}/authorize` }).waitFor();
  await Promise.all([window.context.waitForEvent("page"), page.getByRole("link", { name: "Open the sign-in page" }).click()]);
  await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
  const { protected: entry } = JSON.parse(await readFile(join(program.home, ".config/toolway/toolway.json"), "utf8")).mcpServers;
  assert.deepEqual([entry.oauth.clientId, entry.oauth.callbackPort, entry.oauth.tokenUrl], [client, callback, `${origin}/token`]);

  await screen("Assistants");
  await main.getByRole("link", { name: "Add", exact: true }).first().click();
  await field("Name").fill("host");
  await field("Model").selectOption("greeter");
  await page.getByLabel("All, also those that are added later").uncheck();
  const row = page.locator(".import-row", { hasText: "protected" });
  await row.getByRole("checkbox").first().check();
  await row.locator("summary").click();
  await row.locator(".tested-tool", { hasText: "hello" }).getByText("destructive").waitFor();
  await row.locator(".tested-tool .avatar").waitFor();
  await window.button("Add assistant").click();

  await page.getByRole("region", { name: "host" }).getByRole("link", { name: "Chat", exact: true }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Greet me");
  await window.button("Send").click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".warning").first().waitFor();
  await dialog.getByRole("button", { name: "Allow once" }).click();
  await window.see("It said: hello");
  await card(window, "succeeded").waitFor();
  await screen("Calls");
  await main.locator(".call-row", { hasText: "hello" }).click();
  await page.getByRole("complementary", { name: "Call" }).locator("dt", { hasText: "Approved by" }).waitFor();
  await until(async () => (await program.run("calls", "list", "-o", "json")).includes('"protected__hello"'), "it is recorded");
  await window.close();
});
