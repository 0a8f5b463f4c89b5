"""What is asked of Perdure, as ratios to what others did in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compared import rows
from compared.figures import Figures, Verdict, ratio
from compared.rows import Row
from compared.run import FEWER, MORE

RATE = "steps_per_second"


@dataclass(frozen=True, slots=True)
class Asked:
    """A rate of ours, and how many times somebody else's it is to be."""

    row: Row
    concurrency: int
    whose: str
    others: Sequence[str]
    """Names of rows; the best of them counts."""
    times: float

    def verdict(self, figures: Figures) -> Verdict:
        workload = f"w1/{self.concurrency}"
        best = figures.best(self.others, workload, RATE)
        found = ratio(figures.middle(self.row.name, workload, RATE), best and best[0])
        what = f"{self.row.name}, {self.concurrency} at a time, steps/s over {self.whose}"
        return Verdict(what, found, self.times if best else None, unit="x")


def names(peer: str, *modes: str, concurrency: int = 50) -> list[str]:
    """Return the names of a peer's rows that store each step before the next."""
    return [
        row.name
        for row in rows.ROWS
        if row.peer == peer and row.equal and (not modes or row.mode in modes) and concurrency in row.at
    ]


def w1() -> Iterator[Asked]:
    """Yield what is asked of throughput."""
    restate, dbos, absurd = names("restate"), names("dbos"), names("absurd")
    every = [row.name for row in rows.PEERS if row.equal and 1 in row.at]
    ceiling = {(row.mode, row.database): row.name for row in rows.CEILINGS}
    yield Asked(rows.FUNCTION, 50, "Restate", restate, 7)
    yield Asked(rows.FUNCTION, 50, "DBOS", dbos, 30)
    yield Asked(rows.FUNCTION, 50, "the ceiling", [ceiling["function", False]], 0.5)
    yield Asked(rows.FUNCTION, 1, "the best peer", every, 2.5)
    yield Asked(rows.FUNCTION_POSTGRES, 50, "Absurd", absurd, 8)
    yield Asked(rows.FUNCTION_POSTGRES, 50, "DBOS", dbos, 20)
    yield Asked(rows.FUNCTION_POSTGRES, 50, "the ceiling", [ceiling["function", True]], 0.5)
    yield Asked(rows.FUNCTION_HTTP, 50, "Restate", restate, 2)
    yield Asked(rows.AGENT, 50, "Restate", restate, 2.5)
    yield Asked(rows.AGENT_HTTP, 50, "Restate", restate, 1.8)
    yield Asked(rows.TASKS_HTTP, 50, "Restate", restate, 3.5)


def w2(figures: Figures) -> Iterator[Verdict]:
    """Yield what is asked of the time from step to step."""
    gap, one = "gap_p50_ms", "w1/1"
    for row, raw, most in ((rows.FUNCTION, rows.RAW[0], 3.5), (rows.FUNCTION_POSTGRES, rows.RAW[1], 4.0)):
        commit = figures.middle(raw.name, one, gap)
        found = ratio(figures.middle(row.name, one, gap), commit)
        yield Verdict(f"{row.name}, step to step, over a raw commit", found, most, at_most=True, unit="x")
    best = figures.best([row.name for row in rows.PEERS if row.equal], one, gap, least=True)
    found = figures.middle(rows.FUNCTION.name, one, gap)
    what = f"{rows.FUNCTION.name}, step to step, and the best peer's"
    yield Verdict(what, found, best and best[0], at_most=True, unit=" ms")


def w3(figures: Figures) -> Iterator[Verdict]:
    """Yield what is asked of recovery."""
    best = figures.best([row.name for row in rows.W3 if not row.ours], "w3", "all_s", least=True)
    for row in rows.OWN_W3:
        found = figures.middle(row.name, "w3", "all_s")
        what = f"{row.name}, all ended after the kill, and the best peer's"
        yield Verdict(what, found, best and best[0], at_most=True, unit=" s")
        for fact, text in (
            ("recorded_again", "recorded steps run again"),
            ("missing", "executions that neither ended nor say what is unknown"),
        ):
            yield Verdict(f"{row.name}, {text}", figures.worst(row.name, "w3", fact), 0, at_most=True)
    doubled = figures.worst(rows.ONCE_HTTP.name, "w3", "doubled")
    yield Verdict(f"{rows.ONCE_HTTP.name}, tool bodies doubled", doubled, 0, at_most=True)
    for row in (rows.FUNCTION_HTTP, rows.PAIR_HTTP):
        first = figures.middle(row.name, "w3", "first_s")
        yield Verdict(f"{row.name}, first step after the kill", first, 0.5, at_most=True, unit=" s")


