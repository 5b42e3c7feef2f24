// Background tasks of servers written by others: cards in the chat, further messages meanwhile, cancelling, a restart.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { launch, until, Window } from "../browser.mjs";
import { card, conformance, everything, everythingOverHttp, offers, Program, say } from "../program.mjs";

const research = (topic, more = {}) => ({ tool: "every__simulate-research-query", arguments: { topic, ...more } });
const begun = { expect: [{ contains: "started, id " }], text: "It has begun." };
const told = { heard: ["This message is not from the user.", "# Research Report: "], text: "The research is done." };
const scripts = {
  goes_on: { turns: [{ calls: [research("paint")] }, begun, { heard: ["what is the time?"], text: "Noon." }, told] },
  cancelled: { turns: [{ calls: [research("paint")] }, begun, { heard: ["was cancelled by the user"], text: "You stopped it." }] },
  asks: { turns: [{ calls: [research("python", { ambiguous: true })] }, begun, { heard: ["Clarification**: snake"], text: "About snakes." }] },
  survives: { turns: [{ calls: [research("paint")] }, begun, told] },
};
let browser, program;

before(async () => {
  [browser, program] = await Promise.all([launch(), Program.start({ servers: { every: everything() }, scripts })]);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const line = (window) => window.page.locator(".task-line");

test("the user goes on while a task runs, and its result starts a turn", async () => {
  const window = await Window.open(browser, program);
  await say(window, "goes_on", "look into paint", "allow");
  await window.see("It has begun.");
  await card(window, "background").waitFor();
  await line(window).waitFor();
  await window.page.getByRole("textbox", { name: "Message" }).fill("what is the time?");
  await window.page.keyboard.press("Enter");
  await window.see("Noon.");
  await window.see("The research is done.");
  await card(window, "succeeded").first().waitFor();
  assert.equal(await line(window).count(), 0);
  const block = window.page.locator(".told");
  await block.getByText("Background task has completed").waitFor();
  await block.locator("summary").click();
  await block.getByText("# Research Report: paint").waitFor();
  // A page that is opened later shows the same.
  const order = async () => (await window.page.locator(".turn").allInnerTexts()).map((text) => /paint|begun|time|Noon|Background|done/.exec(text)?.[0]);
  const seen = await order();
  await window.page.reload();
  await window.see("The research is done.");
  assert.deepEqual(await order(), seen);
  assert.equal(seen.at(-1), "done");
  await window.close();
});

test("a cancelled task says so, and the model is told", async () => {
  const window = await Window.open(browser, program);
  await say(window, "cancelled", "look into paint", "allow");
  await line(window).getByRole("button", { name: "Cancel" }).click();
  await card(window, "cancelled").first().waitFor();
  await window.see("You stopped it.");
  await window.see("Background task was cancelled by the user");
  // The screen Tasks leads back to its conversation.
  const place = new URL(window.page.url()).hash;
  await window.show("#/tasks");
  await window.page.locator('.task-row[data-status="cancelled"]').first().click();
  const drawer = window.page.getByRole("complementary", { name: "Task" });
  await drawer.locator("dd", { has: window.page.locator(`a[href="${place}"]`) }).getByRole("link", { name: "open it" }).click();
  await window.see("You stopped it.");
  await window.close();
});

test("a server that asks in the middle of its task is answered in the conversation", async () => {
  const window = await Window.open(browser, program);
  await say(window, "asks", "look into python", "allow");
  const dialog = window.page.getByRole("dialog");
  await dialog.getByText("could have multiple interpretations").first().waitFor();
  await line(window).getByText("Waits for you").waitFor();
  await dialog.getByLabel("Clarification").selectOption({ label: "Python snake species" });
  await dialog.getByRole("button", { name: "Send" }).click();
  await window.see("About snakes.");
  await window.close();
});

test("after a crash of Toolway the conversation gets the result of its task", async (story) => {
  const server = await everythingOverHttp();
  const own = await Program.start({ servers: { every: { url: server.url } }, scripts });
  story.after(async () => {
    server.child.kill();
    await own.stop();
  });
  let window = await Window.open(browser, own);
  await say(window, "survives", "look into paint", "allow");
  await window.see("It has begun.");
  const place = new URL(window.page.url()).hash;
  window.expect(/ERR_|Failed to load|network/);
  own.child.kill("SIGKILL");
  await own.gone;
  await window.close();
  await own.serve();
  window = await Window.open(browser, own);
  await window.show(place);
  await window.see("It has begun.");
  await window.see("The research is done.");
  await card(window, "succeeded").first().waitFor();
  await window.close();
});

test("a model that begins a task after each end starts three turns by itself", async (story) => {
  const job = { calls: [{ tool: "jobs__long_job", arguments: { seconds: 0.1 } }] };
  const again = { heard: ["Computed for 0.1 seconds."], ...job };
  const loop = { turns: [job, begun, ...[1, 2, 3].flatMap(() => [again, begun]), { heard: ["and now?", "Computed for 0.1 seconds."], text: "All is told." }] };
  const own = await Program.start({ servers: { jobs: conformance() }, scripts: { loop } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  await say(window, "loop", "begin", "allow");
  await card(window, "succeeded").nth(3).waitFor();
  await window.button("Send").waitFor();
  assert.equal(await window.page.locator(".told").count(), 3);
  // The script has no turn for a fourth: the message of the user begins it.
  await window.page.getByRole("textbox", { name: "Message" }).fill("and now?");
  await window.page.keyboard.press("Enter");
  await window.see("All is told.");
  assert.equal(await window.page.locator(".told").count(), 4);
  await window.close();
});

test("the screen Tasks shows what runs, its end and its result, and cancels", async () => {
  const window = await Window.open(browser, program);
  const { page } = window;
  const client = await program.client();
  const begin = async (topic) => (await client.request("tools/call", { name: "every__simulate-research-query", arguments: { topic }, task: { ttl: 60_000 } })).result.task.taskId;
  await window.show("#/tasks");
  await page.getByText("Tasks").first().waitFor();
  await begin("clay");
  // The server is asked at once, and the task goes on.
  await page.locator('.task-row[data-status="working"]').click();
  await page.getByRole("complementary", { name: "Task" }).getByRole("button", { name: "Check now" }).click();
  await window.see("The server is asked how far it is.");
  await page.getByRole("complementary", { name: "Task" }).getByText("# Research Report: clay").waitFor();
  await page.getByRole("complementary", { name: "Task" }).getByRole("button", { name: "Close" }).click();
  await begin("glue");
  const open = page.locator('.task-row[data-status="working"]');
  await open.getByText("Gathering sources").or(open.getByText("Analyzing content")).waitFor();
  await open.click();
  const drawer = page.getByRole("complementary", { name: "Task" });
  await drawer.getByText("story").waitFor();
  await drawer.getByText("# Research Report: glue").waitFor();
  await drawer.getByRole("button", { name: "Close" }).click();
  await page.locator('.task-row[data-status="completed"]').first().waitFor();
  await begin("wood");
  await open.click();
  await drawer.getByRole("button", { name: "Cancel" }).click();
  await drawer.getByText("Cancelled").first().waitFor();
  await page.locator('.task-row[data-status="cancelled"]').first().waitFor();
  await window.close();
});

test("a task that its own caller cancelled leaves nothing to settle", async (story) => {
  const own = await Program.start({ servers: { jobs: { ...conformance(), trust: "full" } } });
  story.after(() => own.stop());
  const client = await own.client();
  const window = await Window.open(browser, own);
  const { page } = window;
  await offers(window, "jobs", "long_job");
  await window.show("#/tools/jobs/long_job");
  await page.getByLabel(/^seconds /).fill("600");
  await window.button("Run").click();
  await window.show("#/tasks");
  await page.locator('.task-row[data-status="working"]').click();
  await page.getByRole("complementary", { name: "Task" }).getByRole("button", { name: "Cancel" }).click();
  await page.locator('.task-row[data-status="cancelled"]').waitFor();
  const begun = await client.request("tools/call", { name: "jobs__long_job", arguments: { seconds: 600 }, task: { ttl: 60_000 } });
  await client.request("tasks/cancel", { taskId: begun.result.task.taskId });
  await page.locator('.task-row[data-status="cancelled"]').nth(1).waitFor();
  const calls = JSON.parse(await own.run("calls", "list", "-o", "json"));
  assert.deepEqual(calls.map(({ state }) => state), ["cancelled", "cancelled"]);
  assert.equal(calls[1].outcome, "unknown");
  // The gateway may not have sent it yet: its client has the id before.
  assert.ok(["unknown", "not-sent"].includes(calls[0].outcome), calls[0].outcome);
  await window.show("#/inbox");
  await window.see("Nothing waits for you");
  await window.close();
});

test("the bar of a task moves as its server reports progress, in the chat and on the screen Tasks", async (story) => {
  const walls = fileURLToPath(new URL("../servers/progress.mjs", import.meta.url));
  const paints = { turns: [{ calls: [{ tool: "walls__paint", arguments: { pause: 800 } }] }, begun, { heard: ["what is the time?"], text: "Noon." }, { heard: ["The wall is painted."], text: "All painted." }] };
  const own = await Program.start({ servers: { walls: { command: process.execPath, args: [walls] } }, scripts: { paints } });
  story.after(() => own.stop());
  const window = await Window.open(browser, own);
  const tasks = await window.tab("#/tasks");
  await say(window, "paints", "paint the wall", "allow");
  const seen = new Set();
  const bar = line(window).getByRole("progressbar");
  await until(async () => {
    const value = await bar.evaluateAll(([node]) => node?.value ?? null);
    if (value) seen.add(value);
    return seen.size >= 3;
  }, "the bar moves");
  assert.deepEqual([...seen], [...seen].sort((a, b) => a - b));
  // The conversation goes on meanwhile.
  await window.page.getByRole("textbox", { name: "Message" }).fill("what is the time?");
  await window.page.keyboard.press("Enter");
  await window.see("Noon.");
  await tasks.locator(".task-row").getByRole("progressbar").waitFor();
  await tasks.locator(".task-row", { hasText: "coat" }).waitFor();
  await window.see("All painted.");
  await card(window, "succeeded").first().waitFor();
  assert.equal(await line(window).count(), 0);
  await window.close();
});
