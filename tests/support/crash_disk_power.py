"""Cut the power of the machine that server and worker run on, under a whole report; start all again on what is left.

At each cut many of the disks that it may leave are looked at, and the run goes on with one of them. The world, and the
client unless it has a part of the machine, live elsewhere. The runs are made by a program of their own,
`crash_disk_power.py SEED SECONDS JOBS COUNT` under the shim, which prints their outcomes as JSON lines.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import crash_judge
import power_prefixes
import power_shim
from crash_case import Case, Outcome
from crash_cases import take
from crash_driver import Run, run_case
from crash_phase import Room, Tally
from perdure.testing.family import News
from perdure.testing.pool import run_all
from power_disk import LOSSES, Disk, Loss, put
from power_shim import Power
from store_witness import Told, claims, examine

LAYOUTS = ("separate", "joint", "separate", "embedded")
CUTS = 3
LOOKED_AT = 12
"""Disks that are looked at for each cut."""
MADE, REPORT = 150, 600
"""After so many operations on the disk a new store is made, and a whole report is done, about."""
ENOUGH = 100_000
DAY_SECONDS = 86_400.0
CUTS_MADE, DISKS = "power cuts", "disks looked at after a cut"


class PowerRun(Run):
    """A run whose machine loses its power now and then."""

    def __init__(self, case: Case, folder: Path, seed: int) -> None:
        super().__init__(case, folder)
        self._chance = random.Random(seed)
        self._cuts = CUTS
        self._made: Counter[str] = Counter()
        self._machine = {self._place[role] for role in ("server", "worker")}
        self.setup.disk.mkdir()
        self._power = Power.at(self.setup.disk, folder)
        self._disk = Disk.of(self._power.root)
        os.environ.update(self._power.environment())  # read by each child at its first look at the disk
        self._plan()

    def run(self) -> Outcome:
        outcome = super().run()
        outcome.counts.update(self._made)
        return outcome

    def _plan(self) -> None:
        """Choose the operation at which the power goes next: seldom while the first server makes its tables."""
        first = not self._made[CUTS_MADE]
        span = (MADE, REPORT) if first and self._chance.random() < 0.8 else (1, REPORT - MADE)
        self._power.on(self._chance.randint(*span))

    def _heard(self, news: News) -> None:
        if news.role in self._machine and news.what == "killed" and not news.ours and self._power.gone:
            self._machine_lost_power(news)
        else:
            super()._heard(news)

    def _machine_lost_power(self, first: News) -> None:
        self._died(first)
        for member in self._machine:
            self._family.signal(member, 9)
        while any(self._family.pid(member) for member in self._machine):
            for news in self._family.wait(0.05):
                self._died(news) if news.role in self._machine else super()._heard(news)
        for one in self._power.record():
            self._disk.do(one)
        self.outcome.struck()
        self._made[CUTS_MADE] += 1
        self._look_at_disks()
        self._cuts -= 1
        put(self._disk.left(self._loss(), self._number()), self.setup.disk)
        self._disk = Disk.of(self._power.root)
        self._power.on()
        if self._cuts:
            self._plan()
        now = time.monotonic()
        self._again.update(dict.fromkeys(self._machine, now))

    def _judge(self) -> None:
        self._power.on()  # whoever exports the histories is not to be struck any more
        super()._judge()

    def _loss(self) -> Loss:
        return self._chance.choice(LOSSES)

    def _number(self) -> int:
        return self._chance.randrange(2**32)

    def _look_at_disks(self) -> None:
        """Have a child look at many disks: whoever forks opens no store."""
        plans = self._plans()
        notes = self.setup.folder / "looked"
        self._family.start("looker", partial(_look_at, self._disk, plans, self._told(), self.setup.folder))
        while self._family.pid("looker"):
            for news in self._family.wait(0.05):
                super()._heard(news)
        found = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else ["the look at the disks failed"]
        notes.unlink(missing_ok=True)
        self._made[DISKS] += len(plans)
        self.outcome.problems += found

    def _plans(self) -> list[tuple[Loss, int]]:
        plans: list[tuple[Loss, int]] = [("all", 0), ("none", 0)]
        while len(plans) < LOOKED_AT:
            plans.append((self._loss(), self._number()))
        return plans

    def _told(self) -> Told:
        report = self.setup.folder / "report.id"
        executions = frozenset([report.read_text(encoding="utf-8")] if report.exists() else [])
        return Told(executions, self._ask.shown(), claims(crash_judge.world_entries(self.setup)))


def _look_at(disk: Disk, plans: list[tuple[Loss, int]], told: Told, folder: Path) -> None:
    left, problems = folder / "left", list[str]()
    store = Path("data") / "store.db"
    for loss, seed in plans:
        left.mkdir(exist_ok=True)
        put(disk.left(loss, seed), left)
        problems += [
            f"{problem} (cut {disk.operations}, {loss} lost, {seed})" for problem in examine(left / store, told)
        ]
    shutil.rmtree(left)
    (folder / "looked").write_text(json.dumps(problems), encoding="utf-8")


def case(seed: int) -> Case:
    layout = LAYOUTS[seed % len(LAYOUTS)]
    errands = [] if layout == "embedded" else [["send"], ["pause"], ["cancel"], []][seed // len(LAYOUTS) % 4]
    setup: dict[str, Any] = {"errands": errands}
    return Case(f"power cuts {seed} ({layout})", layout=layout, setup=setup, expect={"late_attempts": True})


def run_one(seed: int) -> Outcome:
    return run_case(case(seed), make=lambda one, folder: PowerRun(one, folder, seed))


def cut_power(room: Room, tally: Tally) -> None:
    """Cut the power of small programs between any two of their operations, then that of whole reports."""
    if why := power_shim.why_not():
        tally.not_covered.append(f"no power was cut: {why}")
        return
    with tempfile.TemporaryDirectory() as folder:
        shim = power_shim.build(Path(folder))
        for name in ("outbox", "state", "store"):
            found = power_prefixes.explore(name, shim, seed=room.seed, every=13 if name == "store" else 1)
            tally.counts.update({"power cuts of small programs": found.cuts, DISKS: found.disks})
            for problem in found.problems:
                tally.violated("P9", problem)
        for outcome in reports(shim, room, ENOUGH):
            take(outcome, tally)


def reports(shim: Path, room: Room, count: int) -> Iterator[Outcome]:
    """Yield what came of each of `count` reports. Raises if what ran them broke."""
    told = (room.seed, min(room.until - time.monotonic(), DAY_SECONDS), room.jobs, count)
    path = os.pathsep.join(one for one in sys.path if one)
    environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": path}
    command = [sys.executable, __file__, *map(str, told)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as runs:
        assert runs.stdout is not None
        for line in runs.stdout:
            yield Outcome.from_json(json.loads(line))
    if runs.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {runs.returncode}; what it said is above")


def main() -> None:
    first, seconds, jobs, count = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    until = time.monotonic() + seconds
    for _, found in run_all(count, lambda at: run_one(first * ENOUGH + at).to_json(), jobs, until):
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
