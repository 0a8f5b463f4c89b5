"""Run seeds of the simulation: `./dev crash --simulate N` and `--seed S`, and a phase of the long crash run.

Prints seeds, seconds, virtual time, what happened, violations with the seed that shows each again, and whether seeds
that were run twice were the same run. Exit code 1 for a violation, or for two runs of one seed that differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from crash_phase import Phase, Room, Tally

BATCH = 10
"""Seeds that a process is given at a time."""
COMPARED = 20
"""In the long run, one seed of so many is run twice."""
COUNTED = ("executions", "steps", "effects", "uncertain", "model_calls", "twice", "takeovers", "mishaps", "requests")
"""Of a verdict."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one seed came to, small enough to be sent."""

    seed: int
    trace: str = ""
    again: str = ""
    """The trace of a second run, if there was one."""
    virtual_seconds: float = 0.0
    violations: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def problems(self) -> tuple[str, ...]:
        """Violations, and whether it was another run the second time."""
        differs = (f"it was run twice and differed: {self.trace}, {self.again}",)
        return (*self.violations, *(differs if self.again and self.again != self.trace else ()))


def run_seed(seed: int, *, twice: bool) -> Found:
    """Run a seed. A world that cannot go on is a violation too."""
    from simulated_world import simulate

    try:
        run = simulate(seed)
        again = simulate(seed).trace if twice else ""
    except Exception as error:  # noqa: BLE001 - told with its seed, and the others go on
        return Found(seed, violations=(f"the world ended with {type(error).__name__}: {error}",))
    counts = {name: getattr(run.verdict, name) for name in COUNTED}
    return Found(seed, run.trace, again, run.virtual_seconds, run.verdict.violations, counts)


def run_seeds(first: int, most: int | None, jobs: int, until: float | None, compared: int) -> Iterator[Found]:
    """Run seeds from `first` on, in processes of their own, until there were `most` or the time is up."""
    numbers = count(first) if most is None else iter(range(first, first + most))
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=20) as pool:

        def batches() -> Iterator[tuple[tuple[int, ...], int]]:
            while batch := tuple(islice(numbers, BATCH)):
                yield batch, compared

        work = batches()
        waiting = [pool.apply_async(_run_batch, one) for one in islice(work, 2 * jobs)]
        while waiting:
            yield from waiting.pop(0).get()
            if until is None or time.monotonic() < until:
                waiting += [pool.apply_async(_run_batch, one) for one in islice(work, 1)]


def _run_batch(seeds: tuple[int, ...], compared: int) -> list[Found]:
    # What a world leaves may be finalised only during the next one, and complains that its loop is closed.
    sys.unraisablehook = lambda _what: None
    return [run_seed(seed, twice=compared > 0 and seed % compared == 0) for seed in seeds]


def simulation(room: Room, tally: Tally) -> None:
    """Run as many seeds as there is time for: a phase of the long run."""
    for found in run_seeds(room.seed * 1_000_000, None, room.jobs, room.until, COMPARED):
        tally.counts["seeds"] += 1
        tally.counts["seeds run twice"] += bool(found.again)
        tally.counts["virtual seconds"] += round(found.virtual_seconds)
        for name in ("steps", "effects", "uncertain"):
            tally.counts[name] += found.counts.get(name, 0)
        for problem in found.problems:
            word = problem.split("/", 1)[0]
            promise = word if word.startswith("P") and len(word) == 2 else "simulation"
            tally.violated(promise, f"{problem} (./dev crash --simulate --seed {found.seed})")
    tally.not_covered.append("simulation: " + NOT_COVERED)


NOT_COVERED = "no outbox, no ownership lock, no isolated tools, no power cut, no schedules, tokens or forks"
PHASE = Phase("simulation", simulation, 80, due={"seeds": 10_000})


def main() -> int:
    options = _parser().parse_args()
    began, counts, problems, virtual = time.monotonic(), Counter[str](), list[str](), 0.0
    first, most = (options.seed, 1) if options.seed is not None else (options.first, options.simulate or 100)
    for found in run_seeds(first, most, options.jobs if most > 1 else 1, None, 0 if options.once else 1):
        counts.update(found.counts)
        counts["seeds"] += 1
        if counts["seeds"] % 500 == 0:
            sys.stderr.write(f"{counts['seeds']} seeds, {len(problems)} violations\n")
        counts["run twice, with the same trace"] += bool(found.again) and found.again == found.trace
        virtual += found.virtual_seconds
        problems += [f"seed {found.seed}: {problem}" for problem in found.problems]
        sys.stderr.write("".join(f"VIOLATED seed {found.seed}: {problem}\n" for problem in found.problems))
        if most == 1:
            sys.stdout.write(f"trace: {found.trace} {found.again}\n")
    seconds = time.monotonic() - began
    lines = [f"{name}: {value:,}" for name, value in counts.items()]
    lines.append(f"virtual hours: {virtual / 3600:.2f}")
    lines.append(f"seconds: {seconds:.0f}, seeds a second: {counts['seeds'] / seconds:.1f}")
    lines.append(f"not covered: {NOT_COVERED}")
    lines.append(f"violations: {len(problems)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__, allow_abbrev=False)
    parser.add_argument("--simulate", type=int, nargs="?", const=0, metavar="N", help="run N seeds, 100 by default")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--once", action="store_true", help="run no seed twice")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
