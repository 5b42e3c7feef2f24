// Times of the page in a browser, with many tools and calls behind it. Each is the best of several, from the event to the next
// frame, so that other work on the machine does not count. Used by stories/speed.mjs, and by `toolway-bench console`, which
// runs this file with the address of a console and, in COOKIE and KEY, a session of it; then each figure is printed as a line of JSON.
import { launch, until, PATIENCE } from "./browser.mjs";

const ROUNDS = 5;
export const LIMITS = { "first paint": 200, interaction: 100 };

// All figures: { what, ms, limit }. `server` is the server with many tools, `calls` the number of calls to load.
export async function figures(page, { origin, server, calls }) {
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
  await show(page, "#/calls", ".call-row");
  await loadAll(page, calls);
  add("scroll calls", await interaction(page, "scroll", -700));
  add("next call", await interaction(page, "key", "ArrowUp"));
  add("first call", await interaction(page, "key", "Home"));
  add("open a call", await interaction(page, "key", "Enter"));
  return { figures: found, rows: { tools, calls: await page.locator(".call-row").count() } };
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
        const input = document.querySelector(".tools-head input");
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

async function loadAll(page, calls) {
  const loaded = () => page.evaluate(() => Number(document.querySelector(".calls .sub").textContent.replace(/[^\d+]/g, "").replace("+", "")));
  await until(async () => {
    await page.evaluate(() => (document.querySelector(".window").scrollTop = 1e9));
    return (await loaded()) >= calls;
  }, "all calls are loaded");
}

if (process.argv[1] === import.meta.filename) {
  const [, , origin, server, calls] = process.argv;
  const [name, value] = process.env.COOKIE.split("=");
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(PATIENCE);
  await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: "Strict" }]);
  await context.addInitScript((key) => localStorage.setItem("toolway-key", key), process.env.KEY);
  const measured = await figures(await context.newPage(), { origin, server, calls: Number(calls) });
  for (const figure of measured.figures) console.log(JSON.stringify(figure));
  await browser.close();
}
