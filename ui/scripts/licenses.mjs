// Put the licences of what the bundle holds beside it: whoever has the wheel has them too.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
const parts = [];
for (const [place, facts] of Object.entries(lock.packages)) {
  if (!place || facts.dev || facts.devOptional || facts.optional) continue;
  const text = readdirSync(place).find((name) => /^licen[cs]e/i.test(name));
  const { version, license } = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
  parts.push(`${place.replace(/^.*node_modules\//, "")} ${version} (${license})\n\n${text ? readFileSync(join(place, text), "utf8").trim() : ""}`);
}
writeFileSync("../src/perdure/server/web/licenses.txt", `${parts.sort().join(`\n\n${"-".repeat(80)}\n\n`)}\n`);
