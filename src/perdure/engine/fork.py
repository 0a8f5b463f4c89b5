"""Fork an execution: a new one that begins with a prefix of another's log, edited, and goes on by itself.

What the origin did is not done again. A step that acts, past the prefix, takes the origin's result if it asks for the
same at the same address; else the fork is paused, for a person to say that it may act. A claim that was open in the
prefix is never armed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.events import ANY_DIGEST, Event, Kind
from perdure.core.ids import shard_of
from perdure.core.items import ScheduleTask
from perdure.core.views import ForkEdits, Started
from perdure.engine.query import events_of
from perdure.engine.wake import put_ready
from perdure.errors import Conflict, InvalidInput, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Fork:
    """A wish to fork. The id comes from the caller, so that it can be asked twice and makes one execution."""

    id: str
    company: str
    origin: str
    at: int
    """The last `seq` of the origin's log that the fork has too."""
    edits: ForkEdits
    by: str
    spec: str = ""
    """The edited definition as JSON text, and its fingerprint; empty: the origin's."""
    definition: str = ""


@dataclass(slots=True)
class _Prefix:
    """What the fork takes over, and what of it is open."""

    events: list[Event]
    scheduled: dict[str, Event]
    answered: dict[str, Event]
    begun: set[str]
    timers: dict[str, Event]


_LEFT_OUT = frozenset({Kind.TAKEN_OVER, Kind.PAUSED, Kind.RESUMED, Kind.STUCK})
"""What happened to the origin's run, not to its work."""
_ENDS = frozenset({Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED, Kind.CANCEL_REQUESTED})
_ANSWERS = frozenset({Kind.TASK_COMPLETED, Kind.TASK_FAILED})
_STATE = {Kind.TASK_COMPLETED: states.Task.DONE, Kind.TASK_FAILED: states.Task.DEAD}


@operation()
def fork(tx: Tx, rows: Sequence[Fork]) -> Steps[Started | NotFound | Conflict | InvalidInput]:
    """Make the forks and put them on the ready list. The origins are only read."""
    yield [Ref(shard_of(one), one) for row in rows for one in (row.id, row.origin)]
    return [_fork(tx, row) for row in rows]


def _fork(tx: Tx, row: Fork) -> Started | NotFound | Conflict | InvalidInput:
    origin = tx.execution(row.origin)
    if origin is None or origin.company != row.company:
        return NotFound(f"there is no execution {row.origin}. `perdure executions list` shows yours.")
    if tx.execution(row.id) is not None:  # made before, and the answer was lost
        return Started(row.id, created=True)
    if origin.lane:
        return Conflict(
            f"execution {row.origin} is of the durable function {origin.lane}: its steps act in the worker, so a fork "
            "of it could act again. Only executions of agents can be forked.",
            code="not_forkable",
        )
    log = _log(tx, origin)
    prefix = _read(log, row.at)
    if (refused := _refusal(row, log, prefix)) is not None:
        return refused
    made = _create(tx, row, origin)
    _copy(tx, row, made, prefix)
    _keep_tasks(tx, row, made, prefix, log)
    put_ready(tx, made)
    return Started(made.id, created=True)


def _log(tx: Tx, row: ExecutionRow) -> list[Event]:
    stored = tx.rows("events_after", shard=row.shard, execution=row.id, after=0, limit=row.next_seq)
    return events_of([*stored, *tx.appended(row.id, len(stored))])


def _read(log: list[Event], at: int) -> _Prefix:
    prefix = _Prefix([], {}, {}, set(), {})
    for event in log[:at]:
        if event.kind in _LEFT_OUT:
            continue
        prefix.events.append(event)
        match event.kind:
            case Kind.TASK_SCHEDULED:
                prefix.scheduled[event.address] = event
            case Kind.TASK_COMPLETED | Kind.TASK_FAILED:
                prefix.answered[event.address] = event
            case Kind.TASK_BEGUN:
                prefix.begun.add(event.address)
            case Kind.TIMER_SET:
                prefix.timers[event.address] = event
            case Kind.TIMER_FIRED:
                prefix.timers.pop(event.address, None)
            case _:
                pass
    return prefix


