"""Tables of what was found. Markdown, for people and for `docs/reference/performance.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from compared import rows
from compared.figures import Figures, figure, ratio, table
from compared.rows import Row
from compared.run import FEWER, MORE, Run

RATE = "steps_per_second"


def report(run: Run, workloads: Sequence[str], missing: dict[str, str]) -> None:
    """Print everything but the verdicts."""
    print(machine())
    print(quiet(run.idle))
    if "w1" in workloads or "w2" in workloads:
        made = max((len(found) for found in run.figures.runs.values()), default=0)
        rounds = f"medians of {made} round{'s' * (made != 1)} of {run.size.seconds:g} s"
        print(f"\nW1 and W2: five model and five tool steps an execution; {rounds}\n")
        print(table(W1_HEAD, _w1(run)))
    if "w3" in workloads:
        print("\nW3: kill -9 of the worker at half of 200 executions, 2,000 steps; the next one is started at once\n")
        print(table(W3_HEAD, _w3(run)))
    if "w4" in workloads:
        print("\nW4: executions that wait for a signal\n")
        print(table(W4_HEAD, _w4(run)))
    for peer, why in missing.items():
        print(f"\npeer not measured: {peer}: {why}")
    for (row, workload), why in run.failed.items():
        print(f"\nnot measured: {row}, {workload}: {why}")
    if run.cut:
        print(f"\nno time was left for {len(run.cut)} runs, from this one on: {run.cut[0]}")


W1_HEAD = (
    "who",
    "processes",
    "steps/s, 1 at a time",
    "steps/s, 50 at a time (range)",
    "of ours",
    "step to step p50 / p99 ms",
    "CPU ms an execution, 50 at a time",
)


def _w1(run: Run) -> Iterator[tuple[str, ...]]:
    found = run.figures
    ours = found.middle(rows.FUNCTION.name, "w1/50", RATE)
    for row in run.rows:
        if not row.at:
            continue
        many = found.all(row.name, "w1/50", RATE)
        rate = found.middle(row.name, "w1/50", RATE)
        spread = f"{figure(rate)} ({figure(min(many))} to {figure(max(many))})" if many else "-"
        one = figure(found.middle(row.name, "w1/1", RATE))
        gaps = " / ".join(figure(found.middle(row.name, "w1/1", what)) for what in ("gap_p50_ms", "gap_p99_ms"))
        yield _called(row), row.roles, one, spread, figure(ratio(rate, ours)), gaps, _cpu(found, row)


def _called(row: Row) -> str:
    return row.name if row.equal else f"{row.name} (durable: {row.durable})"


def _cpu(found: Figures, row: Row) -> str:
    spent: dict[str, list[float]] = {}
    for one in found.runs.get((row.name, "w1/50"), []):
        for role, ms in one.get("cpu_ms", {}).items():
            spent.setdefault(role, []).append(ms)
    return ", ".join(f"{role} {figure(median(ms))}" for role, ms in spent.items()) or "-"


W3_HEAD = (
    "who",
    "processes",
    "first step after the kill, s",
    "all ended, s (range)",
    "finished steps run again",
    "of them recorded",
    "unknown outcomes",
    "tools doubled",
)


def _w3(run: Run) -> Iterator[tuple[str, ...]]:
    found = run.figures
    for row in run.rows:
        if row not in rows.W3:
            continue
        ends = found.all(row.name, "w3", "all_s")
        ended = found.middle(row.name, "w3", "all_s")
        spread = f"{figure(ended)} ({figure(min(ends))} to {figure(max(ends))})" if ends else "-"
        first, again = (figure(found.middle(row.name, "w3", what)) for what in ("first_s", "run_again"))
        worst = (_count(found.worst(row.name, "w3", what)) for what in ("recorded_again", "unknown", "doubled"))
        yield _called(row), row.roles, first, spread, again, *worst


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


W4_HEAD = (
    "who",
    "processes",
    "parked",
    "parked/s",
    "memory KB each",
    "stored bytes each",
    "resumed/s",
    "waking one, ms: among few / among all",
)


def _w4(run: Run) -> Iterator[tuple[str, ...]]:
    for row in run.rows:
        for workload in ("w4", FEWER, MORE):
            for one in run.figures.runs.get((row.name, workload), []):
                facts = (one["parked_per_second"], one["memory_kb"], one["bytes"], one["resumed_per_second"])
                wakes = f"{figure(one['wake_few_ms'])} / {figure(one['wake_many_ms'])}"
                yield row.name, row.roles, f"{one['parked']:,}", *map(figure, facts), wakes


QUIET = 0.8


def quiet(idle: Sequence[float]) -> str:
    """Say whether anything else ran on the machine."""
    share = median(idle) if idle else 1.0
    said = f"before each run {share:.0%} of the CPUs were idle (median)"
    return said if share >= QUIET else f"{said}: SOMETHING ELSE WAS RUNNING, and these figures say little"


def machine() -> str:
    """Say what it was measured on."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in info if line.startswith("model name")), "unknown CPU")
    cores = sum(line.startswith("processor") for line in info)
    return f"{cores} cores, {model}; fsync on everywhere, SQLite synchronous=FULL, PostgreSQL as it comes"
