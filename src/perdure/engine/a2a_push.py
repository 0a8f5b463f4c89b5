"""Have others told of what A2A tasks do: whom, how far they were told, when to try again. The log is the outbox.

What there is to tell stands in the log since the transaction that it happened in. Here stands how far each was told;
what is behind that is still to be told, whoever dies. So all of it is told at least once, and in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.core.a2a import MOST_PUSHES, PushConfig, PushView
from perdure.core.ids import shard_of
from perdure.engine.a2a_task import task_of
from perdure.errors import LimitExceeded, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

TOPIC = "a2a_push"
"""What is announced when somebody new is to be told."""
MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class SetPush:
    """Somebody is to be told of a task from now on."""

    company: str
    agent: str
    execution: str
    push: PushConfig


@dataclass(frozen=True, slots=True)
class DeletePush:
    """Somebody is to be told no more."""

    company: str
    agent: str
    execution: str
    id: str


@dataclass(frozen=True, slots=True)
class DuePush:
    """Somebody for whom there is something to tell."""

    execution: str
    id: str
    company: str
    agent: str
    url: str
    token: str = field(repr=False)
    scheme: str
    credentials: str = field(repr=False)
    version: str
    told_seq: int
    tries: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class TakePush:
    """A server wants to be the one who tells, for so long."""

    execution: str
    id: str
    seen_ms: int
    """`due_ms` as it saw it."""
    lease_ms: int


@dataclass(frozen=True, slots=True)
class ToldPush:
    """They were told up to an event."""

    execution: str
    id: str
    taken_ms: int
    """`due_ms` as it is while this server tells."""
    seq: int
    over: bool
    """Whether there will never be more to tell."""


@dataclass(frozen=True, slots=True)
class MissedPush:
    """They could not be told."""

    execution: str
    id: str
    taken_ms: int
    error: str
    pause_ms: int | None
    """Until the next try; None: it is given up."""


def _keys(row: SetPush | DeletePush | TakePush | ToldPush | MissedPush) -> tuple[str, ...]:
    id = row.push.id if isinstance(row, SetPush) else row.id
    return (f"a2a_push/{row.execution}/{id}",)


@operation(keys=_keys)
def set_push(tx: Tx, rows: Sequence[SetPush]) -> Steps[NotFound | LimitExceeded | None]:
    """Have somebody told of what a task does from now on; one that is known by this id is told where it was left."""
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    done: dict[tuple[str, ...], NotFound | LimitExceeded | None] = {}
    for row in sorted(rows, key=_keys):
        execution = task_of(tx, row.company, row.agent, row.execution)
        done[_keys(row)] = execution if isinstance(execution, NotFound) else put_push(tx, execution, row.push)
    return [done[_keys(row)] for row in rows]


def put_push(tx: Tx, execution: ExecutionRow, push: PushConfig) -> LimitExceeded | None:
    """Have somebody told of a locked execution, from the next event on."""
    scope = {"shard": execution.shard, "execution": execution.id}
    others = [one["id"] for one in tx.rows("a2a_pushes_on", **scope) if one["id"] != push.id]
    if len(others) >= MOST_PUSHES:
        return LimitExceeded(
            f"task {execution.id} tells {MOST_PUSHES} already, the most that one may. Delete a configuration first.",
            code="too_many_pushes",
            limit=MOST_PUSHES,
        )
    how = {"url": push.url, "token": push.token, "scheme": push.scheme, "credentials": push.credentials}
    whose = {"id": push.id, "company": execution.company, "agent": execution.agent, "version": push.version}
    tx.run("put_a2a_push", **scope, **whose, **how, told_seq=execution.next_seq - 1, now_ms=tx.now_ms)
    tx.announce(TOPIC)
    return None


@operation(keys=_keys)
def delete_push(tx: Tx, rows: Sequence[DeletePush]) -> Steps[NotFound | None]:
    """Have somebody told no more; again changes nothing."""
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    done: dict[tuple[str, ...], NotFound | None] = {}
    for row in sorted(rows, key=_keys):
        execution = task_of(tx, row.company, row.agent, row.execution)
        done[_keys(row)] = execution if isinstance(execution, NotFound) else None
        if not isinstance(execution, NotFound):
            tx.run("delete_a2a_push", shard=execution.shard, execution=execution.id, id=row.id)
    return [done[_keys(row)] for row in rows]


@operation(keys=_keys)
def take_push(tx: Tx, rows: Sequence[TakePush]) -> Steps[int]:
    """Be the only one who tells; return until when, by the store's clock, or 0 if somebody else was faster.

    Touches single rows in the order of their keys, and no executions.
    """
    yield ()
    found: dict[tuple[str, ...], int] = {}
    for row in sorted(rows, key=_keys):
        until_ms = tx.now_ms + row.lease_ms
        taken = tx.run("take_a2a_push", **_place(row), seen_ms=row.seen_ms, until_ms=until_ms)
        found[_keys(row)] = until_ms if taken else 0
    return [found[_keys(row)] for row in rows]


@operation()
def free_pushes(tx: Tx, rows: Sequence[None]) -> Steps[int]:
    """Take all for free that somebody was telling: the owner of a file knows that its former owner is gone."""
    yield ()
    return [tx.run("free_a2a_pushes", now_ms=tx.now_ms)] * len(rows)


@operation(keys=_keys)
def told_push(tx: Tx, rows: Sequence[ToldPush]) -> Steps[int]:
    """Say how far they were told. Returns 1 if that counts: whoever took too long is not asked any more."""
    yield ()
    found: dict[tuple[str, ...], int] = {}
    for row in sorted(rows, key=_keys):
        due_ms = None if row.over else tx.now_ms
        said = {"seq": row.seq, "due_ms": due_ms, "taken_ms": row.taken_ms}
        found[_keys(row)] = tx.run("tell_a2a_push", **_place(row), **said)
    return [found[_keys(row)] for row in rows]


@operation(keys=_keys)
def missed_push(tx: Tx, rows: Sequence[MissedPush]) -> Steps[int]:
    """Say that they could not be told, and when to try again, if ever."""
    yield ()
    found: dict[tuple[str, ...], int] = {}
    for row in sorted(rows, key=_keys):
        over = row.pause_ms is None
        due_ms = None if row.pause_ms is None else tx.now_ms + row.pause_ms
        said = {"error": row.error, "due_ms": due_ms, "given_up_ms": tx.now_ms if over else None}
        found[_keys(row)] = tx.run("miss_a2a_push", **_place(row), **said, taken_ms=row.taken_ms)
    return [found[_keys(row)] for row in rows]


def _place(row: TakePush | ToldPush | MissedPush) -> dict[str, int | str]:
    return {"shard": shard_of(row.execution), "execution": row.execution, "id": row.id}


def due_pushes(reads: Reads, now_ms: int, limit: int) -> list[DuePush]:
    """Return for whom there is something to tell, and whom nobody is telling."""
    rows = reads.rows("a2a_pushes_due", now_ms=now_ms, limit=limit)
    return [DuePush(**{name: row[name] for name in _DUE}) for row in rows]


def any_push(reads: Reads) -> bool:
    """Say whether anybody is to be told of anything, now or later."""
    row = reads.row("any_a2a_push")
    return row is not None and row["due_ms"] is not None


def pushes_on(reads: Reads, execution: str) -> list[PushConfig]:
    """Return who is told of a task, without the credentials that they know us by."""
    rows = reads.rows("a2a_pushes_on", shard=shard_of(execution), execution=execution)
    return [PushConfig(row["id"], row["url"], row["token"], row["scheme"], version=row["version"]) for row in rows]


def pushes_view(reads: Reads, company: str, execution: str) -> list[PushView]:
    """Return who is told of a company's tasks, or of one, and how that goes; those of the newest tasks first."""
    rows = reads.rows("a2a_pushes_of", company=company, execution=execution, limit=MOST_LISTED)
    return [
        PushView(
            execution=row["execution"],
            agent=row["agent"],
            id=row["id"],
            url=row["url"],
            told_seq=row["told_seq"],
            last_seq=row["next_seq"] - 1,
            tries=row["tries"],
            due_ms=row["due_ms"],
            given_up_ms=row["given_up_ms"],
            error=row["error"],
        )
        for row in rows
    ]


_DUE = (
    *("execution", "id", "company", "agent", "url", "token", "scheme", "credentials", "version", "told_seq", "tries"),
    "due_ms",
)
