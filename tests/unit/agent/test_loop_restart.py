"""The process ends in the middle of each wait, another opens the same file, and no recorded step is made again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from node_bench import Hold, NodeBench, Script, node_over, tool
from perdure.core.work import Answer
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

REFUND = tool("refund", approval_required=True, delivery="at_most_once", attempts=1)
SEND = tool("send", delivery="at_most_once", attempts=1)


async def test_while_a_tool_waits_for_a_worker(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        await bench.until(execution, "task_scheduled")
    async with node_over(tmp_path, script) as bench:
        [task] = await bench.lease("look")
        assert task.attempt == 1
        await bench.done(task, "seen")
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model"]


async def test_while_a_worker_elsewhere_runs_the_tool(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
    async with node_over(tmp_path, script) as bench:
        assert await bench.done(task, "seen") is Answer.ACCEPTED
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model"]


@pytest.mark.sqlite_only("that a file's former owner is gone, its lock proves; of a server nobody knows it")
async def test_while_the_owners_own_worker_runs_the_tool(tmp_path: Path) -> None:
    """The lock proves it gone: its task is free at once, without waiting for a lease."""
    script = Script([call("look"), call("send"), say("?"), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"), SEND)
        await bench.lease("look", worker="local/1")
    async with node_over(tmp_path, script) as bench:
        [task] = await bench.lease("look", worker="local/2")
        assert task.attempt == 2
        await bench.done(task, "seen")
        [effect] = await bench.lease("send", worker="local/2")
        await bench.begin(effect)
    async with node_over(tmp_path, script) as bench:
        await bench.until(execution, "task_uncertain")
        assert await bench.none_to_lease("send")
        await bench.api.rule(execution, effect.address, "happened", by="ann")
        assert (await bench.result(execution)).state == "completed"


async def test_while_a_person_is_asked(tmp_path: Path) -> None:
    script = Script([call("refund", {"order": "7"}), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(REFUND)
        await bench.until(execution, "waitpoint_opened")
        [asked] = await bench.api.approvals()
    async with node_over(tmp_path, script) as bench:
        [again] = await bench.api.approvals()
        assert again == asked
        await bench.api.decide(asked.id, "approve", by="ann")
    async with node_over(tmp_path, script) as bench:
        [task] = await bench.lease("refund")
        assert await bench.begin(task) is Answer.ACCEPTED
        await bench.done(task, "sent")
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model"]
        assert (await bench.kinds(execution)).count("waitpoint_opened") == 1


async def test_while_the_model_answers(tmp_path: Path) -> None:
    hold = Hold("turn 2/model")
    script = Script([call("look"), say("done")], gate=hold)
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.done(task, "seen")
        await hold.reached()
    hold.open()
    async with node_over(tmp_path, script) as bench:
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model", "turn 2/model"]
        events = await bench.log(execution)
        assert [event.kind for event in events if event.kind == "taken_over"] == ["taken_over"]
        assert events[-2].data["value"]["requests"] == 2, "the one in flight counts as one"


async def test_while_a_date_is_waited_for(tmp_path: Path) -> None:
    class Slow:
        asked = 0

        def __call__(self, _request: ModelRequest) -> ModelReply:
            self.asked += 1
            if self.asked == 1:
                raise ModelError("transient", "slow down", retry_after=3_600.0)
            return say("done")

    clock, script = FakeClock(), Script([Slow()])
    async with node_over(tmp_path, script, clock=clock) as bench:
        execution = await bench.start()
        await bench.until(execution, "timer_set")
    clock.advance(3_600)
    async with node_over(tmp_path, script, clock=clock) as bench:
        await clock.asleep(2)
        clock.advance(1)
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 1/model/2"]


async def test_while_it_is_paused(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([call("look"), say("done")], gate=hold)
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        await hold.reached()
        await bench.api.pause(execution, by="ann")
        hold.open()
        await bench.state(execution, "paused", ownership="parked")
        assert await bench.kinds(execution) == ["started", "paused", "step_recorded"]
    async with node_over(tmp_path, script) as bench:
        await bench.state(execution, "paused", ownership="parked")
        await bench.api.resume(execution)
        [task] = await bench.lease("look")
        await bench.done(task, "seen")
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model"]


async def test_while_it_is_paused_and_still_owned(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([say("done")], gate=hold)
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start()
        await hold.reached()
        await bench.api.pause(execution)
    hold.open()
    async with node_over(tmp_path, script) as bench:
        assert (await bench.api.execution(execution)).state == "paused"
        await bench.api.resume(execution)
        assert (await bench.result(execution)).state == "completed"
        assert "taken_over" in await bench.kinds(execution)


async def test_while_nobody_knows_what_an_effect_did(tmp_path: Path) -> None:
    script = Script([call("send"), say("?"), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(SEND)
        task = await bench.uncertain("send")
        await bench.until(execution, "step_recorded", address="turn 2/model")
    async with node_over(tmp_path, script) as bench:
        await bench.api.rule(execution, task.address, "give_up", by="ann")
        assert (await bench.result(execution)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model", "turn 3/model"]


async def test_while_messages_wait(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.api.send(execution, "first", dedupe="1")
    async with node_over(tmp_path, script) as bench:
        await bench.api.send(execution, "first", dedupe="1")
        await bench.api.send(execution, "second")
        await bench.done(task, "seen")
        await bench.result(execution)
        assert script.shown()[-2:] == [("user", "first"), ("user", "second")]


async def test_while_it_is_cancelled(tmp_path: Path) -> None:
    script = Script([call("look"), say("never")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.api.cancel(execution, by="ann")
        await bench.state(execution, "cancelling", ownership="parked")
    async with node_over(tmp_path, script) as bench:
        await bench.state(execution, "cancelling", ownership="parked")
        await bench.failed(task)
        assert (await bench.result(execution)).state == "cancelled"
        assert len(script.requests) == 1


STEPS: list[Callable[[NodeBench, str], Awaitable[object]]] = [
    lambda bench, execution: bench.until(execution, "task_scheduled", address="turn 1/tool/call_1_1"),
    lambda bench, _: _answer(bench, "look"),
    lambda bench, execution: bench.until(execution, "waitpoint_opened"),
    lambda bench, _: _approve(bench),
    lambda bench, execution: bench.until(execution, "task_scheduled", address="turn 2/tool/call_2_1"),
    lambda bench, _: _answer(bench, "refund"),
    lambda bench, execution: bench.result(execution),
]


async def _answer(bench: NodeBench, name: str) -> None:
    [task] = await bench.lease(name)
    if task.delivery == "at_most_once":
        await bench.begin(task)
    await bench.done(task, "ok")


async def _approve(bench: NodeBench) -> None:
    [asked] = await bench.api.approvals()
    await bench.api.decide(asked.id, "approve", by="ann")


async def test_between_any_two_steps(tmp_path: Path) -> None:
    script = Script([call("look"), call("refund"), say("done")])
    execution = ""
    for step in STEPS:
        async with node_over(tmp_path, script) as bench:
            execution = execution or await bench.start(tool("look"), REFUND)
            await step(bench, execution)
    async with node_over(tmp_path, script) as bench:
        assert (await bench.result(execution)).state == "completed"
        counted = [event.address for event in await bench.log(execution) if event.kind == "step_recorded"]
        assert counted == ["turn 1/model", "turn 2/model", "turn 3/model"]
        assert len(script.requests) <= 3 + len(STEPS), "only what was in flight is asked again"
        assert (await bench.kinds(execution)).count("task_begun") == 1
