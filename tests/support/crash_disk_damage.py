"""Damage what a killed machine left on its disk, start again on it: it goes on right, or refuses with a clear error.

Damaged are the store's file, its log, its shared memory, its lock and a dead worker's outbox: cut off, zeroed, with
flipped bits, gone, a folder in its place, not to be opened, or another store's. Never a traceback, never wrong without
a word: what is shown is what was, or following the chains finds the change.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from crash_case import Case
from crash_driver import Run, run_case
from crash_phase import Room, Tally
from perdure import AgentRuntime
from perdure.client.ledger import verify
from perdure.errors import InternalError, PerdureError
from perdure.testing.pool import run_all

STORE = Path("data") / "store.db"
ENDS = ("", "-wal", "-shm", ".lock")
"""Of the files of a store. The first two hold what was accepted; the others hold nothing that lasts."""
KINDS = ("cut", "zeroed", "zeros", "flipped", "gone", "folder", "unreadable", "foreign")
RANDOM_KINDS = frozenset({"cut", "zeros", "flipped"})
MOST_FLIPS = 8
REFUSALS = frozenset(
    {"store_corrupt", "store_failed", "store_path", "store_unwritable", "store_foreign", "store_newer"}
)
GONE = "gone, and nothing says so"
OF_A_ROW = "row_damaged"
"""Refuses one execution, not the store."""
RUNS, PREFIX = "damaged files", "logs cut off at an earlier moment, which nobody can tell"
UNSEEN = "damage by which executions vanish from the list, which no chain covers"
Disk = Literal["killed", "closed"]
"""A killed server's store has a log beside it, a closed one's has all in the file."""
PLACES: tuple[tuple[Disk, str], ...] = (
    ("closed", ""),
    ("closed", ""),
    ("closed", ""),
    ("killed", ""),
    ("killed", "-wal"),
    ("killed", "-wal"),
    ("killed", "-shm"),
    ("killed", ".lock"),
)
"""Where harms at random fall."""
LOG_HEAD, FRAME_HEAD = 32, struct.Struct(">6I")


@dataclass(frozen=True, slots=True)
class Harm:
    """What is done to one file of a disk."""

    disk: Disk
    end: str
    kind: str
    seed: int = 0

    def __str__(self) -> str:
        return f"store.db{self.end} of a {self.disk} store, {self.kind} ({self.seed})"


def harms(seed: int, count: int) -> list[Harm]:
    """Return the plain ones, then `count` at places that the seed chooses, most of them in what lasts."""
    plain = [Harm("killed", end, kind) for end in ENDS for kind in KINDS]
    # In the place of a closed store another closed one is simply that one, and nothing is a new one.
    plain += [Harm("closed", "", kind) for kind in KINDS if kind not in ("foreign", "gone")]
    dice = random.Random(seed)
    chosen = list[Harm]()
    for _ in range(count):
        disk, end = dice.choice(PLACES)
        chosen.append(Harm(disk, end, dice.choice(sorted(RANDOM_KINDS)), dice.randrange(2**32)))
    return plain + chosen


def inflict(harm: Harm, disk: Path, other: Path) -> None:
    """Damage a disk."""
    file, dice = disk / f"{STORE}{harm.end}", random.Random(harm.seed)
    content = bytearray(file.read_bytes())
    size = len(content)
    match harm.kind:
        case "cut":
            os.truncate(file, dice.randrange(size) if size else 0)
        case "zeroed":
            file.write_bytes(bytes(size))
        case "zeros":
            start = dice.randrange(size) if size else 0
            length = min(dice.choice([512, 4096, 65536]), size - start)
            content[start : start + length] = bytes(length)
            file.write_bytes(content)
        case "flipped":
            for _ in range(dice.randint(1, MOST_FLIPS) if size else 0):
                content[dice.randrange(size)] ^= 1 << dice.randrange(8)
            file.write_bytes(content)
        case "gone":
            file.unlink()
        case "folder":
            file.unlink()
            file.mkdir()
        case "unreadable":  # root may read anything; nobody may read a link that leads to itself
            file.unlink()
            file.symlink_to(file.name)
        case _:
            shutil.copyfile(other / f"{STORE}{harm.end}", file)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a runtime on a disk came to, as JSON."""

    error: str = ""
    """Its code."""
    message: str = ""
    traceback: str = ""
    logs: dict[str, Any] | None = None
    """Each execution's events, if it was shown them."""
    broken: tuple[str, ...] = ()
    """Executions whose chains do not hold, or could not be followed."""
    wrote: bool = False


def look(disk: Path) -> Seen:
    """Open the store as a user's program does, read everything, follow all chains, and write."""
    logs: dict[str, Any] = {}
    broken: list[str] = []
    try:
        with AgentRuntime(store=disk / STORE, serve_tools=False) as runtime:
            for view in runtime.executions():
                events = runtime.wait(runtime.api.events(view.id))
                logs[view.id] = [[one.seq, str(one.kind), one.address, one.data] for one in events]
                _follow(runtime, view.id, broken)
            for execution in logs:
                runtime.wait(runtime.api.log(execution))
        return Seen(logs=logs, broken=tuple(broken), wrote=True)
    except PerdureError as error:
        if isinstance(error, InternalError):
            return Seen(error.code, error.message, traceback.format_exc(), logs, tuple(broken))
        return Seen(error.code, error.message, "", logs, tuple(broken))
    except Exception as error:  # noqa: BLE001 - the very thing that is looked for
        return Seen("", str(error), traceback.format_exc(), logs, tuple(broken))


def _follow(runtime: AgentRuntime, execution: str, broken: list[str]) -> None:
    broken.append(execution)  # until its chain was followed: that may end in a refusal, which says so too
    if runtime.wait(verify(runtime.api, execution)).holds:
        broken.pop()


