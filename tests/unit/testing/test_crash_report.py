"""A long crash run fails for each thing that makes its result worthless, and counts only what met an execution."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crash_counts import count, resolved
from crash_phase import Phase, Room, Tally
from crash_report import RANDOM, TWICE, LongRun, Points, as_json, complaints, effects_due, facts, table
from perdure.testing.evidence import Entry, Event, History

START_MS = 1_000_000


def nothing(_room: Room, _tally: Tally) -> None:
    """Do nothing."""


PHASES = (
    Phase("simulate", nothing, 1, due={"seeds": 10_000}),
    Phase(RANDOM, nothing, 1, due={"kills in flight": 500}),
)


def good() -> LongRun:
    """Return an hour in which enough was done and nothing broke."""
    simulated = Tally("simulate", Counter({"seeds": 10_000, "virtual seconds": 7200}), seconds=1800)
    killed = Tally(RANDOM, Counter({"kills": 1_700, "kills in flight": 1_600, "effects": 1_000}), seconds=1800)
    return LongRun(60, 1, PHASES, (simulated, killed), Points(200, (), {}))


def spoilt(tally: int, **counts: int) -> LongRun:
    run = good()
    run.tallies[tally].counts.update(counts)
    return run


def test_an_hour_that_did_enough_and_broke_nothing_passes() -> None:
    run = good()
    assert complaints(run) == []
    assert facts(run)["kills per hour of random killing"] == 3200
    assert facts(run)["virtual hours"] == 2
    assert "VIOLATED" not in table(run)


def test_the_summary_becomes_the_tables_of_the_documentation() -> None:
    tables = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "crash_tables.py"))
    told = json.loads(as_json(good()))
    lines = tables["long_tables"](told)
    assert "| random kills | 0 | 1,700 | 1,600 | 0 | 0 | 1,000 | 0 | 1,800 |" in lines
    assert lines[-1] == "The run passed."
    bug = {"name": "no_fence", "by": "tests/unit/test_a.py::test_b[c]", "hung": True, "seconds": 2.5}
    found = tables["planted_table"]({"bugs": [bug], "found": 1, "planted": 1, "seconds": 3})
    assert found[2:] == ["| no_fence | `test_a.py::test_b` (hung) | 2.5 |", "", "Found 1 of 1 in 3 s."]


def test_a_violation_fails_the_run_and_is_told_by_its_promise() -> None:
    run = good()
    run.tallies[1].violated("P3", "storm 7: P3/I4 its body started 2 times (see /tmp/7)")
    assert complaints(run) == ["storm 7: P3/I4 its body started 2 times (see /tmp/7)"]
    assert facts(run)["violations by promise"] == {"P3": 1}
    assert "VIOLATED storm 7" in table(run)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (replace(good(), points=Points(1, ("fork.before_commit",), {})), "never hit: fork.before_commit"),
        (spoilt(1, **{"kills in flight": -101}), "50 kills a minute of random killing, at least 50 are due"),
        (spoilt(1, **{"kills in flight": -601}), "999 kills in flight, 1000 are due in 60 minutes"),
        (spoilt(1, effects=-1), "999 effects, 1000 are due"),
        (spoilt(0, seeds=-1), "simulate: 9,999 seeds, 10,000 are due"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_too_little_done_fails_the_run(run: LongRun, says: str) -> None:
    assert any(says in complaint for complaint in complaints(run)), complaints(run)


def test_a_short_run_owes_its_part() -> None:
    assert (effects_due(2), effects_due(5), effects_due(60)) == (400, 1_000, 1_000)
    run = replace(good(), minutes=6)
    run.tallies[0].counts["seeds"] = 1_000
    assert complaints(run) == []


def story(*kinds: str, address: str = "turn 1/tool/c1", **data: Any) -> History:
    """Return an execution with these events, a second apart."""
    events = [Event(n, kind, address, data, START_MS + n * 1_000) for n, kind in enumerate(kinds, 1)]
    return History("exe_1", "completed", tuple(events))


def test_a_kill_counts_only_between_start_and_end_of_an_execution() -> None:
    history = story("started", "step_recorded", "completed")
    struck = [START_MS, START_MS + 1_500, START_MS + 2_500, START_MS + 4_000]
    assert count([history], [], struck)["kills in flight"] == 2
    assert count([], [], struck)["kills in flight"] == 0


def test_a_body_that_started_twice_is_counted_unless_somebody_asked_for_it() -> None:
    acts = [Entry(n, START_MS, "pay", "exe_1", "turn 1/tool/c1") for n in (1, 2)]
    found = count([story("started", "task_scheduled", "completed", delivery="at_most_once")], acts, [])
    assert (found[TWICE], found["effects"]) == (1, 2)
    ruled = story("started", "task_scheduled", "effect_ruled", "completed", delivery="at_most_once", ruling="run")
    found = count([ruled], acts, [])
    assert (found[TWICE], found["at_most_once bodies started again on somebody's word"]) == (0, 1)


def test_each_uncertain_effect_is_told_by_what_ended_the_doubt() -> None:
    late = story("started", "task_uncertain", "task_completed", late=True)
    ruled = story("started", "task_uncertain", "effect_ruled", ruling="happened", by="ops")
    told = resolved([late, ruled, story("started", "task_uncertain")])
    assert told == {"the holder's late report": 1, "ruled happened by ops": 1, "still uncertain": 1}
