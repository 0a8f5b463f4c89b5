"""Operations and waiters that tests of the writer share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.store.batch import Entry
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Store
from perdure.store.tx import Tx

PATIENCE = 30
"""Seconds until a wait for something that should happen fails the test."""


@dataclass(frozen=True)
class Put:
    """A start key to store."""

    key: str
    keys: tuple[str, ...] = ()
    size: int = 0
    raises: BaseException | None = None
    waits: threading.Event | None = None
    """Holds the transaction until it is set."""


@dataclass
class Seen:
    """What `put` was run with: one list of keys for each run."""

    batches: list[list[str]] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)


seen = Seen()


@operation(keys=lambda row: row.keys)
def put(tx: Tx, rows: Sequence[Put]) -> Steps[str]:
    """Store the keys; return each with the number of rows in its batch."""
    yield ()
    seen.batches.append([row.key for row in rows])
    seen.began.set()
    for row in rows:
        if row.waits:
            assert row.waits.wait(PATIENCE)
        if row.raises:
            raise row.raises
    tx.many("contract_put_key", [{"company": "default", "start_key": row.key, "execution": "exe_1"} for row in rows])
    for row in rows:
        tx.announce("tasks", row.key)
    return [f"{row.key} of {len(rows)}" for row in rows]


class Waiter:
    """Collects settled entries and what was committed at that moment."""

    def __init__(self, store: Store | None = None) -> None:
        self.calls: list[list[Entry]] = []
        self.committed: list[list[str]] = []
        self._store = store
        self._more = threading.Condition()

    def settle(self, entries: Sequence[Entry]) -> None:
        if self._store:
            self.committed.append(keys_in(self._store))
        with self._more:
            self.calls.append(list(entries))
            self._more.notify_all()

    @property
    def entries(self) -> list[Entry]:
        return [entry for entries in self.calls for entry in entries]

    def wait(self, count: int) -> list[Entry]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.entries) >= count, PATIENCE)
        return self.entries


def keys_in(store: Store) -> list[str]:
    with store.read() as reads:
        return [row["start_key"] for row in reads.rows("contract_keys", company="default")]
