"""What a model's failure leads to: a pause somebody can end, a stored wait, or an end that says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Script, node_over, tool
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.testing.clock import FakeClock
from perdure.wire.account import proof_of

pytestmark = pytest.mark.anyio

COUNTS_SLEEPERS = pytest.mark.sqlite_only("it counts who sleeps, and more do in a server that shares its database")


class Moody:
    """A model that fails a few times before it answers."""

    def __init__(self, *failures: ModelError) -> None:
        self.failures = list(failures)

    def __call__(self, _request: ModelRequest) -> ModelReply:
        if self.failures:
            raise self.failures.pop(0)
        return say("done")


@pytest.mark.parametrize("kind", ["key", "quota"])
async def test_a_refused_key_or_spent_quota_pauses_and_a_resume_asks_again(tmp_path: Path, kind: Any) -> None:
    async with node_over(tmp_path, [Moody(ModelError(kind, "set OPENAI_API_KEY"))]) as bench:
        execution = await bench.start()
        view = await bench.state(execution, "paused", ownership="parked")
        assert (view.reason, view.message) == (kind, "set OPENAI_API_KEY")
        assert len(bench.script.requests) == 1
        await bench.api.resume(execution, by="ann")
        assert (await bench.result(execution)).output == {"result": "done", "finish_reason": "stop"}
        assert bench.script.calls == ["turn 1/model"] * 2
        assert await bench.kinds(execution) == ["started", "paused", "resumed", "step_recorded", "completed"]


async def test_a_key_that_is_missing_in_the_middle_throws_no_work_away(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), Moody(ModelError("key", "expired"))]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.done(task, "seen")
        await bench.state(execution, "paused", ownership="parked")
        await bench.api.resume(execution)
        await bench.result(execution)
        assert bench.script.calls == ["turn 1/model", "turn 2/model", "turn 2/model"]


async def test_a_cancel_of_what_is_paused_for_a_key_ends_it(tmp_path: Path) -> None:
    async with node_over(tmp_path, [ModelError("key", "expired")]) as bench:
        execution = await bench.start()
        await bench.state(execution, "paused", ownership="parked")
        await bench.api.cancel(execution)
        assert (await bench.result(execution)).state == "cancelled"


@pytest.mark.parametrize("kind", ["unknown_model", "rejected", "context_window"])
async def test_what_asking_again_cannot_change_fails_after_one_request(tmp_path: Path, kind: Any) -> None:
    async with node_over(tmp_path, [ModelError(kind, "no such model; did you mean that?")]) as bench:
        view = await bench.result(await bench.start())
        assert view.failure is not None
        assert (view.failure.code, view.failure.message) == (kind, "no such model; did you mean that?")
        assert len(bench.script.requests) == 1


@pytest.mark.parametrize("model", ["scripted/none", "nobody/gpt", "openai/"])
async def test_a_model_nobody_answers_for_fails_with_the_fix(tmp_path: Path, model: str) -> None:
    async with node_over(tmp_path, []) as bench:
        view = await bench.result(await bench.start(model=model))
        assert view.failure is not None
        assert view.failure.code in ("unknown_model", "missing_extra")
        assert model.partition("/")[0] in view.failure.message


async def test_a_missing_key_pauses_and_names_it(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    async with node_over(tmp_path, []) as bench:
        execution = await bench.start(model="openai/gpt-5.5")
        view = await bench.state(execution, "paused", ownership="parked")
        assert view.reason == "key"
        assert view.message is not None
        assert "OPENAI_API_KEY" in view.message


@COUNTS_SLEEPERS
async def test_a_passing_failure_is_tried_three_times_in_all(tmp_path: Path) -> None:
    clock = FakeClock()
    script = Script([ModelError("transient", "overloaded")])
    async with node_over(tmp_path, script, clock=clock) as bench:
        execution = await bench.start()
        for pause in (2, 8):
            await clock.asleep(3)  # the sweep, the renewal, and the model step
            clock.advance(pause)
        view = await bench.result(execution)
        assert view.failure is not None
        assert view.failure.code == "model_unavailable"
        assert "Given up after 3 requests" in view.failure.message
        assert len(script.requests) == 3


@COUNTS_SLEEPERS
async def test_a_long_wait_of_the_provider_is_a_stored_timer(tmp_path: Path) -> None:
    clock = FakeClock()
    moody = Moody(ModelError("transient", "slow down", retry_after=3_600.0))
    async with node_over(tmp_path, [moody], clock=clock) as bench:
        execution = await bench.start()
        timer = await bench.until(execution, "timer_set")
        assert timer.data["due_ms"] == timer.at_ms + 3_600_000
        view = await bench.state(execution, "waiting", ownership="parked")
        assert [wait.kind for wait in view.waits] == ["timer"]
        clock.advance(3_599)
        await clock.asleep(2)
        assert "timer_fired" not in await bench.kinds(execution)
        clock.advance(1)
        await bench.state(execution, "running", ownership="owned")
        await clock.asleep(2)  # the sweep and the renewal
        clock.advance(10)  # it was claimed by a wish as old as the wait: it is surely held once that was prolonged
        assert (await bench.result(execution)).state == "completed"
        assert bench.script.calls == ["turn 1/model", "turn 1/model/2"]


@COUNTS_SLEEPERS
async def test_a_wall_clock_set_back_keeps_no_timer_back(tmp_path: Path) -> None:
    clock = FakeClock()
    moody = Moody(ModelError("transient", "slow down", retry_after=60.0))
    async with node_over(tmp_path, [moody], clock=clock) as bench:
        execution = await bench.start()
        await bench.until(execution, "timer_set")
        clock.step_wall(-86_400)
        await clock.asleep(2)
        clock.advance(61)
        assert (await bench.result(execution)).state == "completed"


@COUNTS_SLEEPERS
async def test_waits_count_towards_the_requests_of_the_step(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = ModelError("transient", "slow down", retry_after=30.0)
    async with node_over(tmp_path, [Moody(slow, slow, slow, slow)], clock=clock) as bench:
        execution = await bench.start()
        for address in ("turn 1/model/wait", "turn 1/model/2/wait"):
            await bench.until(execution, "timer_set", address=address)
            await clock.asleep(2)
            clock.advance(30)
        view = await bench.result(execution)
        assert view.failure is not None
        assert view.failure.code == "model_unavailable"
        assert len(bench.script.requests) == 3


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_an_answer_of_the_declared_type_is_the_result(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say('{"n": 7}')]) as bench:
        view = await bench.result(await bench.start(output_schema=SCHEMA))
        assert view.output == {"result": {"n": 7}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("seven", "it is not JSON"),
        ('{"n": "7"}', "n: '7' is not of type 'integer'"),
        ("[" * 20_000, "it is not JSON"),
        ('{"n": 1, "more": ' + "[" * 80 + "]" * 80 + "}", "nested deeper"),
    ],
    ids=["text", "type", "deep", "nested"],
)
async def test_an_answer_of_another_type_is_asked_for_again(tmp_path: Path, answer: str, problem: str) -> None:
    async with node_over(tmp_path, [say(answer), say('{"n": 7}')]) as bench:
        view = await bench.result(await bench.start(output_schema=SCHEMA))
        assert view.output == {"result": {"n": 7}, "finish_reason": "stop"}
        role, text = bench.script.shown()[-1]
        assert role == "user"
        assert problem in text


async def test_an_answer_that_stays_wrong_fails_after_two_repairs(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("no")] * 3) as bench:
        view = await bench.result(await bench.start(output_schema=SCHEMA))
        assert view.failure is not None
        assert (view.failure.code, len(bench.script.requests)) == ("bad_output", 3)


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "#/nowhere"}, {"$ref": "http://127.0.0.1:9/schema"}, {"pattern": "("}],
    ids=["type", "local", "remote", "pattern"],
)
async def test_a_schema_that_cannot_be_used_is_told_and_reaches_for_nothing(tmp_path: Path, schema: Any) -> None:
    tools = tool("look", schema={"type": "object", "properties": {"at": schema}})
    async with node_over(tmp_path, [call("look", {"at": "x"}), say("sorry")]) as bench:
        execution = await bench.start(tools)
        assert (await bench.result(execution)).state == "completed"
        assert "look" in bench.script.shown()[-1][1]
        assert bench.script.requests[-1].messages[-1].failed


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ([ModelError("rejected", "no such model")], 1),
        ([call("none"), ModelError("rejected", "no")], 2),
        ([call("none"), say("done")], 2),
    ],
)
async def test_a_proof_counts_the_model_calls_that_the_execution_shows(
    tmp_path: Path, script: list[Any], calls: int
) -> None:
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start()
        shown = (await bench.result(execution)).usage.model_calls
        assert (shown, (await proof_of(bench.api, execution)).model_calls) == (calls, calls)


async def test_usage_and_cost_are_summed_over_recorded_replies(tmp_path: Path) -> None:
    from perdure.models.port import Usage

    first = ModelReply("", call("none").tool_calls, "tool_call", Usage(10, 5), "", 0.25)
    async with node_over(tmp_path, [first, say("done", usage=Usage(20, 5), cost_usd=0.5)]) as bench:
        usage = (await bench.result(await bench.start())).usage
        assert (usage.model_calls, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (2, 30, 10, 0.75)
