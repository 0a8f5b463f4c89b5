/** An agent's run as a test for pytest: its model answers as recorded, its tools are those of the code under test. Pure. */

import type { Execution } from "../api/client";
import { fields } from "../log/event";
import type { ModelStep, News, Story, ToolStep } from "../log/story";

export function testOf(view: Execution, story: Story): string {
  const replies = story.entries.filter((one): one is ModelStep => one.kind === "model" && one.outcome === "replied");
  const asked = story.entries.filter((one): one is ToolStep => one.kind === "tool" && one.asked !== null && one.asked.decidedMs !== null);
  const said = replies.map(reply);
  const names = ["call", "say", "together"].filter((name) => said.some((one) => new RegExp(`\\b${name}\\(`).test(one)));
  return [
    `"""As execution ${view.id} went: the model answers as it did then, and the tools are run.`,
    "",
    "Tools that act on the world do so here, too: hand the agent some that do not.",
    '"""',
    "",
    "from dataclasses import replace",
    "",
    "from perdure import AgentRuntime",
    ...(asked.length > 0 ? ["from perdure.client.stream_events import ApprovalRequested"] : []),
    "from perdure.models.catalog import Catalog",
    ...(names.length > 0 ? [`from perdure.models.scripted import ${names.join(", ")}`] : []),
    "",
    `from your_module import agent  # the one of name ${literal(view.agent)}`,
    "",
    "REPLIES = [",
    ...said.map((one) => `    ${one},`),
    "]",
    ...(asked.length > 0 ? ["DECISIONS = [", ...asked.map((one) => `    ${literal(one.asked?.decision === "reject" ? "reject" : "approve")},  # ${oneLine(one.tool)}`), "]"] : []),
    "",
    "",
    `def test_${identifier(view.agent)}_goes_as_recorded(tmp_path):`,
    '    models = Catalog(scripted={"recorded": REPLIES})',
    '    with AgentRuntime(store=tmp_path / "test.db", models=models) as runtime:',
    `        handle = runtime.start(replace(agent, model="scripted/recorded"), ${literal(inputOf(view, story))})`,
    ...(asked.length > 0 ? DECIDING : []),
    "        result = handle.result()",
    `    assert result.status == ${literal(view.state)}`,
    ...(view.state === "completed" ? [`    assert result.output["result"] == ${literal(fields(view.output)["result"])}`] : []),
    `    assert [(one.tool, one.args) for one in result.tool_calls] == [`,
    ...story.entries.filter((one): one is ToolStep => one.kind === "tool" && one.scheduledMs !== null).map((one) => `        (${literal(one.tool)}, ${literal(one.args)}),`),
    "    ]",
    "",
  ].join("\n");
}

const DECIDING = [
  "        decisions = iter(DECISIONS)",
  "        for event in handle.stream():",
  "            if isinstance(event, ApprovalRequested):",
  '                decide = handle.approve if next(decisions) == "approve" else handle.reject',
  "                decide(approval_id=event.approval_id)",
];

function inputOf(view: Execution, story: Story): unknown {
  return view.input ?? story.entries.find((one): one is News => one.kind === "news" && one.what === "started")?.text ?? "";
}

function reply(one: ModelStep): string {
  const [first] = one.calls;
  if (!first) return `say(${literal(one.text)})`;
  const calls = one.calls.map((call, at) => `call(${literal(call.name)}, ${literal(argumentsOf(call.args))}${at === 0 && one.text ? `, text=${literal(one.text)}` : ""}, id=${literal(call.id)})`);
  return calls.length === 1 ? (calls[0] ?? "") : `together(${calls.join(", ")})`;
}

/** As an object where it is one; what a model wrote that is none goes as it is. */
function argumentsOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

/** A value as Python writes it. */
export function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, each]) => `${quoted(name)}: ${literal(each)}`).join(", ")}}`;
  return String(value);
}

/** A JSON string is one of Python's, too, if what JSON leaves as it is, and Python or an editor would not, is escaped. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function identifier(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "") || "agent";
}

function oneLine(text: string): string {
  return quoted(text).slice(1, -1);
}
