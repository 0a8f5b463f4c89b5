// The UI in a real browser against real processes: node e2e/run.mjs [PART OF A NAME]
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browserPath, House, openBrowser, until } from "./house.mjs";
import { listTests } from "./lists.mjs";
import { noticeTests } from "./notices.mjs";

if (!browserPath()) {
  console.log("skipped: there is no Chromium here; name one with CHROMIUM=/path/to/it");
  process.exit(77);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const house = await House.open();
const { browser, close } = await openBrowser();
const elsewhere = [];
browser.on("request", (request) => {
  const address = new URL(request.url());
  if (address.origin !== house.url && !["blob:", "data:"].includes(address.protocol)) elsewhere.push(request.url());
});

// `first`: what runs in the page before anything of ours does.
async function open(path, first) {
  const page = await browser.newPage();
  if (first) await page.addInitScript(first);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => /Content Security Policy|Trusted/i.test(message.text()) && page.problems.push(message.text()));
  await page.goto(house.url + path);
  return page;
}

async function ask(path) {
  const reply = await browser.request.get(house.url + path);
  return reply.json();
}

async function accessible(page, what) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(violations.map((one) => `${what}: ${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`), []);
}

const refunds = async (id) => (await ask(`/v1/effects?execution=${id}`)).items.filter((one) => one.tool === "refund");
const state = (id) => async () => (await ask(`/v1/executions/${id}`)).state;
const ended = (id) => until(`the end of ${id}`, async () => (await state(id)()) === "completed");
// Have an agent's tools served by a worker of its own, unless they are.
const serving = new Set();
async function served(agent) {
  if (serving.has(agent)) return;
  serving.add(agent);
  await house.do("start_worker", { name: `for-${agent}`, agents: [agent] });
}

const tests = [];
const test = (name, body) => tests.push([name, body]);

test("a link signs a browser in once, and is gone from the address", async () => {
  const page = await open("/executions");
  await page.getByText("Sign in to Perdure").waitFor();
  await accessible(page, "login");
  await page.goto(house.login);
  await page.getByRole("heading", { name: "Executions" }).waitFor();
  assert.equal(new URL(page.url()).hash, "");
  assert.equal(await page.evaluate(() => document.cookie), "");
  const other = await browser.browser()?.newContext?.().catch(() => null);
  if (other) {
    const second = await other.newPage();
    await second.goto(house.login);
    await second.getByText("used already").waitFor();
    await other.close();
  }
  await page.close();
});

test("a worker is killed from the page of an empty store, another goes on, and nothing was done twice", async () => {
  const page = await open("/executions");
  await page.getByText("Nothing has run yet").waitFor();
  const begin = page.getByRole("button", { name: "Start the crash demo" });
  await begin.waitFor();
  await accessible(page, "the first run");
  await begin.click();
  await page.waitForURL(/\/demo$/);
  const workers = page.getByRole("list", { name: "Workers" }).getByRole("listitem");
  await workers.first().getByText("Serving").waitFor();
  await accessible(page, "the demo");
  const { execution, workers: [first] } = await ask("/v1/demo");
  await until("a call under way", async () => (await ask(`/v1/executions/${execution}/tasks`)).items.some((one) => one.state === "leased"));
  await page.getByRole("button", { name: "Kill the worker" }).click();
  await workers.first().getByText("Killed by SIGKILL").waitFor();
  assert.throws(() => process.kill(first.pid, 0), { code: "ESRCH" });
  await page.getByText("No worker is there.").waitFor();
  await page.getByText("killed here").waitFor();
  assert.ok(await page.getByRole("button", { name: "Kill the worker" }).isDisabled());
  await accessible(page, "the demo, its worker killed");
  await workers.nth(1).getByText("Serving").waitFor();
  const table = page.getByRole("table", { name: "What came of it" });
  const { steps } = await ask("/v1/demo");
  await table.getByRole("row", { name: `Steps recorded ${steps}` }).waitFor();
  await table.getByRole("row", { name: "Recorded steps that were run again 0" }).waitFor();
  await table.getByRole("row", { name: "Model replies that may have been paid twice 0" }).waitFor();
  const { items } = await ask(`/v1/executions/${execution}/events?limit=1000`);
  const lost = items.filter((one) => one.kind === "attempt_lost").length;
  await table.getByRole("row", { name: `made again by the next ${lost}` }).waitFor();
  await page.getByText("nothing was done or paid twice").waitFor();
  await accessible(page, "the demo, ended");
  await page.getByRole("button", { name: "Play it again" }).waitFor();
  const after = await ask("/v1/demo");
  assert.deepEqual(after.workers.map((one) => one.killed), [true, false]);
  for (const { pid } of after.workers) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the list is live, and is narrowed by its address", async () => {
  const page = await open("/executions");
  const id = await house.start("desk", "Order 1234 never arrived.", ["vip"]);
  const row = page.locator(`[data-execution="${id}"]`);
  await row.getByText("Waiting").waitFor();
  await page.getByRole("button", { name: /^Waiting/ }).click();
  assert.match(page.url(), /state=waiting/);
  await row.waitFor();
  await page.getByLabel("Filter by tag").fill("vip");
  await page.keyboard.press("Enter");
  await row.waitFor();
  await page.goto(`${house.url}/executions?tag=nobody`);
  await page.getByText("None is like that").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await row.waitFor();
  await accessible(page, "executions");
  await page.close();
});

