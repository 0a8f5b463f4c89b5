"""Effects whose outcome nobody knows: the model is told, nothing runs again, and a ruling or late report settles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import Hold, NodeBench, Script, node_over, tool
from perdure.agent.spec import LimitsEntry
from perdure.core.rules import TaskRules
from perdure.core.views import Ruling
from perdure.core.work import Answer
from perdure.models.port import ModelError
from perdure.models.scripted import call, say, together

pytestmark = pytest.mark.anyio

SEND = tool("send", delivery="at_most_once", attempts=1, rules=TaskRules(settle_ms=0))
REPLIES = [call("send", {"to": "ann"}), say("I do not know"), say("now I do")]


async def waits_for_a_ruling(bench: NodeBench) -> tuple[str, str]:
    """Return (execution, address) once the model has answered and the run waits."""
    execution = await bench.start(SEND)
    task = await bench.uncertain("send")
    await bench.until(execution, "step_recorded", address="turn 2/model")
    await bench.state(execution, "waiting", ownership="parked")
    return execution, task.address


async def test_the_model_is_told_that_it_must_not_repeat_it(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, _ = await waits_for_a_ruling(bench)
        role, text = bench.script.shown()[-1]
        assert role == "tool"
        assert "OUTCOME UNKNOWN" in text
        assert "the line went dead" in text
        assert "Do not repeat it" in text
        [wait] = (await bench.api.execution(execution)).waits
        assert wait.kind == "ruling"
        assert await bench.none_to_lease("send")


@pytest.mark.parametrize(
    ("ruling", "told"),
    [
        ("happened", 'it was done. Result: "receipt"'),
        ("give_up", "nobody could find out, and it will not be tried again. Do not repeat it."),
    ],
)
async def test_a_ruling_is_told_to_the_model_and_the_run_ends(tmp_path: Path, ruling: Ruling, told: str) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, address = await waits_for_a_ruling(bench)
        effect = await bench.api.rule(execution, address, ruling, by="ann", reason="asked", value="receipt")
        assert (effect.ruling, effect.ruled_by, effect.reason) == (ruling, "ann", "asked")
        assert (await bench.result(execution)).output == {"result": "now I do", "finish_reason": "stop"}
        assert bench.script.shown()[-1] == (
            "user",
            f"About your call call_1_1 of send, whose outcome was unknown: {told}",
        )


async def test_a_ruling_to_run_makes_one_more_claim_and_its_result_is_told(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, address = await waits_for_a_ruling(bench)
        await bench.api.rule(execution, address, "run", by="ann")
        [task] = await bench.lease("send", worker="wrk_2")
        assert await bench.begin(task, "b2") is Answer.ACCEPTED
        await bench.done(task, "sent now")
        assert (await bench.result(execution)).state == "completed"
        assert bench.script.shown()[-1][1].endswith('unknown: it was done. Result: "sent now"')
        assert bench.script.calls == ["turn 1/model", "turn 2/model", "turn 3/model"]
        [effect] = await bench.api.effects(execution=execution)
        assert (effect.claims, effect.value) == (2, "sent now")


async def test_a_second_claim_that_fails_before_it_begins_is_told_as_not_done(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, address = await waits_for_a_ruling(bench)
        await bench.api.rule(execution, address, "run", by="ann")
        [task] = await bench.lease("send", worker="wrk_2")
        await bench.failed(task, "no such person")
        await bench.result(execution)
        assert bench.script.shown()[-1][1].endswith("unknown: it was not done: no such person")


async def test_a_late_report_of_the_holder_settles_it(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution = await bench.start(SEND)
        task = await bench.uncertain("send")
        await bench.until(execution, "step_recorded", address="turn 2/model")
        assert await bench.done(task, "it went through") is Answer.ACCEPTED
        await bench.result(execution)
        assert bench.script.shown()[-1][1].endswith('unknown: it was done. Result: "it went through"')


async def test_a_late_report_while_the_model_is_told_is_not_lost(tmp_path: Path) -> None:
    hold = Hold("turn 2/model")
    async with node_over(tmp_path, Script(REPLIES, gate=hold)) as bench:
        execution = await bench.start(SEND)
        task = await bench.uncertain("send")
        await hold.reached()
        await bench.done(task, "it went through")
        hold.open()
        assert (await bench.result(execution)).output == {"result": "now I do", "finish_reason": "stop"}


async def test_a_message_in_between_is_answered_and_the_wait_goes_on(tmp_path: Path) -> None:
    replies = [*REPLIES[:2], say("still waiting"), say("now I do")]
    async with node_over(tmp_path, replies) as bench:
        execution, address = await waits_for_a_ruling(bench)
        await bench.api.send(execution, "well?")
        await bench.until(execution, "step_recorded", address="turn 3/model")
        await bench.state(execution, "waiting", ownership="parked")
        await bench.api.rule(execution, address, "give_up", by="ann")
        assert (await bench.result(execution)).output == {"result": "now I do", "finish_reason": "stop"}


async def test_two_uncertain_effects_are_both_waited_for(tmp_path: Path) -> None:
    both = together(call("send", {"to": "ann"}), call("send", {"to": "bob"}))
    replies = [both, say("?"), say("one known"), say("both known")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(SEND)
        first, second = await bench.lease("send", count=2)
        for task in (first, second):
            await bench.begin(task)
            await bench.failed(task)
        await bench.until(execution, "step_recorded", address="turn 2/model")
        await bench.api.rule(execution, second.address, "happened", by="ann")
        await bench.until(execution, "step_recorded", address="turn 3/model")
        await bench.state(execution, "waiting", ownership="parked")
        await bench.api.rule(execution, first.address, "give_up", by="ann")
        assert (await bench.result(execution)).output == {"result": "both known", "finish_reason": "stop"}


@pytest.mark.parametrize("why", ["the model refuses", "a limit is passed"])
async def test_a_run_that_fails_waits_for_it_too(tmp_path: Path, why: str) -> None:
    replies = [REPLIES[0], ModelError("rejected", "no")]
    limits = LimitsEntry(turns=1 if why == "a limit is passed" else 10)
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(SEND, limits=limits)
        task = await bench.uncertain("send")
        await bench.state(execution, "waiting", ownership="parked")
        await bench.api.rule(execution, task.address, "run", by="ann")
        [again] = await bench.lease("send", worker="wrk_2")
        await bench.begin(again, "b2")
        await bench.done(again, "sent now")
        assert (await bench.result(execution)).state == "failed"
        [effect] = await bench.api.effects(execution=execution)
        assert (effect.state, effect.value) == ("done", "sent now")


async def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, _ = await waits_for_a_ruling(bench)
        await bench.api.stop(execution)
        assert (await bench.result(execution)).output == {"result": "I do not know", "finish_reason": "stopped"}


async def test_a_cancel_ends_the_wait_and_leaves_it_uncertain(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, address = await waits_for_a_ruling(bench)
        await bench.api.cancel(execution)
        assert (await bench.result(execution)).state == "cancelled"
        [effect] = await bench.api.effects(state="uncertain")
        assert effect.address == address
        assert (await bench.api.rule(execution, address, "happened", by="ann")).state == "done"


async def test_a_model_that_calls_again_is_not_held_back_here_but_never_runs_the_same_claim(tmp_path: Path) -> None:
    replies = [call("send", {"n": 1}), call("send", {"n": 2}), say("?"), say("done")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(SEND)
        first = await bench.uncertain("send")
        [second] = await bench.lease("send")
        assert second.key != first.key
        await bench.begin(second, "b2")
        await bench.done(second)
        await bench.until(execution, "step_recorded", address="turn 3/model")
        await bench.api.rule(execution, first.address, "happened", by="ann")
        assert (await bench.result(execution)).state == "completed"
