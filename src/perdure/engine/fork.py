"""Fork an execution: a new one that begins with a prefix of another's log, edited, and goes on by itself.

What the origin did is not done again. What was open in the prefix takes what the origin heard of it later; of a claim
that nobody reported on, somebody rules, and it is never armed again. What a fork may do past it is in `forked.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.core import states
from perdure.core.delivery import Delivery
from perdure.core.events import ANY_DIGEST, ASKED, Event, Kind
from perdure.core.ids import shard_of
from perdure.core.ledger import TASK_KINDS
from perdure.core.rules import TaskRules
from perdure.core.tokens import TOKEN_ENDS
from perdure.core.views import ForkEdits, Started
from perdure.engine.forked import Told, as_simulation, ended, hold
from perdure.engine.query import events_of
from perdure.engine.tags import list_under, tags_in
from perdure.engine.task import rules_of
from perdure.engine.wake import put_ready
from perdure.errors import Conflict, InvalidInput, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import EVERY_COMPANY, Ref, Row
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

    @property
    def build(self) -> str:
        """Of the code that a durable function's fork goes on with; empty: the origin's."""
        return self.edits.build or ""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the prefix."""

    scheduled: Event
    last: Event
    """What is told of it last."""
    later: Told | None
    """What it came to in the origin, as far as is known by now."""

    @property
    def over(self) -> Told | None:
        """What it came to in the prefix itself."""
        return ended([self.last])

    @property
    def in_doubt(self) -> bool:
        """Whether it may have acted, and nobody said how that ended; a ruling to run it once more was the origin's."""
        return self.over is None and self.last.kind in (Kind.TASK_BEGUN, Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED)

    def simulated(self, rules: TaskRules) -> bool:
        """Whether what stands in for it is run, as it neither acted nor will."""
        acts = self.scheduled.data["delivery"] != Delivery.REPEATABLE
        return acts and rules.simulate and not (self.over or self.in_doubt or self.later)


@dataclass(slots=True)
class _Prefix:
    """What the fork takes over, and what of it is open."""

    events: list[Event]
    calls: dict[str, _Call]
    answered: dict[str, Event]
    """Results that may be edited: of calls, and of steps that a durable function ran itself."""
    timers: dict[str, Event] = field(default_factory=dict[str, Event])
    later: dict[str, Event] = field(default_factory=dict[str, Event])
    """What ended the origin's tokens and children that were open in it."""


_LEFT_OUT = frozenset({Kind.TAKEN_OVER, Kind.PAUSED, Kind.RESUMED, Kind.STUCK})
"""What happened to the origin's run, not to its work."""
_ENDS = frozenset({Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED, Kind.CANCEL_REQUESTED})
_ANSWERS = frozenset({Kind.TASK_COMPLETED, Kind.TASK_FAILED})
_OF_CALLS = TASK_KINDS - {Kind.EFFECT_CONTRADICTED}


@operation()
def fork(tx: Tx, rows: Sequence[Fork]) -> Steps[Started | NotFound | Conflict | InvalidInput]:
    """Make the forks and put them on the ready list. The origins are only read."""
    yield [Ref(shard_of(one), one) for row in rows for one in (row.id, row.origin)]
    return [_fork(tx, row) for row in rows]


def _fork(tx: Tx, row: Fork) -> Started | NotFound | Conflict | InvalidInput:
    origin = tx.execution(row.origin)
    if origin is None or origin.company != row.company:
        return NotFound(f"there is no execution {row.origin}. `perdure executions list` shows yours.")
    tx.speak_for(EVERY_COMPANY)  # its company may have left the room
    if tx.row("wake_of", execution=origin.id) is not None:
        return Conflict(
            f"execution {row.origin} is a wake of an agent in a room: a fork would act there a second time. Write to "
            "the agent instead.",
            code="not_forkable",
        )
    if tx.execution(row.id) is not None:  # made before, and the answer was lost
        return Started(row.id, created=True)
    log = _log(tx, origin)
    prefix = _read(log, row.at, durable=bool(origin.lane))
    if (refused := _wrong_edit(row, origin, prefix) or _refusal(row, log, prefix)) is not None:
        return refused
    known = {task["address"]: task for task in tx.rows("tasks_of", shard=origin.shard, execution=origin.id)}
    simulated = {address for address, call in prefix.calls.items() if call.simulated(rules_of(known[address]))}
    made = _create(tx, row, origin)
    _copy(tx, row, made, prefix, simulated)
    seqs = {event["address"]: event["seq"] for event in tx.appended(made.id, 0) if event["kind"] == Kind.TASK_SCHEDULED}
    for address, call in prefix.calls.items():
        task = _task(known[address], made, seqs[address], tx.now_ms)
        _keep_task(tx, row, made, call, as_simulation(task) if address in simulated else task)
    if made.state == states.Execution.READY:
        put_ready(tx, made)
    else:  # it is about to act, and waits for a person
        made.ownership = states.Ownership.PARKED
    return Started(made.id, created=True)


