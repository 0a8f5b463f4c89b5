"""What the writer does with a batch, without the thread: take entries in order, run them in one transaction, settle.

The rules of a batch stand in `take`, the protocol of operations in `_apply`, and who gets which error in `run`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from perdure import failpoints
from perdure.errors import InternalError, PerdureError, Retryable, StoreFailed, StoreFull
from perdure.log import get_log
from perdure.store.operation import Operation, Steps
from perdure.store.protocol import Again, Ref, Store
from perdure.store.tx import Note, Tx

MAX_OPERATIONS = 256
MAX_BYTES = 1_000_000
"""By the `size` of the rows that have one; a row larger than this goes alone."""
MAX_LOOK_AHEAD = 1_024
"""Entries looked at for one batch: a long queue for one key costs no more than this."""
TRIES = 10
"""How often a batch is run that hits deadlocks or lost connections, before its callers are told to try later."""

log = get_log(__name__)

Publish = Callable[[Sequence[Note]], None]


class Settle(Protocol):
    """Who waits for entries: an event loop's bridge, or a blocked thread."""

    def settle(self, entries: Sequence[Entry]) -> None:
        """Take the ended entries of one batch, in the order they were submitted.

        Called on the writer's thread, once for each entry, after the commit; must be quick and must not raise.
        """
        ...


class Entry:
    """One row on its way through the writer. Owner: the writer, until it is settled."""

    __slots__ = ("error", "keys", "operation", "result", "row", "size", "target", "token")

    def __init__(self, operation: Operation[Any, Any], row: Any, target: Settle, token: Any = None) -> None:
        self.operation = operation
        self.row = row
        self.target = target
        self.token = token
        """The submitter's own: the future to resolve, for instance."""
        self.keys: tuple[str, ...] = tuple(operation.keys(row))
        self.size: int = getattr(row, "size", 0)
        self.result: Any = None
        self.error: BaseException | None = None
        """Why there is no result, if there is none."""


