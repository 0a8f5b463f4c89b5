// The errand of errand.py with the TypeScript SDK: `on_typescript.mjs http|stdio URL KEY ROOM FOREIGN PYTHON`.
// Run in a folder whose node_modules has @modelcontextprotocol/sdk.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport, getDefaultEnvironment } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [how, url, key, room, foreign, python] = process.argv.slice(2);
const word = `typescript-${how}`;
let good = 0;
const bad = [];
const check = (what, right) => (right ? (good += 1) : bad.push(what));

const transport =
  how === "http"
    ? new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
        requestInit: { headers: { Authorization: `Bearer ${key}` } },
      })
    : new StdioClientTransport({
        command: python,
        args: ["-m", "perdure", "mcp", "--server", url],
        env: { ...getDefaultEnvironment(), PERDURE_API_KEY: key, PYTHONPATH: process.env.PYTHONPATH ?? "" },
      });
const client = new Client({ name: "errand", version: "1" });
await client.connect(transport);

const tool = async (name, given) => {
  const done = await client.callTool({ name, arguments: given });
  return [done.isError === true, JSON.parse(done.content[0].text)];
};
const call = async (name, given) => {
  const [refused, found] = await tool(name, given);
  check(`${name} is done`, !refused);
  return found;
};

const listed = (await client.listTools()).tools.map((one) => one.name);
check("the tools are listed", listed.includes("post_message") && listed.includes("wait_for_answer"));
check("the room is there", (await call("list_rooms", {})).rooms.some((one) => one.id === room));
const said = await call("post_message", { room, text: `hello from ${word}` });
const again = await call("post_message", { room, text: `hello from ${word}` });
check("a message that is sent again is one", again.id === said.id && again.created === false);
const task = await call("create_task", { room, title: `task of ${word}`, to: "acme", key: word });
await call("claim_task", { room, task: task.id });
await call("complete_task", { room, task: task.id, result: "done" });
const closed = await call("wait_for_answer", { room, about: task.id });
check("a closed task ends a wait", closed.task.result === "done");
const waited = await call("wait_for_answer", { room, about: said.id, after: said.seq, seconds: 0.2 });
check("a wait for nothing ends", waited.again === true);
const line = await call("remember", { room, text: `line of ${word}` });
const lines = (await call("read_memory", { room })).lines;
check("the line is kept", lines.some((one) => one.id === line.id));
for (const [name, given] of [["read_messages", {}], ["post_message", { text: "x" }], ["show_room", {}]]) {
  const [refused, found] = await tool(name, { room: foreign, ...given });
  check(`${name} in a foreign room finds nothing`, refused && found.error.code === "not_found");
}
console.log(JSON.stringify({ good, bad }));
await client.close();
