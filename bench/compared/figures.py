"""What was measured, and what is asked of it. Judges numbers; knows nothing of how they came about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Key = tuple[str, str]
"""The name of a row, and a workload: `w1/50`, `w3`, `w4`."""


@dataclass
class Figures:
    """Results of runs, by row and workload: one dictionary of numbers for each round."""

    runs: dict[Key, list[dict[str, Any]]] = field(default_factory=dict[Key, list[dict[str, Any]]])

    def add(self, row: str, workload: str, found: dict[str, Any]) -> None:
        self.runs.setdefault((row, workload), []).append(found)

    def all(self, row: str, workload: str, what: str) -> list[float]:
        """Return a figure of each round that has it."""
        return [found[what] for found in self.runs.get((row, workload), []) if found.get(what) is not None]

    def middle(self, row: str, workload: str, what: str) -> float | None:
        """Return the median over the rounds; None if there is none."""
        values = self.all(row, workload, what)
        return median(values) if values else None

    def worst(self, row: str, workload: str, what: str) -> float | None:
        """Return the most over the rounds, where one is too many; None if there is none."""
        return max(self.all(row, workload, what), default=None)

    def best(self, rows: Iterable[str], workload: str, what: str, *, least: bool = False) -> tuple[float, str] | None:
        """Return the best of the rows' medians, and whose it is."""
        found = [(value, row) for row in rows if (value := self.middle(row, workload, what)) is not None]
        return (min if least else max)(found, default=None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar, and how far it was reached."""

    what: str
    found: float | None
    """None: it could not be measured."""
    bar: float | None
    """None: what it is measured by could not be."""
    at_most: bool = False
    unit: str = ""

    @property
    def judged(self) -> bool:
        return self.found is not None and self.bar is not None

    @property
    def held(self) -> bool:
        """Whether it was reached. What could not be judged was not."""
        if self.found is None or self.bar is None:
            return False
        return self.found <= self.bar if self.at_most else self.found >= self.bar

    def shown(self) -> str:
        """Return it as a line of text."""
        word = "held" if self.held else "MISSED" if self.judged else "not judged"
        side = "at most" if self.at_most else "at least"
        bar = "nothing to measure it by" if self.bar is None else f"{side} {figure(self.bar)}{self.unit}"
        found = "nothing" if self.found is None else f"{figure(self.found)}{self.unit}"
        return f"{word:10} {self.what}: {found} ({bar})"


def ratio(value: float | None, other: float | None) -> float | None:
    """Divide what is there."""
    return None if value is None or not other else value / other


def figure(value: float | None) -> str:
    """Write a number with as many places as it deserves."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown, in columns that a terminal shows straight."""
    rows = [tuple(head), *(tuple(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)
