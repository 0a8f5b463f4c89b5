"""Begin executions by the calendar: each tick once, across restarts, servers and clocks that are set back.

A tick is a start with the key (schedule, tick), in the transaction that moves the schedule on to its next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.ids import id_of, shard_of
from perdure.core.schedules import MOST_MADE_UP, ScheduleView
from perdure.core.views import Started
from perdure.engine.calendar import latest_ticks, next_tick
from perdure.engine.due import Pick, Sweep, due
from perdure.engine.start import Start, create
from perdure.engine.stored import value_of
from perdure.engine.tags import tags_in, told
from perdure.errors import Conflict, InternalError, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

TICKING = Pick("schedules_due")
LATE_MS = 60_000
"""A tick counts as missed when nobody was there within this time of it."""
AT_ONCE = 10
"""Ticks of one schedule that are made up for in one pass, so that others have their turn."""
NEVER_MS = 2**62
"""Next tick of a schedule that has none."""
LIST_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class MakeSchedule:
    """A schedule to be made, checked by the caller."""

    company: str
    name: str
    agent: str
    definition: str
    spec: str
    lane: str
    input: str
    """JSON text."""
    cron: str
    zone: str
    missed: str
    by: str
    tags: tuple[str, ...] = ()
    overlap: str = "allow"

    @property
    def size(self) -> int:
        return len(self.input) + len(self.spec)


@dataclass(frozen=True, slots=True)
class ChangeSchedule:
    """Pause it, let it go on, take it away, or begin what it begins now."""

    company: str
    name: str
    verb: Literal["pause", "resume", "delete", "trigger"]
    nonce: str = ""
    """Of a `trigger`: the same again begins nothing more."""


def _make_keys(row: MakeSchedule) -> tuple[str, ...]:
    return (f"schedule/{row.company}/{row.name}",)


def _change_keys(row: ChangeSchedule) -> tuple[str, ...]:
    return (f"schedule/{row.company}/{row.name}",)


@operation(keys=_make_keys)
def make_schedule(tx: Tx, rows: Sequence[MakeSchedule]) -> Steps[Conflict | None]:
    """Make it, from its next tick on. The same one again changes nothing; another of that name is a `Conflict`."""
    yield ()
    return [_make(tx, row) for row in rows]


def _make(tx: Tx, row: MakeSchedule) -> Conflict | None:
    what = {
        "agent": row.agent,
        "definition": row.definition,
        "lane": row.lane,
        "input": row.input,
        "cron": row.cron,
        "zone": row.zone,
        "missed": row.missed,
        "tags": told(row.tags),
        "overlap": row.overlap,
    }
    scope = {"company": row.company, "name": row.name}
    next_ms = next_tick(row.cron, row.zone, tx.now_ms)
    made = {"next_ms": NEVER_MS if next_ms is None else next_ms, "by": row.by, "now_ms": tx.now_ms}
    _keep_definition(tx, row.company, row.definition, row.agent, row.spec)
    if tx.run("insert_schedule", **scope, **what, **made):
        return None
    known = tx.row("schedule", **scope)
    if known is not None and all(known[name] == value for name, value in what.items()):
        return None
    return Conflict(
        f"there is another schedule {row.name!r} already. `perdure schedules delete {row.name}` takes it away; what it "
        "began goes on.",
        code="schedule_exists",
    )


def _keep_definition(tx: Tx, company: str, digest: str, agent: str, spec: str) -> None:
    tx.run("insert_definition", company=company, digest=digest, agent=agent, spec=spec, now_ms=tx.now_ms)


@operation(keys=_change_keys)
def change_schedule(tx: Tx, rows: Sequence[ChangeSchedule]) -> Steps[Started | NotFound | Conflict | None]:
    """Apply the changes. Ticks of a time in which it was paused are not missed: there were none.

    What is to be deleted and is not there is deleted: a run whose answer was lost may have done it. Who wants to know
    looks before (`known_schedule`).
    """
    yield ()
    return [_change(tx, row) for row in rows]


def _change(tx: Tx, row: ChangeSchedule) -> Started | NotFound | Conflict | None:
    scope = {"company": row.company, "name": row.name}
    found = tx.row("schedule", **scope)
    if found is None:
        return None if row.verb == "delete" else _no_schedule(row.name)
    match row.verb:
        case "pause":
            tx.run("pause_schedule", **scope, paused=1, next_ms=found["next_ms"])
        case "resume":
            if found["paused"]:
                next_ms = next_tick(found["cron"], found["zone"], tx.now_ms)
                tx.run("pause_schedule", **scope, paused=0, next_ms=NEVER_MS if next_ms is None else next_ms)
        case "delete":
            tx.run("delete_schedule", **scope)
        case "trigger":
            begun = _begin(tx, found, tx.now_ms, f"now {row.nonce}")
            return begun if isinstance(begun, Started) else _busy(row.name, begun)
        case _:
            assert_never(row.verb)
    return None


def _busy(name: str, last: str) -> Conflict:
    return Conflict(
        f"schedule {name!r} begins nothing beside what it began last, and {last} has not ended. `perdure executions "
        f"show {last}` says where it stands.",
        code="schedule_busy",
        execution=last,
    )


@operation()
def fire_schedules(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Begin what is due, each tick once, and go on to the next; ticks that were missed, and those for which another has
    not ended, by the schedule's own rules."""
    found = due(tx, rows, TICKING)
    yield ()
    for one in found:
        ticks, next_ms = _due_ticks(one, tx.now_ms)
        scope = {"company": one["company"], "name": one["name"]}
        moved = {"seen_ms": one["next_ms"], "created_ms": one["created_ms"], "next_ms": next_ms}
        # Another server may have been here: its row lock is waited for, and then nothing qualifies any more.
        if tx.run("advance_schedule", **scope, **moved):
            for tick in ticks:
                _tick(tx, one, tick)
    return [len(found)] + [0] * (len(rows) - 1)


