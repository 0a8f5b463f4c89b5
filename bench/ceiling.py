"""Write the rows of ten-step executions as fast as a store takes them: the ceiling for steps.py and compare.py.

The same tables, statements, rows and durability as the engine's, in waves of N executions and one commit per wave and
operation, by one thread that does nothing else: no event loop, no agent, no checks, no answers to anybody. Of an agent,
or of a durable function; on a SQLite file, or in an empty PostgreSQL database. Over HTTP: `ceiling_http.py`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.core import codec, states
from perdure.core.ids import new_id, shard_of
from perdure.store.protocol import Connection, Store
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom

TURNS = 5
"""Model steps with one tool step each; a sixth model step ends the execution."""
REPLY = {"value": {"outcome": "replied", "reply": {"text": "m" * 1000}, "requests": 1, "failures": []}}
VALUES = ({"value": "m" * 1024}, {"value": "t" * 512})
"""What the steps of a durable function record, in turn."""
RESULT = {"attempt": 1, "worker": "wrk", "started_ms": 0, "value": "t" * 500}
SCHEDULED = {"tool": "look", "args": {"n": 1}, "queue": "default", "delivery": "at_least_once", "key": "k" * 40}


@dataclass
class Execution:
    """One execution of a wave."""

    row: dict[str, Any]

    def event(self, now_ms: int, kind: str, address: str, data: str) -> dict[str, Any]:
        """Return the next event and count it."""
        seq = self.row["next_seq"]
        self.row["next_seq"] = seq + 1
        place = {"shard": self.row["shard"], "execution": self.row["id"], "seq": seq, "at_ms": now_ms}
        return {**place, "kind": kind, "address": address, "digest": "d" * 24, "data": data, "hash": "c" * 32}


def wave(store: Store, size: int) -> int:
    """Write `size` executions from start to end; return how many steps that was."""
    clock, random = SystemClock(), SystemRandom()
    executions = [Execution(_row(new_id("exe", clock, random))) for _ in range(size)]
    reply, result, scheduled = codec.encode(REPLY), codec.encode(RESULT), codec.encode(SCHEDULED)
    with store.write() as db:
        _start(db, executions)
    with store.write() as db:
        _claim(db, executions)
    for turn in range(TURNS):
        address = f"turn {turn}/tool/call"
        with store.write() as db:
            _append(db, executions, "step_recorded", f"turn {turn}/model", reply)
        with store.write() as db:
            _append(db, executions, "task_scheduled", address, scheduled)
            db.many("insert_task", [_task(one, address, db.now_ms) for one in executions])
        with store.write() as db:
            db.each("lease_task", [_lease(one, address, db.now_ms) for one in executions])
        with store.write() as db:
            _append(db, executions, "task_completed", address, result)
            db.many("set_task", [_done(one, address, db.now_ms) for one in executions])
    with store.write() as db:
        _append(db, executions, "step_recorded", "turn 6/model", reply)
    with store.write() as db:
        _finish(db, executions)
    return size * TURNS * 2


def function_wave(store: Store, size: int) -> int:
    """As `wave`, of a durable function whose ten steps run where it does."""
    executions = function_begun(store, size)
    values = [codec.encode(value) for value in VALUES]
    for number in range(TURNS * 2):
        function_step(store, executions, number, [values[number % 2]] * size)
    function_ended(store, executions)
    return size * TURNS * 2


def function_begun(store: Store, size: int) -> list[Execution]:
    """Start executions of a durable function, and claim them."""
    clock, random = SystemClock(), SystemRandom()
    executions = [Execution(_row(new_id("exe", clock, random), lane="w1")) for _ in range(size)]
    with store.write() as db:
        _start(db, executions)
    with store.write() as db:
        _claim(db, executions)
    return executions


def function_step(store: Store, executions: list[Execution], number: int, values: Sequence[str]) -> None:
    """Record a step of each, in one commit."""
    with store.write() as db:
        _append(db, executions, "step_recorded", f"step/{number}", values)


def function_ended(store: Store, executions: list[Execution]) -> None:
    """Complete them all, in one commit."""
    with store.write() as db:
        _finish(db, executions)


WAVES: dict[str, Callable[[Store, int], int]] = {"agent": wave, "function": function_wave}


def _finish(db: Connection, executions: list[Execution]) -> None:
    _append(db, executions, "completed", "", codec.encode({"output": {"result": "done"}}))
    for one in executions:
        one.row.update(state=states.Execution.COMPLETED, ownership=states.Ownership.PARKED, finished_ms=db.now_ms)
    db.many("update_execution", [one.row for one in executions])
    db.many("delete_owned", [_place(one) for one in executions])
    db.many("delete_ready", [_place(one) for one in executions])


def _row(execution: str, lane: str = "") -> dict[str, Any]:
    return {
        "shard": shard_of(execution),
        "id": execution,
        "company": "default",
        "agent": "w1",
        "definition": "d" * 24,
        "state": states.Execution.READY,
        "reason": None,
        "ownership": states.Ownership.READY,
        "fence": 0,
        "next_seq": 1,
        "log_format": 1,
        "active_ms": 0,
        "created_ms": 1,
        "updated_ms": 1,
        "finished_ms": None,
        "chain": "c" * 32,
        "lane": lane,
        "build": lane and "b" * 12,
        "cancel_seq": None,
        "origin": "",
        "kept_by": "",
        "priority": 0,
        "limit_key": "",
    }


def _start(db: Connection, executions: list[Execution]) -> None:
    started = codec.encode({"agent": "w1", "definition": "d" * 24, "input": "p" * 100})
    db.many("insert_execution", [one.row for one in executions])
    db.many("insert_event", [one.event(db.now_ms, "started", "", started) for one in executions])
    rest = {"company": "default", "kept_by": "", "since_ms": db.now_ms, "ahead_ms": 0, "abandoned": 0}
    db.many("insert_ready", [{**_place(one), "lane": one.row["lane"], **rest} for one in executions])


def _claim(db: Connection, executions: list[Execution]) -> None:
    lease = {
        "company": "default",
        "holder": "srv",
        "fence": 1,
        "nonce": "",
        "since_ms": db.now_ms,
        "lease_until_ms": db.now_ms + 30_000,
    }
    for one in executions:
        one.row.update(fence=1, state=states.Execution.RUNNING, ownership=states.Ownership.OWNED)
    db.many("delete_ready", [_place(one) for one in executions])
    db.many("insert_owned", [{**_place(one), **lease} for one in executions])
    db.many("update_execution", [one.row for one in executions])


def _place(one: Execution) -> dict[str, Any]:
    return {"shard": one.row["shard"], "execution": one.row["id"]}


def _append(db: Connection, executions: list[Execution], kind: str, address: str, data: str | Sequence[str]) -> None:
    """`data`: of all of them, or of each."""
    each = [data] * len(executions) if isinstance(data, str) else data
    said = zip(executions, each, strict=True)
    db.many("insert_event", [one.event(db.now_ms, kind, address, own) for one, own in said])
    db.many("advance_execution", [one.row for one in executions])


def _task(one: Execution, address: str, now_ms: int) -> dict[str, Any]:
    return {
        "shard": one.row["shard"],
        "execution": one.row["id"],
        "address": address,
        "company": "default",
        "agent": "w1",
        "tool": "look",
        "queue": "default",
        "state": states.Task.READY,
        "delivery": "at_least_once",
        "max_attempts": 3,
        "pause_ms": 2000,
        "rules": "{}",
        "digest": "d" * 24,
        "intent": None,
        "timeout_ms": 0,
        "scheduled_seq": one.row["next_seq"] - 1,
        "approval": None,
        "ahead_ms": 0,
        "limit_key": "",
        "now_ms": now_ms,
    }


def _lease(one: Execution, address: str, now_ms: int) -> dict[str, Any]:
    place = {**_place(one), "address": address, "fence": 0}
    lease = {"lease_ms": 30_000, "lease_until_ms": now_ms + 30_000, "now_ms": now_ms}
    return {**place, **lease, "worker": "wrk", "nonce": "n" * 32, "raised": 1, "limited": 0, "state": states.Task.READY}


def _done(one: Execution, address: str, now_ms: int) -> dict[str, Any]:
    place = {**_place(one), "address": address}
    return {
        **place,
        "state": states.Task.DONE,
        "run_at_ms": 1,
        "worker": "wrk",
        "attempt": 1,
        "doubt": 0,
        "now_ms": now_ms,
    }


def measure(folder: Path, size: int, seconds: float, of: str = "agent", database: str = "") -> float:
    """Return steps per second."""
    store = opened(folder, database)
    try:
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            steps += WAVES[of](store, size)
        return steps / (time.perf_counter() - began)
    finally:
        store.close()


def opened(folder: Path, database: str) -> Store:
    """Return a new store, in a file or in an empty database."""
    if database:
        from perdure.store.postgres import open_postgres  # noqa: PLC0415 - psycopg is an extra

        return open_postgres(database, random=SystemRandom())
    return open_sqlite(folder / "ceiling.db", clock=SystemClock(), random=SystemRandom())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--of", choices=sorted(WAVES), default="agent", help="whose rows")
    parser.add_argument(
        "--store", metavar="DSN", default="", help="an empty PostgreSQL database; default: a SQLite file"
    )
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to write; default: a fresh one beside the code"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder or Path.cwd()) as folder:
        rate = measure(Path(folder), options.concurrency, options.seconds, options.of, options.store)
    where = "PostgreSQL" if options.store else "SQLite"
    print(f"ceiling, {options.of}, {where}, {options.concurrency} executions a wave: {rate:,.0f} durable steps/s")


if __name__ == "__main__":
    main()
