"""Run crash cases for a phase, and add what they come to to its tally."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence

from crash_case import Case, Outcome
from crash_driver import run_case
from crash_phase import Room, Tally
from perdure.testing.pool import run_all

LOST, AGAIN = "recorded steps lost", "recorded steps run again"
PROBLEM = re.compile(r"(P\d)(?:/(I\d+))?")
Cases = Sequence[Callable[[], Case]]


def run_cases(cases: Cases, room: Room, tally: Tally, run: Callable[[Case], Outcome] = run_case) -> None:
    """Run cases until there are none or no time, and add what they came to."""
    for outcome in outcomes(cases, room, run):
        take(outcome, tally)
        if tally.counts["runs"] % 50 == 0:
            counts = tally.counts
            told = f"{counts['runs']} runs, {counts['kills']} kills, {len(tally.violations)} violations"
            sys.stderr.write(f"{tally.name}: {told}\n")


def outcomes(cases: Cases, room: Room, run: Callable[[Case], Outcome] = run_case) -> Iterator[Outcome]:
    """Yield what each case came to, as they end."""
    for _, found in run_all(len(cases), lambda at: run(cases[at]()).to_json(), room.jobs, room.until):
        yield Outcome.from_json(found)


def take(outcome: Outcome, tally: Tally) -> None:
    """Add what one run came to."""
    tally.counts.update(outcome.counts)
    tally.counts.update(
        {
            "runs": 1,
            "kills": len(outcome.struck_at_ms),
            "stops": outcome.stops,
            "servers ended by a broken call": int(outcome.injected),
            "uncertain": outcome.uncertain,
            "model calls": outcome.calls_made,
            "model calls maybe paid twice": outcome.calls_twice,
        }
    )
    tally.resolved.update(outcome.resolved)
    tally.seen.update(outcome.seen)
    for problem in outcome.problems:
        told = PROBLEM.match(problem)
        tally.violated(told[1] if told else "ended wrong", f"{outcome.name}: {problem} (see {outcome.folder})")
        tally.counts[LOST] += bool(told) and told[2] == "I2"
        tally.counts[AGAIN] += bool(told) and told[2] == "I3"
