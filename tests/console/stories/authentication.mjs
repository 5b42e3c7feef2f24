// Each kind of authentication of the form: what the server gets is what was filled in, the secret is in the vault, and a
// wrong one is said with what to do about it. OAuth with a user is in server-form.mjs and servers.mjs.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, Window } from "../browser.mjs";
import { Program, SAMPLE } from "../program.mjs";
import { startGuarded } from "../servers/guarded.mjs";

const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const PEM = privateKey.export({ type: "pkcs8", format: "pem" });
const basic = `Basic ${Buffer.from("ada:open sesame").toString("base64")}`;
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { sample: SAMPLE } })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const field = (window, label) => window.page.getByLabel(label, { exact: true }).and(window.page.locator(":visible"));

const KINDS = [
  { name: "open", label: "None: no credentials are sent", fields: {}, server: { admits: ({ authorization }) => authorization === undefined } },
  { name: "by-token", label: "Bearer token", fields: { Token: "token-of-the-story-1" }, secret: "Token", server: { admits: ({ authorization }) => authorization === "Bearer token-of-the-story-1" } },
  { name: "by-key", label: "API key in a header", fields: { Key: "key-of-the-story-12", Header: "x-story-key" }, secret: "Key", server: { admits: (headers) => headers["x-story-key"] === "key-of-the-story-12" } },
  { name: "by-password", label: "User name and password (basic)", fields: { "User name": "ada", Password: "open sesame" }, secret: "Password", server: { admits: ({ authorization }) => authorization === basic } },
  { name: "by-secret", label: "Client credentials with a secret (no user)", fields: { "Client id": "nightly", "Client secret": "secret-of-the-story" }, secret: "Client secret", server: { client: { id: "nightly", secret: "secret-of-the-story" } } },
  { name: "by-private-key", label: "Client credentials with a private key (no user)", fields: { "Client id": "nightly", "Private key (PEM)": PEM }, secret: "Private key (PEM)", server: { client: { id: "nightly", publicKey } } },
];

async function fillIn(window, { name, label, fields, server }, { url, origin }) {
  const { page } = window;
  await window.show("#/servers");
  await window.show("#/add");
  await field(window, "Name").fill(name);
  await page.getByText("Streamable HTTP", { exact: true }).click();
  await field(window, "URL").fill(url);
  await field(window, "Authentication").selectOption({ label });
  for (const [key, value] of Object.entries(fields)) await field(window, key).fill(value);
  // The secret of a client goes to the authorization server that the user names, and to no other.
  if (server.client) {
    await page.getByText("Endpoints, instead of those discovered").click();
    await field(window, "Issuer").fill(origin);
  }
  await page.getByRole("checkbox", { name: "Connect to" }).check();
}

for (const kind of KINDS) {
  test(`a server is added with: ${kind.label}`, async (story) => {
    const server = await startGuarded(kind.server);
    story.after(() => server.close());
    const window = await Window.open(browser, program);
    const { page } = window;
    // An entry that is half filled in is refused.
    window.expect(/status of 422/);
    await fillIn(window, kind, server);
    await window.button("Test connection").click();
    await window.see("It works");
    await window.button("Add server").click();
    await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
    await page.getByRole("listbox", { name: "Tools" }).getByText("who", { exact: true }).waitFor();
    if (kind.secret) {
      const secret = kind.fields[kind.secret].trim().split("\n").at(-1);
      assert.equal((await readFile(join(program.home, ".config/toolway/toolway.json"), "utf8")).includes(secret), false, "the secret is in the vault");
    }
    await window.close();
  });

  if (!kind.secret || kind.name === "by-private-key") continue;
  test(`a wrong value is said with what to do: ${kind.label}`, async (story) => {
    const server = await startGuarded(kind.server);
    story.after(() => server.close());
    const window = await Window.open(browser, program);
    const { page } = window;
    window.expect(/status of 422/);
    const wrong = { ...kind, name: `${kind.name}-wrong`, fields: { ...kind.fields, [kind.secret]: "something-else" } };
    await fillIn(window, wrong, server);
    await window.button("Test connection").click();
    await window.see("The test failed");
    await window.button("Add server").click();
    // No sign-in page would help: the entry has to be changed.
    await page.locator(".detail .problem").first().waitFor();
    assert.equal(await window.button("Authorize").count(), 0);
    await page.getByRole("link", { name: "Edit", exact: true }).click();
    await field(window, kind.secret).fill(kind.fields[kind.secret]);
    await window.button("Save changes").click();
    await page.locator(".server-title .pill", { hasText: "Connected" }).waitFor();
    await window.close();
  });
}
