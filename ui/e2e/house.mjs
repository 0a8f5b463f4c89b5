// A house of real processes (house.py), and a browser that looks at it.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = fileURLToPath(new URL(".", import.meta.url));

export class House {
  static async open() {
    const house = new House();
    house.process = spawn(process.env.PYTHON ?? "python3", [join(here, "house.py")], { stdio: ["pipe", "pipe", "inherit"] });
    house.lines = createInterface({ input: house.process.stdout })[Symbol.asyncIterator]();
    const { url, login } = await house.do("start_server");
    return Object.assign(house, { url, login });
  }

  async do(what, more = {}) {
    this.turn = (this.turn ?? Promise.resolve()).then(async () => {
      this.process.stdin.write(`${JSON.stringify({ do: what, ...more })}\n`);
      const { value } = await this.lines.next();
      if (value === undefined) throw new Error("the house is gone");
      return JSON.parse(value);
    });
    const said = await this.turn;
    if (said.error) throw new Error(`${what}: ${said.error}`);
    return said;
  }

  async start(agent, text, tags = []) {
    return (await this.do("start", { agent, text, tags })).execution;
  }

  async begun(name, attempt) {
    await until(`attempt ${attempt} of ${name}`, async () => (await this.do("begun", { name, attempt })).begun);
  }

  async close() {
    this.process.stdin.end();
    await new Promise((done) => this.process.once("exit", done));
  }
}

// Wait for a fact that nobody tells.
export async function until(what, look, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    if (await look()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`${what} did not come about in ${seconds} s`);
}

export function browserPath() {
  return [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((one) => one && existsSync(one));
}

export async function openBrowser() {
  const profile = mkdtempSync(join(tmpdir(), "perdure-ui-browser-"));
  const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: browserPath(),
    headless: true,
    args: quiet,
    viewport: { width: 1280, height: 800 },
    reducedMotion: "reduce",
  });
  browser.setDefaultTimeout(30_000);
  const close = async () => {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { browser, close };
}
