// Decisions that are asked for while nobody looks: the number, and the system's notification.
import assert from "node:assert/strict";
import { until } from "./house.mjs";

// Keep what the browser is asked to notify of, and let a test say whether the page is looked at: all pages of a browser
// without a screen are.
function observed() {
  globalThis.told = [];
  const Own = globalThis.Notification;
  globalThis.Notification = class extends Own {
    constructor(title, options) {
      super(title, options);
      globalThis.told.push({ title, ...options, notice: this });
    }
  };
  let away = false;
  Object.defineProperty(document, "visibilityState", { get: () => (away ? "hidden" : "visible") });
  globalThis.lookAway = (now) => {
    away = now;
    document.dispatchEvent(new Event("visibilitychange"));
  };
}

export function noticeTests({ test, house, browser, open, ask, accessible, served }) {
  test("what is asked for while nobody looks is told once by all tabs, and is new until somebody has seen it", async () => {
    await served("desk");
    await browser.grantPermissions(["notifications"], { origin: house.url });
    const pages = [await open("/approvals", observed), await open("/executions", observed)];
    const [first, second] = pages;
    const notify = first.getByRole("button", { name: "Notify me" });
    await notify.click();
    await first.getByRole("button", { name: "Notify me", pressed: true }).waitFor();
    await accessible(first, "notifications on");
    const told = async () => (await Promise.all(pages.map((page) => page.evaluate(() => globalThis.told.map(({ title, tag, body }) => ({ title, tag, body })))))).flat();
    const look = (page, away) => page.evaluate((now) => globalThis.lookAway(now), away);
    const links = second.getByRole("navigation", { name: "Pages" }).getByRole("link");
    const icon = () => second.evaluate(() => new URL(document.querySelector("link[rel=icon]").href).pathname);

    for (const page of pages) await look(page, true);
    const id = await house.start("desk", "Order 1234 never arrived.");
    await until("a notification", async () => (await told()).length > 0);
    const [asked] = (await ask(`/v1/approvals?execution=${id}`)).items;
    await links.filter({ hasText: "1 new, 1 waiting" }).waitFor();
    assert.deepEqual(await told(), [{ title: "refund-desk wants to call refund", tag: asked.id, body: "A person has to decide." }]);
    assert.equal(await second.title(), "(1) Perdure");
    assert.equal(await icon(), "/icon-waiting.svg");
    await accessible(second, "a new decision");

    for (const page of pages) {
      await page.evaluate(() => globalThis.told[0]?.notice.onclick());
      await look(page, false);
    }
    const opened = pages.map((page) => new URL(page.url()).pathname);
    assert.ok(opened.includes(`/approvals/${asked.id}`), `what the notification opened: ${opened}`);
    await links.filter({ hasText: "1 waiting" }).waitFor();
    await until("the title of a page without news", async () => (await second.title()) === "Perdure");
    assert.equal(await icon(), "/icon.svg");

    const next = await house.start("desk", "Order 1235 never arrived.");
    await first.locator("[data-approval]").nth(1).waitFor();
    assert.equal((await told()).length, 1); // somebody looked
    for (const one of [id, next]) {
      const [open] = (await ask(`/v1/approvals?execution=${one}`)).items;
      await browser.request.post(`${house.url}/v1/approvals/${open.id}/decision`, { data: { decision: "approve", digest: open.digest }, headers: { origin: house.url } });
      await until(`the end of ${one}`, async () => (await ask(`/v1/executions/${one}`)).state === "completed");
    }
    await first.getByText("Nothing waits for you").waitFor();
    await first.getByRole("button", { name: "Notify me", pressed: true }).click();
    await first.getByRole("button", { name: "Notify me", pressed: false }).waitFor();
    for (const page of pages) {
      assert.deepEqual(page.problems, []);
      await page.close();
    }
  });
}
