"""Children by fork, and what becomes of them. For a parent that imported everything and has no threads.

A fork and a SIGKILL take two milliseconds, an import a hundred times that. On Linux every child dies with its parent.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_PR_SET_PDEATHSIG = 1
_MOST_FILES = 4096
_LOOK_SECONDS = 0.01
"""Between two looks, where no signal can be waited for."""


@dataclass(frozen=True, slots=True)
class News:
    """What a child did."""

    role: str
    what: Literal["exited", "killed", "stopped"]
    code: int
    """The exit code, or the number of the signal."""
    ours: bool
    """We sent the signal."""


class Family:
    """The children of this process, one for each role. Owner: the one thread of the parent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pids: dict[str, int] = {}
        self._killed: set[int] = set()
        self._stopped: set[int] = set()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

    def start(self, role: str, program: Callable[[], None], *, group: Path | None = None) -> None:
        """Have a child run `program`, in the control group `group` if there is one. What it prints goes to a file."""
        if threading.active_count() > 1:
            raise RuntimeError(f"a parent that forks has one thread, this one: {threading.enumerate()}")
        parent = os.getpid()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            _live(program, self._folder / f"{role}.out", parent, group)
        self._pids[role] = pid

    def pid(self, role: str) -> int:
        """Return the number of a living child; 0 if there is none."""
        return self._pids.get(role, 0)

    def signal(self, role: str, number: int) -> None:
        """Send a signal to a child, if it lives: its number cannot be anybody else's before `wait` has told its end."""
        pid = self._pids.get(role)
        if pid is None:
            return
        if number == signal.SIGKILL:
            self._killed.add(pid)
        elif number == signal.SIGSTOP:
            self._stopped.add(pid)
        os.kill(pid, number)

    def wait(self, seconds: float) -> list[News]:
        """Return what happened to the children, at the latest after `seconds`."""
        news = self._look()
        if news:
            return news
        _await_child(seconds)
        return self._look()

    def end(self) -> None:
        """Kill and bury everybody."""
        for role in list(self._pids):
            self.signal(role, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self._pids and time.monotonic() < deadline:
            self.wait(0.05)

    def _look(self) -> list[News]:
        news: list[News] = []
        for role, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if not found:
                continue
            if os.WIFSTOPPED(status):
                news.append(News(role, "stopped", os.WSTOPSIG(status), pid in self._stopped))
                self._stopped.discard(pid)
                continue
            del self._pids[role]
            if os.WIFSIGNALED(status):
                news.append(News(role, "killed", os.WTERMSIG(status), pid in self._killed))
            else:
                news.append(News(role, "exited", os.WEXITSTATUS(status), False))
        return news


def _live(program: Callable[[], None], out: Path, parent: int, group: Path | None) -> None:
    """The child's whole life. Never returns."""
    code = 1
    try:
        _die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        _own_files(out)
        program()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last stop before the end of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _await_child(seconds: float) -> None:
    """Return when a child has changed, or the time is over."""
    wait = getattr(signal, "sigtimedwait", None)  # not everywhere
    if wait is not None:
        wait({signal.SIGCHLD}, seconds)
    else:
        time.sleep(min(seconds, _LOOK_SECONDS))


def _own_files(out: Path) -> None:
    os.closerange(3, _MOST_FILES)
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # Whatever a test runner put in their place writes into the parent's files.
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - open for life
