// Debian's Chromium, driven by playwright-core. Each page is watched: an error, a script dialog, a refusal by the content
// security policy or a request to another origin fails the story.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";

const installed = createRequire(new URL("../../.interop/console/package.json", import.meta.url));
const { chromium } = installed("playwright-core");
const AXE = readFileSync(installed.resolve("axe-core/axe.min.js"), "utf8");
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const WEB = new URL("../../crates/console/web/", import.meta.url);

// Time limit of one step, for a busy machine.
export const PATIENCE = 20_000;

export async function launch() {
  return chromium.launch({ executablePath: await find("chromium-headless-shell"), args: ARGUMENTS });
}

async function find(name) {
  const { access, constants } = await import("node:fs/promises");
  for (const folder of process.env.PATH.split(":")) {
    const path = `${folder}/${name}`;
    if (await access(path, constants.X_OK).then(() => true, () => false)) return path;
  }
  throw new Error(`\`${name}\` is not installed; ./test installs it`);
}

// A signed-in browser window. `problems` is checked by `close`.
export class Window {
  static async open(browser, program, { width = 1280, height = 800, scheme = "light", bypassCSP = false, link = null, proxy = undefined } = {}) {
    const window = new Window();
    window.program = program;
    window.problems = [];
    window.expected = [];
    window.context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, bypassCSP, proxy, reducedMotion: "reduce", locale: "en-GB" });
    window.context.setDefaultTimeout(PATIENCE);
    await window.watch();
    if (process.env.LIVE) await window.serveWorkingTree();
    window.page = await window.context.newPage();
    await window.page.goto(link ?? (await program.newLink()));
    await window.page.waitForSelector("#nav a[aria-current]");
    return window;
  }

  async watch() {
    this.context.on("page", (page) => {
      page.on("pageerror", (error) => this.problems.push(`error: ${error.message}`));
      page.on("dialog", (dialog) => {
        this.problems.push(`dialog: ${dialog.message()}`);
        dialog.dismiss();
      });
      page.on("console", (message) => message.type() === "error" && this.problems.push(`console: ${message.text()}`));
      page.on("request", (request) => {
        const url = new URL(request.url());
        if (url.protocol !== "data:" && url.origin !== this.program.origin) this.problems.push(`request to ${url.origin}`);
      });
    });
  }

  // The files of the working tree instead of those in the program, with its headers.
  async serveWorkingTree() {
    await this.context.route(/\/[a-z-]*(\.js|\.css|\.svg)?(#.*)?$/, async (route) => {
      const { pathname } = new URL(route.request().url());
      const body = await readFile(new URL(`.${pathname === "/" ? "/index.html" : pathname}`, WEB), "utf8").catch(() => null);
      if (body === null || pathname.startsWith("/api")) return route.continue();
      const response = await route.fetch();
      const types = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
      await route.fulfill({ response, status: 200, body, headers: { ...response.headers(), "content-type": types[pathname.split(".")[1]] ?? "text/html" } });
    });
  }

  // A failure that the story is about.
  expect(pattern) {
    this.expected.push(pattern);
  }

  async show(hash) {
    await this.page.evaluate((place) => (location.hash = place), hash);
  }

  see(text, options) {
    return this.page.getByText(text, options).first().waitFor();
  }

  button(name) {
    return this.page.getByRole("button", { name, exact: true });
  }

  // A second page of the same browser.
  async tab(hash) {
    const page = await this.context.newPage();
    await page.goto(`${this.program.origin}/${hash}`);
    await page.waitForSelector("#nav a[aria-current]");
    return page;
  }

  // Violations of axe-core on what is shown, of all rules or of those named; needs `bypassCSP`.
  async violations(rules) {
    if (!(await this.page.evaluate(() => "axe" in window))) await this.page.evaluate(AXE);
    const { violations } = await this.page.evaluate((runOnly) => axe.run(runOnly ? { runOnly } : {}), rules);
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
  }

  async close() {
    await this.context.close();
    const problems = this.problems.filter((problem) => !this.expected.some((pattern) => pattern.test(problem)));
    assert.deepEqual(problems, []);
  }
}

// Waits until `check` returns something; for what is not on the page.
export async function until(check, what, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// A proxy for HTTP between the browser and the console, which can be cut.
export async function cuttable() {
  let isCut = false;
  const sockets = new Set();
  const server = createServer((incoming, outgoing) => {
    const { hostname, port, pathname, search } = new URL(incoming.url);
    const onward = request({ hostname, port, path: pathname + search, method: incoming.method, headers: incoming.headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  server.on("connection", (socket) => {
    if (isCut) return socket.destroy();
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut: () => {
      isCut = true;
      sockets.forEach((socket) => socket.destroy());
    },
    mend: () => (isCut = false),
    close: () => {
      sockets.forEach((socket) => socket.destroy());
      server.close();
    },
  };
}
