"""Pick what to give to those who lease: the most urgent first, whichever lane it is in, then the longest due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from perdure.core.work import Lane, LeaseRequest
from perdure.engine.room import Rooms
from perdure.store.protocol import Row
from perdure.store.sql_store import names
from perdure.store.tx import Tx

Place = tuple[str, str]
"""A task: its execution and its address."""


class Wish(Protocol):
    """One worker's wish for tasks, in its company's name."""

    @property
    def company(self) -> str: ...
    @property
    def request(self) -> LeaseRequest: ...


def pick_all(tx: Tx, rows: Sequence[Wish], again: Sequence[list[Row]], rooms: Rooms) -> list[list[Row]]:
    """Pick for each, no task twice; or stop where limits are met that are not known yet.

    `again`: what each was given before, in answer to the same request; whoever was given something gets just that.
    """
    taken: set[Place] = set()
    picked: list[list[Row]] = []
    for row, same in zip(rows, again, strict=True):
        picked.append(same or _pick(tx, row, taken, rooms))
        if rooms.short:
            break
    return picked


def _pick(tx: Tx, row: Wish, taken: set[Place], rooms: Rooms) -> list[Row]:
    slots, lanes = row.request.slots, row.request.lanes
    picked: list[Row] = []
    for lane in lanes:
        key = row.company, lane.queue
        free = min(slots - len(picked), rooms.left(key))
        if free > 0:
            fresh = rooms.allow(key, _candidates(tx, row, lane, free, taken))
            taken.update(map(_place, fresh))
            picked += fresh
    if len(lanes) > 1 and 0 < slots == len(picked) and _overtaken(tx, row, picked):
        return _most_urgent(tx, row, picked, taken, rooms)
    return picked


def _candidates(tx: Tx, row: Wish, lane: Lane, free: int, taken: set[Place]) -> list[Row]:
    found = tx.rows(
        "ready_tasks",
        company=row.company,
        queue=lane.queue,
        agent=lane.agent,
        tool=lane.tool,
        now_ms=tx.now_ms,
        limit=free + len(taken),
    )
    return [task for task in found if _place(task) not in taken][:free]


def _place(task: Row) -> Place:
    return task["execution"], task["address"]


def _overtaken(tx: Tx, row: Wish, picked: Sequence[Row]) -> bool:
    """Say whether more urgent tasks may wait in the lanes than some of those picked, which leave no slot free."""
    tree: dict[str, Any] = {}
    for lane in row.request.lanes:
        tree.setdefault(lane.queue, {}).setdefault(lane.agent, {})[lane.tool] = 0
    found = tx.row("most_urgent", company=row.company, lanes=names("most_urgent", tree), now_ms=tx.now_ms)
    return found is not None and (found["ahead_ms"] or 0) > min(task["ahead_ms"] for task in picked)


def _most_urgent(tx: Tx, row: Wish, picked: Sequence[Row], taken: set[Place], rooms: Rooms) -> list[Row]:
    """Pick anew, in one order over all lanes."""
    taken.difference_update(map(_place, picked))
    rooms.take_back(picked)
    slots, lanes = row.request.slots, row.request.lanes
    found = [one for lane in lanes for one in _candidates(tx, row, lane, slots, taken)]
    chosen: list[Row] = []
    for task in sorted(found, key=lambda one: one["run_at_ms"] - one["ahead_ms"]):
        key = task["company"], task["queue"]
        if len(chosen) < slots and rooms.left(key) > 0:
            chosen += rooms.allow(key, [task])
    taken.update(map(_place, chosen))
    return chosen
