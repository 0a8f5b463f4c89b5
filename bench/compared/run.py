"""One comparison: which workload of which row comes when."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from compared import rows
from compared.figures import Figures, figure
from compared.rows import Row
from compared.running import NotRun, Place

PATIENCE_SECONDS = 21 * 60
"""After this nothing begins, so that the whole ends within 25 minutes."""
KILLED = 200
"""Executions under way in W3."""
SLOW = {"temporal": 1_000, "dbos": 2_000}
"""In W4, who would take minutes with more."""
FEWER, MORE = "w4/fewer", "w4/more"
"""The two runs of `--long`."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float
    rounds: int
    parked: int
    long: tuple[int, int] | None = None
    """How many of ours wait in two more runs of W4; with them, nothing is cut for want of time."""


@dataclass
class Run:
    """Runs, and keeps what was found."""

    place: Place
    size: Size
    rows: list[Row]
    figures: Figures = field(default_factory=Figures)
    began: float = field(default_factory=time.monotonic)
    failed: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Why a row has no figure."""
    cut: list[str] = field(default_factory=list[str])
    """What there was no time for, in order."""
    idle: list[float] = field(default_factory=list[float])
    """Share of the CPUs that nobody used, looked at before each run."""

    def all(self, workloads: list[str]) -> None:
        """Measure: first what is asked most of, so that what is cut for want of time is the least."""
        for number in range(1, self.size.rounds + 1):
            if "w1" in workloads or "w2" in workloads:
                self._w1(number, many="w1" in workloads)
            if "w3" in workloads:
                self._w3(number)
            if "w4" in workloads and number == 1:
                self._w4()

    def _w1(self, number: int, *, many: bool) -> None:
        for row in self.rows:
            for concurrency in row.at:
                if many or concurrency == 1:
                    self._do(row, "w1", f"/{concurrency}", number, concurrency=concurrency, seconds=self.size.seconds)

    def _w3(self, number: int) -> None:
        for row in self.rows:
            if row in rows.W3:
                self._do(row, "w3", "", number, count=KILLED)

    def _w4(self) -> None:
        for row in self.rows:
            if row in rows.W4:
                count = min(self.size.parked, SLOW.get(row.peer, self.size.parked))
                self._do(row, "w4", "", 1, count=count, concurrency=50)
                if row.ours:
                    self._many(row)

    def _many(self, row: Row) -> None:
        """Have more of them wait, if that is asked for."""
        for workload, count in zip((FEWER, MORE), self.size.long or (), strict=False):
            self._do(row, workload, "", 1, count=count, concurrency=50)

    def _do(self, row: Row, workload: str, suffix: str, number: int, **options: float) -> None:
        """Run a workload of a row once. One that failed is not tried again. What follows a `/` in its name is ours."""
        key = (row.name, workload + suffix)
        if key in self.failed:
            return
        if time.monotonic() - self.began > PATIENCE_SECONDS and not self.size.long:
            self.cut.append(f"{key[0]}, {key[1]}, round {number}")
            return
        self.idle.append(idle_share())
        try:
            found = self.place.run(row, workload.partition("/")[0], self.size.long is not None, **options)
        except NotRun as error:
            self.failed[key] = str(error)
            self._say(f"{key[0]}, {key[1]}: not measured: {error}")
            return
        self.figures.add(*key, found)
        shown = (f"{what} {figure(value)}" for what, value in found.items() if isinstance(value, int | float))
        self._say(f"{key[0]}, {key[1]}: {', '.join(shown)}")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {text}", file=sys.stderr, flush=True)


def idle_share(seconds: float = 0.1) -> float:
    """Return the share of this machine's CPUs that nobody uses."""
    before = _ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(_ticks(), before, strict=True)]
    return sum(spent[3:5]) / max(1, sum(spent))


def _ticks() -> list[int]:
    """Return what the CPUs have done so far; idle and waiting for a disk stand fourth and fifth."""
    return [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
