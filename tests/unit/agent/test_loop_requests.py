"""Pause, resume, cancel, stop and the limit on active time, while an agent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import Hold, Script, node_over, tool
from perdure.agent.spec import LimitsEntry
from perdure.core.work import Answer, Held
from perdure.errors import Conflict
from perdure.flow import driver
from perdure.models.scripted import call, say, together
from perdure.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

SEND = tool("send", delivery="at_most_once", attempts=1)


async def test_a_pause_asks_no_model_and_gives_out_no_tool_until_the_resume(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("look"), call("look")), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        [first] = await bench.lease("look", slots=1)
        await bench.api.pause(execution, by="ann", reason="lunch")
        assert await bench.none_to_lease("look")
        assert await bench.done(first, "seen") is Answer.ACCEPTED
        view = await bench.state(execution, "paused", ownership="parked")
        assert (view.reason, view.message) == ("user", "lunch")
        await bench.api.resume(execution, by="ann")
        [second] = await bench.lease("look")
        await bench.done(second, "seen")
        assert (await bench.result(execution)).state == "completed"
        assert len(bench.script.requests) == 2


async def test_a_pause_while_the_model_answers_keeps_the_answer(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([call("look"), say("done")], gate=hold)) as bench:
        execution = await bench.start(tool("look"))
        await hold.reached()
        await bench.api.pause(execution)
        hold.open()
        await bench.state(execution, "paused", ownership="parked")
        assert await bench.kinds(execution) == ["started", "paused", "step_recorded"]
        await bench.api.resume(execution)
        [task] = await bench.lease("look")
        await bench.done(task)
        await bench.result(execution)
        assert bench.script.calls == ["turn 1/model", "turn 2/model"]


async def test_a_pause_that_is_taken_back_at_once_changes_nothing(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("done")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        await bench.api.pause(execution)
        await bench.api.resume(execution)
        hold.open()
        assert (await bench.result(execution)).state == "completed"
        assert len(bench.script.requests) == 1


async def test_a_cancel_is_acknowledged_at_once_and_reaches_the_running_tool(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("never")]) as bench:
        execution = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.api.cancel(execution, by="ann", reason="wrong order")
        assert (await bench.api.execution(execution)).state == "cancelling"
        held = [Held(task.execution, task.address, task.fence)]
        assert await bench.source.beat("wrk_1", held) == [Answer.CANCEL]
        await bench.state(execution, "cancelling", ownership="parked")
        await bench.failed(task, "stopped")
        assert (await bench.result(execution)).state == "cancelled"
        assert len(bench.script.requests) == 1


async def test_a_cancel_stops_a_model_call_and_records_nothing_of_it(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("done")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        await bench.api.cancel(execution)
        assert (await bench.result(execution)).state == "cancelled"
        assert await bench.kinds(execution) == ["started", "cancel_requested", "cancelled"]


async def test_a_cancel_keeps_back_what_nobody_was_given(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("look"), call("send")), say("never")]) as bench:
        execution = await bench.start(tool("look"), SEND)
        await bench.until(execution, "task_scheduled", after=3)
        await bench.api.cancel(execution)
        assert await bench.none_to_lease("look", "send")
        assert (await bench.result(execution)).state == "cancelled"


async def test_a_begun_effect_reports_or_becomes_uncertain_before_a_cancel_is_over(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("send"), call("send")), say("never")]) as bench:
        execution = await bench.start(SEND)
        first, second = await bench.lease("send", count=2)
        await bench.begin(first)
        await bench.api.cancel(execution)
        assert await bench.begin(second) is Answer.CANCEL
        held = [Held(second.execution, second.address, second.fence)]
        assert await bench.source.hand_back("wrk_1", held) == [Answer.ACCEPTED]
        assert (await bench.api.execution(execution)).state == "cancelling"
        await bench.done(first, "sent")
        assert (await bench.result(execution)).state == "cancelled"
        assert [task.state for task in await bench.api.tasks(execution)] == ["done", "dead"]


async def test_nothing_reaches_what_has_ended(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("done")]) as bench:
        execution = await bench.start()
        await bench.result(execution)
        for verb in (bench.api.cancel, bench.api.pause, bench.api.resume, bench.api.stop):
            with pytest.raises(Conflict) as refused:
                await verb(execution)
            assert (refused.value.code, refused.value.details["state"]) == ("ended", "completed")
        with pytest.raises(Conflict):
            await bench.api.send(execution, "hello?")


async def test_active_time_is_bounded_and_waiting_costs_none(tmp_path: Path) -> None:
    clock, hold = FakeClock(), Hold("turn 2/model")
    async with node_over(tmp_path, Script([call("look"), say("done")], gate=hold), clock=clock) as bench:
        execution = await bench.start(tool("look"), limits=LimitsEntry(active_ms=20_000))
        await bench.state(execution, "waiting", ownership="parked")
        clock.advance(3_600)
        [task] = await bench.lease("look")
        await bench.done(task)
        await bench.state(execution, "running", ownership="owned")
        await clock.asleep(3)  # the sweep, the renewal, the limit
        clock.advance(10)  # it was claimed by a wish as old as the wait: it is surely held once that was prolonged
        await hold.reached()
        await clock.asleep(3)
        clock.advance(9.9)
        assert (await bench.api.execution(execution)).state == "running"
        clock.advance(0.1)
        view = await bench.result(execution)
        assert view.failure is not None
        assert view.failure.code == "limit_exceeded"
        assert "limits.active (20 s)" in view.failure.message
        assert view.active_ms == 20_000


async def test_active_time_adds_up_over_claims(tmp_path: Path) -> None:
    clock, hold = FakeClock(), Hold("turn 1/model")
    script = Script([say("done")], gate=hold)
    async with node_over(tmp_path, script, clock=clock) as bench:
        execution = await bench.start(limits=LimitsEntry(active_ms=10_000))
        await hold.reached()
        await clock.asleep(3)
        clock.advance(6)
        await bench.api.pause(execution)
        hold.open()
        assert (await bench.state(execution, "paused", ownership="parked")).active_ms == 6_000
        clock.advance(3_600)
        await bench.api.resume(execution)
        assert (await bench.result(execution)).state == "completed"


async def test_an_execution_that_ended_over_its_workers_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 60.0)  # it stays owned, however slow this machine is
    clock = FakeClock()
    async with node_over(tmp_path, [together(call("look"), call("send")), say("never")], clock=clock) as bench:
        execution = await bench.start(tool("look"), SEND, limits=LimitsEntry(active_ms=1_000))
        _, effect = sorted(await bench.lease("look", "send", count=2), key=lambda one: one.tool)
        await bench.begin(effect)
        await clock.asleep(3)
        clock.advance(1)
        assert (await bench.result(execution)).state == "failed"
        held = [Held(effect.execution, effect.address, effect.fence)]
        assert await bench.source.beat("wrk_1", held) == [Answer.CANCEL]
        assert await bench.done(effect, "sent") is Answer.ACCEPTED
        assert [task.state for task in await bench.api.tasks(execution)] == ["leased", "done"]
