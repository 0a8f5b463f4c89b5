"""Sweeps take what is due in batches and in turns; a row that cannot be handled is named and holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from calendar_starts import schedule
from engine_bench import COMPANY, Bench, bench_in, task
from perdure.core.ids import shard_of
from perdure.core.items import SetTimer
from perdure.engine.due import Sweep
from perdure.engine.schedule import make_schedule
from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime
from perdure.server.sweeps import SKIP_MS, SWEEP_LIMIT, SWEEP_SECONDS, SWEEPS, SweepKind, Sweeps
from perdure.store.operation import Operation, Steps
from perdure.store.tx import Tx
from perdure.store.writer import InlineWriter

pytestmark = pytest.mark.anyio


class OwnWriter(InlineWriter):
    """Runs what is queued as soon as it is told that something is."""

    def wake(self) -> None:
        self.drain()


@dataclass
class Stage:
    """A bench and the sweeps over it."""

    bench: Bench
    order: list[str]
    """The passes that were made."""

    async def rounds(self, count: int = 1) -> None:
        """Let this many rounds be swept to their ends."""
        for _ in range(count):
            await self.bench.clock.asleep()
            self.bench.clock.advance(SWEEP_SECONDS)
        await self.bench.clock.asleep()


@asynccontextmanager
async def swept(folder: Path) -> AsyncIterator[Stage]:
    with bench_in(folder) as bench:
        order: list[str] = []
        bridge = Bridge(bench.store, OwnWriter(bench.store))
        kinds = tuple(replace(kind, operation=noted(kind, order)) for kind in SWEEPS)
        sweeps = Sweeps(bridge, StoreTime(bridge, bench.clock), bench.clock, kinds)
        running = asyncio.create_task(sweeps.run())
        try:
            yield Stage(bench, order)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            bridge.close()


def noted(kind: SweepKind, order: list[str]) -> Operation[Sweep, int]:
    """Return its operation, which notes each pass that is begun."""

    def apply(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
        order.append(kind.name)
        return kind.operation.apply(tx, rows)

    return Operation(kind.operation.name, apply, kind.operation.keys)


def many_timers(bench: Bench, count: int, each: int = 100) -> list[str]:
    """Set this many timers that are all due within one minute; return their executions."""
    held = [
        bench.waiting(*(SetTimer(f"t{i}", "d", 1 + (n * each + i) * 60_000 // count) for i in range(each)))
        for n in range(count // each)
    ]
    return [one.ref.execution for one in held]


def fired(bench: Bench, executions: list[str]) -> list[tuple[str, int, int]]:
    """Return (address, due, fired) of all timers that fired."""
    found: list[tuple[str, int, int]] = []
    for execution in executions:
        due = {event.address: event.data["due_ms"] for event in bench.log(execution) if event.kind == "timer_set"}
        found += [(e.address, due[e.address], e.at_ms) for e in bench.log(execution) if e.kind == "timer_fired"]
    return found


async def test_two_thousand_timers_of_one_minute_fire_once_each_and_none_early(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        executions = many_timers(stage.bench, 2_000)
        await stage.rounds(121)
        found = fired(stage.bench, executions)
        late = [at - due for _, due, at in found]
        assert len(found) == 2_000
        assert min(late) >= 0
        assert max(late) <= SWEEP_SECONDS * 1000


async def test_full_passes_take_turns_with_the_other_sweeps(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        many_timers(stage.bench, 3 * SWEEP_LIMIT)
        stage.bench.waiting(task())
        assert stage.bench.lease()
        stage.bench.clock.advance(120)
        await stage.rounds()
        assert stage.order[:3] == ["timers", "tasks", "timers"]
        assert stage.order.count("timers") == 4


async def test_a_row_that_cannot_be_handled_is_named_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with swept(tmp_path) as stage:
        with stage.bench.store.write() as connection:
            for address in ("a", "b"):
                row = {"shard": shard_of("exe_none"), "execution": "exe_none", "address": address, "due_ms": 1}
                connection.run("insert_timer", **row)
        executions = many_timers(stage.bench, 2 * SWEEP_LIMIT)
        stage.bench.clock.advance(120)
        await stage.rounds(2)
        assert len(fired(stage.bench, executions)) == 2 * SWEEP_LIMIT
        named = [record for record in caplog.records if "row_skipped" in record.getMessage()]
        assert len(named) == 2
        assert all("exe_none" in str(vars(record)) for record in named)


async def test_a_row_that_was_left_out_is_tried_again_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with swept(tmp_path) as stage:
        with stage.bench.store.write() as connection:
            row = {"shard": shard_of("exe_0001"), "execution": "exe_0001", "address": "a", "due_ms": 1}
            connection.run("insert_timer", **row)
        await stage.rounds()
        assert stage.bench.started(id="exe_0001")
        await stage.rounds(2)
        assert stage.bench.kinds("exe_0001") == ["started"]
        await stage.rounds(int(SKIP_MS / 1000 / SWEEP_SECONDS) + 1)
        assert stage.bench.kinds("exe_0001") == ["started", "timer_fired"]


async def test_schedules_tick_by_the_same_sweeps(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        stage.bench.do(make_schedule, schedule(cron="* * * * *"))
        await stage.rounds(6 * 120)
        assert len(stage.bench.ready()) == 6
        row = stage.bench.row("schedule", company=COMPANY, name="nightly")
        assert row is not None
        assert row["next_ms"] - stage.bench.clock.wall_ms() <= 60_000
