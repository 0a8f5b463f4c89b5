"""Timers that are all due within one minute: does each fire once, is any early, how late are they, and do they hold up
the other sweeps?

Sets the timers of many parked executions in a SQLite file, through the engine's own operations, so that they are due
evenly over the window, and lets a server's sweeps fire them by the real clock while leases of tasks run out now and
then. Printed are the timers fired per second, the lateness by the store's clock (median, 99th of 100, most), and the
lateness of the other sweep. Exit 1 if a timer did not fire once, or fired early.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from perdure.core.ids import shard_of
from perdure.core.items import ScheduleTask, SetTimer
from perdure.core.work import Lane, LeaseRequest
from perdure.engine.claim import Claim, claim
from perdure.engine.lease import Lease, lease
from perdure.engine.park import Park, park
from perdure.engine.record import Record, record
from perdure.engine.start import Start, start
from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime
from perdure.server.sweeps import Sweeps
from perdure.store.batch import Entry
from perdure.store.operation import Operation
from perdure.store.protocol import Ref
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.writer import InlineWriter, ThreadedWriter
from perdure.system import SystemClock, SystemRandom

GROUP = 100
"""Executions set up in one go."""
SETUP_PER_SECOND = 4_000
"""Timers; how far off the window is put, so that it begins once they are all set."""


class _Nobody:
    def settle(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.error is not None:
                raise entry.error


def submit_all(writer: InlineWriter, operation: Operation[object, object], rows: Sequence[object]) -> None:
    for row in rows:
        writer.submit(operation, row, _Nobody())
    writer.drain()


def set_timers(store: SqliteStore, timers: int, each: int, delay_of: Callable[[int], int]) -> list[str]:
    """Park executions that wait for `each` timers; return their ids."""
    writer = InlineWriter(store)
    ids = [f"exe_{n:06}" for n in range(max(timers // each, 1))]
    for at in range(0, len(ids), GROUP):
        group = ids[at : at + GROUP]
        starts = [Start(one, "default", "sleeper", "d", "{}", '"go"', None) for one in group]
        submit_all(writer, start, starts)  # type: ignore[arg-type]
        held = writer.call(claim, Claim("bench", GROUP, 3_600_000))
        for place, one in enumerate(held):
            first = (at + place) * each
            items = tuple(SetTimer(f"t{n}", "d", delay_of(first + n)) for n in range(each))
            writer.submit(record, Record(one.ref, one.fence, 1, items), _Nobody())
        writer.drain()
        submit_all(writer, park, [Park(one.ref, one.fence, 1 + each, 0) for one in held])  # type: ignore[arg-type]
    return ids


def lease_tasks(store: SqliteStore, count: int, window_ms: int) -> dict[str, int]:
    """Have leases of tasks run out over the window, for the other sweep to notice; return when each does."""
    writer = InlineWriter(store)
    row = Start("exe_tasks", "default", "worker", "d", "{}", '"go"', None)
    writer.call(start, row)
    [one] = writer.call(claim, Claim("bench", 1, 3_600_000))
    items = tuple(
        ScheduleTask(f"task {n}", "d", "worker", "work", "default", {}, "at_least_once", 9, 0) for n in range(count)
    )
    writer.call(record, Record(one.ref, one.fence, 1, items))
    for n in range(count):
        request = LeaseRequest("w", f"n{n}", (Lane("worker", "work"),), 1, (n + 1) * window_ms // count)
        assert len(writer.call(lease, Lease("default", request))) == 1
    with store.read() as reads:
        rows = reads.rows("tasks_of", shard=shard_of(row.id), execution=row.id)
        return {found["address"]: found["lease_until_ms"] for found in rows}


async def sweep(store: SqliteStore, timers: int, patience: float) -> float:
    """Sweep until no timer is left; return how long that took."""
    writer = ThreadedWriter(store)
    bridge = Bridge(store, writer)
    clock = SystemClock()
    begun = time.perf_counter()
    running = asyncio.create_task(Sweeps(bridge, StoreTime(bridge, clock), clock).run())
    try:
        await asyncio.wait_for(no_timer_is_left(bridge), patience)
        return time.perf_counter() - begun
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        writer.stop()
        bridge.close()


async def no_timer_is_left(bridge: Bridge) -> None:
    while True:
        left = await bridge.read(lambda reads: reads.row("next_timer"))
        if left is None or left["due_ms"] is None:
            return
        await asyncio.sleep(0.1)


def lateness(store: SqliteStore, ids: Sequence[str]) -> tuple[list[int], int]:
    """Return how late each timer fired, and how many fired another number of times than once."""
    late: list[int] = []
    wrong = 0
    with store.read() as reads:
        for one in ids:
            page = {"shard": shard_of(one), "execution": one, "after": 0, "limit": 1_000_000}
            rows = reads.rows("events_after", **page)
            fired = {row["address"]: row["at_ms"] for row in rows if row["kind"] == "timer_fired"}
            count = sum(row["kind"] == "timer_fired" for row in rows)
            due = [(row["address"], row["data"]) for row in rows if row["kind"] == "timer_set"]
            late += [fired[address] - int(data.split(":")[1].strip("} ")) for address, data in due if address in fired]
            wrong += abs(len(due) - count) + len(due) - len(fired)
    return sorted(late), wrong


def other_lateness(store: SqliteStore, due: dict[str, int]) -> int:
    """Return the most that the other sweep was late."""
    ref = Ref(shard_of("exe_tasks"), "exe_tasks")
    with store.read() as reads:
        page = {"shard": ref.shard, "execution": ref.execution, "after": 0, "limit": 1_000_000}
        lost = [row for row in reads.rows("events_after", **page) if row["kind"] == "attempt_lost"]
    return max((row["at_ms"] - due[row["address"]] for row in lost), default=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timers", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=10, help="timers of one execution")
    parser.add_argument("--window", type=float, default=20.0, help="seconds within which they are due")
    parser.add_argument("--leases", type=int, default=50, help="leases that run out meanwhile")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_sqlite(Path(folder) / "timers.db", clock=SystemClock(), random=SystemRandom())
        try:
            return measure(store, given.timers, given.each, given.window, given.leases)
        finally:
            store.close()


def measure(store: SqliteStore, timers: int, each: int, window: float, leases: int) -> int:
    clock = SystemClock()
    window_ms = round(window * 1000)
    first_ms = clock.wall_ms() + timers * 1000 // SETUP_PER_SECOND + 1_000
    begun = time.perf_counter()
    ids = set_timers(store, timers, each, lambda n: max(first_ms + n * window_ms // timers - clock.wall_ms(), 0))
    setup = time.perf_counter() - begun
    time.sleep(max(first_ms - clock.wall_ms(), 0) / 1000)
    leased = lease_tasks(store, leases, window_ms)
    took = asyncio.run(sweep(store, timers, window + 300))
    late, wrong = lateness(store, ids)
    other = other_lateness(store, leased)
    print(f"{len(late):,} timers due within {window:g} s (set in {setup:.1f} s) fired in {took:.1f} s")
    print(f"{len(late) / took:,.0f} timers/s; fired another number of times than once: {wrong}; early: {late[0] < 0}")
    middle, most = late[len(late) // 2], late[len(late) * 99 // 100]
    print(f"late by the store's clock: median {middle} ms, 99 of 100 {most} ms, most {late[-1]} ms")
    print(f"the sweep of leases meanwhile: at most {other} ms late over {leases}")
    return 1 if wrong or late[0] < 0 else 0


if __name__ == "__main__":
    sys.exit(main())
