"""What a database must do to be a store. The contract suite in `perdure.testing.store_contract` says it in tests.

Lock order, everywhere: queues in (company, name) order, then executions in (shard, id) order, then task, waitpoint,
`ready` and timer rows. New unique keys go in sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

Row = Mapping[str, Any]
Params = Mapping[str, Any]


EVERY_COMPANY = "?all"
"""Whom those speak for who look after the whole store: a name that no company can have."""


class Ref(NamedTuple):
    """An execution's key, in lock order."""

    shard: int
    execution: str


class Again(Exception):
    """The transaction did not happen, or may not have, for a reason that passes: run the whole of it once more.

    A deadlock, a serialization failure, a connection lost before or during COMMIT.
    """


class Unsound(Exception):
    """A row holds what no release writes there. Whose file or database it is in, the store adds."""


class Reads(Protocol):
    """Named queries that change nothing."""

    def rows(self, query: str, **params: Any) -> list[Row]:
        """Return all rows of the named query."""
        ...

    def row(self, query: str, **params: Any) -> Row | None:
        """Return its first row, if any."""
        ...

    def speak_for(self, company: str) -> None:
        """See and write of rooms, until the view or transaction ends, what this company may; none of it if empty.

        That is how each view and each transaction begins: whoever looks at rooms says for whom.
        """
        ...


class Connection(Reads, Protocol):
    """The inside of one write transaction."""

    @property
    def now_ms(self) -> int:
        """The store's clock, read once when the transaction began; never less than in an earlier transaction."""
        ...

    def run(self, query: str, **params: Any) -> int:
        """Run the named statement and return how many rows it touched."""
        ...

    def many(self, query: str, params: Sequence[Params]) -> None:
        """Run the named statement once for each of `params`, in order. They may go with what comes next, be that
        another statement or the commit, in one round trip; then that raises an error of theirs."""
        ...

    def each(self, query: str, params: Sequence[Params]) -> list[list[Row]]:
        """Like `many`, and return the rows that each run gave, in order."""
        ...


class Store(Protocol):
    """One database. Thread rule: `write` belongs to the writer's thread; `read` to any."""

    id: str
    """Random, written when the database was made: tells two stores apart."""
    token_key: bytes
    """Random, as old: what secrets of tokens are derived with. Never leaves the process that has the store open."""
    dialect: str
    shared: bool
    """Whether other processes may write to it at the same time."""

    def write(self) -> AbstractContextManager[Connection]:
        """Open a write transaction; commit on leaving, roll back on an exception.

        After a normal exit the changes survive kill -9 and a power cut. Raises `Again`; `StoreFull`, with nothing
        changed; `StoreFailed`, after which the store accepts nothing more.
        """
        ...

    def read(self) -> AbstractContextManager[Reads]:
        """Open a consistent view of what is committed. Never blocks writers."""
        ...

    def fleeting(self) -> Store:
        """Return the same database for writes that need not last: commits wait for no disk, and may be lost.

        Only where it is `shared`. With a writer of its own, and closed by whoever asked for it.
        """
        ...

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        ...
