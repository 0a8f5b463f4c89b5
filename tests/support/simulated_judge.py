"""What a simulated world is judged by: the store's rows, read with plain SQL, what the outside counted, what the
client was told. Shares no code with the engine; the rules are those of `perdure.testing.checker`, and some more.

The simulation knows when each commit really was, whatever the store's clock said: histories are judged in that time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure.testing.checker import Expect, check
from perdure.testing.evidence import ClientLine, Entry, Event, History
from simulated_agents import FUNCTIONS, Outside
from simulated_client import Notebook

TERMINAL = frozenset({"completed", "failed", "cancelled"})
LEFT = {
    "ready": "it may be claimed",
    "owned": "it is owned",
    "timers": "a timer is set",
}
"""Rows that an execution which has ended must not have."""
_ROWS = "SELECT seq, kind, address, {digest}, data, at_ms, hash FROM {table} WHERE execution = ? ORDER BY seq"
ENDED_TASKS = frozenset({"done", "dead"})


@dataclass(frozen=True, slots=True)
class Log:
    """An execution as its rows have it."""

    history: History
    agent: str
    head: str
    links: tuple[tuple[Any, ...], ...]
    """seq, kind, address, digest, data, at_ms, hash; the evidence after the log included."""
    tasks: Mapping[str, str]
    """State by address."""
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a seed."""

    violations: tuple[str, ...]
    fingerprint: str
    executions: int = 0
    steps: int = 0
    effects: int = 0
    uncertain: int = 0
    model_calls: int = 0
    twice: int = 0
    """Model calls that may have been paid twice."""
    takeovers: int = 0
    mishaps: int = 0
    requests: int = 0
    problems: tuple[str, ...] = field(default=())

    def with_mishaps(self, mishaps: int, requests: int) -> Verdict:
        return replace(self, mishaps=mishaps, requests=requests)


def read_logs(file: Path) -> list[Log]:
    """Read every execution of a store, without the product."""
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    try:
        rows = database.execute("SELECT id, agent, state, chain FROM executions ORDER BY id").fetchall()
        return [_log(database, row) for row in rows]
    finally:
        database.close()


def _log(database: sqlite3.Connection, row: sqlite3.Row) -> Log:
    key = (row["id"],)
    columns = "seq, kind, address, digest, data, at_ms, hash"
    links = [
        tuple(one) for one in database.execute(f"SELECT {columns} FROM events WHERE execution = ? ORDER BY seq", key)
    ]
    columns = columns.replace("digest", "'' AS digest")
    later = [
        tuple(one) for one in database.execute(f"SELECT {columns} FROM evidence WHERE execution = ? ORDER BY seq", key)
    ]
    events = tuple(Event(seq, kind, address, json.loads(data), at) for seq, kind, address, _, data, at, _ in links)
    tasks = dict(database.execute("SELECT address, state FROM tasks WHERE execution = ?", key).fetchall())
    left = tuple(
        table for table in LEFT if database.execute(f"SELECT 1 FROM {table} WHERE execution = ?", key).fetchone()
    )
    history = History(row["id"], row["state"], events)
    return Log(history, row["agent"], row["chain"], (*links, *later), tasks, left)


def judge(
    logs: list[Log], outside: Outside, book: Notebook, moments: Mapping[int, int], *, ended: bool, late: bool
) -> Verdict:
    """Judge. `late`: attempts that were given up may have acted afterwards, as processes stopped or were cut off."""
    histories = [_in_world_time(log.history, moments) for log in logs]
    lines = [line for line in book.lines if line.op != "rule"]
    functions = {log.history.id for log in logs if log.agent in {one.__name__ for one in FUNCTIONS}}
    entries = [_at_its_record(entry) if entry.execution in functions else entry for entry in outside.entries]
    # A step that may run again leaves no trace before its record: its execution, cancelled meanwhile, knows nothing.
    cancelled = {one.id: {event.address for event in one.events} for one in histories if one.state == "cancelled"}
    entries = [
        entry
        for entry in entries
        if entry.execution not in functions or entry.step in cancelled.get(entry.execution, {entry.step})
    ]
    report = check(entries, lines, histories, Expect(late_attempts=late))
    accepted = {line.call for line in book.lines if line.type == "ok"}
    rulings = [one for one in book.lines if one.op == "rule" and one.type == "invoke" and one.call in accepted]
    found = [str(one) for one in report.violations]
    if not ended:
        found.append("P9/I12 the client did not see the end of all it started")
    for log in logs:
        found += _chained(log)
        found += _nothing_left(log)
        found += _rulings_kept(log, rulings)
    found += _keys_stay(outside)
    found += [f"P8/I1 the client was refused: {one}" for one in book.refusals]
    kinds = Counter(event.kind for log in logs for event in log.history.events)
    summary = report.summary()
    return Verdict(
        tuple(found), _fingerprint(logs, outside), len(logs), kinds["step_recorded"] + kinds["task_completed"],
        summary.effects, kinds["task_uncertain"], summary.model_calls_made, summary.model_calls_maybe_paid_twice,
        kinds["taken_over"],
    )  # fmt: skip


