// The pages that list and administer, in a browser before real processes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { until } from "./house.mjs";

export function listTests({ test, house, open, ask, accessible, served }) {
  const state = async (id) => (await ask(`/v1/executions/${id}`)).state;

  test("the list is searched, kept as a view, exported, tried again and cancelled as a whole", async () => {
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push(await house.start("desk", `Parcel 777-${n} never arrived.`, ["bulk"]));
    const page = await open("/executions");
    const rows = page.locator("[data-execution]");
    await page.getByRole("img", { name: /begun in the last 24 hours/ }).waitFor();
    await page.getByLabel("Search ids, agents, tags and inputs").fill("PARCEL 777");
    await page.keyboard.press("Enter");
    await page.getByText(/Looked at all/).waitFor();
    assert.equal(await rows.count(), 3);
    await page.getByRole("button", { name: "Save this view" }).click();
    await page.getByLabel("Name of the view").fill("Parcels");
    await page.keyboard.press("Enter");
    await accessible(page, "a search");
    await page.goto(`${house.url}/executions`);
    await page.getByRole("button", { name: "Parcels", exact: true }).click();
    assert.match(page.url(), /text=PARCEL\+777/);
    await page.getByText(/Looked at all/).waitFor();
    await page.getByLabel("Search ids, agents, tags and inputs").fill(ids[1].slice(0, 29));
    await page.keyboard.press("Enter");
    await page.getByText("Looked for ids that begin with it").waitFor();
    await page.locator(`[data-execution="${ids[1]}"]`).waitFor();
    assert.equal(await rows.count(), 1);

    await page.goto(`${house.url}/executions?tag=bulk`);
    await page.locator(`[data-execution="${ids[2]}"]`).waitFor();
    await page.getByRole("link", { name: "refund-desk" }).first().focus();
    await page.keyboard.press("x");
    await page.getByText("1 execution chosen").waitFor();
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByText("Export 1 execution?").waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("dialog").getByRole("button", { name: "Export" }).click();
    const file = await download;
    assert.equal(file.suggestedFilename(), "executions.jsonl");
    const lines = readFileSync(await file.path(), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(lines.map((one) => one.id), [ids[2]]);
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Choose none" }).click();

    await page.getByRole("button", { name: "Cancel all" }).click();
    await page.getByText("Cancel 3 executions?").waitFor();
    await accessible(page, "cancel all");
    await page.getByLabel("Why").fill("a drill");
    await page.getByRole("button", { name: "Cancel them" }).click();
    await page.getByText("3 cancelled.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    for (const id of ids) await until("its cancelling", async () => ["cancelling", "cancelled"].includes(await state(id)));

    await served("packing");
    const id = await house.start("packing", "Please pack box again", ["again"]);
    await until("a dead call", async () => (await ask(`/v1/tasks/dead?agent=packing`)).items.some((one) => one.execution === id));
    await page.goto(`${house.url}/executions?tag=again`);
    await page.locator(`[data-execution="${id}"]`).waitFor();
    await page.getByRole("button", { name: "Retry all" }).click();
    await page.getByText(/1 call that failed for good goes back/).waitFor();
    await page.getByRole("button", { name: "Try again", exact: true }).click();
    await page.getByText("1 put back.").waitFor();
    await house.do("open_gate", { name: "again" });
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a queue is paused and resumed, workers say what they serve, and dead calls are put back", async () => {
    await served("packing");
    const page = await open("/workers");
    const queues = page.getByRole("table", { name: "Queues" });
    await page.getByRole("table", { name: "Workers" }).getByText("for-packing").waitFor();
    await queues.getByRole("button", { name: "Pause default" }).click();
    await queues.getByText("Paused").waitFor();
    assert.equal((await ask("/v1/queues/default")).paused, true);
    const id = await house.start("packing", "Please pack box held");
    await until("a backlog", async () => (await ask("/v1/queues/default")).backlog > 0);
    await accessible(page, "workers");
    await queues.getByRole("button", { name: "Resume default" }).click();
    await queues.getByText("Open").waitFor();
    await house.begun("held", 1);
    const failed = page.getByRole("listitem").filter({ hasText: "weigh" }).filter({ hasText: id.slice(-8) });
    await failed.getByText("the scales do not answer for held").waitFor();
    await page.getByRole("button", { name: "Retry all" }).click();
    await page.getByText(/Try \d+ calls? again\?/).waitFor();
    await accessible(page, "retry all");
    await page.keyboard.press("Escape");
    await failed.getByRole("button", { name: /Retry weigh/ }).click();
    const retried = async () => (await ask(`/v1/executions/${id}/events?limit=1000`)).items.some((one) => one.kind === "task_revived");
    await until("another try", retried);
    await house.do("open_gate", { name: "held" });
    await until("its end", async () => (await state(id)) === "completed");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("an agent's versions are compared, and its executions found", async () => {
    await house.start("desk", "Order 1234 never arrived.");
    await house.start("desk-two", "Order 1234 never arrived.");
    const page = await open("/agents");
    await page.getByRole("table", { name: "Agents" }).getByRole("link", { name: "refund-desk", exact: true }).waitFor();
    await accessible(page, "agents");
    await page.getByRole("link", { name: "refund-desk", exact: true }).click();
    await page.getByRole("heading", { name: "refund-desk" }).waitFor();
    const changes = page.getByRole("region", { name: "Changes of instructions" });
    await changes.getByText("Be brief.").waitFor();
    await page.getByText("look_up").first().waitFor();
    await accessible(page, "an agent");
    await page.getByRole("list", { name: "Its executions" }).getByRole("link").first().click();
    await page.waitForURL(/agent=refund-desk/);
    await page.goto(`${house.url}/agents/nobody`);
    await page.getByText("There is no such agent").waitFor();
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a schedule says when it begins what, and is paused, resumed, begun by hand and deleted", async () => {
    const page = await open("/schedules");
    await page.getByText("Nothing begins by the calendar").waitFor();
    await accessible(page, "no schedules");
    await house.do("schedule", { name: "nightly", agent: "desk" });
    await page.reload();
    const card = page.getByRole("article", { name: "nightly" });
    await card.getByText("Next times, input and tags").click();
    await card.getByRole("list", { name: "Next times" }).getByRole("listitem").nth(4).waitFor();
    await accessible(page, "schedules");
    await card.getByRole("button", { name: "Pause" }).click();
    await card.getByText("not while it is paused").waitFor();
    await card.getByRole("button", { name: "Resume" }).click();
    await card.getByText("On", { exact: true }).waitFor();
    await card.getByRole("button", { name: "Begin now" }).click();
    await card.getByRole("link", { name: /exe_/ }).waitFor();
    assert.equal((await ask("/v1/executions?tag=nightly")).items.length, 1);
    await card.getByRole("button", { name: "Delete" }).click();
    await accessible(page, "delete a schedule");
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete it" }).click();
    await page.getByText("Nothing begins by the calendar").waitFor();
    assert.deepEqual((await ask("/v1/schedules")).items, []);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a narrow screen reaches every page by one menu", async () => {
    const page = await open("/executions");
    await page.setViewportSize({ width: 390, height: 844 });
    for (const name of ["Workers", "Agents", "Schedules", "Approvals"]) {
      await page.locator("summary[aria-label=Pages]").click();
      await page.getByRole("link", { name, exact: name !== "Approvals" }).click();
      await page.getByRole("heading", { name: new RegExp(name), level: 1 }).waitFor();
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the screen`);
      await accessible(page, `${name}, narrow`);
    }
    await page.close();
  });
}
