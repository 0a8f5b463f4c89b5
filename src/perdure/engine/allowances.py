"""How much the limits of queues allow those who lease, and whose turn it is.

For all servers, under locks of the queues' rows.

In the order of locks the rows of queues come before executions. A wish that is granted inside a transaction that holds
executions already does not wait for such a row: it takes it if it is free, and else comes back a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from perdure.core.codec import Json
from perdure.store.protocol import Row
from perdure.store.sql_store import names
from perdure.store.tx import Tx

Key = tuple[str, str]
"""Company and queue."""

BUSY_MS = 20
"""After which a wish looks again that found a queue's row locked."""
LEAST_MS = 5
"""After which those are woken, at the earliest, whom a rate holds back."""
MOST_MS = 10_000
"""Longer than who waits goes without looking by itself, which says anew when the next token comes. So no timers pile up
for one that comes in days."""
_ALL = 2**31
"""Where there is no limit: more than anybody has slots."""


@dataclass(slots=True)
class Allowance:
    """What one queue with limits may still give in this transaction."""

    row: Row
    left: int
    """Tasks, by both limits."""
    credit: int
    """Of the rate, now."""
    started: int = 0
    """Tasks given that cost credit."""
    held: dict[str, int] = field(default_factory=dict[str, int])
    """By key, tasks under way, where keys have a limit."""
    turn: str | None = None
    """The key that had the last turn; None where none has had one."""


class Allowances:
    """The queues that one lease operation asks of. New, it knows of no limits, and notices whether there are any."""

    def __init__(self) -> None:
        self._known: dict[Key, Allowance] = {}
        """Of queues whose rows are locked."""
        self._looked = False
        self._unknown: set[Key] = set()
        """Queues with limits, or keys, whose rows are not locked."""
        self._keyed: set[Key] = set()
        """Queues in which tasks of keys wait."""

    @property
    def short(self) -> bool:
        """Whether a queue with limits or keys has something to give, and what these leave is not known."""
        return bool(self._unknown) and not self._looked

    def left(self, key: Key) -> int:
        """Return how many more tasks a queue may give."""
        allowance = self._known.get(key)
        return _ALL if allowance is None else allowance.left

    def allow(self, key: Key, found: list[Row]) -> list[Row]:
        """Return what may be given of the tasks found in a queue, at most `left`, and count it."""
        allowance = self._known.get(key)
        if allowance is not None:
            allowance.left -= len(found)
            for task in found:
                allowance.held[task["limit_key"]] = allowance.held.get(task["limit_key"], 0) + 1
            if allowance.turn is not None and key in self._keyed and found:
                allowance.turn = found[-1]["limit_key"]
        elif found and found[0]["queue_limited"]:
            self._unknown.add(key)
            return [] if self._looked else found
        return found

    def take_back(self, tasks: Iterable[Row]) -> None:
        """Count tasks as not given: others may go before them."""
        for task in tasks:
            allowance = self._known.get((task["company"], task["queue"]))
            if allowance is not None:
                allowance.left += 1
                allowance.held[task["limit_key"]] -= 1

    def note_keys(self, key: Key) -> None:
        """Note that tasks of keys wait in a queue. They are given in turns, which its row keeps."""
        self._keyed.add(key)
        if not self.in_turns(key):
            self._unknown.add(key)

    def in_turns(self, key: Key) -> bool:
        """Say whether the tasks of a queue are to be given in turns, and whose turn it is is known."""
        return key in self._keyed and key in self._known and self._known[key].turn is not None

    def turn(self, key: Key) -> str:
        """Return the key that had the last turn in a queue."""
        return self._known[key].turn or ""

    def key_left(self, key: Key, limit_key: str) -> int:
        """Return how many more tasks a queue may give of one of its keys."""
        allowance = self._known[key]
        if allowance.row["per_key"] is None or not limit_key:
            return _ALL
        return max(allowance.row["per_key"] - allowance.held.get(limit_key, 0), 0)

    def full_keys(self, key: Key) -> list[str]:
        """Return the keys of which a queue may give nothing now."""
        return [limit_key for limit_key in self._known[key].held if not self.key_left(key, limit_key)]

    def look(self, tx: Tx, keys: Iterable[Key]) -> None:
        """Lock those of these queues that have limits, and see what these leave."""
        tree: dict[str, dict[str, Json]] = {}
        for company, queue in keys:
            tree.setdefault(company, {})[queue] = 0
        query = "lock_free_queues" if tx.locked else "lock_queues"
        self._looked = True
        rows = tx.rows(query, wanted=names(query, {**tree}))
        if not tx.locked and (new := self._keyed - {_key(row) for row in rows if row["turn"] is not None}):
            for company, queue in sorted(new):
                tx.run("take_turns", company=company, name=queue, now_ms=tx.now_ms)
            rows = tx.rows(query, wanted=names(query, {**tree}))
        # Counted by statements of their own, which see what was committed while the locks were waited for.
        self._known = {_key(row): _allowance(tx, row) for row in rows}
        self._unknown = {key for key in self._keyed if not self.in_turns(key)}

    def start(self, key: Key) -> None:
        """Count a task that was given, for the rate."""
        if key in self._known:
            self._known[key].started += 1

    def settle(self, tx: Tx) -> None:
        """Keep what is left of each rate, and have those told who may come again: when, if the rate says it."""
        for (company, queue), allowance in self._known.items():
            if allowance.turn != allowance.row["turn"]:
                tx.run("pass_turn", company=company, name=queue, turn=allowance.turn)
            if allowance.row["rate"] is None:
                continue
            period_ms, rate = allowance.row["period_ms"], allowance.row["rate"]
            credit = allowance.credit - allowance.started * period_ms
            if allowance.started:
                tx.run("spend_queue", company=company, name=queue, credit=credit, now_ms=tx.now_ms)
            if credit < period_ms:
                wait_ms = -(-(period_ms - credit) // rate)
                if wait_ms <= MOST_MS:
                    tx.announce("tasks", f"{company}/{queue}", after_ms=max(wait_ms, LEAST_MS))
        for company, queue in self._unknown:
            tx.announce("tasks", f"{company}/{queue}", after_ms=BUSY_MS)


def credit_of(row: Row, now_ms: int) -> int:
    """Return what a queue's rate has to give now: a lease costs `period_ms` of it."""
    if row["rate"] is None:
        return 0
    earned = max(now_ms - row["credit_ms"], 0) * row["rate"]
    return min(row["credit"] + earned, row["rate"] * row["period_ms"])


def _allowance(tx: Tx, row: Row) -> Allowance:
    credit = credit_of(row, tx.now_ms)
    left = 0 if row["paused"] else _ALL
    if left and row["rate"] is not None:
        left = credit // row["period_ms"]
    if left and row["concurrency"] is not None:
        found = tx.row("count_held", company=row["company"], queue=row["name"])
        left = min(left, max(row["concurrency"] - (found["held"] if found else 0), 0))
    keys = tx.rows("keys_held", company=row["company"], queue=row["name"]) if row["per_key"] is not None else ()
    return Allowance(row, left, credit, held={one["limit_key"]: one["held"] for one in keys}, turn=row["turn"])


def _key(row: Row) -> Key:
    return row["company"], row["name"]