PAYLOAD = 1024 + 100
"""Bytes of a parked execution that are its own: a model's reply, and its input."""


def w4(figures: Figures) -> Iterator[Verdict]:
    """Yield what is asked of waiting."""
    others = [row.name for row in rows.W4 if not row.ours and row.equal]
    smallest = figures.best([name for name in others if name != "Restate"], "w4", "bytes", least=True)
    quickest = figures.best(others, "w4", "resumed_per_second")
    for row in (rows.FUNCTION, rows.FUNCTION_POSTGRES):
        stored = figures.middle(row.name, "w4", "bytes")
        yield Verdict(f"{row.name}, bytes stored for one that waits", stored, PAYLOAD + 1024, at_most=True)
        what = f"{row.name}, bytes stored for one that waits, and the best comparable peer's"
        yield Verdict(what, stored, smallest and smallest[0], at_most=True)
        found = ratio(figures.middle(row.name, "w4", "resumed_per_second"), quickest and quickest[0])
        what = f"{row.name}, resumed per second over the best peer"
        yield Verdict(what, found, 5.0 if quickest else None, unit="x")
        few, many = (figures.middle(row.name, "w4", f"wake_{which}_ms") for which in ("few", "many"))
        what = f"{row.name}, waking one among all, over one among few"
        yield Verdict(what, ratio(many, few), 1.5, at_most=True, unit="x")
        yield from _of_many(figures, row)


def _of_many(figures: Figures, row: Row) -> Iterator[Verdict]:
    """Yield what is asked where `--long` parked two more numbers of them."""
    fewer, more = ({what: figures.middle(row.name, run, what) for what in LONG} for run in (FEWER, MORE))
    if fewer["parked"] is None or more["parked"] is None:
        return
    sizes = f"from {fewer['parked']:,.0f} to {more['parked']:,.0f}"
    yield Verdict(f"{row.name}, KB of memory for each {sizes}", slope(fewer, more), 0.1, at_most=True)
    what = f"{row.name}, waking one among {more['parked']:,.0f}, over one among few"
    yield Verdict(what, ratio(more["wake_many_ms"], more["wake_few_ms"]), 1.5, at_most=True, unit="x")


LONG = ("parked", "memory_kb", "wake_few_ms", "wake_many_ms")


def slope(fewer: Mapping[str, float | None], more: Mapping[str, float | None]) -> float | None:
    """Return how much memory each one took of those by which one run had more than the other."""
    few, many, few_kb, many_kb = fewer["parked"], more["parked"], fewer["memory_kb"], more["memory_kb"]
    if few is None or many is None or few_kb is None or many_kb is None:
        return None
    return (many_kb * many - few_kb * few) / (many - few)


def tell(verdicts: Sequence[Verdict]) -> bool:
    """Print what is asked and whether it is so; say whether nothing was missed."""
    print("\nasked of Perdure\n")
    for verdict in verdicts:
        print(verdict.shown())
    missed = [verdict for verdict in verdicts if verdict.judged and not verdict.held]
    unjudged = sum(not verdict.judged for verdict in verdicts)
    print(f"\n{len(verdicts) - len(missed) - unjudged} held, {len(missed)} missed, {unjudged} not judged")
    return not missed


def judge(figures: Figures, workloads: Sequence[str]) -> list[Verdict]:
    """Judge what was run."""
    found: list[Verdict] = []
    if "w1" in workloads:
        found += [asked.verdict(figures) for asked in w1()]
    for name, asked in (("w2", w2), ("w3", w3), ("w4", w4)):
        if name in workloads:
            found += asked(figures)
    return found
