// docs/guide/console.md: its commands run, its pictures exist, and its words in bold are on the screens.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { access, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { TOOLWAY } from "../program.mjs";

const PAGE = new URL("../../../docs/guide/console.md", import.meta.url);
const WEB = new URL("../../../crates/console/web/", import.meta.url);
const page = await readFile(PAGE, "utf8");

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

test("the commands of the guide run", async (story) => {
  const home = await mkdtemp(join(tmpdir(), "toolway-guide-"));
  story.after(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  const ports = { 7717: await freePort(), 7718: await freePort() };
  const env = { PATH: `${dirname(TOOLWAY)}:${process.env.PATH}`, HOME: home, XDG_RUNTIME_DIR: home };
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text]) => text);
  assert.ok(blocks.length >= 3);
  const said = [];
  for (const block of blocks) {
    const script = block.replace(/771[78]/g, (port) => ports[port]);
    const { stdout } = await promisify(execFile)("timeout", ["60", "sh", "-euc", script], { env, cwd: home });
    said.push(stdout);
  }
  assert.match(said.join(""), new RegExp(`http://127\\.0\\.0\\.1:${ports[7718]}/login\\?token=`));
});

test("the README shows three pictures of the console", async () => {
  const readme = new URL("../../../README.md", import.meta.url);
  const pictures = [...(await readFile(readme, "utf8")).matchAll(/!\[[^\]]+\]\((docs\/images\/[^)]+)\)/g)];
  assert.equal(pictures.length, 3);
  for (const [, path] of pictures) await access(new URL(path, readme));
});

test("the pictures of the guide exist, and its words in bold are on the screens", async () => {
  for (const [, path] of page.matchAll(/\]\((\.\.\/images\/[^)]+)\)/g)) await access(new URL(path, PAGE));
  const sources = await Promise.all((await readdir(WEB)).map((name) => readFile(new URL(name, WEB), "utf8")));
  const text = sources.join("\n");
  for (const [, words] of page.matchAll(/\*\*([^*]+)\*\*/g)) assert.ok(text.includes(words.replace(/\s+/g, " ")), words);
});
