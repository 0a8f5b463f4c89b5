"""A write transaction: named SQL, the executions it has locked, the events it appends, what to announce after it.

Executions are locked once for the whole batch, changed in memory and written back once, however many operations of the
batch touch them. `seq` is taken from the locked row, never from anybody's memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.core import codec
from perdure.core.blobs import MARK
from perdure.core.chain import hash_of
from perdure.core.codec import Json
from perdure.core.events import SINCE_2
from perdure.store.protocol import Connection, Params, Ref, Row
from perdure.store.referring import refer
from perdure.store.rows import ExecutionRow, execution_row, log_of, params_of, standing_of
from perdure.store.sql_store import names


class Note(NamedTuple):
    """A hint for after the commit; losing one delays and never breaks anything."""

    topic: str
    """`ready`, `events`, `tasks` or `tasks_all`."""
    key: str
    """Execution id for `events`; `company/queue` for `tasks`; company for `tasks_all`."""
    after_ms: int = 0
    """How long from now the hint becomes true; 0 is at once."""
    rows: tuple[Params, ...] = ()
    """For `events`: the appended rows themselves, so that an owner in this process need not read them."""


class Tx:
    """One transaction. Its owner is the writer's thread; it dies with the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._executions: dict[str, ExecutionRow] = {}
        self._locked = False
        self._speaks = False
        """Whether it speaks for a company."""
        self._events: dict[str, list[dict[str, Any]]] = {}
        """Not written yet, by execution, in `seq` order."""
        self._written: dict[str, list[dict[str, Any]]] = {}
        self._evidence: dict[str, list[dict[str, Any]]] = {}
        """As above: what is said of executions that have ended."""
        self._later: dict[str, list[Params]] = {}
        self._created: list[ExecutionRow] = []
        self._notes: dict[tuple[str, str, int], Note] = {}

    @property
    def now_ms(self) -> int:
        """The store's clock, the same throughout the transaction."""
        return self._connection.now_ms

    def rows(self, query: str, **params: Any) -> list[Row]:
        return self._connection.rows(query, **params)

    def row(self, query: str, **params: Any) -> Row | None:
        return self._connection.row(query, **params)

    def named(self, query: str, wanted: Mapping[str, Json]) -> list[Row]:
        """Run a query that takes all its names in one parameter, as JSON: one statement, however many rows it finds."""
        return self._connection.rows(query, wanted=names(query, wanted)) if wanted else []

    def run(self, query: str, **params: Any) -> int:
        return self._connection.run(query, **params)

    def many(self, query: str, params: Sequence[Params]) -> None:
        if params:
            self._connection.many(query, params)

    def speak_for(self, company: str) -> None:
        """See and write of rooms, until the operation ends or says otherwise, what this company may."""
        self._speaks = True
        self._connection.speak_for(company)

    def later(self, query: str, **params: Any) -> None:
        """Run a statement when the operation ends, with the others of its kind. For rows that nobody reads before."""
        self._later.setdefault(query, []).append(params)

    def end_operation(self) -> None:
        """Run what was put off. Called by the writer, so that the next operation of the batch finds it done."""
        for query, params in self._later.items():
            self.many(query, params)
        self._later.clear()
        if self._speaks:
            self._speaks = False
            self._connection.speak_for("")

    def each(self, query: str, params: Sequence[Params]) -> list[list[Row]]:
        return self._connection.each(query, params) if params else []

    def lock(self, refs: Iterable[Ref]) -> None:
        """Lock executions in (shard, id) order and read them. Unknown ones are left out. Called once, by the writer."""
        self._locked = True
        wanted = {ref.execution: ref.shard for ref in refs if ref.execution not in self._executions}
        for row in self.named("lock_executions", wanted):
            self._executions[row["id"]] = execution_row(row)

    @property
    def locked(self) -> bool:
        """Whether executions are locked already: what comes before them in the order of locks is not waited for."""
        return self._locked

    def execution(self, execution: str) -> ExecutionRow | None:
        """Return the row locked by this transaction, with the changes made so far."""
        return self._executions.get(execution)

    def forget(self, rows: Iterable[ExecutionRow]) -> None:
        """Take locked executions for deleted: whoever asks for one from here on finds none. All was written out."""
        for row in rows:
            del self._executions[row.id]

    def create(self, row: ExecutionRow) -> None:
        """Add a new execution; the transaction holds it as if locked."""
        self._executions[row.id] = row
        self._created.append(row)

    def append(
        self, row: ExecutionRow, kind: str, address: str = "", digest: str = "", data: Mapping[str, Any] | str = "{}"
    ) -> int:
        """Append an event to a locked execution and return its `seq`. `data` may come already encoded."""
        seq = row.next_seq
        row.next_seq = seq + 1
        row.updated_ms = self.now_ms
        row.changed = True
        if kind in SINCE_2:
            row.log_format = max(row.log_format, 2)
        self._events.setdefault(row.id, []).append(
            {
                "shard": row.shard,
                "execution": row.id,
                "seq": seq,
                "kind": kind,
                "address": address,
                "digest": digest,
                "data": data
                if isinstance(data, str)
                else codec.encode(data, f"event {kind}", codec.MAX_VALUE_BYTES + codec.ENVELOPE_BYTES),
                "at_ms": self.now_ms,
            }
        )
        return seq

    def testify(self, row: ExecutionRow, kind: str, address: str, data: Mapping[str, Any]) -> None:
        """Keep what is said of a locked execution that has ended: its log is final, the chain goes on behind it."""
        said = self._evidence.setdefault(row.id, [])
        if not said:
            found = self.row("last_evidence", shard=row.shard, execution=row.id)
            last = found["seq"] if found is not None and found["seq"] is not None else row.next_seq - 1
        else:
            last = said[-1]["seq"]
        row.changed = True
        said.append(
            {
                "shard": row.shard,
                "execution": row.id,
                "seq": last + 1,
                "kind": kind,
                "address": address,
                "digest": "",
                "data": codec.encode(data, f"evidence {kind}", codec.MAX_VALUE_BYTES + codec.ENVELOPE_BYTES),
                "at_ms": self.now_ms,
            }
        )

    def appended(self, execution: str, after: int) -> Sequence[Params]:
        """Return the events above `after` that this transaction itself appended and that no query finds yet."""
        events = self._events.get(execution, [])
        return events[max(after + 1 - events[0]["seq"], 0) :] if events else []

    def announce(self, topic: str, key: str = "", *, after_ms: int = 0) -> None:
        """Ask for a hint after the commit; the same one twice is given once."""
        self._notes[topic, key, after_ms] = Note(topic, key, after_ms)

    def announced(self) -> Sequence[tuple[str, str]]:
        """Return what is announced so far that is true at once: topic and key."""
        return [(topic, key) for topic, key, after_ms in self._notes if not after_ms]

    def flush(self) -> list[Note]:
        """Write what there is to write; return the hints to give once committed."""
        self.write_out()
        news = [Note("events", execution, rows=tuple(events)) for execution, events in self._written.items()]
        return [*news, *self._notes.values()]

    def write_out(self) -> None:
        """Write new and changed executions and the appended events, so that queries find them."""
        self.end_operation()
        self._chain()
        grown, changed = self._write_back({row.id for row in self._created})
        wanted = {
            "insert_execution": [params_of(row) for row in sorted(self._created, key=lambda row: row.ref)],
            "advance_execution": grown,
            "update_execution": changed,
            "insert_event": [event for events in self._events.values() for event in events],
            "insert_evidence": [said for rows in self._evidence.values() for said in rows],
        }
        for query, params in wanted.items():
            self.many(query, params)
        written = (*self._events.values(), *self._evidence.values())
        # One letter is looked for at eight times the speed of a word, and hardly any text has it.
        if referring := [row for rows in written for row in rows if "$" in row["data"] and MARK in row["data"]]:
            refer(self.run, self.now_ms, referring, lambda execution: self._executions[execution].company)
        self._created.clear()
        for execution, events in self._events.items():
            self._written.setdefault(execution, []).extend(events)
        self._events.clear()
        self._evidence.clear()

    def _write_back(self, created: Container[str]) -> tuple[list[Params], list[Params]]:
        """Return what to write of executions that were there before: where only the log grew, and where more changed.
        All of them are from here on what the table has."""
        grown: list[Params] = []
        changed: list[Params] = []
        for row in self._executions.values():
            standing = standing_of(row)
            if row.changed and row.id not in created:
                if standing == row.stored:  # most: an event more, and nothing else
                    grown.append(log_of(row))
                else:
                    changed.append(params_of(row))
            row.changed, row.stored = False, standing
        return grown, changed

    def _chain(self) -> None:
        """Give each new row its hash. Last of all, so that a row is hashed once, however the batch came about."""
        for rows in (self._events, self._evidence):  # an execution's evidence follows its last event
            for execution, events in rows.items():
                head = self._executions[execution].chain
                for event in events:
                    event["hash"] = head = hash_of(head, execution, event)
                self._executions[execution].chain = head
