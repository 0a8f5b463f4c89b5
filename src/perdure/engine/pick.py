"""Pick what to give to those who lease: the most urgent first, whichever lane it is in, then the longest due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.engine.allowances import Allowances
from perdure.engine.turns import Line, Place, Wish, place
from perdure.store.protocol import Row
from perdure.store.sql_store import names
from perdure.store.tx import Tx


def pick_all(tx: Tx, rows: Sequence[Wish], again: Sequence[list[Row]], allowances: Allowances) -> list[list[Row]]:
    """Pick for each, no task twice; or stop where limits are met that are not known yet.

    `again`: what each was given before, in answer to the same request; whoever was given something gets just that.
    """
    taken: set[Place] = set()
    picked: list[list[Row]] = []
    for row, same in zip(rows, again, strict=True):
        picked.append(same or _pick(tx, row, taken, allowances))
        if allowances.short:
            break
    return picked


def _pick(tx: Tx, row: Wish, taken: set[Place], allowances: Allowances) -> list[Row]:
    slots, lines = row.request.slots, [Line(tx, row, lane, taken) for lane in row.request.lanes]
    picked: list[Row] = []
    for line in lines:
        free = min(slots - len(picked), allowances.left(line.queue))
        if free > 0:
            turns = allowances.in_turns(line.queue)
            found = line.in_turn(free, allowances) if turns else line.plain(free, allowances)
            fresh = allowances.allow(line.queue, found)
            taken.update(map(place, fresh))
            picked += fresh
    if len(lines) > 1 and 0 < slots == len(picked) and _overtaken(tx, row, picked, allowances):
        return _most_urgent(lines, slots, picked, taken, allowances)
    return picked


def _overtaken(tx: Tx, row: Wish, picked: Sequence[Row], allowances: Allowances) -> bool:
    """Say whether more urgent tasks may wait in the lanes than some of those picked, which leave no slot free.

    Where keys take turns, turns come before priorities.
    """
    tree: dict[str, Any] = {}
    for lane in row.request.lanes:
        if allowances.in_turns((row.company, lane.queue)):
            return False
        tree.setdefault(lane.queue, {}).setdefault(lane.agent, {})[lane.tool] = 0
    found = tx.row("most_urgent", company=row.company, lanes=names("most_urgent", tree), now_ms=tx.now_ms)
    return found is not None and (found["ahead_ms"] or 0) > min(task["ahead_ms"] for task in picked)


def _most_urgent(
    lines: Sequence[Line], slots: int, picked: Sequence[Row], taken: set[Place], allowances: Allowances
) -> list[Row]:
    """Pick anew, in one order over all lanes."""
    taken.difference_update(map(place, picked))
    allowances.take_back(picked)
    found = [task for line in lines for task in line.plain(slots, allowances)]
    chosen: list[Row] = []
    for task in sorted(found, key=lambda one: one["run_at_ms"] - one["ahead_ms"]):
        queue = task["company"], task["queue"]
        if len(chosen) < slots and allowances.left(queue) > 0:
            chosen += allowances.allow(queue, [task])
    taken.update(map(place, chosen))
    return chosen
