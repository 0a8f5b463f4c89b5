"""Measure Perdure beside other durable runtimes, and beside the raw ceiling, in one run on one disk.

Durable settings everywhere: what a runtime calls recorded is on disk. Rounds go through all rows in turn, so that what
else the machine does hits all of them; medians are compared. W1: executions of five model and five tool steps that do
nothing, 50 at a time and one at a time. W2: from step to step, one at a time. A row says which roles share a process.
Peers are installed once, from locks with hashes, into .dev/peers; those that cannot be are named. Ends with 1, and with
the lines that were missed, if a bar was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from compared import bars, rows
from compared.figures import Figures, figure, ratio, table
from compared.rows import Row
from compared.running import NotRun, Place, place

WORKLOADS = ("w1",)
PATIENCE_SECONDS = 22 * 60
"""After this no round begins, so that the whole ends within 25 minutes."""


@dataclass
class Run:
    """One comparison."""

    place: Place
    seconds: float
    rounds: int
    rows: list[Row]
    quiet: bool = False
    figures: Figures = field(default_factory=Figures)
    began: float = field(default_factory=time.monotonic)
    failed: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Why a row has no figure."""

    def do(self, row: Row, workload: str, **options: float) -> None:
        """Run a workload of a row once. One that failed is not tried again."""
        name = workload + (f"/{options['concurrency']}" if "concurrency" in options else "")
        if (row.name, name) in self.failed:
            return
        try:
            found = self.place.run(row, workload, **options)
        except NotRun as error:
            self.failed[row.name, name] = str(error)
            self.say(f"{row.name}, {name}: not measured: {error}")
            return
        self.figures.add(row.name, name, found)
        rate = found.get("steps_per_second")
        self.say(f"{row.name}, {name}: {figure(rate)} steps/s" if rate else f"{row.name}, {name}: done")

    def say(self, text: str) -> None:
        if not self.quiet:
            print(f"{time.monotonic() - self.began:6.0f} s  {text}", file=sys.stderr, flush=True)

    @property
    def late(self) -> bool:
        return time.monotonic() - self.began > PATIENCE_SECONDS

    def w1(self) -> None:
        """W1 and W2: all rows, round after round."""
        for number in range(self.rounds):
            if self.late:
                self.say(f"no time for round {number + 1}")
                return
            for row in self.rows:
                for concurrency in row.at:
                    self.do(row, "w1", concurrency=concurrency, seconds=self.seconds)


def report(run: Run, workloads: list[str]) -> int:
    """Print tables and verdicts; return the exit code."""
    if "w1" in workloads:
        print(f"\nW1 and W2, medians of up to {run.rounds} rounds of {run.seconds:g} s\n")
        print(table(W1_HEAD, _w1_lines(run)))
    for (row, workload), why in run.failed.items():
        print(f"\nnot measured: {row}, {workload}: {why}")
    print("\nasked of Perdure\n")
    verdicts = bars.judge(run.figures, workloads)
    for verdict in verdicts:
        print(verdict.shown())
    missed = [verdict for verdict in verdicts if verdict.judged and not verdict.held]
    unjudged = [verdict for verdict in verdicts if not verdict.judged]
    print(f"\n{len(verdicts) - len(missed) - len(unjudged)} held, {len(missed)} missed, {len(unjudged)} not judged")
    return 1 if missed else 0


W1_HEAD = (
    "who",
    "processes",
    "steps/s, 1 at a time",
    "steps/s, 50 at a time (range)",
    "of ours",
    "step to step p50 / p99 ms",
    "CPU ms an execution at 50",
)


def _w1_lines(run: Run) -> Iterator[tuple[str, ...]]:
    ours = run.figures.middle(rows.FUNCTION.name, "w1/50", "steps_per_second")
    for row in run.rows:
        many = run.figures.all(row.name, "w1/50", "steps_per_second")
        rate = run.figures.middle(row.name, "w1/50", "steps_per_second")
        spread = f"{figure(rate)} ({figure(min(many))} to {figure(max(many))})" if many else "-"
        one = figure(run.figures.middle(row.name, "w1/1", "steps_per_second"))
        gaps = [figure(run.figures.middle(row.name, "w1/1", what)) for what in ("gap_p50_ms", "gap_p99_ms")]
        name = row.name if row.equal else f"{row.name} ({row.durable})"
        yield name, row.roles, one, spread, figure(ratio(rate, ours)), " / ".join(gaps), _cpu(run, row)


def _cpu(run: Run, row: Row) -> str:
    runs = run.figures.runs.get((row.name, "w1/50"), [])
    spent = runs[-1].get("cpu_ms", {}) if runs else {}
    return ", ".join(f"{role} {figure(ms)}" for role, ms in spent.items()) or "-"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="of the workloads, with commas: " + ", ".join(WORKLOADS))
    parser.add_argument("--peers", default=None, help="of the peers, with commas; an empty text: none")
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement (3)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on a disk; everything written goes below it")
    parser.add_argument("--no-bar", action="store_true", help="print, and judge nothing")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    workloads = [one for one in WORKLOADS if one in (options.only.split(",") if options.only else WORKLOADS)]
    try:
        with place(options.folder, {}) as where:
            chosen = [row for row in rows.ROWS if options.rows in row.name]
            run = Run(where, options.seconds, options.rounds, chosen)
            if "w1" in workloads:
                run.w1()
            missed = report(run, workloads)
            return 0 if options.no_bar else missed
    except NotRun as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
