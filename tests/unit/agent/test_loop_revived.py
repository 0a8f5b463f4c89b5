"""A call that failed for good and was put back: the model keeps what it was told, and hears the rest as news."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from node_bench import NodeBench, node_over, tool
from perdure.client.timeline import timeline_of
from perdure.client.tool_steps import ToolStep
from perdure.core.delivery import NOT_DONE, UNSERIALISABLE
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, LeasedTask
from perdure.errors import Conflict
from perdure.models.scripted import call, say

pytestmark = pytest.mark.anyio

SEND = tool("send", attempts=1)
REPLIES = [call("send", {"to": "ann"}), say("it failed"), say("it was sent after all")]


async def failed_for_good(bench: NodeBench) -> tuple[str, str]:
    """Return (execution, address) once a call has failed and the model's next turn is under way."""
    execution = await bench.start(SEND)
    [task] = await bench.lease("send")
    await bench.failed(task, "the disk is full")
    await bench.until(execution, "task_failed")
    return execution, task.address


async def test_the_model_is_told_of_the_retry_and_of_how_it_ended(tmp_path: Path) -> None:
    async with node_over(
        tmp_path, [call("send", {"to": "ann"}), call("send", {"to": "bob"}), say("now I know")]
    ) as bench:
        execution, address = await failed_for_good(bench)
        [other] = await bench.lease("send")
        task = await bench.api.retry_task(execution, address, by="ann", reason="the disk is back")
        assert (task.state, task.failure) == ("ready", None)
        timeline = timeline_of(await bench.log(execution), await bench.api.tasks(execution))
        steps = [entry for entry in timeline.entries if isinstance(entry, ToolStep)]
        assert [step.state for step in steps if step.address == address] == ["ready"]
        [again] = await bench.lease("send")
        assert (again.address, again.key, again.attempt) == (address, f"{execution}/{address}", 2)
        await bench.done(again, "sent")
        await bench.until(execution, "task_completed", address=address)
        await bench.done(other, "sent to bob")
        assert (await bench.result(execution)).output == {"result": "now I know", "finish_reason": "stop"}
        shown = bench.script.shown()
        assert ("tool", "send failed: it broke") not in shown
        assert next(text for role, text in shown if role == "tool") == "send failed: the disk is full"
        assert [text for role, text in shown if role == "user"][1:] == [
            "Your call call_1_1 of send, which had failed, is being tried again at the wish of ann (the disk is back). "
            "Do not make it again yourself; you will be told how it ended.",
            'About your call call_1_1 of send, which was tried again: it was done now. Result: "sent"',
        ]


async def in_doubt_and_not_done(bench: NodeBench) -> LeasedTask:
    """Have its holder say, late, that nothing happened."""
    task = await bench.uncertain("once")
    assert await bench.failed(task, "the line was dead", code=NOT_DONE) is Answer.ACCEPTED
    return task


async def in_doubt_and_given_up(bench: NodeBench) -> LeasedTask:
    """Have somebody give it up; no claim was made, so it may be tried anew."""
    [task] = await bench.lease("often")
    await bench.failed(task, "a result that cannot be stored", code=UNSERIALISABLE)
    await bench.until(task.execution, "task_uncertain")
    await bench.api.rule(task.execution, task.address, "give_up", by="ann")
    return task


@pytest.mark.parametrize(("name", "end"), [("once", in_doubt_and_not_done), ("often", in_doubt_and_given_up)])
async def test_a_call_that_was_in_doubt_before_it_failed_is_put_back_as_any_other(
    tmp_path: Path, name: str, end: Callable[[NodeBench], Awaitable[LeasedTask]]
) -> None:
    once = tool("once", delivery="at_most_once", attempts=1, rules=TaskRules(settle_ms=0))
    replies = [call(name, {"to": "ann"}), call("wait", {}), say("now I know")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(once, tool("often"), tool("wait"))
        task = await end(bench)
        [held] = await bench.lease("wait")
        await bench.api.retry_task(execution, task.address, by="ann")
        [again] = await bench.lease(name)
        if name == "once":
            assert await bench.begin(again, "b2") is Answer.ACCEPTED
        await bench.done(again, "sent")
        await bench.until(execution, "task_completed", address=task.address)
        await bench.done(held, "waited")
        assert (await bench.result(execution)).output == {"result": "now I know", "finish_reason": "stop"}
        known, back, done = [text for role, text in bench.script.shown() if role == "user"][1:]
        assert "whose outcome was unknown" in known
        assert "is being tried again at the wish of ann" in back
        assert done.endswith('it was done now. Result: "sent"')


async def test_the_run_does_not_end_while_a_retry_is_under_way(tmp_path: Path) -> None:
    wait = tool("wait")
    replies = [call("send", {"to": "ann"}), call("wait", {}), say("I wait"), say("it was sent after all")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(SEND, wait)
        [task] = await bench.lease("send")
        await bench.failed(task)
        [held] = await bench.lease("wait")
        await bench.api.retry_task(execution, task.address)
        await bench.done(held, "waited")
        await bench.until(execution, "step_recorded", address="turn 3/model")
        await bench.state(execution, "waiting", ownership="parked")
        [again] = await bench.lease("send")
        await bench.done(again, "sent")
        assert (await bench.result(execution)).output == {
            "result": "it was sent after all",
            "finish_reason": "stop",
        }


async def test_nothing_is_put_back_once_it_has_ended(tmp_path: Path) -> None:
    async with node_over(tmp_path, REPLIES) as bench:
        execution, address = await failed_for_good(bench)
        await bench.result(execution)
        with pytest.raises(Conflict) as refused:
            await bench.api.retry_task(execution, address)
        assert refused.value.code == "ended"
