"""Begin executions. A start that was acknowledged is durable; the same start key begins one execution, ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.events import LOG_FORMAT, Kind
from perdure.core.ids import shard_of
from perdure.core.views import Started
from perdure.engine.delay import delay
from perdure.engine.tags import tag
from perdure.engine.wake import put_ready
from perdure.errors import Conflict
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Start:
    """One start. The id comes from the caller, so that the operation can run twice and begin one execution."""

    id: str
    company: str
    agent: str
    definition: str
    spec: str
    """The definition itself, as JSON text; stored once for all that are equal."""
    input: str
    """JSON text."""
    start_key: str | None
    by: str = ""
    """Who starts it."""
    lane: str = ""
    """Name of the durable function that workers run; empty for what servers run."""
    build: str = ""
    delay_ms: int = 0
    at_ms: int = 0
    """By the store's clock. It begins when both this and the delay are over."""
    priority: int = 0
    limit_key: str = ""
    tags: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Fingerprint of the input, whatever the order of its keys."""
        return codec.digest(codec.decode(self.input))

    @property
    def size(self) -> int:
        return len(self.input)


def _keys(row: Start) -> tuple[str, ...]:
    return () if row.start_key is None else (f"start/{row.company}/{row.agent}/{row.start_key}",)


@operation(keys=_keys)
def start(tx: Tx, rows: Sequence[Start]) -> Steps[Started | Conflict]:
    """Create the execution with its first event and put it on the ready list.

    A known start key gives the first execution back, or `start_key_conflict` if its input was another.
    """
    yield [Ref(shard_of(row.id), row.id) for row in rows]
    first = _first_of_keys(tx, rows)
    results: list[Started | Conflict] = []
    definitions: dict[tuple[str, str], Start] = {}
    for row in rows:
        known = first.get(row.id)
        if known is None and tx.execution(row.id) is not None:  # begun before, and the answer was lost
            known = Started(row.id, created=True)
        if known is not None:
            results.append(known)
            continue
        definitions[row.company, row.definition] = row
        create(tx, row)
        results.append(Started(row.id, created=True))
    tx.many(
        "insert_definition",
        [
            {
                "company": company,
                "digest": digest,
                "agent": definitions[company, digest].agent,
                "spec": definitions[company, digest].spec,
                "now_ms": tx.now_ms,
            }
            for company, digest in sorted(definitions)
        ],
    )
    return results


def _first_of_keys(tx: Tx, rows: Sequence[Start]) -> dict[str, Started | Conflict]:
    """Claim the start keys, in order; return an answer for each row whose key was taken before."""
    keyed = sorted((row for row in rows if row.start_key is not None), key=lambda row: _keys(row))
    taken: dict[str, Started | Conflict] = {}
    for row in keyed:
        params = {"company": row.company, "agent": row.agent, "start_key": row.start_key}
        if tx.run("insert_start_key", **params, execution=row.id, digest=row.digest, now_ms=tx.now_ms):
            continue
        known = tx.row("start_key", **params)
        if known is None or known["execution"] == row.id:  # our own, from before the answer was lost
            continue
        if known["digest"] == row.digest:
            taken[row.id] = Started(known["execution"], created=False)
        else:
            taken[row.id] = Conflict(
                f"start key {row.start_key!r} of agent {row.agent!r} began execution {known['execution']} with another "
                "input. Use a new key for new input, or send the first input again.",
                code="start_key_conflict",
                execution=known["execution"],
            )
    return taken


def create(tx: Tx, row: Start) -> None:
    """Add the execution with its first event and put it on the ready list, or have it wait until it is to begin.

    Its definition is stored by the caller.
    """
    execution = ExecutionRow(
        shard=shard_of(row.id),
        id=row.id,
        company=row.company,
        agent=row.agent,
        definition=row.definition,
        state=states.Execution.READY,
        ownership=states.Ownership.READY,
        log_format=LOG_FORMAT,
        created_ms=tx.now_ms,
        updated_ms=tx.now_ms,
        lane=row.lane,
        build=row.build,
        priority=row.priority,
        limit_key=row.limit_key,
    )
    tx.create(execution)
    start_ms = max(row.at_ms, tx.now_ms + row.delay_ms)
    facts: dict[str, Json] = {"agent": row.agent, "definition": row.definition}
    if row.by:
        facts["by"] = row.by
    if row.priority:
        facts["priority"] = row.priority
    if row.limit_key:
        facts["limit_key"] = row.limit_key
    if row.tags:
        facts["tags"] = list(row.tags)
        tag(tx, execution, row.tags)
    if start_ms > tx.now_ms:
        facts["start_ms"] = start_ms
        delay(tx, execution, start_ms)
    head = codec.encode(facts)
    tx.append(execution, Kind.STARTED, data=f'{head[:-1]},"input":{row.input}}}')
    if start_ms <= tx.now_ms:
        put_ready(tx, execution)