test("a run grows while one looks on, outlives its worker and its server, and nothing is lost", async () => {
  await house.do("start_worker", { name: "packer", agents: ["packing"] });
  const id = await house.start("packing", "Pack box k");
  await house.begun("k", 1);
  const page = await open(`/executions/${id}`);
  await page.getByText("First the order.").waitFor();
  await page.getByRole("group").or(page.locator("details")).filter({ hasText: "pack" }).first().waitFor();
  await house.do("kill_worker", { name: "packer" });
  await served("packing");
  await house.begun("k", 2);
  await page.getByText("1 lost").waitFor();
  await house.do("kill_server");
  await page.getByText("The server is away").waitFor();
  await page.getByText("First the order.").waitFor();
  await house.do("open_gate", { name: "k" });
  await house.do("start_server");
  await page.getByText("Box k is packed.").first().waitFor();
  await page.getByText("The server is away").waitFor({ state: "detached" });
  await page.getByText("Completed", { exact: true }).waitFor();
  await page.getByRole("tab", { name: "Events" }).click();
  const { items } = await ask(`/v1/executions/${id}/events?limit=1000`);
  await page.getByText(`${items.length} events`).waitFor();
  await accessible(page, "events");
  for (const tab of ["Conversation", "Timeline", "Tasks", "Effects"]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.waitForTimeout(300);
    await accessible(page, tab);
  }
  await page.getByText("Possibly: 1 effect possibly done more than once").waitFor(); // its first attempt was lost
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a reply is seen as it comes; the attempt after a killed server takes its place, and then the record", async () => {
  const id = await house.start("speaking", "Speak");
  const page = await open(`/executions/${id}`);
  await page.locator('[data-saying="1"]').getByText("line of attempt 1").waitFor();
  await accessible(page, "a reply in the making");
  await house.do("kill_server");
  await page.getByText("The server is away").waitFor();
  await house.do("start_server");
  await page.locator('[data-saying="2"]').getByText("line of attempt 2").waitFor();
  assert.equal(await page.getByText("line of attempt 1").count(), 0);
  const late = await open(`/executions/${id}`); // it shares the stream, which has told that already
  await late.locator('[data-saying="2"]').getByText("line of attempt 2").waitFor();
  await house.do("open_gate", { name: "speech-2" });
  for (const one of [page, late]) {
    await one.getByText("The last line of attempt 2.").first().waitFor();
    await one.locator("[data-saying]").waitFor({ state: "detached" });
    assert.equal(await one.evaluate(() => globalThis.hacked), undefined);
    assert.deepEqual(one.problems, []);
    await one.close();
  }
  await ended(id);
});

test("two tabs race for one approval: one decides, the other is told", async () => {
  await served("desk");
  const [first, second] = [await open("/approvals"), await open("/approvals")];
  await second.getByRole("button", { name: "Reject" }).click();
  const buttons = [first.getByRole("button", { name: "Approve" }), second.getByRole("button", { name: "Reject it" })];
  for (const button of buttons) await button.waitFor();
  await first.getByText("DE02 1203 0000 0000 2020 51").waitFor();
  await accessible(first, "approvals");
  await Promise.all(buttons.map((button) => button.dispatchEvent("click")));
  const told = [first, second].map((page) => page.getByText("was already decided"));
  await until("one refusal", async () => (await told[0].count()) + (await told[1].count()) === 1);
  for (const page of [first, second]) await page.getByText("Nothing waits for you").waitFor();
  const [decided] = (await ask("/v1/approvals?state=resolved")).items;
  await ended(decided.execution);
  assert.deepEqual((await refunds(decided.execution)).map((one) => one.confirmed), decided.decision === "approve" ? [1] : []);
  for (const page of [first, second]) await page.close();
});

