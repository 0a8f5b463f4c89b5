"""Read the tasks of a lane: those without a key in one line, those of keys in turns: no key waits behind another.

What it costs grows with the keys that have tasks ready, not with how many these have: an index goes from key to key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from perdure.core.work import Lane, LeaseRequest
from perdure.engine.allowances import Allowances, Key
from perdure.store.protocol import Row
from perdure.store.sql_store import names
from perdure.store.tx import Tx

Place = tuple[str, str]
"""A task: its execution and its address."""
FEWEST_KEYS = 4
"""Read at a time: else as many as there are slots."""


class Wish(Protocol):
    """One worker's wish for tasks, in its company's name."""

    @property
    def company(self) -> str: ...
    @property
    def request(self) -> LeaseRequest: ...


class Line:
    """One lane, as one wish looks at it."""

    def __init__(self, tx: Tx, wish: Wish, lane: Lane, taken: set[Place]) -> None:
        self.queue: Key = (wish.company, lane.queue)
        self._tx = tx
        self._lane = {"company": wish.company, "queue": lane.queue, "agent": lane.agent, "tool": lane.tool}
        self._taken = taken
        """What others were given in this transaction."""

    def plain(self, most: int, allowances: Allowances) -> list[Row]:
        """Return up to `most` tasks that have no key, and note whether there are some that have."""
        found = self._read("", most)
        if any(task["onward"] for task in found):
            allowances.note_keys(self.queue)
        return self._fresh(found, most)

    def in_turn(self, most: int, allowances: Allowances) -> list[Row]:
        """Return up to `most` tasks, one of each key that has room and then again, from the key on that comes after the
        one that had the last turn. Tasks without a key have turns as if that was theirs, and no limit."""
        found: dict[str, list[Row]] = {}
        for limit_key in self._keys(allowances, max(most, FEWEST_KEYS)):
            if tasks := self._of(limit_key, 1):
                found[limit_key] = tasks
            if len(found) == most:
                break
        else:  # there are fewer keys than slots
            found = {one: self._of(one, min(most, allowances.key_left(self.queue, one))) for one in found}
        return list(alternating([*found.values()]))[:most]

    def _keys(self, allowances: Allowances, page: int) -> Iterator[str]:
        """Yield the keys that have something due and room, in the order of their turns."""
        last = allowances.turn(self.queue)
        yield from self._keys_after(last, allowances, page)
        yield ""
        if last:
            for limit_key in self._keys_after("", allowances, page):
                if limit_key > last:
                    return
                yield limit_key

    def _keys_after(self, after: str, allowances: Allowances, page: int) -> Iterator[str]:
        full = names("next_keys", dict.fromkeys(allowances.full_keys(self.queue), 0))
        while True:
            given = {"after": after, "full": full, "now_ms": self._tx.now_ms, "limit": page}
            found = self._tx.rows("next_keys", **self._lane, **given)
            yield from (row["limit_key"] for row in found)
            if len(found) < page:
                return
            after = found[-1]["limit_key"]

    def _of(self, limit_key: str, most: int) -> list[Row]:
        return self._fresh(self._read(limit_key, most), most)

    def _read(self, limit_key: str, most: int) -> list[Row]:
        limit = most + len(self._taken)
        return self._tx.rows("ready_tasks", **self._lane, limit_key=limit_key, now_ms=self._tx.now_ms, limit=limit)

    def _fresh(self, found: list[Row], most: int) -> list[Row]:
        return [task for task in found if not task["onward"] and place(task) not in self._taken][:most]


def place(task: Row) -> Place:
    """Return what tells a task from all others."""
    return task["execution"], task["address"]


def alternating(lines: Sequence[list[Row]]) -> Iterator[Row]:
    """Yield the first of each, then the second of each that has one, and so on."""
    for n in range(max(map(len, lines), default=0)):
        yield from (line[n] for line in lines if n < len(line))
