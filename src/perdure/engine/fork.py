"""Fork an execution: a new one that begins with a prefix of another's log, edited, and goes on by itself.

What the origin did is not done again. What was open in the prefix takes what the origin heard of it later; of a claim
that nobody reported on, somebody rules, and it is never armed again. `fork_prefix.py` reads what a fork takes over,
`forked.py` says what it may do past that, and decision 0018 why all this is as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core import codec, states
from perdure.core.delivery import Delivery
from perdure.core.events import ANY_DIGEST, ASKED, Event, Kind, is_model_call
from perdure.core.ids import action_key, shard_of
from perdure.core.notices import NOTICE
from perdure.core.views import ForkEdits, Started
from perdure.engine.fork_prefix import Call, Prefix, read_prefix, refusal, wrong_edit
from perdure.engine.forked import as_simulation, hold
from perdure.engine.tags import list_under, tags_in
from perdure.engine.task import rules_of
from perdure.engine.wake import put_ready
from perdure.errors import Conflict, InvalidInput, NotFound
from perdure.store.batch import MAX_BYTES
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
    start_key: str | None = None
    """The caller's; its scope is the origin."""

    @property
    def build(self) -> str:
        """Of the code that a durable function's fork goes on with; empty: the origin's."""
        return self.edits.build or ""

    @property
    def size(self) -> int:
        return MAX_BYTES  # it may copy much more: it goes alone

    @property
    def digest(self) -> str:
        """Fingerprint of the place and the edits."""
        return codec.digest(self.at, self.edits.told())


def _keys(row: Fork) -> tuple[str, ...]:
    return () if row.start_key is None else (f"fork/{row.company}/{row.origin}/{row.start_key}",)


@operation(keys=_keys)
def fork(tx: Tx, rows: Sequence[Fork]) -> Steps[Started | NotFound | Conflict | InvalidInput]:
    """Make the forks and put them on the ready list. The origins are only read, under their locks.

    A known start key gives the first fork back, or `start_key_conflict` if that was another place or other edits.
    """
    yield [Ref(shard_of(one), one) for row in rows for one in (row.id, row.origin)]
    return [_fork(tx, row) for row in rows]


def _fork(tx: Tx, row: Fork) -> Started | NotFound | Conflict | InvalidInput:
    origin = tx.execution(row.origin)
    if origin is None or origin.company != row.company:
        return NotFound(f"there is no execution {row.origin}. `perdure executions list` shows yours.")
    if (known := _made_before(tx, row)) is not None:
        return known
    if tx.appended(origin.id, 0):
        tx.write_out()  # so that its last events are found, and have their hashes
    tx.speak_for(EVERY_COMPANY)  # its company may have left the room
    if origin.agent.startswith(f"{NOTICE}/"):
        return Conflict(
            f"execution {row.origin} says something in a room: a fork would say it there a second time. Post it.",
            code="not_forkable",
        )
    if tx.row("wake_of", execution=origin.id) is not None:
        return Conflict(
            f"execution {row.origin} is a wake of an agent in a room: a fork would act there a second time. Write to "
            "the agent instead.",
            code="not_forkable",
        )
    prefix = read_prefix(tx, origin, row.at)
    if not isinstance(prefix, Prefix):
        return prefix
    refused = wrong_edit(row.edits, row.at, origin, prefix) or refusal(origin.id, row.at, prefix)
    return refused or _make(tx, row, origin, prefix)


def _made_before(tx: Tx, row: Fork) -> Started | Conflict | None:
    if tx.execution(row.id) is not None:  # and the answer was lost
        return Started(row.id, created=True)
    if row.start_key is None:
        return None
    known = tx.row("start_key", company=row.company, agent=row.origin, start_key=row.start_key)
    if known is None:
        return None
    if known["digest"] == row.digest:
        return Started(known["execution"], created=False)
    return Conflict(
        f"start key {row.start_key!r} forked execution {row.origin} as {known['execution']}, at another event or with "
        "other edits. Use a new key for another fork, or send the first one again.",
        code="start_key_conflict",
        execution=known["execution"],
    )


def _make(tx: Tx, row: Fork, origin: ExecutionRow, prefix: Prefix) -> Started:
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
    if row.start_key is not None:  # nobody else takes it meanwhile: the origin is locked
        key = {"company": row.company, "agent": origin.id, "start_key": row.start_key}
        tx.run("insert_start_key", **key, execution=made.id, digest=row.digest, now_ms=tx.now_ms)
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


def _copy(tx: Tx, row: Fork, made: ExecutionRow, prefix: Prefix, simulated: set[str]) -> None:
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
        if event.address in edits.results and event is prefix.editable(event.address):
            edited = True
            data = _edited(event, edits.results[event.address], reply=not prefix.durable and is_model_call(event))
            kind = Kind.TASK_COMPLETED if kind is Kind.TASK_FAILED else kind
        if kind is Kind.TASK_SCHEDULED and event.address in simulated:
            data = {**data, "simulated": True}
        if kind is Kind.TASK_SCHEDULED and prefix.calls[event.address].to_be_made:
            data = {**data, "key": action_key(made.id, event.address)}  # an act of the fork's own, and no other try
        tx.append(made, kind, event.address, digest, data)
    for event in prefix.timers.values():
        tx.run("insert_timer", shard=made.shard, execution=made.id, address=event.address, due_ms=event.data["due_ms"])
    facts = {"origin": row.origin, "seq": row.at, "head": prefix.head, "edits": edits.told(), "by": row.by}
    tx.append(made, Kind.FORKED, data=facts)
    for event in prefix.later.values():
        tx.append(made, event.kind, event.address, data={**event.data, "origin": row.origin})


def _edited(event: Event, value: codec.Json, *, reply: bool) -> dict[str, Any]:
    """Return what an event says once its value is another, which nobody reported."""
    facts = {name: fact for name, fact in event.data.items() if name not in ("error", "code", "value")}
    if reply:
        value = {"outcome": "replied", "requests": event.data["value"]["requests"], "failures": [], "reply": value}
    return {**facts, "value": value, "edited": True}


def _keep_task(tx: Tx, row: Fork, made: ExecutionRow, call: Call, task: dict[str, Any]) -> None:
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
