"""What is asked of Perdure, as ratios to what others did in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compared import rows
from compared.figures import Figures, Verdict, ratio
from compared.rows import Row

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


def judge(figures: Figures, workloads: Sequence[str]) -> list[Verdict]:
    """Judge what was run."""
    found: list[Verdict] = []
    if "w1" in workloads:
        found += [asked.verdict(figures) for asked in w1()]
    return found