def _refusal(row: Fork, log: list[Event], prefix: _Prefix) -> Conflict | InvalidInput | None:
    """Return why there can be no fork at this place with these edits."""
    if not 1 <= row.at <= len(log):
        return InvalidInput(f"at is {row.at}; the log of {row.origin} goes from 1 to {len(log)}.", fields=["at"])
    ended = next((event for event in prefix.events if event.kind in _ENDS), None)
    if ended is not None:
        return Conflict(
            f"at seq {ended.seq} execution {row.origin} was {ended.kind.replace('_', ' ')}: fork it before, at "
            f"{ended.seq - 1} or earlier.",
            code="not_forkable",
        )
    first = _first_open_wait(prefix)
    if first is not None:
        return Conflict(
            f"at seq {row.at} execution {row.origin} still needs what it asked for at seq {first.seq} "
            f"({first.data.get('kind', first.kind)} at {first.address!r}), which is the origin's alone: fork it at "
            f"{first.seq - 1} or earlier, and the fork asks for its own.",
            code="not_forkable",
        )
    unknown = sorted(row.edits.results.keys() - prefix.answered.keys())
    if unknown:
        return InvalidInput(
            f"there is no result of {unknown[0]!r} up to seq {row.at}; those there are: "
            f"{', '.join(sorted(prefix.answered)) or 'none'}.",
            fields=["results"],
        )
    return None


def _first_open_wait(prefix: _Prefix) -> Event | None:
    """Return the first wait whose answer, or whose use, lies past the prefix: an approval, a token, a child."""
    open_: dict[str, Event] = {}
    for event in prefix.events:
        match event.kind:
            case Kind.WAIT_OPENED if event.data.get("kind") != "signal":
                open_[event.address] = event
            case Kind.CHILD_STARTED:
                open_[event.address] = event
            case Kind.CHILD_ENDED:
                open_.pop(event.address, None)
            case Kind.WAIT_RESOLVED if _is_over(event):
                open_.pop(event.address, None)
            case Kind.TASK_SCHEDULED:
                open_.pop(str(event.data.get("approval")), None)
            case _:
                pass
    return next(iter(open_.values()), None)


def _is_over(event: Event) -> bool:
    """Whether nothing is left to be done with an answer: a yes to a call is used by the call."""
    return event.data.get("decision") not in ("approve", "edit")


def _create(tx: Tx, row: Fork, origin: ExecutionRow) -> ExecutionRow:
    made = ExecutionRow(
        shard=shard_of(row.id),
        id=row.id,
        company=row.company,
        agent=origin.agent,
        definition=row.definition or origin.definition,
        state=states.Execution.READY,
        reason=None,
        ownership=states.Ownership.READY,
        fence=0,
        next_seq=1,
        log_format=origin.log_format,
        active_ms=0,
        created_ms=tx.now_ms,
        updated_ms=tx.now_ms,
        finished_ms=None,
        origin=origin.id,
    )
    tx.create(made)
    tx.run("insert_origin", shard=made.shard, execution=made.id, origin=origin.id, origin_seq=row.at)
    if row.spec:
        tx.run(
            "insert_definition",
            company=row.company,
            digest=row.definition,
            agent=origin.agent,
            spec=row.spec,
            now_ms=tx.now_ms,
        )
    return made


def _copy(tx: Tx, row: Fork, made: ExecutionRow, prefix: _Prefix) -> None:
    """Append the prefix with the edits. A model's reply that stands behind an edit was to other words than a run of
    the fork asks with: its fingerprint then matches any."""
    edited = bool(row.definition) or row.edits.prompt is not None
    for event in prefix.events:
        data: dict[str, Any] = event.data
        if event.kind is Kind.STARTED:
            changed = {} if row.edits.prompt is None else {"input": row.edits.prompt}
            data = {**data, **changed, "definition": made.definition}
        elif event.kind in _ANSWERS and event.address in row.edits.results:
            edited = True
            facts = {name: fact for name, fact in data.items() if name not in ("error", "code", "value")}
            data = {**facts, "value": row.edits.results[event.address]}
        recorded = event.kind is Kind.STEP_RECORDED
        digest = ANY_DIGEST if recorded and edited else event.digest
        kind = Kind.TASK_COMPLETED if event.address in row.edits.results and event.kind in _ANSWERS else event.kind
        tx.append(made, kind, event.address, digest, data)
    for event in prefix.timers.values():
        tx.run("insert_timer", shard=made.shard, execution=made.id, address=event.address, due_ms=event.data["due_ms"])
    facts = {"origin": row.origin, "seq": row.at, "edits": row.edits.told(), "by": row.by}
    tx.append(made, Kind.FORKED, data=facts)