class Batches:
    """The queue of one store and the batches made of it. Owner: whoever calls `run`, one at a time.

    `queue.append` alone is safe from any thread.
    """

    def __init__(self, store: Store, publish: Publish, on_failed: Callable[[StoreFailed], None]) -> None:
        self.queue: deque[Entry] = deque()
        self.failed: StoreFailed | None = None
        """Why nothing is accepted any more."""
        self.commits = 0
        self.operations = 0
        self._store = store
        self._publish = publish
        self._on_failed = on_failed
        self._running: list[Entry] = []
        self._deferred: list[Entry] = []

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._deferred or self.queue)

    def take(self) -> list[Entry]:
        """Return the entries of the next batch and leave the rest in order.

        A key occurs once. An entry that shares a key with one taken or left behind is left behind too, so what concerns
        one key happens in the order in which it was submitted.
        """
        batch: list[Entry] = []
        left: list[Entry] = []
        seen: set[str] = set()
        waiting = iter(self._deferred)
        room = MAX_BYTES
        for _ in range(MAX_LOOK_AHEAD):
            entry = next(waiting, None) or (self.queue.popleft() if self.queue else None)
            if entry is None:
                break
            if entry.keys and not seen.isdisjoint(entry.keys):
                left.append(entry)
            elif batch and entry.size > room:
                left.append(entry)
                break
            else:
                batch.append(entry)
                room -= entry.size
                if len(batch) == MAX_OPERATIONS:
                    break
            seen.update(entry.keys)
        self._deferred = [*left, *waiting]
        return batch

    def run(self, pause: Callable[[int], None]) -> int:
        """Run one batch to its end, settle its entries and return how many there were.

        `pause` is called with the number of a try that is to be repeated.
        """
        self._running = batch = self.take()
        if not batch:
            return 0
        if self.failed is None:
            notes = self._commit_all(batch, pause)
        else:
            notes = []
            _fail(batch, StoreFailed(self.failed.message, code=self.failed.code))
        self._running = []
        self._settle(batch)
        if notes:
            _tell(self._publish, notes)
        return len(batch)

    def fail_all(self, error: PerdureError) -> None:
        """End every entry not yet settled with `error`."""
        rest = [*self._running, *self._deferred, *self.queue]
        self._running.clear()
        self._deferred.clear()
        self.queue.clear()
        _fail(rest, error)
        self._settle(rest)

    def _commit_all(self, batch: list[Entry], pause: Callable[[int], None]) -> list[Note]:
        """Commit the batch, or say in each entry why not. What fails together is run again one by one."""
        reason: Again | None = None
        for attempt in range(1, TRIES + 1):
            try:
                return self._commit(batch)
            except Again as error:
                reason = error
                pause(attempt)
            except StoreFull as error:
                _fail(batch, error)
                return []
            except StoreFailed as error:
                self._fail_for_good(error)
                _fail(batch, error)
                return []
            except Exception as error:  # noqa: BLE001 - whatever an operation raises belongs to its caller
                if len(batch) == 1:
                    _fail(batch, error)
                    return []
                return [note for entry in batch for note in self._commit_all([entry], pause)]
        _fail(
            batch, Retryable(f"the database did not take the change after {TRIES} tries: {reason}", code="store_busy")
        )
        return []

    def _commit(self, batch: list[Entry]) -> list[Note]:
        groups: dict[int, list[Entry]] = {}
        for entry in batch:
            groups.setdefault(id(entry.operation), []).append(entry)
        with self._store.write() as connection:
            tx = Tx(connection)
            results = _apply(tx, list(groups.values()))
            notes = tx.flush()
            _pass("before_commit", groups.values())
        for entries, found in zip(groups.values(), results, strict=True):
            for entry, result in zip(entries, found, strict=True):
                entry.result = result
        self.commits += 1
        self.operations += len(batch)
        try:
            _pass("after_commit", groups.values())
        except failpoints.InjectedFault as fault:
            _fail(batch, fault)  # as if the answer had been lost: committed, and nobody is told
        return notes

    def _settle(self, batch: list[Entry]) -> None:
        """Tell each target once."""
        targets: dict[int, list[Entry]] = {}
        for entry in batch:
            targets.setdefault(id(entry.target), []).append(entry)
        for entries in targets.values():
            _tell(entries[0].target.settle, entries)

    def _fail_for_good(self, error: StoreFailed) -> None:
        if self.failed is not None:
            return
        self.failed = error
        log.error("writer.store_failed", code=error.code, reason=error.message)
        _tell(self._on_failed, error)


def _apply(tx: Tx, groups: Sequence[list[Entry]]) -> list[list[Any]]:
    """Run all first halves, lock what they asked for in one order, run all second halves; return results by group."""
    running: list[Steps[Any]] = []
    wanted: list[Ref] = []
    for entries in groups:
        steps = entries[0].operation.apply(tx, [entry.row for entry in entries])
        running.append(steps)
        wanted.extend(_first_half(steps, entries))
    tx.lock(wanted)
    results: list[list[Any]] = []
    for steps, entries in zip(running, groups, strict=True):
        results.append(_finish(steps, entries))
        tx.end_operation()
    return results


def _first_half(steps: Steps[Any], entries: list[Entry]) -> Iterable[Ref]:
    try:
        return next(steps)
    except StopIteration:
        raise InternalError(f"operation {entries[0].operation.name} returned without its yield") from None


def _finish(steps: Steps[Any], entries: list[Entry]) -> list[Any]:
    name = entries[0].operation.name
    try:
        next(steps)
    except StopIteration as end:
        results: list[Any] = end.value
        if len(results) == len(entries):
            return results
        raise InternalError(f"operation {name} gave {len(results)} results for {len(entries)} rows") from None
    raise InternalError(f"operation {name} yielded twice; it locks once and then returns")


def _pass(moment: str, groups: Iterable[list[Entry]]) -> None:
    if failpoints.active:
        for entries in groups:
            failpoints.hit(f"{entries[0].operation.name}.{moment}")


def _fail(batch: Iterable[Entry], error: Exception) -> None:
    for entry in batch:
        entry.error = error


def _tell(listener: Callable[[Any], None], what: Any) -> None:
    """Call somebody who has to be told; one who fails must not keep the others from being told."""
    try:
        listener(what)
    except Exception:
        log.exception("writer.listener_failed")