def _log(tx: Tx, row: ExecutionRow) -> list[Event]:
    stored = tx.rows("events_after", shard=row.shard, execution=row.id, after=0, limit=row.next_seq)
    return events_of([*stored, *tx.appended(row.id, len(stored))])


def _read(log: list[Event], at: int, *, durable: bool) -> _Prefix:
    prefix = _Prefix([], {}, {})
    later: dict[str, list[Event]] = {}
    for event in log:
        if event.kind in _OF_CALLS:
            later.setdefault(event.address, []).append(event)
    for event in log[:at]:
        if event.kind in _LEFT_OUT:
            continue
        prefix.events.append(event)
        match event.kind:
            case Kind.TASK_SCHEDULED:
                prefix.calls[event.address] = _Call(event, event, ended(later[event.address]))
            case kind if kind in _OF_CALLS:
                if (call := prefix.calls.get(event.address)) is not None:  # else it is a probe's
                    prefix.calls[event.address] = replace(call, last=event)
            case Kind.TIMER_SET:
                prefix.timers[event.address] = event
            case Kind.TIMER_FIRED:
                prefix.timers.pop(event.address, None)
            case _:
                pass
        if event.kind in _ANSWERS or (durable and event.kind is Kind.STEP_RECORDED):
            prefix.answered[event.address] = event
    opened = {event.address for event in prefix.events if event.kind in (Kind.WAIT_OPENED, Kind.CHILD_STARTED)}
    prefix.later = {event.address: event for event in log[at:] if event.address in opened and _ends_for_all(event)}
    return prefix


def _ends_for_all(event: Event) -> bool:
    """Whether it ends a wait for whoever has it in its log: an approval is of one act, the origin's."""
    return event.kind is Kind.CHILD_ENDED or (
        event.kind is Kind.WAIT_RESOLVED and event.data.get("decision") in TOKEN_ENDS
    )


def _wrong_edit(row: Fork, origin: ExecutionRow, prefix: _Prefix) -> InvalidInput | None:
    """Return why these edits make no sense, for what they are made on."""
    what = f"execution {origin.id} is of {'the durable function' if origin.lane else 'the agent'} {origin.agent}"
    unfit = "prompt" if row.edits.prompt is not None else "model" if row.edits.model is not None else None
    if origin.lane and unfit:
        return InvalidInput(f"{what}, which has no {unfit}: edit its input instead.", fields=[unfit])
    unfit = "input" if row.edits.input is not None else "build" if row.edits.build is not None else None
    if not origin.lane and unfit:
        return InvalidInput(f"{what}, which has no {unfit}: edit its prompt or model instead.", fields=[unfit])
    for address in row.edits.results:
        event = prefix.answered.get(address)
        if event is None:
            return InvalidInput(
                f"there is no result of {address!r} up to seq {row.at}; those there are: "
                f"{', '.join(sorted(prefix.answered)) or 'none'}.",
                fields=["results"],
            )
        error = event.data.get("error")
        if isinstance(error, dict) and error.get("retry_ms") is not None:  # pyright: ignore[reportUnknownMemberType] - JSON
            return InvalidInput(
                f"{address!r} failed and was tried again: edit the result of its last try, or fork it before, at "
                f"{event.seq - 1} or earlier.",
                fields=["results"],
            )
    return None


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
    return next((event for address, event in open_.items() if address not in prefix.later), None)


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
        ownership=states.Ownership.READY,
        log_format=origin.log_format,
        created_ms=tx.now_ms,
        updated_ms=tx.now_ms,
        lane=origin.lane,
        build=row.build or origin.build,
        origin=origin.id,
        priority=origin.priority,
        limit_key=origin.limit_key,
    )
    tx.create(made)
    born = tx.row("lineage_of", shard=origin.shard, execution=origin.id)
    tags = None if born is None else born["tags"]
    tx.run("insert_origin", shard=made.shard, execution=made.id, origin=origin.id, origin_seq=row.at, tags=tags)
    list_under(tx, made, tags_in(tags))
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