def _keep_tasks(tx: Tx, row: Fork, made: ExecutionRow, prefix: _Prefix, log: list[Event]) -> None:
    """Give the prefix's calls their rows, and those that were open in it an end, or somebody who decides."""
    known = {task["address"]: task for task in tx.rows("tasks_of", shard=shard_of(row.origin), execution=row.origin)}
    later = {event.address: event for event in log[row.at :] if event.kind in _ANSWERS}
    seqs = {event["address"]: event["seq"] for event in tx.appended(made.id, 0) if event["kind"] == Kind.TASK_SCHEDULED}
    for address, scheduled in prefix.scheduled.items():
        answer = prefix.answered.get(address)
        if answer is None and (answer := later.get(address)) is not None:
            tx.append(made, answer.kind, address, data={**answer.data, "origin": row.origin})
        if answer is not None:
            state = states.Task.DONE if address in row.edits.results else _STATE[answer.kind]
        elif address in prefix.begun:
            state = states.Task.UNCERTAIN
            why = f"it was begun in {row.origin}, and nobody had said how it ended when it was forked"
            tx.append(made, Kind.TASK_UNCERTAIN, address, data={"why": why, "error": why, "attempt": 1, "worker": ""})
        else:
            state = states.Task.READY
            if scheduled.data["delivery"] != Delivery.REPEATABLE:
                hold(tx, made, scheduled.data["tool"], address)
        tx.run("insert_task", **_task(known[address], made, state, seqs[address], tx.now_ms))


def _task(known: Row, made: ExecutionRow, state: str, seq: int, now_ms: int) -> dict[str, Any]:
    same = "company agent tool queue delivery max_attempts pause_ms timeout_ms rules digest intent address".split()
    return {
        **{name: known[name] for name in same},
        "shard": made.shard,
        "execution": made.id,
        "state": state,
        "scheduled_seq": seq,
        "approval": None,
        "now_ms": now_ms,
    }


# Past the prefix.


@dataclass(frozen=True, slots=True)
class Told:
    """How a call of the origin ended, which the fork takes as its own."""

    kind: Kind
    data: Mapping[str, Json]

    @property
    def state(self) -> states.Task:
        return _STATE[self.kind]


def result_of_origin(tx: Tx, row: ExecutionRow, item: ScheduleTask) -> Told | None:
    """Return how the same call, at the same address with the same arguments, ended in the origin. None: not at all."""
    rows = tx.rows("events_at", shard=shard_of(row.origin), execution=row.origin, address=item.address)
    events = events_of(rows)
    same = any(event.kind is Kind.TASK_SCHEDULED and event.digest == item.digest for event in events)
    answer = next((event for event in events if event.kind in _ANSWERS), None)
    if not same or answer is None:
        return None
    return Told(answer.kind, {**answer.data, "origin": row.origin})


def hold(tx: Tx, row: ExecutionRow, tool: str, address: str) -> None:
    """Pause a fork that would act on the world by itself, for a person to say that it may."""
    if not row.may("pause"):
        return
    row.move("pause")
    row.reason = states.Reason.USER
    message = (
        f"this fork of {row.origin} is about to call {tool} at {address!r}, which the origin did not do, or did with "
        "other arguments. Resume it to have the call made, or cancel it."
    )
    tx.append(row, Kind.PAUSED, data={"reason": row.reason, "message": message, "by": "perdure"})
