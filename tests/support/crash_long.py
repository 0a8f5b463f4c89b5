"""The long crash run: every failpoint once, then random kills and broken system calls until the time is up.

`./dev crash --minutes N`. Exit code 1 if a promise was broken, a failpoint was never hit, fewer than 50 processes were
killed per minute of random killing, or fewer than 1,000 steps were done. A kill counts while an execution is in flight.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from crash_case import Case, Outcome, Storm
from crash_driver import run_case
from crash_points import UNREACHED, points
from crash_pool import run_all

KILLS_PER_MINUTE = 50
LEAST_STEPS = 1_000
LAYOUTS = ("separate", "joint", "separate", "joint", "embedded")
CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "openat", "unlink", "write", "sendto")
"""System calls of a server on SQLite by which something lasts, or is answered."""
FAULTS = ("signal=KILL", "error=EIO", "error=ENOSPC")
STEP_KINDS = frozenset({"step_recorded", "task_completed", "task_failed", "timer_fired", "waitpoint_resolved"})
ENOUGH = 100_000
MEAN_SECONDS = 0.15
LINGER_SECONDS = 0.25
"""Between two blows, and how long each tool takes, so that there is somebody to be struck."""
LATE = {"late_attempts": True}
"""A stopped process may act after somebody else took over."""


@dataclass(slots=True)
class Tally:
    """What one phase came to."""

    name: str
    seconds: float = 0.0
    runs: int = 0
    kills: int = 0
    stops: int = 0
    injected: int = 0
    steps: int = 0
    uncertain: int = 0
    calls: int = 0
    calls_twice: int = 0
    problems: list[str] = field(default_factory=list[str])
    broken: Counter[str] = field(default_factory=Counter[str])
    """Violations by the promise they break."""
    rulings: Counter[str] = field(default_factory=Counter[str])
    seen: set[str] = field(default_factory=set[str])

    def add(self, outcome: Outcome) -> None:
        """Take a run in."""
        self.runs += 1
        self.kills += outcome.kills
        self.stops += outcome.stops
        self.injected += outcome.injected
        self.steps += sum(fact["kind"] in STEP_KINDS for fact in outcome.facts)
        self.uncertain += outcome.uncertain
        self.calls += outcome.calls_made
        self.calls_twice += outcome.calls_twice
        self.seen.update(outcome.seen)
        self.rulings.update(str(fact.get("ruling")) for fact in outcome.of("effect_ruled"))
        self.rulings.update("late report" for fact in outcome.of("task_completed") if fact.get("late"))
        for problem in outcome.problems:
            self.broken[problem.split(" ", 1)[0] if problem.startswith("P") else "ended wrong"] += 1
            self.problems.append(f"{outcome.name}: {problem} (see {outcome.folder})")


def main() -> int:
    options = _parser().parse_args()
    end = time.monotonic() + options.minutes * 60
    tallies = [
        _phase("failpoints", _each_point(), options.jobs, end),
        _phase("system calls", _each_call(options.seed), options.jobs, _share(end, 0.4)),
        _phase("random kills", storms(options.seed), options.jobs, end),
    ]
    missed = _missed(tallies)
    complaints = _complaints(tallies, missed)
    sys.stdout.write(_json(tallies, missed, complaints) if options.json else _table(tallies, missed, complaints))
    return 1 if complaints else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, required=True, help="how long it may take")
    parser.add_argument("--seed", type=int, default=1, help="of the random kills")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser


def _share(end: float, part: float) -> float:
    now = time.monotonic()
    return now + (end - now) * part


# What is run.


def _each_point() -> list[Callable[[], Case]]:
    return [(lambda point=point: point.case((point.holder,), 1)) for point in points() if not point.unreached]


def _each_call(seed: int) -> list[Callable[[], Case]]:
    if shutil.which("strace") is None:
        return []
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


def storms(seed: int) -> list[Callable[[], Case]]:
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


def _phase(name: str, cases: list[Callable[[], Case]], jobs: int, until: float) -> Tally:
    tally, began = Tally(name), time.monotonic()
    for outcome in _outcomes(cases, jobs, until):
        tally.add(outcome)
        if tally.runs % 50 == 0:
            sys.stderr.write(f"{name}: {tally.runs} runs, {tally.kills} kills, {len(tally.problems)} problems\n")
    tally.seconds = time.monotonic() - began
    return tally


def _outcomes(cases: list[Callable[[], Case]], jobs: int, until: float) -> Iterator[Outcome]:
    for _, found in run_all(len(cases), lambda at: run_case(cases[at]()).to_json(), jobs, until):
        yield Outcome.from_json(found)


# What came of it.


def _missed(tallies: list[Tally]) -> list[str]:
    seen = set[str]().union(*(tally.seen for tally in tallies))
    return [point.name for point in points() if not point.unreached and point.name not in seen]


def _complaints(tallies: list[Tally], missed: list[str]) -> list[str]:
    storms = tallies[-1]
    minutes = storms.seconds / 60
    found = [problem for tally in tallies for problem in tally.problems]
    if missed:
        found.append(f"failpoints never hit: {', '.join(missed)}")
    if minutes and storms.kills / minutes < KILLS_PER_MINUTE:
        found.append(
            f"{storms.kills / minutes:.0f} kills a minute of random killing, at least {KILLS_PER_MINUTE} are due"
        )
    if (steps := sum(tally.steps for tally in tallies)) < LEAST_STEPS:
        found.append(f"{steps} steps done, {LEAST_STEPS:,} are due")
    return found


def _facts(tallies: list[Tally], missed: list[str]) -> dict[str, object]:
    storms = tallies[-1]
    broken, rulings = sum((tally.broken for tally in tallies), Counter()), sum((t.rulings for t in tallies), Counter())
    return {
        "failpoints hit": len([point for point in points() if not point.unreached]) - len(missed),
        "failpoints never hit": len(missed),
        "runs": sum(tally.runs for tally in tallies),
        "kills": sum(tally.kills for tally in tallies),
        "kills per hour of random killing": round(storms.kills / max(storms.seconds, 1) * 3600),
        "stops past the lease": sum(tally.stops for tally in tallies),
        "system calls broken": next(tally.runs for tally in tallies if tally.name == "system calls"),
        "of these, that ended the server": sum(tally.injected for tally in tallies),
        "steps done": sum(tally.steps for tally in tallies),
        "violations by promise": dict(broken),
        "uncertain effects": sum(tally.uncertain for tally in tallies),
        "how they were resolved": dict(rulings),
        "model calls": sum(tally.calls for tally in tallies),
        "model calls maybe paid twice": sum(tally.calls_twice for tally in tallies),
        "seconds": round(sum(tally.seconds for tally in tallies)),
        "not covered": dict(UNREACHED) or "nothing that has a failpoint; no power cut, no network but loopback",
    }


def _table(tallies: list[Tally], missed: list[str], complaints: list[str]) -> str:
    form = "{:<14}{:>6}{:>7}{:>7}{:>8}{:>11}{:>9}"
    lines = [form.format("phase", "runs", "kills", "stops", "steps", "uncertain", "seconds")]
    lines += [
        form.format(one.name, one.runs, one.kills, one.stops, one.steps, one.uncertain, round(one.seconds))
        for one in tallies
    ]
    lines += [f"{name}: {value}" for name, value in _facts(tallies, missed).items()]
    lines += [f"VIOLATED {complaint}" for complaint in complaints]
    return "\n".join(lines) + "\n"


def _json(tallies: list[Tally], missed: list[str], complaints: list[str]) -> str:
    return json.dumps({**_facts(tallies, missed), "complaints": complaints, "missed": missed}) + "\n"


if __name__ == "__main__":
    sys.exit(main())