def _in_world_time(history: History, moments: Mapping[int, int]) -> History:
    """Return a history with the moments at which its events were really committed."""
    known = sorted(moments)

    def world(at_ms: int) -> int:
        place = bisect_right(known, at_ms)
        return moments[known[place - 1]] if place else 0

    due = {event.address: int(event.data["due_ms"]) for event in history.events if event.kind == "timer_set"}
    late = {event.address: event.at_ms for event in history.events if event.kind == "timer_fired"}
    events: list[Event] = []
    for event in history.events:
        data = event.data
        if event.kind == "timer_set" and event.address in late:
            # Whether it fired early is judged by the store's clock, as it was set by.
            data = {**data, "due_ms": world(late[event.address]) - (late[event.address] - due[event.address])}
        events.append(replace(event, at_ms=world(event.at_ms), data=data))
    return replace(history, events=tuple(events))


def _chained(log: Log) -> Iterator[str]:
    """Each row's hash covers it and all before it."""
    head = ""
    for seq, kind, address, digest, data, at_ms, found in log.links:
        text = "\0".join([head, log.history.id, str(seq), kind, address, digest, str(at_ms), data])
        head = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        if head != found:
            yield f"P8/I2 {log.history.id}: the chain is broken at seq {seq}"
            return
    if head != log.head:
        yield f"P8/I2 {log.history.id}: the chain ends in another hash than the execution's"


def _nothing_left(log: Log) -> Iterator[str]:
    """An execution that has ended waits for nobody, and all of its tasks have ended, unless it was ended in doubt."""
    if log.history.state not in TERMINAL:
        return
    ended_by_somebody = any(event.kind in ("cancel_requested", "stop_requested") for event in log.history.events)
    for table in log.left:
        yield f"P1/I9 {log.history.id}: {log.history.state}, and {LEFT[table]}"
    for address, state in log.tasks.items():
        if state not in ENDED_TASKS and not (state == "uncertain" and ended_by_somebody):
            yield f"P1/I9 {log.history.id}: {log.history.state}, and {address} is {state}"


def _at_its_record(call: Entry) -> Entry:
    """Return a call of a durable function's step under the address at which its attempt is recorded."""
    if (call.attempt or 1) == 1 or call.step is None:
        return call
    head, slash, last = call.step.rpartition("/")
    suffix = f":try-{call.attempt}"
    # Its key is that of the first attempt, which a step of its own would not have.
    return replace(call, step=f"{head}{suffix}{slash}{last}" if last.isdigit() else call.step + suffix, key=None)


def _keys_stay(outside: Outside) -> Iterator[str]:
    """Every attempt at a step carries the same key."""
    keys: dict[tuple[str | None, str | None], set[str | None]] = {}
    for entry in outside.entries:
        keys.setdefault((entry.execution, entry.step), set()).add(entry.key)
    yield from (f"P2/I5 {step}: it was done under {len(used)} keys" for step, used in keys.items() if len(used) > 1)


def _rulings_kept(log: Log, asked: list[ClientLine]) -> Iterator[str]:
    """An accepted ruling stands in the log, or, where the execution had ended before, in the evidence after it."""
    said = {
        (address, json.loads(data).get("ruling"))
        for _, kind, address, _, data, _, _ in log.links
        if kind == "effect_ruled"
    }
    for line in asked:
        if line.execution == log.history.id and (line.value["address"], line.value["ruling"]) not in said:
            yield f"P9/I7 {log.history.id}: accepted ruling on {line.value['address']} is nowhere"


def _fingerprint(logs: list[Log], outside: Outside) -> str:
    text = hashlib.blake2b(digest_size=8)
    for log in logs:
        text.update(repr((log.history.id, log.history.state, log.links, sorted(log.tasks.items()))).encode())
    for entry in outside.entries:
        text.update(repr((entry.received_at_ms, entry.name, entry.execution, entry.step, entry.attempt)).encode())
    return text.hexdigest()
