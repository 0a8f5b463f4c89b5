"""Let agents be reached by A2A, and take messages for them: each once, however often and wherever it is sent.

The message, the execution that it begins and whom to tell of it are one commit: none of them is there without the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import codec
from perdure.core.a2a import A2aMessage, Accepted
from perdure.core.ids import shard_of
from perdure.engine.a2a_push import put_push
from perdure.engine.a2a_task import no_such_agent, task_of
from perdure.engine.signal import Signal, put_message
from perdure.engine.start import Start, create
from perdure.errors import Conflict, LimitExceeded, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Publish:
    """An agent is to be reached, and begins with this definition from now on."""

    company: str
    agent: str
    definition: str
    spec: str
    description: str
    by: str

    @property
    def size(self) -> int:
        return len(self.spec)


@dataclass(frozen=True, slots=True)
class Withdraw:
    """An agent is to be reached no more."""

    company: str
    agent: str


@dataclass(frozen=True, slots=True)
class Accept:
    """A message came. The id comes from the caller, so that the operation can run twice and begin one execution."""

    company: str
    agent: str
    message: A2aMessage
    id: str
    """Of the execution that it begins, if it begins one."""
    context: str
    """Of the task that it begins."""
    by: str

    @property
    def digest(self) -> str:
        """Fingerprint of what it says and what it is for."""
        return codec.digest([self.message.text, self.message.execution])

    @property
    def execution(self) -> str:
        return self.message.execution or self.id

    @property
    def size(self) -> int:
        return len(self.message.text)


Refusal = Conflict | NotFound | LimitExceeded


def _key_of_agent(row: Publish | Withdraw) -> tuple[str, ...]:
    return (f"a2a_agent/{row.company}/{row.agent}",)


@operation(keys=_key_of_agent)
def publish_agent(tx: Tx, rows: Sequence[Publish]) -> Steps[int]:
    """Let agents be reached; return when. Tasks that began with another definition keep it."""
    yield ()
    for row in sorted(rows, key=_key_of_agent):
        whose = {"company": row.company, "agent": row.agent}
        tx.run("insert_definition", **whose, digest=row.definition, spec=row.spec, now_ms=tx.now_ms)
        said = {"definition": row.definition, "description": row.description, "published_by": row.by}
        tx.run("put_a2a_agent", **whose, **said, now_ms=tx.now_ms)
    return [tx.now_ms] * len(rows)


@operation(keys=_key_of_agent)
def withdraw_agent(tx: Tx, rows: Sequence[Withdraw]) -> Steps[None]:
    """Let agents be reached no more; again changes nothing. What they do goes on. Who wants to know whether one was
    reached looks before (`published_agent`)."""
    yield ()
    for row in sorted(rows, key=_key_of_agent):
        tx.run("delete_a2a_agent", company=row.company, agent=row.agent)
    return [None] * len(rows)


def _keys(row: Accept) -> tuple[str, ...]:
    """A message once in a batch; and an execution, as it is with all that is sent into one."""
    message = f"a2a/{row.company}/{row.agent}/{row.message.id}"
    return (message, f"signal/{row.message.execution}") if row.message.execution else (message,)


@operation(keys=_keys)
def accept_message(tx: Tx, rows: Sequence[Accept]) -> Steps[Accepted | Refusal]:
    """Begin an execution with each message, or put it into the one that it names. A known message gives back what it
    came to the first time.

    Refuses: `NotFound` for an agent that is not published (`no_such_agent`) or a task that is not there; `Conflict` for
    a known message that says something else (`message_conflict`), a context that is not the task's
    (`context_conflict`), and a task that takes none any more (`ended`); `LimitExceeded` for one more to be told than a
    task may have (`too_many_pushes`).
    """
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    done: dict[str, Accepted | Refusal] = {}
    for row in sorted(rows, key=_keys):  # new unique keys go in in one order
        done[_keys(row)[0]] = _accept(tx, row)
    return [done[_keys(row)[0]] for row in rows]


def _accept(tx: Tx, row: Accept) -> Accepted | Refusal:
    if known := _known(tx, row):
        return known
    if row.message.execution:
        return _put(tx, row)
    published = tx.row("a2a_agent", company=row.company, agent=row.agent)
    if published is None:
        return no_such_agent(row.agent)
    if not _take(tx, row):
        return _known(tx, row) or _lost(row)
    begun = Start(
        id=row.id,
        company=row.company,
        agent=row.agent,
        definition=published["definition"],
        spec="",
        input=codec.encode(row.message.text, "message"),
        start_key=None,
        by=row.by,
    )
    create(tx, begun)
    execution = tx.execution(row.id)
    if row.message.push is not None and execution is not None:
        put_push(tx, execution, row.message.push)
    scope = {"shard": shard_of(row.id), "execution": row.id, "company": row.company, "agent": row.agent}
    tx.run("insert_a2a_task", **scope, context=row.context, message=row.message.id)
    return Accepted(row.id, created=True)


def _known(tx: Tx, row: Accept) -> Accepted | Refusal | None:
    """Return what the message came to when it was taken before."""
    known = tx.row("a2a_message", company=row.company, agent=row.agent, message=row.message.id)
    if known is None:
        return None
    if known["digest"] != row.digest:
        return Conflict(
            f"message {row.message.id!r} for agent {row.agent!r} was taken before with another text or for another "
            f"task, and came to {known['execution']}. A new message has an id of its own.",
            code="message_conflict",
            execution=known["execution"],
        )
    return Accepted(known["execution"], created=known["execution"] == row.id)


def _take(tx: Tx, row: Accept) -> bool:
    """Have the message, once in the world; False if another server had it first."""
    whose = {"company": row.company, "agent": row.agent, "message": row.message.id}
    place = {"shard": shard_of(row.execution), "execution": row.execution}
    return tx.run("insert_a2a_message", **whose, **place, digest=row.digest) > 0


def _put(tx: Tx, row: Accept) -> Accepted | Refusal:
    """Put the message into the task that it names."""
    execution = task_of(tx, row.company, row.agent, row.execution)
    if isinstance(execution, NotFound):
        return execution
    found = tx.row("a2a_task", shard=execution.shard, execution=row.execution, company=row.company, agent=row.agent)
    if found is not None and row.message.context and row.message.context != found["context"]:
        return Conflict(
            f"task {row.execution} is of context {found['context']!r}, and the message names {row.message.context!r}. "
            "Leave contextId out, or name the task's.",
            code="context_conflict",
        )
    if not _take(tx, row):
        return _known(tx, row) or _lost(row)
    told = None if row.message.push is None else put_push(tx, execution, row.message.push)
    signal = Signal(row.company, row.execution, "send", row.by, row.message.text, dedupe=row.message.id)
    said = told or put_message(tx, signal, execution)
    if isinstance(said, int):
        return Accepted(row.execution, created=False)
    tx.run("delete_a2a_message", company=row.company, agent=row.agent, message=row.message.id)
    return said


def _lost(row: Accept) -> Conflict:
    return Conflict(
        f"message {row.message.id!r} was taken by another server, and forgotten again at once. Send it again.",
        code="message_conflict",
    )
