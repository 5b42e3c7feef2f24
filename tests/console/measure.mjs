// Times of the page in a browser, with many tools and calls behind it. Each is the best of several, from the event to the next
// frame, so that other work on the machine does not count. Used by stories/speed.mjs, and by `toolway-bench console`, which
// runs this file with the address of a console and, in COOKIE and KEY, a session of it; then each figure is printed as a line of JSON.
import { launch, until, PATIENCE } from "./browser.mjs";

const ROUNDS = 5;
export const LIMITS = { "first paint": 200, interaction: 100 };

// Time for all calls to be loaded, page by page.
const LOADING = 300_000;

// All figures: { what, ms, limit }. `server` is the server with many tools; `calls` and `conversations` are as many as there
// are; without conversations the chat is left out.
export async function figures(page, { origin, server, calls, conversations = 0 }) {
  const found = [];
  const add = (what, ms, limit = LIMITS.interaction) => found.push({ what, ms, limit });
  add("first paint", await firstPaint(page, `${origin}/#/servers/${server}`), LIMITS["first paint"]);
  await show(page, `#/servers/${server}`, ".tool-row");
  const names = await page.evaluate(async (name) => (await (await fetch(`/api/v1/servers/${name}`)).json()).tools.map((tool) => tool.name), server);
  add("filter tools", await interaction(page, "type", names.at(-9)));
  add("clear the filter", await interaction(page, "type", ""));
  add("scroll tools", await interaction(page, "scroll", 700));
  add("last tool", await interaction(page, "key", "End"));
  add("open a tool", await interaction(page, "key", "Enter"));
  const tools = await page.locator(".tool-row").count();
  await show(page, "#/tools", ".offers .tool-row");
  add("search all tools", await interaction(page, "type", names.at(-9)));
  add("clear the search", await interaction(page, "type", ""));
  add("scroll all tools", await interaction(page, "scroll", 700));
  await show(page, "#/calls", ".call-row");
  await loadAll(page, calls);
  add("scroll calls", await interaction(page, "scroll", -700));
  add("next call", await interaction(page, "key", "ArrowUp"));
  add("first call", await interaction(page, "key", "Home"));
  add("open a call", await interaction(page, "key", "Enter"));
  const rows = { tools, calls: await page.locator(".call-row").count() };
  const screens = [["Servers", `#/servers/${server}`, ".tool-row"], ["Tools", "#/tools", ".tool-row"], ["a tool with its form", `#/tools/${server}/${names.at(-9)}`, ".tool-form button"], ["Resources", "#/resources", ".empty"], ["Prompts", "#/prompts", ".empty"], ["Calls", "#/calls", ".call-row"], ["Calls of a server", `#/calls?server=${server}`, ".call-row"], ["Inbox", "#/inbox", ".empty"], ["Tasks", "#/tasks", ".empty"]];
  if (conversations) screens.push([`Chat with ${conversations} conversations`, "#/chat", ".conversation"]);
  for (const [what, hash, selector] of screens) add(`open ${what}`, await arrival(page, hash, selector));
  return { figures: found, rows };
}

async function firstPaint(page, address) {
  let best = Infinity;
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    await page.goto(address);
    await page.reload();
    await page.locator(".tool-row").first().waitFor();
    best = Math.min(best, await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
  }
  return best;
}

async function show(page, hash, row) {
  await page.evaluate((place) => (location.hash = place), hash);
  await page.locator(row).first().waitFor();
  await page.evaluate(() => {
    const list = () => document.querySelector(".window");
    window.acts = {
      type: (text) => {
        const input = document.querySelector(".tools-head input, .offers-head input");
        input.value = text;
        input.dispatchEvent(new Event("input"));
      },
      key: (key) => list().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })),
      scroll: (distance) => (list().scrollTop += distance),
    };
  });
}

// Runs `act` in the page and measures until the frame after it.
async function interaction(page, act, argument) {
  let best = Infinity;
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    const time = await page.evaluate(async ([name, value]) => {
      const began = performance.now();
      window.acts[name](value);
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - began;
    }, [act, argument]);
    best = Math.min(best, time);
  }
  return best;
}

// From another screen until what was asked for is there, with what is read for it.
async function arrival(page, hash, selector) {
  let best = Infinity;
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    await page.evaluate(() => (location.hash = "#/add"));
    await page.locator("main[data-screen='add'] .page").waitFor();
    const time = await page.evaluate(async ([place, wanted]) => {
      const began = performance.now();
      location.hash = place;
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const shown = () => [...document.querySelectorAll(`main ${wanted}`)].some((node) => node.checkVisibility());
      while (!shown()) await frame();
      await new Promise((resolve) => setTimeout(resolve));
      return performance.now() - began;
    }, [hash, selector]);
    best = Math.min(best, time);
  }
  return best;
}

async function loadAll(page, calls) {
  const loaded = () => page.evaluate(() => Number(document.querySelector(".calls .sub").textContent.replace(/[^\d+]/g, "").replace("+", "")));
  await until(async () => {
    await page.evaluate(() => (document.querySelector(".window").scrollTop = 1e9));
    return (await loaded()) >= calls;
  }, "all calls are loaded", LOADING);
}

if (process.argv[1] === import.meta.filename) {
  const [, , origin, server, calls, conversations] = process.argv;
  const [name, value] = process.env.COOKIE.split("=");
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(PATIENCE);
  await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: "Strict" }]);
  await context.addInitScript((key) => localStorage.setItem("toolway-key", key), process.env.KEY);
  const measured = await figures(await context.newPage(), { origin, server, calls: Number(calls), conversations: Number(conversations) });
  for (const figure of measured.figures) console.log(JSON.stringify(figure));
  await browser.close();
}