test("a call is made with what a person made of it, and what is no JSON is not sent", async () => {
  await served("desk");
  const id = await house.start("desk", "Order 1234 never arrived.");
  const page = await open("/approvals");
  await page.getByRole("button", { name: "Edit" }).click();
  const field = page.getByLabel("Arguments, as JSON");
  await accessible(page, "edit");
  await field.fill("{ nonsense");
  await page.getByText("This is not JSON").waitFor();
  assert.ok(await page.getByRole("button", { name: "Approve these" }).isDisabled());
  await field.fill('{"order": "1234", "amount_eur": "much", "to": "x"}');
  await page.getByRole("button", { name: "Approve these" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await field.fill('{"order": "1234", "amount_eur": 10.5, "to": "DE02 0001", "note": ""}');
  await page.getByRole("button", { name: "Approve these" }).click();
  await ended(id);
  await page.getByText("Nothing waits for you").waitFor();
  assert.deepEqual((await refunds(id)).map((one) => one.args.amount_eur), [10.5]);
  const next = await house.start("desk", "Order 1234 never arrived.");
  await page.getByText("last time: 10.5").waitFor(); // what was agreed to last is shown beside what is asked now
  await page.getByRole("button", { name: "Respond" }).click();
  await page.getByLabel("Answer", { exact: true }).fill("We have refunded it by hand.");
  await page.getByRole("dialog").getByRole("button", { name: "Answer" }).click();
  await ended(next);
  assert.deepEqual(await refunds(next), []);
  await page.close();
});

test("nobody knows what became of an effect until somebody rules", async () => {
  await served("shipping");
  const id = await house.start("shipping", "Ship order 77");
  const page = await open(`/executions/${id}/effects`);
  await page.getByText("Nobody knows whether this happened").waitFor();
  await accessible(page, "uncertain");
  await page.getByRole("button", { name: "It happened" }).click();
  await page.getByLabel("How do you know?").fill("the carrier has it");
  await page.getByRole("dialog").getByRole("button", { name: "It happened" }).click();
  await page.getByText("Ruled happened by admin: the carrier has it").waitFor();
  await ended(id);
  await page.close();
});

test("pause, resume, send and cancel do what they say", async () => {
  await served("packing");
  const id = await house.start("packing", "Pack box never");
  await house.begun("never", 1);
  const page = await open(`/executions/${id}`);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByLabel("Message", { exact: true }).fill("Use the **small** box");
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  await page.getByText("Use the small box").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel it" }).click();
  await until("its cancelling", async () => ["cancelling", "cancelled"].includes(await state(id)()));
  await house.do("open_gate", { name: "never" });
  await page.getByText("Cancelled").first().waitFor();
  await page.close();
});

test("hostile output stays text, and five megabytes of it do not freeze the page", async () => {
  await served("mailbox");
  const id = await house.start("mailbox", "Read my mail");
  await ended(id);
  const page = await open(`/executions/${id}`);
  await page.getByText("<script>window.hacked = 1</script>").first().waitFor();
  await page.locator("summary").filter({ hasText: "read_mail" }).click();
  await page.getByText(/of 5\.\d MB shown/).waitFor();
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  assert.equal(await page.locator("main :is(img, iframe, script, svg[onload], a[href*='evil'], a[href^='javascript'])").count(), 0);
  await page.getByText("U+202E").first().waitFor();
  await page.getByRole("tab", { name: "Events" }).click();
  await page.getByText(/\d+ events/).waitFor();
  await page.getByRole("button", { name: /task completed/ }).click();
  await page.getByText(/MB shown/).waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a fork goes on with another result, and the two are compared", async () => {
  await served("weather");
  const id = await house.start("weather", "Hamburg");
  await ended(id);
  const page = await open(`/executions/${id}`);
  await page.locator("summary").filter({ hasText: "measure" }).click();
  await page.locator("details").filter({ hasText: "measure" }).getByRole("button", { name: "Fork from here" }).click();
  await accessible(page, "fork");
  const field = page.getByLabel("Its result, as JSON");
  await field.fill("{ nonsense");
  await page.getByText("Its result: this is not JSON.").waitFor();
  assert.ok(await page.getByRole("dialog").getByRole("button", { name: "Fork" }).isDisabled());
  await field.fill('{"place": "Hamburg", "degrees": 31, "wind": "none", "rain": false}');
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByText("Hamburg has 31 degrees").first().waitFor();
  const fork = new URL(page.url()).pathname.split("/").at(-1);
  assert.notEqual(fork, id);
  assert.equal((await ask(`/v1/executions/${fork}`)).usage.model_calls, 1); // what the origin paid, it did not
  await page.getByText("Forked from").waitFor();
  await page.getByRole("link", { name: "Compare them" }).click();
  await page.getByRole("button", { name: "First difference: measure" }).waitFor();
  const first = page.locator("details[open]").filter({ hasText: "First difference" });
  await first.getByText('"degrees": 12').waitFor();
  await first.getByText('"degrees": 31').waitFor();
  await page.getByText("only right:").first().waitFor({ state: "attached" });
  await accessible(page, "compare");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a fork has another prompt, or another reply in its model's place; what cannot be forked is said", async () => {
  await served("weather");
  const id = await house.start("weather", "Hamburg");
  await ended(id);
  const page = await open(`/executions/${id}`);
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByLabel("Prompt").fill("Bremen and Kiel");
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByText("Bremen has 12 degrees; Kiel has 12 degrees").first().waitFor();
  await page.goto(`${house.url}/executions/${id}`);
  const turn = page.locator("article").filter({ hasText: "Model, turn 2" });
  await turn.getByRole("button", { name: "Fork from here" }).click();
  await page.getByLabel("What the model says").fill("I do not know.");
  await page.getByLabel("Last event that it takes over").fill("2");
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByRole("dialog").getByRole("alert").filter({ hasText: "there is no result of 'turn 2/model'" }).waitFor();
  const { items } = await ask(`/v1/executions/${id}/events`);
  await page.getByLabel("Last event that it takes over").fill(`${items.find((one) => one.address === "turn 2/model").seq}`);
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.waitForURL((address) => !address.pathname.includes(id)); // the editor shows the same text before
  await page.getByText("I do not know.").first().waitFor();
  const fork = new URL(page.url()).pathname.split("/").at(-1);
  await ended(fork);
  assert.equal((await ask(`/v1/executions/${fork}`)).usage.cost_usd, 0);
  await page.close();
});

test("a run is copied as a test, and that passes", async () => {
  await served("weather");
  await served("desk");
  const [weather, desk] = [await house.start("weather", "Hamburg and Bremen"), await house.start("desk", "Order 1234 never arrived.")];
  await until("an approval", async () => (await ask(`/v1/approvals?execution=${desk}`)).items.length === 1);
  const [asked] = (await ask(`/v1/approvals?execution=${desk}`)).items;
  await browser.request.post(`${house.url}/v1/approvals/${asked.id}/decision`, { data: { decision: "approve", digest: asked.digest }, headers: { origin: house.url } });
  await browser.grantPermissions(["clipboard-read", "clipboard-write"], { origin: house.url });
  for (const [agent, id] of Object.entries({ weather, desk })) {
    await ended(id);
    const page = await open(`/executions/${id}`);
    await page.getByRole("button", { name: "Copy as test" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const text = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(text, /_goes_as_recorded/);
    assert.deepEqual(await house.do("run_test", { agent, text }), { failed: "" });
    await page.close();
  }
});

test("the graph shows what led to what, and folds it by turn", async () => {
  await served("weather");
  const id = await house.start("weather", "Hamburg and Bremen and Kiel");
  await ended(id);
  const page = await open(`/executions/${id}/graph`);
  const picture = page.getByRole("region", { name: "Picture" });
  await picture.getByText("Turn 1").waitFor();
  assert.equal(await picture.getByText("measure").count(), 3);
  await accessible(page, "graph");
  await page.getByRole("button", { name: "Fold all", exact: true }).click();
  await picture.getByText("3 calls").waitFor();
  assert.equal(await picture.getByText("measure").count(), 0);
  await picture.getByRole("button", { name: /Turn 1/ }).click();
  await picture.getByText("measure").first().click();
  await page.getByRole("region", { name: "Tasks" }).getByRole("button", { name: "Fork from here" }).waitFor();
  await page.close();
});

test("a durable function is drawn with its sub-agent, and a fork of it asks before it begins another", async () => {
  await served("weather");
  await served("trip");
  const id = await house.start("trip", "Kiel");
  await ended(id);
  const page = await open(`/executions/${id}/graph`);
  const picture = page.getByRole("region", { name: "Picture" });
  for (const name of ["lay_out", "close_bag", "Timer"]) await picture.getByText(name).first().waitFor();
  await picture.getByRole("link", { name: /weather/ }).click();
  await page.getByText("Kiel has 12 degrees").first().waitFor();
  await page.goto(`${house.url}/executions/${id}`);
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  const field = page.getByLabel("Input, as JSON");
  await field.fill("Bremen");
  await page.getByText("The input is not JSON.").waitFor();
  await field.fill('"Bremen"');
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByText("is about to call weather").first().waitFor();
  const fork = new URL(page.url()).pathname.split("/").at(-1);
  assert.equal(await state(fork)(), "paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await ended(fork);
  assert.equal((await ask(`/v1/executions/${fork}`)).output, "a coat for Bremen, as Bremen has 12 degrees");
  await page.close();
});

test("of a long run what is seen is laid out, and every step of it is reached", async () => {
  await served("weather");
  const id = await house.start("weather", Array.from({ length: 300 }, (_, n) => `place ${n}`).join(" and "));
  await ended(id);
  const page = await open(`/executions/${id}/timeline`);
  await page.locator('canvas[data-rows="302"]').waitFor();
  await page.getByText("The same as a table").click();
  const few = async (table) => assert.ok((await table.getByRole("row").count()) < 100, "all rows are laid out");
  const toTheEnd = (table) => table.evaluate((box) => box.scrollTo(0, box.scrollHeight));
  const lines = page.getByRole("region", { name: "Timeline as a table" });
  await lines.getByRole("button", { name: "measure" }).first().waitFor();
  await few(lines);
  await accessible(page, "timeline as a table");
  await toTheEnd(lines);
  await lines.getByRole("button", { name: "turn 2" }).click();
  const tasks = page.getByRole("region", { name: "Tasks" });
  await tasks.getByText(/finish reason/).waitFor(); // it is shown what was chosen, at the far end
  await few(tasks);
  await accessible(page, "tasks of a long run");
  await tasks.evaluate((box) => box.scrollTo(0, 0));
  await tasks.getByRole("button", { name: "turn 1/model" }).waitFor();
  await page.close();

  await served("desk");
  const talk = await house.start("desk", "Order 1234 never arrived.");
  await until("its approval", async () => (await ask(`/v1/approvals?execution=${talk}`)).items.length === 1);
  const post = (path, data) => browser.request.post(`${house.url}/v1/executions/${talk}/${path}`, { data, headers: { origin: house.url } });
  for (let first = 0; first < 210; first += 30) {
    const replies = await Promise.all(Array.from({ length: 30 }, (_, n) => post("messages", { text: `word ${first + n}` })));
    assert.ok(replies.every((one) => one.status() === 201));
  }
  const told = await open(`/executions/${talk}`);
  await told.getByText("word 209").waitFor();
  assert.equal(await told.getByText("Order 1234 never arrived.").count(), 0);
  await told.getByRole("button", { name: "Show earlier" }).click();
  await told.getByText("Order 1234 never arrived.").waitFor();
  await told.getByText("word 0", { exact: true }).waitFor();
  await told.close();
  await post("cancel", { reason: "the test has ended" });
  await until("its end", async () => (await state(talk)()) === "cancelled");
});

test("tabs share one connection", async () => {
  const pages = [await open("/executions"), await open("/executions"), await open("/approvals")];
  for (const page of pages) await page.getByText("Live").waitFor();
  const found = await Promise.all(pages.map((page) => page.evaluate(() => performance.getEntriesByType("resource").filter((one) => one.name.includes("/v1/feed")).length)));
  const held = await pages[0].evaluate(async () => (await navigator.locks.query()).held?.filter((one) => one.name === "perdure.live").length);
  assert.equal(held, 1, `locks held; feeds opened: ${found}`);
  for (const page of pages) await page.close();
});

noticeTests({ test, house, browser, open, ask, accessible, served });
listTests({ test, house, open, ask, accessible, served });

let failed = 0;
const began = Date.now();
for (const [name, body] of tests.filter(([one]) => one.includes(process.argv[2] ?? "") || one === tests[0][0])) {
  const start = Date.now();
  try {
    await body();
    console.log(`ok    ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
    for (const page of browser.pages()) {
      await page.screenshot({ path: `shots/failed-${failed}.png` }).catch(() => {});
      if (page !== browser.pages()[0]) await page.close();
    }
  }
}
try {
  assert.deepEqual(elsewhere, []);
  console.log("ok    nothing was asked of any other host");
} catch (error) {
  failed += 1;
  console.log(`FAIL  other hosts were asked\n${error.message}`);
}
await close();
await house.close();
console.log(`${failed ? `${failed} failed` : "all passed"} in ${((Date.now() - began) / 1000).toFixed(0)} s`);
process.exit(failed ? 1 : 0);
