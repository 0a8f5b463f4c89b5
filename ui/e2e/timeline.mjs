// How soon the timeline of a long execution is drawn whole, and answers a click:
// node e2e/timeline.mjs ADDRESS SIGN-IN-LINK EXECUTION ROWS
import { browserPath, openBrowser } from "./house.mjs";

const RUNS = 5;
const [address, login, execution, rows] = process.argv.slice(2);
if (!browserPath()) {
  console.log("skipped: there is no Chromium here; name one with CHROMIUM=/path/to/it");
  process.exit(77);
}
const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];
const { browser, close } = await openBrowser();
try {
  const page = browser.pages()[0] ?? (await browser.newPage());
  await page.goto(login);
  await page.getByRole("heading", { name: "Executions" }).waitFor();
  await page.addInitScript(
    (wanted) => {
      globalThis.seenMs = {}; // since the navigation began, by the page's own clock
      const look = (nowMs) => {
        for (const [name, selector] of Object.entries(wanted)) if (document.querySelector(selector)) globalThis.seenMs[name] ??= nowMs;
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    },
    { drawn: `canvas[data-rows="${rows}"]`, answered: "[role=region][aria-label=Tasks] [aria-expanded=true]" },
  );
  const runs = [];
  for (let run = 0; run < RUNS; run++) {
    await page.goto(`${address}/executions/${execution}/timeline`, { waitUntil: "commit" });
    await page.waitForFunction(() => globalThis.seenMs?.drawn);
    const { x, y } = await page.locator("canvas").boundingBox();
    await page.mouse.click(x + 40, y + 45); // on the first row: its task is shown
    await page.waitForFunction(() => globalThis.seenMs.answered);
    runs.push(await page.evaluate(() => globalThis.seenMs));
  }
  const took = (name) => runs.map((one) => one[name]);
  console.log(JSON.stringify({ drawn_ms: middle(took("drawn")), answered_ms: middle(took("answered")), answered_worst_ms: Math.max(...took("answered")) }));
} finally {
  await close();
}
