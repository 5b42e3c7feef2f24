// The official inspector's command line: lists and calls; it answers no server requests. See `README.md` for the
// output.
//
//     inspector_client.mjs <plan>
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const plan = JSON.parse(process.argv[2]);
// It uses another option name.
const era = plan.mode === "auto" ? "modern" : plan.mode;
const folder = new URL("../../../.interop/node_modules/@modelcontextprotocol/inspector/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL("package.json", folder)));
const program = fileURLToPath(new URL(manifest.bin["mcp-inspector"], folder));
const options = ["--cli", plan.url, "--transport", "http", "--protocol-era", era, "--format", "json", "-q"];
if (plan.key) options.push("--header", `Authorization: Bearer ${plan.key}`);

const did = { client: manifest.name, version: manifest.version };
did.revision = (await said("--method", "initialize")).result.protocolVersion;
did.tools = (await said("--method", "tools/list")).result.tools.length;
did.called = (await call(plan.call)).result.content[0].text;
// It declares no elicitation, so the call fails with a reason.
if (plan.elicit) did.refused = (await call(plan.elicit)).error.message;
did.subscribed = null;
console.log(JSON.stringify(did));

function call([name, args]) {
  return said("--method", "tools/call", "--tool-name", name, "--tool-args-json", JSON.stringify(args));
}

async function said(...words) {
  const run = promisify(execFile)(process.execPath, [program, ...options, ...words], { timeout: 30_000 });
  const { stdout, stderr } = await run.catch((failed) => failed);
  return JSON.parse(stdout.trim() || stderr.trim().split("\n").at(-1));
}
