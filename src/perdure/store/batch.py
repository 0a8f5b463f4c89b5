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
from perdure.store.standing import Standing, Topic
from perdure.store.tx import Note, Tx

MAX_OPERATIONS = 256
MAX_BYTES = 1_000_000
"""By the `size` of the rows that have one; a row larger than this goes alone."""
MAX_LOOK_AHEAD = 1_024
"""Entries looked at for one batch: a long queue for one key costs no more than this."""
MAX_PAST = 1_000
"""Owners of wishes that ask no more and are still remembered."""
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

    __slots__ = ("asks", "error", "keys", "operation", "result", "row", "size", "target", "token", "unchanged", "wants")

    def __init__(
        self,
        operation: Operation[Any, Any],
        row: Any,
        target: Settle,
        token: Any = None,
        wants: tuple[Topic, ...] = (),
        unchanged: bool = False,
    ) -> None:
        self.operation = operation
        self.row = row
        self.target = target
        self.token = token
        """The submitter's own: the future to resolve, for instance."""
        self.wants = wants
        """A wish: while its result is empty it stands, and runs again in each transaction that announces one of these,
        until an entry with the same key takes its place."""
        self.unchanged = unchanged
        """Other processes have made nothing for it since the last wish with its key."""
        self.asks: object = getattr(row, "asks", None)
        """What a wish is for: one for the same again need not be run if nothing has changed."""
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
        self._standing = Standing()
        self._past = Standing()
        """Wishes that were taken back unfulfilled, as long as nothing is announced that they wanted."""
        self._granted: list[Entry] = []
        """Wishes that came true with the batch that is run now, and are not settled yet."""
        self._spoken_to: list[Entry] = []
        """Wishes that a try of that batch spoke to: it may have been committed without our being told, and the next try
        then announces nothing any more."""

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
        replaced, runs = self._stand(batch)
        self._running = [*replaced, *batch]
        self._spoken_to.clear()
        if self.failed is None:
            notes = self._commit_all(runs, pause) if runs else []
        else:
            notes = []
            _fail(batch, StoreFailed(self.failed.message, code=self.failed.code))
        ended = self._end([*replaced, *batch])
        self._running = []
        self._settle(ended)
        if notes:
            _tell(self._publish, notes)
        return len(batch)

    def _stand(self, batch: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Let the batch's wishes stand from before it runs; return those whose place its entries take, and the entries
        that are to be run."""
        replaced = self._standing.replaced(batch) if self._standing else []
        past = self._past.replaced(batch) if self._past else []
        before = {key: old for old in (*past, *replaced) for key in old.keys}
        runs: list[Entry] = []
        for entry in batch:
            if entry.wants:
                self._standing.add(entry)
            old = next((before[key] for key in entry.keys if key in before), None) if entry.unchanged else None
            if old is None or old.asks != entry.asks:
                runs.append(entry)
                continue
            entry.result = old.result
            if not entry.wants:
                self._past.add(old)
        if len(self._past) > MAX_PAST:
            self._past.clear()  # each will cost its owner one look
        return replaced, runs

    def _end(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return what is to be settled: of these entries all but the wishes that stand on, and the wishes granted."""
        ended: list[Entry] = []
        for entry in entries:
            if entry.wants and entry.error is not None:
                self._standing.remove(entry)
            if not self._standing.holds(entry):
                ended.append(entry)
        told = set(map(id, ended))
        ended += [entry for entry in self._granted if id(entry) not in told]
        self._granted.clear()
        return ended

    def fail_all(self, error: PerdureError) -> None:
        """End every entry not yet settled with `error`."""
        rest = [*self._running, *self._granted, *self._deferred, *self.queue, *self._standing.clear()]
        self._running.clear()
        self._granted.clear()
        self._deferred.clear()
        self.queue.clear()
        _fail(rest, error)
        self._settle(list({id(entry): entry for entry in rest}.values()))

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
                # Asked for each when its turn comes: one before it may have granted its wish.
                left = (entry for entry in batch if not entry.wants or self._standing.holds(entry))
                return [note for entry in left for note in self._commit_all([entry], pause)]
        _fail(
            batch, Retryable(f"the database did not take the change after {TRIES} tries: {reason}", code="store_busy")
        )
        return []

    def _commit(self, batch: list[Entry]) -> list[Note]:
        groups = _grouped(batch)
        with self._store.write() as connection:
            tx = Tx(connection)
            _give(groups, _apply(tx, groups))
            called, gifts = self._grant(tx)
            if self._past:  # before the commit, which may happen without our being told
                self._past.remove(*self._past.called(tx.announced()))
            notes = tx.flush()
            _pass("before_commit", [*groups, *called])
        self._spoken_to.clear()
        _give(called, gifts)
        for entries in (*groups, *called):
            self._granting([entry for entry in entries if entry.wants and entry.result])
        self.commits += 1
        self.operations += len(batch)
        try:
            _pass("after_commit", [*groups, *called])
        except failpoints.InjectedFault as fault:
            _fail([*batch, *self._granted], fault)  # as if the answer had been lost: committed, and nobody is told
        return notes

    def _granting(self, wishes: Sequence[Entry]) -> None:
        """Note that these stand no more: they have a result, or an error."""
        self._standing.remove(*wishes)
        self._granted += wishes

    def _grant(self, tx: Tx) -> tuple[list[list[Entry]], list[list[Any]]]:
        """Run the wishes that the transaction speaks to, over what it holds already: it locks nothing more for them."""
        wishes = self._standing.called(tx.announced()) if self._standing else []
        wishes += [entry for entry in self._spoken_to if entry not in wishes and self._standing.holds(entry)]
        if not (wishes := [entry for entry in wishes if not entry.result]):
            return [], []
        self._spoken_to = wishes
        tx.write_out()
        called = _grouped(wishes)
        try:
            return called, _apply(tx, called, lock=False)
        except (Again, StoreFull, StoreFailed):
            raise
        except Exception as error:
            # The batch is not to blame: it runs again without them.
            _fail(wishes, error)
            self._granting(wishes)
            raise Again(f"a wish that stood failed: {error!r}") from error

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
        wishes = self._standing.clear()
        _fail(wishes, error)
        self._granted += wishes
        log.error("writer.store_failed", code=error.code, reason=error.message)
        _tell(self._on_failed, error)


def _grouped(batch: Iterable[Entry]) -> list[list[Entry]]:
    """Return entries by operation, in the order in which each operation came first."""
    groups: dict[int, list[Entry]] = {}
    for entry in batch:
        groups.setdefault(id(entry.operation), []).append(entry)
    return list(groups.values())


def _give(groups: Iterable[list[Entry]], results: Iterable[list[Any]]) -> None:
    for entries, found in zip(groups, results, strict=True):
        for entry, result in zip(entries, found, strict=True):
            entry.result = result


def _apply(tx: Tx, groups: Sequence[list[Entry]], *, lock: bool = True) -> list[list[Any]]:
    """Run all first halves, lock what they asked for in one order, run all second halves; return results by group."""
    running: list[Steps[Any]] = []
    wanted: list[Ref] = []
    for entries in groups:
        steps = entries[0].operation.apply(tx, [entry.row for entry in entries])
        running.append(steps)
        wanted.extend(_first_half(steps, entries))
    if lock:
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


def _pass(moment: str, groups: Sequence[list[Entry]]) -> None:
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
