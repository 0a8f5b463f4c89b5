"""The processes of a demo: started, killed, and in the end all gone. Each is in a session of its own.

So Ctrl-C reaches the demo alone, which then ends them, with whatever they started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from perdure.errors import InternalError

Role = Literal["server", "client"]

POLL_SECONDS = 0.02
START_SECONDS = 30.0
"""How long a process may take to say that it is ready."""
END_SECONDS = 3.0
"""How long a process may take to leave when it is asked to."""
TOLD_CHARACTERS = 1500
"""How much of a broken process's last words are passed on."""
_GROUPS = hasattr(os, "killpg")


def now_ms() -> int:
    """Return the time as the store's clock and the model endpoint's log count it."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Life:
    """One process, from its start to its end. Times in milliseconds since 1970."""

    role: Role
    pid: int
    command: str
    """As one would type it."""
    started_ms: int
    ready_ms: int | None = None
    """When it was seen to do its work: a server answers, a client's worker is connected."""
    ended_ms: int | None = None
    killed: bool = False
    """It died of the SIGKILL that the demo sent, and of nothing else."""
    during: str = ""
    """What it was in the middle of when it was killed."""


class Process:
    """One child. Owned by the demo's thread."""

    def __init__(self, popen: subprocess.Popen[bytes], life: Life, said: Path, errors: Path) -> None:
        self.life = life
        self._popen = popen
        self._said = said
        self._errors = errors

    def first_line(self, seconds: float) -> str:
        """Wait for the first line it prints. Raises `InternalError` (`demo_broken`) if it ends first, or is late."""
        deadline = time.monotonic() + seconds
        while True:
            line, end, _ = self.output().partition("\n")
            if end:
                return line
            self.check()
            if time.monotonic() > deadline:
                raise self._broken(f"said nothing for {seconds:g} s")
            time.sleep(POLL_SECONDS)

    def output(self) -> str:
        """Return all that it has printed so far."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def ready(self) -> None:
        """Note that it does its work now."""
        self.life = replace(self.life, ready_ms=now_ms())

    def kill(self, during: str) -> None:
        """End it as a power cut would: SIGKILL, to it alone. Returns when it is gone."""
        at_ms = now_ms()
        self._popen.kill()
        code = self._popen.wait()
        killed = code == (-signal.SIGKILL if os.name == "posix" else 1)
        self.life = replace(self.life, ended_ms=at_ms, killed=killed, during=during)

    def wait(self, seconds: float) -> int:
        """Return its exit code once it has left by itself. Raises `InternalError` (`demo_broken`)."""
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._broken(f"did not end within {seconds:g} s") from None
        self.life = replace(self.life, ended_ms=now_ms())
        if code:
            raise self._broken(f"ended with exit code {code}")
        return code

    def check(self) -> None:
        """Raise `InternalError` (`demo_broken`) if it has ended, which nobody told it to."""
        if self.life.ended_ms is None and (code := self._popen.poll()) is not None:
            self.life = replace(self.life, ended_ms=now_ms())
            raise self._broken(f"ended with exit code {code}")

    def tell_to_end(self) -> None:
        """Ask it, and what it started, to leave."""
        if self.life.ended_ms is None:
            self._send(signal.SIGTERM)

    def make_end(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic) for it and what it started to leave, then kill what is left."""
        if self.life.ended_ms is not None:
            return
        while self._left() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._send(signal.SIGKILL if _GROUPS else signal.SIGTERM)
        self._popen.wait()
        self.life = replace(self.life, ended_ms=now_ms())

    def _left(self) -> bool:
        """Whether anything of its group is there: a process that ended on its own may have left some behind."""
        return self._popen.poll() is None or (_GROUPS and self._send(0))

    def _send(self, number: int) -> bool:
        """Signal its group; say whether there was anybody."""
        try:
            if _GROUPS:
                os.killpg(self.life.pid, number)
            else:
                self._popen.terminate()
        except ProcessLookupError:
            return False
        return True

    def _broken(self, what: str) -> InternalError:
        said = f"{self.output()}\n{self._errors.read_text(encoding='utf-8', errors='replace')}".strip()
        return InternalError(
            f"the demo's {self.life.role} (process {self.life.pid}) {what}. It said:\n{said[-TOLD_CHARACTERS:]}\n"
            f"All of it is in {self._errors.parent}.",
            code="demo_broken",
        )


class Processes:
    """All children of one demo, in the order of their start. Leaving the block ends those that are left."""

    def __init__(self, logs: Path, cwd: Path) -> None:
        self._logs = logs
        self._cwd = cwd
        self._all: list[Process] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, role: Role, command: Sequence[str], shown: str, environ: Mapping[str, str]) -> Process:
        """Start one. `shown` is the command as one would type it."""
        name = f"{role}-{1 + sum(one.life.role == role for one in self._all)}"
        said, errors = self._logs / f"{name}.out", self._logs / f"{name}.err"
        started_ms = now_ms()
        with said.open("wb") as stdout, errors.open("wb") as stderr, undisturbed():  # none is started and not noted
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self._cwd,
                env=dict(environ),
                start_new_session=True,
            )
            process = Process(popen, Life(role, popen.pid, shown, started_ms), said, errors)
            self._all.append(process)
        return process

    def check(self) -> None:
        """Raise `InternalError` (`demo_broken`) if one ended that should be there."""
        for process in self._all:
            process.check()

    @property
    def lives(self) -> tuple[Life, ...]:
        return tuple(process.life for process in self._all)

    def end(self) -> None:
        """End all, politely at first. Nothing of them is left when this returns or raises: Ctrl-C that comes meanwhile
        counts once they are gone.
        """
        with undisturbed():
            for process in self._all:
                process.tell_to_end()
            deadline = time.monotonic() + END_SECONDS
            for process in self._all:
                process.make_end(deadline)


@contextmanager
def undisturbed() -> Generator[None]:
    """Let no signal cut the block short, which has to be bounded. One that came is put off until behind the block, and
    never lost. What is ignored stays ignored.
    """
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in ends()}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def surroundings(folder: Path) -> dict[str, str]:
    """Return what children get: the user's environment, but no server, store, skills or failpoints of theirs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "INCIDENT_")) and name != "SKILLS_COMMAND"
    }
    if paths := kept.get("PYTHONPATH"):  # children are elsewhere, where relative paths lead nowhere
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep))
    return kept | {"XDG_STATE_HOME": str(folder / "state")}


def start_server(
    processes: Processes, store: str, url: str, environ: Mapping[str, str], *, shown: str, options: Sequence[str] = ()
) -> tuple[Process, str, str]:
    """Start a server, where the one at `url` was or on a free port; return it, its address, and its key if that is new.

    `shown`: the store as people name it. Raises `InternalError` (`demo_broken`).
    """
    port = url.rpartition(":")[2] or "0"
    command = ["-m", "perdure", "server", "--json", "--port", port, "--store", store, "--log-level", "warning"]
    words = f"perdure server --store {shown}" + (f" --port {port}" if url else "")
    server = processes.start("server", [sys.executable, *command, *options], words, environ)
    line = server.first_line(START_SECONDS)
    try:
        ready: dict[str, Any] = json.loads(line)
        found = server, str(ready["url"]), str(ready["key"] or "")
    except (ValueError, KeyError):
        raise InternalError(f"the demo's server did not start: {line}", code="demo_broken") from None
    server.ready()
    return found


def ends() -> tuple[signal.Signals, ...]:
    """Return the signals by which somebody ends a demo: Ctrl-C, a polite kill, a closed terminal."""
    return tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
