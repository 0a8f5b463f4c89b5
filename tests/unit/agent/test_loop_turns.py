"""Turns: what is asked, what is called, what the model is told, and when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Hold, Script, node_over, tool
from perdure.agent.spec import LimitsEntry
from perdure.core.work import Failure, Report
from perdure.models.port import ModelReply, ToolCall, Usage
from perdure.models.scripted import call, say, together

pytestmark = pytest.mark.anyio


async def test_an_answer_without_tools_is_the_result(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("hello")]) as bench:
        view = await bench.result(await bench.start(input="hi"))
        assert view.output == {"result": "hello", "finish_reason": "stop"}
        assert bench.script.shown() == [("user", "hi")]
        assert bench.script.requests[0].instructions == "Be brief."


async def test_input_that_is_no_text_is_shown_as_json(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("ok")]) as bench:
        await bench.result(await bench.start(input={"order": 12345678901234567890123}))
        assert bench.script.shown() == [("user", '{"order":12345678901234567890123}')]


@pytest.mark.parametrize(("value", "told"), [("plain", "plain"), ({"a": [1]}, '{"a":[1]}'), (None, "null")])
async def test_a_tools_result_is_shown_to_the_model(tmp_path: Path, value: Any, told: str) -> None:
    async with node_over(tmp_path, [call("look", {"at": 7}), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        assert (task.args, task.address) == ({"at": 7}, "turn 1/tool/call_1_1")
        await bench.done(task, value)
        assert (await bench.result(execution)).output == {"result": "done", "finish_reason": "stop"}
        assert bench.script.shown() == [("user", "hi"), ("assistant", ""), ("tool", told)]
        assert bench.script.calls == ["turn 1/model", "turn 2/model"]


async def test_calls_of_one_turn_run_side_by_side_and_are_told_in_order(tmp_path: Path) -> None:
    replies = [together(call("a"), call("b"), call("c")), say("done")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(tool("a"), tool("b"), tool("c"))
        tasks = {task.tool: task for task in await bench.lease("a", "b", "c", count=3)}
        await bench.done(tasks["c"], "third")
        await bench.failed(tasks["a"], "first broke")
        await bench.done(tasks["b"], "second")
        await bench.result(execution)
        assert [text for role, text in bench.script.shown() if role == "tool"] == [
            "a failed: first broke",
            "second",
            "third",
        ]
        assert [message.failed for message in bench.script.requests[-1].messages[-3:]] == [True, False, False]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("lok"), "There is no tool 'lok'. Did you mean 'look'? The tools are: look."),
        (call("look", "{oops"), "The arguments of look are not JSON: '{oops'. Call it again."),
        (call("look", '{"at":NaN}'), "The arguments of look are not JSON: '{\"at\":NaN}'. Call it again."),
        (call("look", "[1]"), "The arguments of look should be a JSON object, not [1]."),
        (call("look", "[" * 50_000), "The arguments of look are not JSON"),
        (call("look", '{"at":"x"}'), "The arguments of look do not fit its schema: at: 'x' is not of type 'integer'."),
        (call("look", '{"at":1,"more":' + "[" * 100 + "]" * 100 + "}"), "The arguments of look cannot be stored"),
        (call("look", '{"at":1,"more":' + "[" * 500 + "]" * 500 + "}"), "The arguments of look cannot be stored"),
        (call("look", '{"at":1,"more":' + "1" * 4_000 + "}"), "The arguments of look cannot be stored"),
    ],
    ids=["unknown", "broken", "nan", "list", "deep", "schema", "nested", "very-nested", "number"],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model(tmp_path: Path, wrong: ModelReply, told: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
    async with node_over(tmp_path, [wrong, say("sorry")]) as bench:
        execution = await bench.start(tool("look", schema=schema))
        assert (await bench.result(execution)).state == "completed"
        role, text = bench.script.shown()[-1]
        assert role == "tool"
        assert text.startswith(told)
        assert bench.script.requests[-1].messages[-1].failed
        assert "task_scheduled" not in await bench.kinds(execution)


async def test_a_good_call_beside_a_bad_one_is_made(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("look"), call("nothing")), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.done(task, "seen")
        await bench.result(execution)
        assert bench.script.shown()[-2] == ("tool", "seen")


@pytest.mark.parametrize("ids", [("x", "x", "x#2"), ("", "", ""), ("x", "x", "x"), ("a/b", "a/b", "ü")])
async def test_calls_whose_ids_repeat_are_all_made_and_answered_by_their_ids(
    tmp_path: Path, ids: tuple[str, ...]
) -> None:
    calls = tuple(ToolCall(one, "look", f'{{"n":{n}}}') for n, one in enumerate(ids))
    reply = ModelReply("", calls, "tool_call", Usage(), "")
    async with node_over(tmp_path, [reply, say("done")]) as bench:
        execution = await bench.start(tool("look"))
        for task in await bench.lease("look", count=3):
            await bench.done(task, task.args["n"])
        assert (await bench.result(execution)).state == "completed"
        said, *answers = bench.script.requests[-1].messages[-4:]
        assert [one.text for one in answers] == ["0", "1", "2"]
        assert [one.call_id for one in answers] == [one.id for one in said.tool_calls]


async def test_a_tool_that_fails_and_is_tried_again_is_told_once(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        execution = await bench.start(tool("look", pause_ms=1))
        [first] = await bench.lease("look")
        await bench.failed(first, permanent=False)
        await bench.until(execution, "attempt_failed")
        [second] = await bench.lease("look")
        assert second.attempt == 2
        await bench.done(second, "at last")
        await bench.result(execution)
        assert bench.script.shown()[-1] == ("tool", "at last")
        assert len(bench.script.requests) == 2


async def test_a_tool_that_failed_for_good_is_shown_and_the_run_goes_on(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), call("look"), say("gave up")]) as bench:
        execution = await bench.start(tool("look", attempts=1))
        for _ in range(2):
            [task] = await bench.lease("look")
            await bench.failed(task, "no such file", permanent=False)
        view = await bench.result(execution)
        assert (view.state, view.output) == ("completed", {"result": "gave up", "finish_reason": "stop"})
        assert [text for role, text in bench.script.shown() if role == "tool"] == ["look failed: no such file"] * 2


async def test_turns_end_at_their_limit(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("nothing"), call("nothing"), say("too late")]) as bench:
        view = await bench.result(await bench.start(limits=LimitsEntry(turns=2)))
        assert view.failure == Failure(
            "limit_exceeded",
            "agent 'clerk' reached max_turns (2 of 2) before it had answered. "
            "Raise the limit, or make the task smaller.",
        )
        assert bench.script.calls == ["turn 1/model", "turn 2/model"]


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (LimitsEntry(tokens=1_500_000), "limits.tokens (2000000 of 1500000)"),
        (LimitsEntry(cost_usd=0.5), "limits.cost_usd (0.75 of 0.5)"),
        (LimitsEntry(requests=1), "limits.requests (1 of 1)"),
    ],
)
async def test_what_a_run_may_use_is_bounded(tmp_path: Path, limits: LimitsEntry, name: str) -> None:
    first = ModelReply("", call("nothing").tool_calls, "tool_call", Usage(1_999_000, 1_000), "", 0.75)
    async with node_over(tmp_path, [first, say("too late")]) as bench:
        view = await bench.result(await bench.start(limits=limits))
        assert view.failure is not None
        assert view.failure.code == "limit_exceeded"
        assert name in view.failure.message
        assert len(bench.script.requests) == 1


async def test_a_final_answer_may_reach_the_limit(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("done", usage=Usage(10, 10), cost_usd=1.0)]) as bench:
        limits = LimitsEntry(turns=1, tokens=5, cost_usd=0.1, requests=1)
        assert (await bench.result(await bench.start(limits=limits))).state == "completed"


async def test_a_message_while_the_model_answers_is_another_turn(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("one"), say("two")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        await bench.api.send(execution, "and this?")
        hold.open()
        assert (await bench.result(execution)).output == {"result": "two", "finish_reason": "stop"}
        assert bench.script.shown() == [("user", "hi"), ("assistant", "one"), ("user", "and this?")]


async def test_a_message_while_a_tool_runs_is_told_after_its_result(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.api.send(execution, "hurry")
        await bench.done(task, "seen")
        await bench.result(execution)
        assert bench.script.shown()[-2:] == [("tool", "seen"), ("user", "hurry")]


async def test_many_messages_are_told_in_the_order_they_came(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("one"), say("two")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        for number in range(5):
            await bench.api.send(execution, str(number), dedupe=str(number))
            await bench.api.send(execution, str(number), dedupe=str(number))
        hold.open()
        await bench.result(execution)
        assert bench.script.shown()[2:] == [("user", str(number)) for number in range(5)]


async def test_a_stop_ends_it_completed_after_the_turn_in_progress(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("never asked")]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.api.stop(execution, by="ann")
        await bench.done(task, "seen")
        view = await bench.result(execution)
        assert (view.state, view.output) == ("completed", {"result": "", "finish_reason": "stopped"})
        assert len(bench.script.requests) == 1


async def test_a_stop_during_the_last_turn_changes_nothing(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("one")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        await bench.api.stop(execution)
        hold.open()
        assert (await bench.result(execution)).output == {"result": "one", "finish_reason": "stop"}


async def test_a_result_too_large_for_the_model_step_is_a_clear_end(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("x" * 9_000_000)]) as bench:
        execution = await bench.start()
        view = await bench.state(execution, "stuck", ownership="parked")
        assert view.message is not None
        assert "8,388,608" in view.message


async def test_a_report_too_large_touches_no_other(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("look"), call("look")), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        big, small = await bench.lease("look", count=2)
        reports = [Report(one.execution, one.address, one.fence, "completed", value) for one, value in
                   ((big, "x" * 9_000_000), (small, 1))]  # fmt: skip
        assert [str(one) for one in await bench.source.report("wrk_1", reports)] == ["conflict", "accepted"]
        await bench.done(big, "smaller")
        assert (await bench.result(execution)).state == "completed"
