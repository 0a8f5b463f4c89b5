"""Executors over one store: who drives what, what is kept in memory, and what a lost lease or a broken run costs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from executors import House, house_in
from node_bench import Hold, Script, tool
from perdure.core.events import Kind
from perdure.engine.park import Finish, finish
from perdure.engine.sweep import Drop, Sweep, drop, expire_owned
from perdure.errors import InternalError, Retryable, StoreFailed, Unreachable
from perdure.models.scripted import call, say
from perdure.store.tx import Note, Tx
from perdure.testing.clock import FakeClock
from which_store import rows_of, store_at

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]


class Turnstile:
    """Holds every model answer back, and counts who waits."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.open = asyncio.Event()

    async def __call__(self, _request: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1


async def test_no_more_is_owned_than_there_is_room_for(tmp_path: Path) -> None:
    gate = Turnstile()
    async with house_in(tmp_path, Script([say("done")], gate=gate), capacity=3) as house:
        ids = [await house.bench.start() for _ in range(10)]
        executor = house.open()
        await house.until(lambda: gate.inside == 3)
        assert executor.owned == 3
        gate.open.set()
        for execution in ids:
            assert (await house.bench.result(execution)).state == "completed"
        assert gate.most == 3


async def test_what_became_ready_without_a_hint_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process made it ready, or the hint was lost."""
    monkeypatch.setattr("perdure.server.executor.POLL_SECONDS", 0.01)
    monkeypatch.setattr(Tx, "announce", lambda *_said, **_how: None)
    async with house_in(tmp_path, [say("done")]) as house:
        one = house.open()
        await house.until(lambda: any(name == "claim" for name, _, _ in house.notes[one].answers))
        execution = await house.bench.start()
        await house.until(lambda: house.notes[one].claims(execution))


async def test_what_is_ready_while_it_is_full_is_taken_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.server.executor.POLL_SECONDS", 3_600)  # it does not look by itself
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), capacity=1) as house:
        house.open()
        first = await house.bench.start()
        await hold.reached()
        second = await house.bench.start()
        assert (await house.bench.api.execution(second)).state == "ready"
        hold.open()
        await house.bench.result(first)
        await house.bench.result(second)


async def parked(house: House) -> str:
    """Start an execution that waits for a tool, and return it when it is parked."""
    execution = await house.bench.start(tool("look"))
    await house.bench.state(execution, "waiting", ownership="parked")
    return execution


async def test_a_parked_run_is_kept_and_only_gets_what_is_new(tmp_path: Path) -> None:
    async with house_in(tmp_path, [call("look"), say("done")]) as house:
        executor = house.open()
        execution = await parked(house)
        await house.until(lambda: executor.cached == 1)
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "seen")
        assert (await house.bench.result(execution)).state == "completed"
        first, second = house.notes[executor].claims(execution)
        assert [row["seq"] for row in first.events] == [1]
        assert [row["kind"] for row in second.events] == ["task_completed"]
        assert house.bench.script.calls == ["turn 1/model", "turn 2/model"]
        await house.until(lambda: executor.cached == 0)


async def test_without_room_in_the_cache_a_run_is_run_again_from_its_log(tmp_path: Path) -> None:
    async with house_in(tmp_path, [call("look"), say("done")], cache=0) as house:
        executor = house.open()
        execution = await parked(house)
        assert executor.cached == 0
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "seen")
        assert (await house.bench.result(execution)).state == "completed"
        claims = house.notes[executor].claims(execution)
        assert [row["seq"] for row in claims[-1].events] == [1, 2, 3, 4]
        assert house.bench.script.calls == ["turn 1/model", "turn 2/model"]


async def test_the_cache_is_bounded_and_the_oldest_leaves_first(tmp_path: Path) -> None:
    async with house_in(tmp_path, [call("look"), say("done")], cache=2) as house:
        executor = house.open()
        ids = [await parked(house) for _ in range(3)]
        await house.until(lambda: executor.cached == 2)
        for task in await house.bench.lease("look", count=3):
            await house.bench.done(task, "seen")
        for execution in ids:
            assert (await house.bench.result(execution)).state == "completed"
        sent = [len(house.notes[executor].claims(execution)[-1].events) for execution in ids]
        assert sent == [4, 1, 1]


async def test_a_run_that_another_moved_on_is_run_again_from_its_log(tmp_path: Path) -> None:
    replies = [call("look"), call("look"), say("done")]
    async with house_in(tmp_path, replies) as house:
        one = house.open()
        execution = await parked(house)
        await house.until(lambda: one.cached == 1)
        await house.close(one)
        two = house.open()
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "first")
        await house.bench.until(execution, "task_scheduled", after=5)
        await house.bench.state(execution, "waiting", ownership="parked")
        await house.close(two)
        three = house.open()
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "second")
        assert (await house.bench.result(execution)).state == "completed"
        assert house.notes[three].claims(execution)[0].fence == 3
        assert house.bench.script.calls == ["turn 1/model", "turn 2/model", "turn 3/model"]


async def test_a_run_that_comes_back_to_whoever_kept_an_older_one_is_run_from_its_log(tmp_path: Path) -> None:
    replies = [call("look"), call("look"), say("done")]
    async with house_in(tmp_path, replies) as house:
        one = house.open()
        execution = await parked(house)
        await house.until(lambda: one.cached == 1)
        away = asyncio.Event()

        async def stays_away(name: str, _row: Any) -> None:
            if name == "claim":
                await away.wait()

        house.notes[one].before = stays_away
        two = house.open()
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "first")
        await house.bench.until(execution, "task_scheduled", address="turn 2/tool/call_2_1")
        await house.bench.state(execution, "waiting", ownership="parked")
        await house.close(two)
        away.set()
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "second")
        assert (await house.bench.result(execution)).state == "completed"
        assert house.notes[one].claims(execution)[-1].fence == 3
        assert house.bench.script.calls == ["turn 1/model", "turn 2/model", "turn 3/model"]


@pytest.mark.parametrize(
    "bounds", [("engine.claim.LOG_PAGE", "server.journal.LOG_PAGE"), ("engine.claim.CLAIM_BYTES",)]
)
async def test_a_long_log_is_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: tuple[str, ...]
) -> None:
    for bound in bounds:
        monkeypatch.setattr(f"perdure.{bound}", 3)
    async with house_in(tmp_path, [call("look"), say("done")], cache=0) as house:
        house.open()
        execution = await parked(house)
        for number in range(10):
            await house.bench.api.send(execution, str(number))
        [task] = await house.bench.lease("look")
        await house.bench.done(task, "seen")
        assert (await house.bench.result(execution)).state == "completed"
        assert [text for role, text in house.bench.script.shown() if role == "user"][1:] == [str(n) for n in range(10)]


async def test_two_executors_share_the_work_and_never_hold_the_same(tmp_path: Path) -> None:
    gate = Turnstile()
    async with house_in(tmp_path, Script([say("done")], gate=gate), capacity=5) as house:
        ids = [await house.bench.start() for _ in range(10)]
        one, two = house.open(), house.open()
        await house.until(lambda: gate.inside == 10)
        assert (one.owned, two.owned) == (5, 5)
        gate.open.set()
        for execution in ids:
            view = await house.bench.result(execution)
            assert view.state == "completed"
            assert "taken_over" not in await house.bench.kinds(execution)
        assert len(house.bench.script.requests) == 10


async def test_whoever_lost_its_lease_writes_nothing_and_the_other_goes_on(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), clock=clock) as house:
        one = house.open()
        execution = await house.bench.start()
        await hold.reached()
        fenced = house.notes[one].claims(execution)[0]
        await house.bench.node.bridge.run(drop, Drop(one.holder))
        two = house.open()
        await house.until(lambda: len(house.bench.script.requests) == 2 or two.owned or one.owned > 1)
        hold.open()
        assert (await house.bench.result(execution)).state == "completed"
        kinds = await house.bench.kinds(execution)
        assert kinds == ["started", "taken_over", "step_recorded", "completed"]
        lost = await house.bench.node.bridge.run(finish, Finish(fenced.ref, fenced.fence, 1, 0, "fail", "{}"))
        assert type(lost).__name__ == "LeaseLost"


async def test_a_lease_that_is_lost_without_a_sound_is_noticed_at_the_next_renewal(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), clock=clock, lease_ms=30_000) as house:
        one = house.open()
        execution = await house.bench.start()
        await hold.reached()
        await house.claims_no_more(one)
        await house.bench.node.bridge.run(drop, Drop(one.holder))
        assert one.owned == 1
        await clock.asleep(1)
        clock.advance(10)
        await house.until(lambda: one.owned == 0)
        assert await house.bench.kinds(execution) == ["started"]


async def test_an_execution_that_comes_back_to_its_own_loser_is_driven_once(tmp_path: Path) -> None:
    """Its lease ran out while this process was stalled, and it is this process that claims it again."""
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold)) as house:
        one = house.open()
        execution = await house.bench.start()
        await hold.reached()
        await house.bench.node.bridge.run(drop, Drop(one.holder))
        await house.until(lambda: len(house.bench.script.requests) == 2)
        await house.until(lambda: one.owned == 1)
        hold.open()
        assert (await house.bench.result(execution)).state == "completed"
        assert not house.running[one].done()
        await house.until(lambda: one.owned == 0)
        other = await house.bench.start()
        assert (await house.bench.result(other)).state == "completed"


async def test_renewal_keeps_what_is_owned_beyond_its_lease(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), clock=clock) as house:
        one = house.open()
        execution = await house.bench.start()
        await hold.reached()
        for renewals in range(1, 6):
            await clock.asleep(1)
            clock.advance(10)
            await house.until(lambda n=renewals: sum(name == "renew" for name, _, _ in house.notes[one].answers) == n)
            assert await house.bench.node.bridge.run(expire_owned, Sweep(10)) == 0
        hold.open()
        assert (await house.bench.result(execution)).state == "completed"


async def test_who_cannot_renew_in_time_stops_before_anybody_else_can_start(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), clock=clock) as house:
        one = house.open()
        await house.bench.start()
        await hold.reached()

        async def refuses(name: str, _row: Any) -> None:
            if name == "renew":
                raise Retryable("busy", code="store_busy")

        house.notes[one].before = refuses
        for _ in range(2):
            await clock.asleep(1)
            clock.advance(10)
        await clock.asleep(1)
        assert one.owned == 1
        clock.advance(9)
        await clock.asleep(1)
        clock.advance(1)
        await house.until(lambda: one.owned == 0)


async def test_a_claim_whose_answer_was_lost_is_given_back(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = Hold("turn 1/model")
    async with house_in(tmp_path, Script([say("done")], gate=hold), clock=clock) as house:
        one = house.open()
        driven = await house.bench.start()
        await hold.reached()
        from perdure.engine.claim import Claim, claim

        await house.claims_no_more(one)
        forgotten = await house.bench.start()
        claimed = await house.bench.node.bridge.run(claim, Claim(one.holder, 10, 30_000))
        assert [found.ref.execution for found in claimed] in ([forgotten], [])
        for renewals in (1, 2):
            await clock.asleep(1)
            clock.advance(10)
            await house.until(lambda n=renewals: sum(name == "renew" for name, _, _ in house.notes[one].answers) == n)
        await house.until(lambda: any(name == "drop" for name, _, _ in house.notes[one].answers))
        dropped = [row.executions for name, row, _ in house.notes[one].answers if name == "drop"]
        assert dropped == [(forgotten,)]
        assert driven not in dropped[0]


async def test_what_takes_long_to_open_is_no_claim_whose_answer_was_lost(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house_in(tmp_path, [say("done")], clock=clock) as house:
        one = house.open()
        opening, go_on = house.notes[one].hold_reads()
        execution = await house.bench.start()
        await opening.wait()
        for renewals in range(1, 4):
            await clock.asleep(1)
            clock.advance(10)
            await house.until(lambda n=renewals: sum(name == "renew" for name, _, _ in house.notes[one].answers) == n)
        go_on.set()
        assert (await house.bench.result(execution)).state == "completed"
        assert not any(name == "drop" for name, _, _ in house.notes[one].answers)


@pytest.mark.parametrize(
    "error", [InternalError("a bug"), RuntimeError("a bug"), Retryable("gone", code="shutting_down")], ids=repr
)
async def test_a_run_that_breaks_the_executors_code_is_let_fall_alone(tmp_path: Path, error: Exception) -> None:
    async with house_in(tmp_path, [say("done")]) as house:
        one = house.open()
        broken: list[str] = []

        async def breaks(name: str, row: Any) -> None:
            if name == "record" and not broken:
                broken.append(row.ref.execution)
                raise error

        house.notes[one].before = breaks
        first = await house.bench.start()
        await house.until(lambda: broken == [first])
        second = await house.bench.start()
        assert (await house.bench.result(second)).state == "completed"
        assert not house.running[one].done()
        assert (await house.bench.api.execution(first)).state == "running"
        await house.bench.node.bridge.run(drop, Drop(one.holder))
        assert (await house.bench.result(first)).state == "completed"


async def test_a_busy_database_is_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house_in(tmp_path, [say("done")], clock=clock) as house:
        one = house.open()
        refused: list[str] = []

        async def busy(name: str, _row: Any) -> None:
            if name in ("record", "finish") and len(refused) < 3:
                refused.append(name)
                raise Retryable("too many deadlocks", code="store_busy")

        house.notes[one].before = busy
        execution = await house.bench.start()
        for _ in range(3):
            await clock.asleep(2)
            clock.advance(1)
        assert (await house.bench.result(execution)).state == "completed"
        assert len(house.bench.script.requests) == 1


async def test_a_store_that_failed_ends_the_executor(tmp_path: Path) -> None:
    async with house_in(tmp_path, [say("done")]) as house:
        one = house.open()

        async def fails(name: str, _row: Any) -> None:
            if name == "record":
                raise StoreFailed("the disk is gone")

        house.notes[one].before = fails
        await house.bench.start()
        with pytest.raises(BaseExceptionGroup) as ended:
            await house.running[one]
        assert ended.group_contains(StoreFailed)


async def test_a_database_that_does_not_answer_is_no_poison(tmp_path: Path) -> None:
    async with house_in(tmp_path, [say("done")]) as house:
        one = house.open()
        failures = [Unreachable("restarting", code="store_unreachable")]

        async def unreachable() -> None:
            if failures:
                raise failures.pop()

        house.notes[one].before_read = unreachable
        execution = await house.bench.start()
        await house.until(lambda: not failures)
        assert (await house.bench.api.execution(execution)).state == "running"
        await house.bench.node.bridge.run(drop, Drop(one.holder))
        assert (await house.bench.result(execution)).state == "completed"


@pytest.mark.parametrize("damage", ["kind", "data", "input"])
async def test_a_log_that_cannot_be_read_sticks_at_first_sight(tmp_path: Path, damage: str) -> None:
    async with house_in(tmp_path, [say("done")]) as house:
        execution = await house.bench.start()
        change = {"kind": "kind = 'from_the_future'", "data": "data = '{'", "input": "data = '{}'"}[damage]
        rows_of(store_at(tmp_path / "p.db"), f"UPDATE events SET {change}")
        one = house.open()
        await house.until(lambda: any(name == "halt" for name, _, _ in house.notes[one].answers))
        assert await house.bench.ownership(execution) == "parked"
        other = await house.bench.start()
        assert (await house.bench.result(other)).state == "completed"


async def test_what_is_heard_while_the_log_is_opened_is_not_missed(tmp_path: Path) -> None:
    async with house_in(tmp_path, [call("look"), say("done")]) as house:
        one = house.open()
        opening, go_on = house.notes[one].hold_reads()
        execution = await house.bench.start(tool("look"))
        await opening.wait()

        def hear(note: Note) -> None:
            if note.rows[-1]["kind"] == Kind.CANCEL_REQUESTED:
                go_on.set()

        with house.bench.node.hub.listening([("events", execution)], hear):
            await house.bench.api.cancel(execution)
            await go_on.wait()
        assert (await house.bench.result(execution)).state == "cancelled"
        assert house.bench.script.requests == []
        assert [event.kind for event in await house.bench.log(execution)][-1] is Kind.CANCELLED
