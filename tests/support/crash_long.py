"""The long crash run: every failpoint once, broken system calls, simulations, then random kills until the time is up.

`./dev crash --minutes N`. Exit code 1 if a promise was broken, a failpoint was never hit, or too little was done for
that to mean anything: see `crash_report`. What a phase is, is in `crash_phase`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import crash_cluster_phases
import crash_disk
import simulate
from crash_case import Case, Storm
from crash_cases import Cases, run_cases
from crash_phase import Phase, Room, Tally
from crash_points import LATE, UNREACHED, points, tour_of_functions, tours
from crash_report import RANDOM, LongRun, Points, as_json, complaints, table

LAYOUTS = ("separate", "joint", "separate", "joint", "embedded")
STORMY = (
    *((), ("send",), ("tokens",), ("pause",), ("revive", "fork"), ("cancel",), ("children",), ("schedule", "send")),
    *(("doubt", "unheard"), ("overdue",)),
)
"""What clients do in storms, in turn, in each of the layouts."""
ENOUGH = 100_000
MEAN_SECONDS = 0.15
LINGER_SECONDS = 0.25
"""Between two blows, and how long each tool takes, so that there is somebody to be struck."""
ALONE_SECONDS = 600.0
"""From which time on each failpoint has a run of its own."""


def main() -> int:
    options = _parser().parse_args()
    end = time.monotonic() + options.minutes * 60
    tallies: list[Tally] = []
    phases = [phase for phase in PHASES if not options.only or phase.name in options.only]
    for number, phase in enumerate(phases):
        part = 1.0 if phase.whole else phase.share / sum(later.share for later in phases[number:])
        now = time.monotonic()
        room = Room(now + (end - now) * part, options.seed, options.jobs)
        tallies.append(run_phase(phase, room))
    seen = set[str]().union(*(tally.seen for tally in tallies))
    due = [point.name for point in points() if not point.unreached]
    missed = [name for name in due if name not in seen]
    found = Points(len(due) - len(missed), [] if options.only else missed, UNREACHED)
    run = LongRun(options.minutes, options.seed, phases, tallies, found, partial=bool(options.only))
    if options.json:
        options.json.write_text(as_json(run), encoding="utf-8")
    sys.stdout.write(table(run))
    return 1 if complaints(run) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, required=True, help="how long it may take")
    parser.add_argument("--seed", type=int, default=1, help="of the random kills and the simulations")
    names = [phase.name for phase in PHASES]
    parser.add_argument("--only", action="append", choices=names, help="this phase and no other; may be said again")
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
    """Kill at each point alone; where there is no time for that, at those of an errand in one run."""
    short = room.until - time.monotonic() < ALONE_SECONDS
    swept = [point for point in points() if not point.unreached and not (short and point.on_the_side)]
    run_cases([(lambda point=point: point.case((point.holder,), 1)) for point in swept], room, tally)
    if short:
        run_cases([(lambda case=case: case) for case in (*tours(), tour_of_functions())], room, tally)
        tally.not_covered.append("points of errands one by one, for want of time: they were passed in tours")
    tally.not_covered += [f"{name}: {why}" for name, why in UNREACHED.items()]


def _random_kills(room: Room, tally: Tally) -> None:
    run_cases(storms(room.seed), room, tally)
    tally.not_covered.append("no network but loopback; no server on PostgreSQL, which other phases have")


def storms(seed: int) -> Cases:
    """Return more storms than there is time for."""

    def case(number: int) -> Case:
        layout = LAYOUTS[number % len(LAYOUTS)]
        storm = Storm(seed * ENOUGH + number, blows=12, mean_seconds=MEAN_SECONDS, stop_seconds=1.5)
        errands = () if layout == "embedded" else STORMY[number // len(LAYOUTS) % len(STORMY)]
        return Case(
            name=f"storm {storm.seed} ({layout})",
            storm=storm,
            layout=layout,
            setup={"errands": list(errands), "linger_seconds": LINGER_SECONDS},
            expect=LATE,
        )

    return [(lambda number=number: case(number)) for number in range(ENOUGH)]


PHASES = [
    Phase("failpoints", _failpoints, 15, whole=True),
    *crash_disk.PHASES,
    simulate.PHASE,
    *crash_cluster_phases.PHASES,
    Phase(RANDOM, _random_kills, 9, due={"kills in flight": 500}),
]
"""In the order they are run. Whoever finds another way to look for broken promises adds it before the last."""


if __name__ == "__main__":
    sys.exit(main())
