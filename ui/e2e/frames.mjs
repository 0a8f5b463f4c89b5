// How soon a long list shows its first rows, and how evenly it scrolls: node e2e/frames.mjs ADDRESS SIGN-IN-LINK
import { browserPath, openBrowser } from "./house.mjs";

const RUNS = 5;
const FRAMES = 400;
const STEP = 240;

const [address, login] = process.argv.slice(2);
if (!browserPath()) {
  console.log("skipped: there is no Chromium here; name one with CHROMIUM=/path/to/it");
  process.exit(77);
}
const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];
const { browser, close } = await openBrowser();
try {
  const page = browser.pages()[0] ?? (await browser.newPage());
  await page.goto(login);
  await page.locator("[data-execution]").first().waitFor();
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector("[data-execution]")) return;
      observer.disconnect();
      requestAnimationFrame(() => (globalThis.firstRowMs = performance.now())); // since the navigation began
    }).observe(document, { childList: true, subtree: true });
  });
  const rows = [];
  for (let run = 0; run < RUNS; run++) {
    await page.goto(`${address}/executions`);
    await page.waitForFunction(() => globalThis.firstRowMs);
    rows.push(await page.evaluate(() => globalThis.firstRowMs));
  }
  const frames = await page.evaluate(
    async ([count, step]) => {
      const list = document.querySelector("[role=rowgroup][tabindex]");
      const took = [];
      let before = await new Promise(requestAnimationFrame);
      for (let n = 0; n < count; n++) {
        list.scrollTop += step;
        const now = await new Promise(requestAnimationFrame);
        took.push(now - before);
        before = now;
      }
      return took;
    },
    [FRAMES, STEP],
  );
  const p95 = frames.toSorted((one, other) => one - other)[Math.floor(frames.length * 0.95)];
  const held = await page.evaluate(() => document.querySelector("[role=rowgroup][tabindex]").scrollTop);
  console.log(JSON.stringify({ first_rows_ms: middle(rows), first_rows_worst_ms: Math.max(...rows), frame_p95_ms: p95, scrolled_px: held }));
} finally {
  await close();
}
