"""The judge of rooms in which servers and workers were killed: what is wrong is seen, and told."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crash_matrix import judged
from perdure.core.rooms import RoomKind
from room_found import Found
from room_kills import Case, Kills, Tally
from room_plots import PLOTS

CALLS = ("stock exe_1/turn 1/tool/stock", "pay exe_1/turn 1/tool/pay")


def good(plot: str = "tools") -> Found:
    """Return what is there after a wake that went right."""
    wanted = PLOTS[plot]
    kinds = (
        *(RoomKind.POSTED, RoomKind.REMEMBERED, RoomKind.TASK_OPENED, RoomKind.TASK_CHANGED),
        RoomKind.FILE_PUT,
    )
    room: dict[str, int] = {kind: wanted.done[kind] for kind in kinds}
    bodies: list[str] = [*CALLS] if plot == "tools" else []
    return Found(room, dict(wanted.done), 1, "completed", True, 5.0, wanted.requests, bodies)


def changed(**kinds: int) -> dict[str, int]:
    return {**good().room, **kinds}


@pytest.mark.parametrize("plot", PLOTS)
def test_a_wake_that_went_right_is_right(plot: str) -> None:
    assert good(plot).wrong("resume", plot) == ""
    assert not any(vars_of(good(plot), plot).values())


def vars_of(found: Found, plot: str = "tools") -> dict[str, Any]:
    verdict = found.judge("resume", plot)
    return {name: getattr(verdict, name) for name in ("doubled", "lost", "half", "unfinished", "broken")}


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (replace(good(), room=changed(room_posted=2)), "doubled"),
        (replace(good(), ledger={**good().ledger, "room_wake_ended": 2}), "doubled"),
        (replace(good(), wakes=2), "doubled"),
        (replace(good(), bodies=[*CALLS, "pay exe_1/turn 1/tool/pay"]), "doubled"),
        (replace(good(), bodies=[*CALLS, "stock exe_1/turn 2/tool/stock"]), "doubled"),
        (replace(good(), room=changed(room_posted=0)), "lost"),
        (replace(good(), room=changed(room_file_put=0)), "half"),
        (replace(good(), bodies=[CALLS[0]]), "half"),
        (replace(good(), ledger={"room_posted": 1}), "half"),
        (replace(good(), state="failed"), "unfinished"),
        (replace(good(), whole=False), "broken"),
        (replace(good(), counted=1.0), "broken"),
    ],
)
def test_what_went_wrong_is_seen(found: Found, what: str) -> None:
    assert [name for name, is_so in vars_of(found).items() if is_so] == [what]
    assert found.wrong("resume", "tools")
    promised = what in ("doubled", "broken")
    assert bool(found.wrong("abandon", "tools")) == promised
    assert bool(found.wrong("claim", "tools")) == (what == "broken" and not found.whole)


def test_a_body_that_runs_again_under_its_key_is_no_second_call() -> None:
    found = replace(good(), bodies=[*CALLS, CALLS[0]])
    assert not any(vars_of(found).values())
    assert found.judge("resume", "tools").called_again == 1


def kills(killed: int, *, wrong: str = "") -> Kills:
    found = Kills()
    found.rows["resume", "tools", "sqlite"] = Tally(runs=1, kills=killed)
    found.rows["retry", "answers", "sqlite"] = Tally(runs=1, kills=1_000)
    found.wrong += [wrong] if wrong else []
    return found


@pytest.mark.parametrize(
    ("found", "whole", "code"),
    [
        (kills(500), True, 0),
        (kills(499), True, 1),
        (kills(1), False, 0),
        (kills(500, wrong="x"), True, 1),
        (Kills(), False, 2),
    ],
)
def test_a_whole_run_owes_five_hundred_kills_of_our_own_wakes(found: Kills, *, whole: bool, code: int) -> None:
    assert judged(found, whole=whole) == code


def test_a_run_whose_processes_broke_is_told_and_fails() -> None:
    found, case = Kills(), Case("sqlite", "resume", "tools", "server", "record.before_commit", 2)
    said = found.take(case, {"killed": 3, "found": None, "error": "a server ended with 1"})
    assert said == "sqlite resume tools server record.before_commit@2: a server ended with 1"
    assert judged(found, whole=False) == 1
    assert f"WRONG: {said}" in found.table()


def test_later_lives_die_at_their_first_pass_and_who_opens_a_store_dies_over_a_wake() -> None:
    late = Case("sqlite", "resume", "tools", "server", "record.before_commit", 2)
    assert late.kills(3, 2) == ["record.before_commit@2", "record.before_commit@1", "record.before_commit@1"]
    opening = replace(late, point="take_over.before_commit", nth=1)
    assert opening.kills(1, 1) == ["act_in_room.after_commit@1", "take_over.before_commit@1"]


def test_the_summary_becomes_the_table_of_the_documentation() -> None:
    tables = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "crash_tables.py"))
    lines = tables["rooms_table"](kills(3).to_json())
    assert lines[0].startswith("| order | wake | store | runs | kills | doubled | lost | half done | asked again |")
    assert lines[2] == "| resume | tools | sqlite | 1 | 3 | 0 | 0 | 0 | 0 | 0 |"
    assert lines[-1] == "3 wakes killed, 0 promises broken."