def _due_ticks(schedule: Row, now_ms: int) -> tuple[list[int], int]:
    """Return the ticks to begin now, in order, and when to look again."""
    cron, zone, missed = schedule["cron"], schedule["zone"], schedule["missed"]
    ticks = latest_ticks(cron, zone, schedule["next_ms"], now_ms, MOST_MADE_UP)
    match missed:
        case "skip":
            ticks = [tick for tick in ticks if tick >= now_ms - LATE_MS]
        case "one":
            ticks = ticks[-1:]
        case "all":
            if len(ticks) > AT_ONCE:
                return ticks[:AT_ONCE], ticks[AT_ONCE]
        case _:
            raise InternalError(f"schedule {schedule['name']!r} has an unknown rule for missed ticks: {missed!r}")
    following = next_tick(cron, zone, now_ms)
    return ticks, NEVER_MS if following is None else following


def _tick(tx: Tx, schedule: Row, tick_ms: int) -> None:
    """Begin one tick, or note that it was left out."""
    if not isinstance(_begin(tx, schedule, tick_ms, str(tick_ms)), Started):
        tx.run("note_skipped", company=schedule["company"], name=schedule["name"], tick_ms=tick_ms)


def _begin(tx: Tx, schedule: Row, tick_ms: int, tick: str) -> Started | str:
    """Begin one tick, unless it was begun before: under its key, and under an id that is always the same.

    Returns the id of what keeps it from that, where the schedule begins nothing beside what it began last.
    """
    company, name = schedule["company"], schedule["name"]
    _input_of(schedule)  # what cannot be read begins nothing
    start_key = f"schedule {name} {tick}"
    chance = hashlib.sha256(f"{company}\0{schedule['agent']}\0{start_key}".encode()).digest()[:10]
    start = Start(
        id=id_of("exe", tick_ms, chance),
        company=company,
        agent=schedule["agent"],
        definition=schedule["definition"],
        spec="",
        input=schedule["input"],
        start_key=start_key,
        lane=schedule["lane"],
        tags=tags_in(schedule["tags"]),
    )
    key = {"company": company, "agent": start.agent, "start_key": start_key}
    if schedule["overlap"] == "skip" and tx.row("start_key", **key) is None and (last := _goes_on(tx, schedule)):
        return last
    if not tx.run("insert_start_key", **key, execution=start.id, digest=start.digest, now_ms=tx.now_ms):
        known = tx.row("start_key", **key)
        return Started(start.id if known is None else known["execution"], created=False)
    create(tx, start)
    tx.run("note_tick", company=company, name=name, tick_ms=tick_ms, execution=start.id)
    return Started(start.id, created=True)


def _goes_on(tx: Tx, schedule: Row) -> str | None:
    """Return what a schedule began last, if that has not ended.

    Its row is locked from here on: whoever begins something for it at another server did so before, or waits.
    """
    held = tx.row("hold_schedule", company=schedule["company"], name=schedule["name"])
    last = None if held is None else held["last_execution"]
    if last is None:
        return None
    if (known := tx.execution(last)) is not None:  # with what this transaction did to it
        return None if known.ended else last
    row = tx.row("execution_state", shard=shard_of(last), id=last, company=schedule["company"])
    return None if row is None or row["state"] in states.TERMINAL else last


def schedules_view(reads: Reads, company: str) -> list[ScheduleView]:
    """Return a company's schedules by name."""
    return [_view(row) for row in reads.rows("list_schedules", company=company, limit=LIST_LIMIT)]


def schedule_view(reads: Reads, company: str, name: str) -> ScheduleView:
    """Return one schedule. Raises `NotFound`."""
    return _view(known_schedule(reads, company, name))


def known_schedule(reads: Reads, company: str, name: str) -> Row:
    """Return one as it is stored, though it be damaged. Raises `NotFound`."""
    row = reads.row("schedule", company=company, name=name)
    if row is None:
        raise _no_schedule(name)
    return row


def _no_schedule(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r}. `perdure schedules list` shows yours.")


def _input_of(schedule: Row) -> Json:
    return value_of(schedule["input"], f"the input of schedule {schedule['name']!r}")


def _view(row: Row) -> ScheduleView:
    waits = not row["paused"] and row["next_ms"] < NEVER_MS
    return ScheduleView(
        name=row["name"],
        agent=row["agent"],
        cron=row["cron"],
        zone=row["zone"],
        missed=row["missed"],
        input=_input_of(row),
        paused=bool(row["paused"]),
        next_ms=row["next_ms"] if waits else None,
        last_tick_ms=row["last_tick_ms"],
        last_execution=row["last_execution"],
        created_by=row["created_by"],
        created_ms=row["created_ms"],
        tags=tags_in(row["tags"]),
        overlap=row["overlap"],
        skipped=row["skipped"],
        last_skipped_ms=row["skipped_ms"],
    )
