// Starts the program under test with its console, in a home of its own, and clients of its gateway.
import { spawn, execFile } from "node:child_process";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { until } from "./browser.mjs";

export const TOOLWAY = process.env.TOOLWAY ?? fileURLToPath(new URL("../../target/debug/toolway", import.meta.url));

// The sample server of the program, the notes server of its demo, and one that is hostile.
export const SAMPLE = { command: "toolway", args: ["sample"] };
export const NOTES = { command: "toolway", args: ["sample", "--play", "notes"] };
export const CRASHES = { command: "toolway", args: ["sample", "--play", "crashes"] };
export const hostile = (...args) => ({ command: process.execPath, args: [fileURLToPath(new URL("servers/hostile.mjs", import.meta.url)), ...args] });

// One whose schemas are hard for forms, and whose resources and prompts are hostile.
export const schemas = (...args) => ({ command: process.execPath, args: [fileURLToPath(new URL("servers/schemas.mjs", import.meta.url)), ...args] });

// One that says something else of its tool once there is a file `drifted` in `folder`.
export const drifting = (folder) => ({ command: process.execPath, args: [fileURLToPath(new URL("servers/drifting.mjs", import.meta.url))], cwd: folder });

// A server of the testkit whose tools run as tasks.
export const conformance = (era = "2026-07-28") => ({ command: join(dirname(TOOLWAY), "conformance-server"), args: ["--era", era, "--stdio"] });

// The reference server, written by others: over stdio, and over HTTP with sessions.
const EVERYTHING = fileURLToPath(new URL("../../.interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js", import.meta.url));
export const everything = () => ({ command: process.execPath, args: [EVERYTHING, "stdio"] });

export const everythingOverHttp = (port) => overHttp(EVERYTHING, ["streamableHttp"], "PORT", port);

// An example server of the TypeScript SDK, written by others.
const EXAMPLES = fileURLToPath(new URL("../../.interop/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/", import.meta.url));
export const sdkExample = (name, variable = "PORT") => overHttp(join(EXAMPLES, `${name}.js`), [], variable);

export const sdkExampleOverStdio = (name) => ({ command: process.execPath, args: [join(EXAMPLES, `${name}.js`)] });

// A server on FastMCP.
const INTEROP = fileURLToPath(new URL("../interop/servers/", import.meta.url));
export const fastmcp = (script) => ({ command: fileURLToPath(new URL("../../.interop/venv/bin/python", import.meta.url)), args: [join(INTEROP, script)] });

