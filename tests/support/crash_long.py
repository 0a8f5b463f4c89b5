"""The long crash run: every failpoint once, broken system calls, simulations, then random kills until the time is up.

`./dev crash --minutes N`. Exit code 1 if a promise was broken, a failpoint was never hit, or too little was done for
that to mean anything: see `crash_report`. What a phase is, is in `crash_phase`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from crash_case import Case, Outcome, Storm
from crash_driver import run_case
from crash_phase import Phase, Room, Tally
from crash_points import UNREACHED, points
from crash_report import RANDOM, LongRun, Points, as_json, complaints, table
from perdure.testing.pool import run_all

LAYOUTS = ("separate", "joint", "separate", "joint", "embedded")
CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "openat", "unlink", "write", "sendto")
"""System calls of a server on SQLite by which something lasts, or is answered."""
FAULTS = ("signal=KILL", "error=EIO", "error=ENOSPC")
ENOUGH = 100_000
MEAN_SECONDS = 0.15
LINGER_SECONDS = 0.25
"""Between two blows, and how long each tool takes, so that there is somebody to be struck."""
LATE = {"late_attempts": True}
"""A stopped process may act after somebody else took over."""
LOST, AGAIN = "recorded steps lost", "recorded steps run again"
PROBLEM = re.compile(r"(P\d)(?:/(I\d+))?")
Cases = Sequence[Callable[[], Case]]


def main() -> int:
    options = _parser().parse_args()
    end = time.monotonic() + options.minutes * 60
    tallies: list[Tally] = []
    for number, phase in enumerate(PHASES):
        parts = sum(later.share for later in PHASES[number:])
        now = time.monotonic()
        room = Room(now + (end - now) * phase.share / parts, options.seed, options.jobs)
        tallies.append(run_phase(phase, room))
    seen = set[str]().union(*(tally.seen for tally in tallies))
    due = [point.name for point in points() if not point.unreached]
    missed = [name for name in due if name not in seen]
    run = LongRun(options.minutes, options.seed, PHASES, tallies, Points(len(due) - len(missed), missed, UNREACHED))
    if options.json:
        options.json.write_text(as_json(run), encoding="utf-8")
    sys.stdout.write(table(run))
    return 1 if complaints(run) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, required=True, help="how long it may take")
    parser.add_argument("--seed", type=int, default=1, help="of the random kills and the simulations")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there too, for programs")
    return parser


def run_phase(phase: Phase, room: Room) -> Tally:
    """Run one phase and return what it came to."""
    tally, began = Tally(phase.name), time.monotonic()
    phase.run(room, tally)
    tally.seconds = time.monotonic() - began
    return tally


# The phases that run cases.


def _failpoints(room: Room, tally: Tally) -> None:
    cases = [(lambda point=point: point.case((point.holder,), 1)) for point in points() if not point.unreached]
    _run(cases, room, tally)
    tally.not_covered += [f"{name}: {why}" for name, why in UNREACHED.items()]


def _system_calls(room: Room, tally: Tally) -> None:
    if shutil.which("strace") is None:
        tally.not_covered.append("strace is not installed: no system call was broken")
        return
    _run(_each_call(room.seed), room, tally)


def _each_call(seed: int) -> Cases:
    cases: list[Callable[[], Case]] = []
    for when in range(1, 200):
        for number, call in enumerate(CALLS):
            fault = FAULTS[(when + number + seed) % len(FAULTS)] if call in ("pwrite64", "fdatasync") else FAULTS[0]
            cases.append(lambda call=call, fault=fault, when=when: broken_call(call, fault, when))
    return cases


def broken_call(call: str, fault: str, when: int) -> Case:
    """Return the run in which a system call of the server goes wrong at its n-th use, by its first life."""
    inject = f"{call}:{fault}:when={when}"
    return Case(name=f"{call} no. {when} {fault}", inject=inject)


def _random_kills(room: Room, tally: Tally) -> None:
    _run(storms(room.seed), room, tally)
    tally.not_covered.append("no network but loopback, no server on PostgreSQL")


def storms(seed: int) -> Cases:
    """Return more storms than there is time for."""

    def case(number: int) -> Case:
        layout = LAYOUTS[number % len(LAYOUTS)]
        storm = Storm(seed * ENOUGH + number, blows=12, mean_seconds=MEAN_SECONDS, stop_seconds=1.5)
        errands = () if layout == "embedded" else ((), ("send",), ("pause",), ("cancel",))[number % 4]
        return Case(
            name=f"storm {storm.seed} ({layout})",
            storm=storm,
            layout=layout,
            setup={"errands": list(errands), "linger_seconds": LINGER_SECONDS},
            expect=LATE,
        )

    return [(lambda number=number: case(number)) for number in range(ENOUGH)]


def _run(cases: Cases, room: Room, tally: Tally) -> None:
    for outcome in _outcomes(cases, room):
        take(outcome, tally)
        if tally.counts["runs"] % 50 == 0:
            counts = tally.counts
            told = f"{counts['runs']} runs, {counts['kills']} kills, {len(tally.violations)} violations"
            sys.stderr.write(f"{tally.name}: {told}\n")


def _outcomes(cases: Cases, room: Room) -> Iterator[Outcome]:
    for _, found in run_all(len(cases), lambda at: run_case(cases[at]()).to_json(), room.jobs, room.until):
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


PHASES = [
    Phase("failpoints", _failpoints, 15),
    Phase("system calls", _system_calls, 30, {"runs": 300}),
    Phase(RANDOM, _random_kills, 30, {"kills in flight": 1_000}),
]
"""In the order they are run. Whoever finds another way to look for broken promises adds it before the last."""


if __name__ == "__main__":
    sys.exit(main())
