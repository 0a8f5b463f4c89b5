"""At each failpoint once, kill -9 whoever holds it: the incident report ends right each time.

The client runs the tools too, leases last a second, a killed process is started again at once. What "right" means is
judged from outside: see `crash_judge` and `perdure.testing.checker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import crash_points
from crash_case import Case, Outcome
from crash_client import ERRANDS
from crash_points import Point

POINTS = crash_points.points()
NAMES = {point.name for point in POINTS}
SWEPT = [point for point in POINTS if not point.on_the_side and not point.unreached]
TOURS = crash_points.tours()


OF_A_FILE = pytest.mark.sqlite_only("a file's own points: its take-over, its tables, its end")


def swept(point: Point) -> Any:
    """Return a point to be swept, on each store that has it."""
    subject = point.name.partition(".")[0]
    if subject in crash_points.OF_A_FILE:
        return pytest.param(point, id=point.name, marks=OF_A_FILE)
    why = crash_points.UNREACHED_IN_DATABASES.get(subject)
    return pytest.param(point, id=point.name, marks=pytest.mark.sqlite_only(why) if why else ())


@pytest.mark.parametrize("point", [swept(point) for point in SWEPT])
def test_the_report_ends_right_when_its_holder_is_killed_at(point: Point, crash: Callable[[Case], Outcome]) -> None:
    case = point.case((point.holder,), layout="joint")
    outcome = crash(case)
    assert outcome.unfired == [], f"never passed in this run; if none can, say why in crash_points.UNREACHED: {outcome}"
    assert outcome.problems == [], outcome
    assert outcome.kills == case.planned_kills, outcome
    assert set(outcome.seen) <= NAMES, "points that crash_points does not find in the code"


@pytest.mark.parametrize("case", TOURS, ids=lambda case: case.name)
def test_an_errand_is_done_when_somebody_is_killed_at_each_of_its_points_in_turn(
    case: Case, crash: Callable[[Case], Outcome]
) -> None:
    outcome = crash(case)
    assert outcome.unfired == [], f"never passed in this run: {outcome}"
    assert outcome.problems == [], outcome
    assert outcome.kills == case.planned_kills, outcome
    assert set(outcome.seen) <= NAMES, "points that crash_points does not find in the code"


def test_a_function_outlives_its_worker_and_its_server_and_passes_all_other_points(
    crash: Callable[[Case], Outcome],
) -> None:
    """Kills at each of these points: `test_functions.py`, and the crash matrix."""
    case = crash_points.tour_of_functions()
    outcome = crash(case)
    assert outcome.ok, outcome
    assert outcome.kills == case.planned_kills, outcome
    toured = {strike.point for tour in TOURS for strike in tour.strikes}
    left = {point.name for point in POINTS if point.on_the_side and not point.unreached} - toured
    assert left <= set(outcome.seen), f"never passed: {sorted(left - set(outcome.seen))}"


@pytest.mark.parametrize(
    "layout",
    [
        "separate",
        "joint",
        pytest.param("embedded", marks=pytest.mark.sqlite_only("a program that is its own server has a file")),
    ],
)
def test_an_undisturbed_report_asks_for_nothing_twice(layout: str, crash: Callable[[Case], Outcome]) -> None:
    errands = [] if layout == "embedded" else list(ERRANDS)
    setup = {"errands": errands, "lease_ms": 30_000}  # a lease that ran out would be a disturbance, of the machine's
    outcome = crash(Case("undisturbed", layout=layout, setup=setup))
    assert outcome.problems == [], outcome
    assert outcome.calls_twice == outcome.uncertain == 0
    assert not outcome.of("taken_over") + outcome.of("attempt_lost") + outcome.of("attempt_failed")
    assert set(outcome.seen) <= NAMES


def test_the_failpoints_are_those_that_the_sweep_knows() -> None:
    assert crash_points.patterns() == crash_points.PATTERNS
    subjects = {part for name in NAMES for part in name.split(".")}
    assert crash_points.WAYS.keys() | crash_points.UNREACHED.keys() <= subjects