// One of tests/interop/servers that listens on a port of its own and prints its address.
export async function listening(script) {
  const child = spawn(process.execPath, [join(INTEROP, script)], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((resolve, reject) => {
    child.stdout.once("data", (data) => resolve(String(data)));
    child.once("exit", () => reject(new Error(`${script} ended`)));
  });
  return { child, url: line.trim().replace("listening on ", "") };
}

async function overHttp(script, args, variable, port) {
  port ??= await freePort();
  const child = spawn(process.execPath, [script, ...args], { env: { ...process.env, [variable]: String(port) }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const gone = new Promise((_, reject) => child.once("exit", () => reject(new Error(`${script} ended: ${said}`))));
  gone.catch(() => {});
  child.stdout.on("data", (data) => (said += data));
  child.stderr.on("data", (data) => (said += data));
  const listens = () => fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false);
  await Promise.race([gone, until(listens, `${script} listens`)]);
  return { child, port, url: `http://127.0.0.1:${port}/mcp` };
}

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// Begins a conversation with a scripted model.
export async function say(window, model, text, mode = "writes") {
  await window.show("#/chat");
  await window.see("New conversation");
  await window.page.getByRole("combobox", { name: "Model" }).selectOption(model);
  await window.page.getByRole("combobox", { name: "Approvals" }).selectOption(mode);
  await window.page.getByRole("textbox", { name: "Message" }).fill(text);
  await window.page.keyboard.press("Enter");
}

// Begins a conversation of an assistant, with its approval; `model` replaces its model.
export async function sayAs(window, assistant, text, model) {
  await window.show("#/chat");
  await window.see("New conversation");
  const chosen = window.page.getByRole("combobox", { name: "Assistant" });
  await chosen.selectOption(assistant);
  if (model) await window.page.getByRole("combobox", { name: "Model" }).selectOption(model);
  await window.page.getByRole("textbox", { name: "Message" }).fill(text);
  await window.page.keyboard.press("Enter");
  await chosen.waitFor({ state: "hidden" });
}

// Waits until a server lists a tool: some list further ones after the handshake.
export async function offers(window, server, tool) {
  const lists = async ([path, name]) => (await (await fetch(path)).text()).includes(`"${name}"`);
  await until(() => window.page.evaluate(lists, [`/api/v1/servers/${server}`, tool]), `${server} lists ${tool}`);
}

// The cards of calls in a state, in a conversation.
export const card = (window, state) => window.page.locator(`.card[data-state="${state}"]`);

export class Program {
  // options: { servers, scripts: { NAME: { turns } }, models: more of a script's entry by name, policy, settings, flags, indent: of the configuration }
  static async start({ servers = { sample: SAMPLE }, scripts = {}, models: more = {}, policy, settings = {}, flags = [], indent = 0 } = {}) {
    const program = new Program();
    program.home = await mkdtemp(join(tmpdir(), "toolway-console-"));
    const models = {};
    for (const [name, script] of Object.entries(scripts)) {
      models[name] = { vendor: "scripted", model: join(program.home, `${name}.json`), ...more[name] };
      await writeFile(models[name].model, JSON.stringify(script));
    }
    await mkdir(join(program.home, ".config/toolway"), { recursive: true });
    await writeFile(join(program.home, ".config/toolway/toolway.json"), JSON.stringify({ mcpServers: servers, models, ...(policy ? { policy } : {}), ...settings }, null, indent));
    program.flags = flags;
    await program.serve();
    return program;
  }

  get environment() {
    const { PATH, TERM, LANG } = process.env;
    return { PATH: `${dirname(TOOLWAY)}:${PATH}`, TERM, LANG, HOME: this.home, XDG_RUNTIME_DIR: this.home, TOOLWAY_SIGN_IN__VAULT: "memory" };
  }

  // Starts `toolway serve`; both addresses are free ports.
  async serve(address = "127.0.0.1:0") {
    this.said = "";
    this.child = spawn(TOOLWAY, ["serve", "-o", "json", "--listen", "127.0.0.1:0", "--console", address, ...this.flags], { env: this.environment, cwd: this.home, stdio: ["ignore", "pipe", "pipe"] });
    this.child.stderr.on("data", (data) => (this.said = (this.said + data).slice(-20_000)));
    this.gone = new Promise((resolve) => this.child.once("exit", resolve));
    const line = await this.firstLine();
    const { listening, console: page } = JSON.parse(line);
    // Keys and links that sign in are printed to a terminal only; commands give them.
    this.key ??= JSON.parse(await this.run("clients", "add", "story", "-o", "json")).key;
    Object.assign(this, { listening, link: await this.newLink(), origin: new URL(page).origin });
  }

  firstLine() {
    return new Promise((resolve, reject) => {
      let text = "";
      this.child.stdout.on("data", (data) => {
        text += data;
        if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
      });
      this.gone.then((code) => reject(new Error(`toolway serve ended with ${code}: ${this.said}`)));
    });
  }

  // Runs another command of the program in the same home.
  async run(...args) {
    const { stdout } = await promisify(execFile)(TOOLWAY, args, { env: this.environment, cwd: this.home });
    return stdout;
  }

  async newLink() {
    return JSON.parse(await this.run("console", "--no-open", "-o", "json")).console;
  }

  async client(name = "story") {
    return new GatewayClient(this).open(name);
  }

  async kill() {
    this.child.kill("SIGTERM");
    await this.gone;
  }

  async stop() {
    await this.kill();
    await rm(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

// A client of the gateway with a session, which cannot be asked anything.
class GatewayClient {
  constructor(program) {
    this.program = program;
    this.next = 1;
  }

  async open(name) {
    const initialized = await this.send({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name, version: "1" } } });
    this.session = initialized.headers.get("mcp-session-id");
    await initialized.text();
    await (await this.send({ method: "notifications/initialized" })).text();
    return this;
  }

  send(message) {
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", authorization: `Bearer ${this.program.key}` };
    if (this.session) Object.assign(headers, { "mcp-session-id": this.session, "mcp-protocol-version": "2025-11-25" });
    return fetch(this.program.listening, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }

  // Calls a tool by its public name and waits for the response.
  call(tool, values = {}) {
    return this.request("tools/call", { name: tool, arguments: values });
  }

  async request(method, params) {
    const response = await this.send({ id: this.next++, method, params });
    const text = await response.text();
    const messages = response.headers.get("content-type")?.includes("event-stream") ? [...text.matchAll(/^data: ?(.+)$/gm)].map(([, data]) => data) : [text];
    return messages.filter((data) => data.trim()).map((data) => JSON.parse(data)).findLast((message) => "result" in message || "error" in message);
  }
}