def _copy(tx: Tx, row: Fork, made: ExecutionRow, prefix: _Prefix, simulated: set[str]) -> None:
    """Append the prefix with the edits. What stands behind one was asked for in other words than a run of the fork asks
    with: its fingerprint then matches any. Of an agent, those are the model's replies; of a durable function, all."""
    edits = row.edits
    edited = bool(row.definition and not made.lane) or edits.prompt is not None or edits.input is not None
    for event in prefix.events:
        data: dict[str, Any] = event.data
        kind, digest = event.kind, event.digest
        if kind is Kind.STARTED:
            given = edits.prompt if edits.input is None else edits.input
            data = {**data, **({} if given is None else {"input": given}), "definition": made.definition}
        if edited and (kind is Kind.STEP_RECORDED or (made.lane and kind in ASKED)):
            digest = ANY_DIGEST
        if event is prefix.answered.get(event.address) and event.address in edits.results:
            edited = True
            facts = {name: fact for name, fact in data.items() if name not in ("error", "code", "value")}
            data = {**facts, "value": edits.results[event.address]}
            kind = Kind.TASK_COMPLETED if kind in _ANSWERS else kind
        if event.address in simulated and kind is Kind.TASK_SCHEDULED:
            data = {**data, "simulated": True}
        tx.append(made, kind, event.address, digest, data)
    for event in prefix.timers.values():
        tx.run("insert_timer", shard=made.shard, execution=made.id, address=event.address, due_ms=event.data["due_ms"])
    facts = {"origin": row.origin, "seq": row.at, "edits": edits.told(), "by": row.by}
    tx.append(made, Kind.FORKED, data=facts)
    for event in prefix.later.values():
        tx.append(made, event.kind, event.address, data={**event.data, "origin": row.origin})


def _keep_task(tx: Tx, row: Fork, made: ExecutionRow, call: _Call, task: dict[str, Any]) -> None:
    """Give a call of the prefix its row, and one that was open in it an end, or somebody who decides."""
    address = call.scheduled.address
    answer = call.over or call.later
    if answer is not None:
        if call.over is None:
            tx.append(made, answer.kind, address, data={**answer.data, "origin": row.origin})
        state = states.Task.DONE if address in row.edits.results else answer.state
    elif call.in_doubt:
        state = states.Task.UNCERTAIN
        if call.last.kind is not Kind.TASK_UNCERTAIN:
            why = f"it was begun in {row.origin}, and nobody had said how it ended when it was forked"
            tx.append(made, Kind.TASK_UNCERTAIN, address, data={"why": why, "error": why, "attempt": 1, "worker": ""})
    else:
        state = states.Task.READY
        if task["delivery"] != Delivery.REPEATABLE:
            hold(tx, made, task["tool"], address)
    tx.run("insert_task", **task, state=state)
    if state == states.Task.UNCERTAIN:
        tx.run("set_task", **_doubted(task))


def _doubted(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the row of an uncertain call is marked, so that an equal one is held."""
    scope = {name: task[name] for name in ("shard", "execution", "address", "now_ms")}
    facts = {"state": states.Task.UNCERTAIN, "run_at_ms": task["now_ms"], "worker": None, "attempt": 1, "doubt": 1}
    return {**scope, **facts}


def _task(known: Row, made: ExecutionRow, seq: int, now_ms: int) -> dict[str, Any]:
    same = "company agent tool queue delivery max_attempts pause_ms timeout_ms rules digest intent address".split()
    return {
        **{name: known[name] for name in same},
        "shard": made.shard,
        "execution": made.id,
        "scheduled_seq": seq,
        "approval": None,
        "ahead_ms": known["ahead_ms"],
        "limit_key": known["limit_key"],
        "now_ms": now_ms,
    }
