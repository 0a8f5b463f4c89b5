"""Break a system call of the server at its n-th use: the point is (call, n, fault), and each is tried in one run.

Two runs in which nothing is broken say how often a report has the server make each call; no point lies beyond.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crash_case import Case, Outcome
from crash_cases import run_cases
from crash_driver import ANYWHERE, Run, run_case
from crash_phase import Room, Tally

KILL, EIO, ENOSPC, EINTR = "signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR"
FAULTS = {
    "pwrite64": (KILL, EIO, ENOSPC, EINTR),
    "fdatasync": (KILL, EIO, ENOSPC),
    "fsync": (KILL, EIO),
    "openat": (KILL, EIO, EINTR, "error=EMFILE"),
    "ftruncate": (KILL, EIO, EINTR),
    "unlink": (KILL, EIO),
    "rename": (KILL, EIO, ENOSPC),
    "mmap": (KILL, "error=ENOMEM"),
    "fcntl": (KILL, EIO, EINTR),
    "flock": (KILL, EINTR),
    "pread64": (KILL, EIO, EINTR),
    "read": (KILL,),  # of files, and of what the C library reads for itself: neither is interrupted without a handler
    "write": (KILL, EINTR),
    "sendto": (KILL, EINTR),
    "recvfrom": (KILL, EINTR),
    "accept4": (KILL, EINTR, "error=EMFILE"),
}
"""By which something lasts, is asked or is answered; and what may become of it."""
NEVER = "60000"
"""A use that no run comes to."""
PLAIN = 8
"""So many first uses of each call come before all others."""
POINTS = "system call points"


@dataclass(frozen=True, slots=True)
class Broken:
    """What happens to one use of a call."""

    call: str
    fault: str
    when: int

    def case(self) -> Case:
        """Return the run in which it happens to the server's first life."""
        name = f"{self.call} no. {self.when} {self.fault}"
        return Case(name=name, inject=f"{self.call}:{self.fault}:when={self.when}")


def break_calls(room: Room, tally: Tally) -> None:
    """Try each point once, in an order that the seed chooses, and count those that a run came to."""
    if shutil.which("strace") is None:
        tally.not_covered.append("strace is not installed: no system call was broken")
        return
    uses = count_uses()
    every = in_order(uses, room.seed)
    run_cases([one.case for one in every], room, tally, partial(run_case, make=BrokenRun))
    tally.not_covered += [f"the server does not call {call} on this system" for call in FAULTS if not uses[call]]
    if (left := len(every) - tally.counts["runs"]) > 0:
        tally.not_covered.append(f"{left} of {len(every)} system call points, for want of time")


def in_order(uses: Counter[str], seed: int) -> Sequence[Broken]:
    """Return all points, the first uses of each call before the others, each part shuffled by the seed."""
    every = [
        Broken(call, fault, when) for call in FAULTS for fault in FAULTS[call] for when in range(1, uses[call] + 1)
    ]
    random.Random(seed).shuffle(every)
    return sorted(every, key=lambda one: one.when > PLAIN)


def count_uses() -> Counter[str]:
    """Return how often the server of an undisturbed report makes each call."""
    uses: Counter[str] = Counter()
    for calls in (FAULTS.keys() - ANYWHERE, FAULTS.keys() & ANYWHERE):
        case = Case("undisturbed", inject=f"{','.join(sorted(calls))}:delay_enter=1:when={NEVER}")
        run_case(case, make=partial(_Census, uses))
    return uses


class BrokenRun(Run):
    """A run that says whether it came to its point."""

    def run(self) -> Outcome:
        outcome = super().run()
        log = _log(self.setup.folder)
        reached = "(INJECTED)" in log or "killed by SIGKILL" in log
        outcome.counts[POINTS] = int(reached)
        return outcome


class _Census(Run):
    def __init__(self, uses: Counter[str], case: Case, folder: Path) -> None:
        super().__init__(case, folder)
        self._uses = uses

    def run(self) -> Outcome:
        outcome = super().run()
        self._uses.update(re.findall(r"^\d+ +(\w+)\(", _log(self.setup.folder), re.MULTILINE))
        return outcome


def _log(folder: Path) -> str:
    log = folder / "strace.log"
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