def problems_of(seen: Seen, whole: dict[str, Any], disk: Path, *, ended: bool) -> list[str]:
    """Return what is wrong with what a damaged disk came to. If its log simply `ended` earlier, the state of then is
    right."""
    if seen.traceback:
        return [f"a traceback: {seen.traceback.strip().splitlines()[-1]}"]
    logs = seen.logs or {}
    if ended and not seen.error:  # and whatever had not ended then went on
        return [] if all(log[:1] == whole.get(one, [])[:1] for one, log in logs.items()) else ["another log came up"]
    silent = sorted(one for one in logs if logs[one] != whole.get(one) and one not in seen.broken)
    found = [f"events of {one} are not what they were, and nothing says so" for one in silent]
    if seen.error:
        if seen.error == OF_A_ROW:
            return found
        if seen.error == "not_found":  # of the id that its row has, and that its entry in the list has, one is damaged
            return [*found, f"an execution that was listed is {GONE}"]
        if seen.error not in REFUSALS:
            found.append(f"refused as {seen.error}: {seen.message}")
        elif str(disk / STORE) not in seen.message:
            found.append(f"the refusal does not name the file: {seen.message}")
        return found
    if missing := sorted(whole.keys() - logs.keys()):
        found.append(f"{', '.join(missing)} {GONE}")
    return found


def ended_early(log: Path, was: bytes) -> bool:
    """Whether a damaged log reads like one that was never longer: nothing whole of it follows what was damaged.

    A transaction that is whole, and followed by more, proves that those before it were on the disk.
    """
    now = log.read_bytes() if log.is_file() else b""
    size = min(len(now), len(was))
    first = next((at for at in range(0, size, 512) if now[at : at + 512] != was[at : at + 512]), size)
    page = FRAME_HEAD.unpack_from(was)[2]
    step, salts = FRAME_HEAD.size + page, was[16:24]
    first = next((at for at in range(first, min(first + 512, size)) if now[at] != was[at]), first)
    if first < LOG_HEAD:
        return False
    number = (first - LOG_HEAD) // step + 1
    whole = [at for at in range(LOG_HEAD + number * step, len(now), step) if now[at + 8 : at + 16] == salts]
    return not any(FRAME_HEAD.unpack_from(now, at)[1] for at in whole[:-1])


# How the disk comes to be.


class _Left(Run):
    """A report that ends, after which its machine is killed: what is on the disk then is copied to `to`."""

    def __init__(self, to: Path, case: Case, folder: Path) -> None:
        super().__init__(case, folder)
        self._to = to

    def _judge(self) -> None:
        for member in self._members:
            self._family.signal(member, signal.SIGKILL)
        while any(map(self._family.pid, self._members)):
            self._family.wait(0.05)
        shutil.copytree(self.setup.disk, self._to)


@dataclass(frozen=True, slots=True)
class Disks:
    """What is damaged, each time in a copy."""

    killed: Path
    closed: Path
    """The same after it was opened and closed."""
    other: Path
    """Of another store."""
    whole: dict[str, Any]
    """What its logs say."""


@contextmanager
def disks() -> Iterator[Disks]:
    """Have the disks of machines that were killed after a report."""
    with tempfile.TemporaryDirectory(prefix="perdure-damage-") as folder:
        killed, closed, other = (Path(folder) / name for name in ("killed", "closed", "other"))
        for disk in (killed, other):
            run_case(Case("to be damaged", setup={"errands": ["cancel"]}), make=partial(_Left, disk))
        shutil.copytree(killed, closed)
        seen = seen_apart(closed)
        yield Disks(killed, closed, other, seen.logs or {})


def judged(harm: Harm, disks: Disks) -> tuple[list[str], str]:
    """Return what is wrong with what comes of one harm, and under which of the known limits it falls."""
    with tempfile.TemporaryDirectory(prefix="perdure-damaged-") as folder:
        copy, disk = Path(folder) / "disk", disks.killed if harm.disk == "killed" else disks.closed
        shutil.copytree(disk, copy)
        inflict(harm, copy, disks.other)
        log = Path(f"{STORE}-wal")
        ended = harm.end == "-wal" and ended_early(copy / log, (disk / log).read_bytes())
        seen = seen_apart(copy)
        problems = problems_of(seen, disks.whole, copy, ended=ended)
        if problems and harm.end == "" and all(GONE in one for one in problems):
            return [], UNSEEN
        return problems, PREFIX if ended and not seen.error else ""


def seen_apart(disk: Path) -> Seen:
    """Look at a disk in a child of its own: it may open stores and start threads."""
    seen = json.loads(apart(lambda: json.dumps(asdict(look(disk)))))
    return Seen(**{**seen, "broken": tuple(seen["broken"])})


def apart(act: Callable[[], str]) -> str:
    """Return what `act` returns in a child."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                out.write(act())
            code = 0
        except BaseException:  # noqa: BLE001 - the last stop before the end of the process
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as found:
        text = found.read()
    status = os.waitpid(pid, 0)[1]
    return text if text else json.dumps({"traceback": f"it ended with status {status}", "broken": []})


def damage(room: Room, tally: Tally) -> None:
    """Try each plain harm once, then harms at random places until the time is up."""
    with disks() as found:
        every = harms(room.seed, 100_000)
        for at, (problems, limit) in run_all(len(every), lambda at: judged(every[at], found), room.jobs, room.until):
            tally.counts.update({RUNS: 1, limit or "damaged files judged by what is shown": 1})
            for problem in problems:
                tally.violated("damage", f"{every[at]}: {problem}")
    tally.not_covered += [limit for limit in (PREFIX, UNSEEN) if tally.counts[limit]]
