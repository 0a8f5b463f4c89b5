"""Fill the disk of server and worker under a whole report, and empty it again: refused meanwhile, right in the end.

And: let reads, writes and syncs of the server fail at random, by libfiu, until it has enough.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import crash_judge
from crash_case import Case, Outcome
from crash_cases import run_cases
from crash_disk_damage import apart
from crash_driver import Run, run_case
from crash_phase import Room, Tally
from store_witness import Told, claims, examine

ENOUGH = 100_000
SIZE = "4m"
LEFT = (0, 0, 4096, 20_000, 60_000)
"""Bytes that are left free."""
TIMES = 3
MOST_BEFORE, MOST_FULL = 0.5, 0.6
"""Seconds until the disk is full again, and for which it is."""
AT_ONCE = 0.6
"""How often the first thing that a client meets is a full disk."""
ANSWERED = "questions answered meanwhile"
FULL = "times that the disk was full"
CALLS = ("rw/pwrite", "sync/fdatasync", "sync/fsync", "rw/ftruncate")
"""Names of libfiu's, of what may fail."""
OFTEN = (0.002, 0.01, 0.05)
LINGER_SECONDS = 0.4
"""How long a tool takes, so that there is a time for the disk to be full in."""


class FullRun(Run):
    """A run on a small disk that is full now and then, for a while."""

    def __init__(self, case: Case, folder: Path, seed: int) -> None:
        super().__init__(case, folder)
        self._chance = random.Random(seed)
        self._times = TIMES
        self._turns_at = 0.0
        self._ballast = self.setup.disk / "ballast"
        self._made: Counter[str] = Counter()

    def run(self) -> Outcome:
        disk = self.setup.disk
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", disk], check=True)
        try:
            outcome = super().run()
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)
        outcome.counts.update(self._made)
        return outcome

    def _look(self, now: float) -> None:
        super()._look(now)
        if self._ballast.exists():
            self._made[ANSWERED] += self._ask.answers()
            if now >= self._turns_at:
                self._ballast.unlink()
                self._turns_at = now + self._chance.uniform(0, MOST_BEFORE)
        elif self._times and now >= self._turns_at and self._ask.was_ready():
            if self._turns_at or self._chance.random() < AT_ONCE:
                self._fill()
            self._turns_at = now + self._chance.uniform(0.05, MOST_FULL)

    def _fill(self) -> None:
        self._times -= 1
        self._made[FULL] += 1
        found = os.statvfs(self.setup.disk)
        size = max(0, found.f_bavail * found.f_frsize - self._chance.choice(LEFT))
        with self._ballast.open("wb") as ballast:
            try:
                os.posix_fallocate(ballast.fileno(), 0, max(size, 1))
            except OSError:
                return  # somebody wrote meanwhile: it is full

    def _judge(self) -> None:
        self._ballast.unlink(missing_ok=True)
        report = self.setup.folder / "report.id"
        executions = frozenset([report.read_text(encoding="utf-8")] if report.exists() else [])
        told = Told(executions, self._ask.shown(), claims(crash_judge.world_entries(self.setup)))
        super()._judge()
        self._family.end()  # nobody has the store open
        self.outcome.problems += json.loads(apart(lambda: json.dumps(examine(self.setup.store, told))))


def fill_disks(room: Room, tally: Tally) -> None:
    """Run reports on small disks."""
    if why := _no_small_disk():
        tally.not_covered.append(f"no disk was full: {why}")
        return

    def run(case: Case) -> Outcome:
        seed = int(case.name.rpartition(" ")[2])
        return run_case(case, make=lambda one, folder: FullRun(one, folder, seed))

    setup = {"linger_seconds": LINGER_SECONDS}
    cases = [
        (lambda at=at: Case(f"full disk {room.seed * ENOUGH + at}", layout=("separate", "joint")[at % 2], setup=setup))
        for at in range(ENOUGH)
    ]
    run_cases(cases, room, tally, run)


def _no_small_disk() -> str:
    """Return why no small file system can be mounted here; nothing if it can."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=False, capture_output=True)
        if mounted.returncode:
            return "mounting a small file system needs root"
        subprocess.run(["umount", "--lazy", folder], check=True)
    return ""


def fail_calls(room: Room, tally: Tally) -> None:
    """Run reports whose first server has a disk that fails at random."""
    if shutil.which("fiu-run") is None:
        tally.not_covered.append("libfiu is not installed: no call failed at random (Debian: fiu-utils)")
        return
    dice = random.Random(room.seed)

    def case(number: int) -> Case:
        call, often = CALLS[number % len(CALLS)], dice.choice(OFTEN)
        return Case(f"{call} fails {often:g} of the time, {number}", inject=f"fiu:{call}:probability={often:g}")

    run_cases([partial(case, number) for number in range(ENOUGH)], room, tally)
