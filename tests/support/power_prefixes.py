"""Cut the power of a small program at each of its operations, and look at the disks that may be left each time.

The program runs once; its record then gives every cut. What it told before a cut has to be on each of those disks.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import power_programs
from perdure.errors import PerdureError
from perdure.store.ownership import open_owned
from perdure.system import SystemClock, SystemRandom
from perdure.wire import state_file
from perdure.worker.outbox_file import parse, refused
from power_disk import LOSSES, Disk, Done, Op, put
from power_shim import Power

Told = list[dict[str, Any]]


@dataclass(slots=True)
class Found:
    """What came of it."""

    cuts: int = 0
    disks: int = 0
    problems: list[str] = field(default_factory=list[str])
    """Each once, with the number of disks that show it."""


def explore(name: str, shim: Path, *, seed: int = 1, tries: int = 1, every: int = 1) -> Found:
    """Cut program `name` at each `every`-th operation; look at `tries` disks for each way of losing."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-power-"))
    try:
        left, root = folder / "left", folder / "disk"
        left.mkdir()
        root.mkdir()
        disk = _ToldDisk.of(root)
        record = _run(name, shim, root)
        return _cut(name, disk, record, left, range(seed % every, len(record), every), random.Random(seed), tries)
    finally:
        shutil.rmtree(folder)


def _run(name: str, shim: Path, root: Path) -> list[Done]:
    power = Power.at(root, root.parent)
    command = [sys.executable, power_programs.__file__, name, str(root)]
    path = ":".join(one for one in sys.path if one)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, **power.environment(shim)}
    subprocess.run(command, env=environment, check=True)
    return power.record()


def _cut(
    name: str, disk: _ToldDisk, record: list[Done], left: Path, cuts: Iterable[int], dice: random.Random, tries: int
) -> Found:
    told, found = 0, Found()
    shown: Counter[str] = Counter()
    for at in cuts:
        while told <= at:
            disk.do(record[told])
            told += 1
        found.cuts += 1
        for loss in LOSSES:
            for _ in range(tries if loss in ("some", "torn") else 1):
                found.disks += 1
                put(disk.left(loss, dice.randrange(2**32)), left)
                shown.update(f"{name}, {loss} lost: {problem}" for problem in judge(name, left, disk.told))
    found.problems = [f"{what} (on {count} disks)" for what, count in shown.items()]
    return found


class _ToldDisk(Disk):
    """A disk, and what was told while it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Told = []
        self._inode = 0

    def do(self, one: Done) -> None:
        super().do(one)
        if one.op is Op.CREATE and one.name == power_programs.TOLD:
            self._inode = one.inode
        elif one.op is Op.WRITE and one.inode == self._inode:
            self.told.append(json.loads(one.first))


def judge(name: str, left: Path, told: Told) -> list[str]:
    """Return what is wrong with a disk that a cut left. May write to it."""
    return _JUDGES[name](left, told)


def _judge_store(left: Path, told: Told) -> list[str]:
    file = left / power_programs.STORE
    if not file.exists():
        return ["the store is gone"] if told else []
    try:
        open_owned(file, clock=SystemClock(), random=SystemRandom()).close()
        with closing(sqlite3.connect(file)) as database:
            whole = database.execute("PRAGMA integrity_check").fetchall()
            rows = {row for (row,) in database.execute("SELECT id FROM companies")}
    except (sqlite3.Error, PerdureError) as error:
        return [f"the store cannot be opened: {type(error).__name__} {error}".replace(str(left), "")]
    problems = [] if whole == [("ok",)] else [f"integrity_check says {whole}"]
    if not {f"{one['life']}-{one['number']}{part}" for one in told for part in "ab"} <= rows:
        problems.append("what was told is not in the store")
    if any((row[:-1] + other) not in rows for row in rows if "-" in row for other in "ab"):
        problems.append("a transaction is there in part")
    return problems


def _judge_outbox(left: Path, told: Told) -> list[str]:
    folder = left / power_programs.OUTBOX
    contents = [parse(path.read_bytes()) for path in folder.glob("*.outbox")]
    there = {kept.report.execution for content in contents for kept in content.open}
    there |= {one.execution for one in refused(folder)} | {one["answered"] for one in told if "answered" in one}
    missing = [name for one in told for name in one.get("kept", ()) if name not in there]
    problems = ["a result that was kept is gone"] if missing else []
    if any(content.strange for content in contents):
        problems.append("a whole record cannot be understood")
    return problems


def _judge_state(left: Path, told: Told) -> list[str]:
    try:
        found = state_file.read(left / power_programs.STATE)
    except PerdureError as error:
        return [f"the state file cannot be used: {error}".replace(str(left), "")]
    if not told:
        return []
    if found is None:
        return ["the state file is gone, or empty"]
    return [] if int(found.key.rpartition("-")[2]) >= told[-1]["state"] else ["an old key came back"]


_JUDGES: dict[str, Callable[[Path, Told], list[str]]] = {
    "store": _judge_store,
    "outbox": _judge_outbox,
    "state": _judge_state,
    "careless": _judge_outbox,
}
assert _JUDGES.keys() == power_programs.PROGRAMS.keys()
