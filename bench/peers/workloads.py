"""The workloads, one text for everyone who is compared, and what drives them. Standard library only: it runs in the
environment of each peer.

An execution is five turns of a model step (1 KB) and a tool step (0.5 KB). The bodies do nothing, so what is measured
is what a runtime adds. `contest` is a runner's whole main program: it runs one workload and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

TURNS = 5
STEPS = TURNS * 2
SLOW_STEP = 3
"""In W3 this one takes a while, so that all executions are under way at once."""
SLOW_SECONDS = 0.2
STEP_LOG = "BENCH_STEP_LOG"
"""Names the file to which bodies tell that they ran. Without it they tell nobody."""
WARM = 3
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 90.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

_dice = random.Random(7)  # noqa: S311 - text that no database can make smaller, the same in each run
_LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789"
REPLIES = ["".join(_dice.choices(_LETTERS, k=1024)) for _ in range(32)]
RESULTS = ["".join(_dice.choices(_LETTERS, k=512)) for _ in range(32)]


class StepLog:
    """A file of lines `execution step monotonic-nanoseconds`, which outlives whoever is killed. Open it lazily: forks
    and worker processes append to the same one."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def tell(self, execution: str, step: int) -> None:
        """Append one line, if anybody wants to know."""
        if self._descriptor is None:
            path = os.environ.get(STEP_LOG)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else -1
        if self._descriptor >= 0:
            os.write(self._descriptor, b"%s %d %d\n" % (execution.encode(), step, time.monotonic_ns()))


_log = StepLog()
ENDED = -1
"""In a step log: the execution's code has come to its end."""


async def body(execution: str, step: int) -> str:
    """Be step number `step` of an execution: even ones ask a model, odd ones call a tool."""
    if step == SLOW_STEP and execution.startswith("w3"):
        await asyncio.sleep(SLOW_SECONDS)
    return did(execution, step)


def did(execution: str, step: int) -> str:
    """Tell that a step's body ran, and return what it gives."""
    _log.tell(execution, step)
    return (RESULTS if step % 2 else REPLIES)[step % 32]


def ended(execution: str) -> None:
    """Say that an execution's code has come to its end."""
    _log.tell(execution, ENDED)


def told(path: Path) -> list[tuple[str, int, int]]:
    """Return what a step log holds: execution, step, nanoseconds. A line that is not whole yet is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    parts = [line.split() for line in lines if line.endswith("\n")]
    return [(name, int(step), int(when)) for name, step, when in parts]


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is asked for."""

    workload: str
    mode: str
    folder: Path
    """Empty, on a disk."""
    database: str = ""
    """The address of an empty PostgreSQL database."""
    database_pid: int = 0
    """The process of its server."""
    concurrency: int = 1
    seconds: float = 3.0
    count: int = 200
    """Of executions, in W3 and W4."""
    again: bool = False
    """Of a worker in W3: it is the successor of one that was killed."""


@dataclass
class Contender(ABC):
    """One runtime in one mode. A method that a runtime has no use for stays as it is."""

    options: Options
    started: list[subprocess.Popen[Any]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many steps an execution has."""
        return STEPS

    async def serve(self) -> None:
        """Start what has to run before workers and drivers: a server, tables. Called once per run."""
        return

    @abstractmethod
    async def open(self) -> None:
        """Start a worker, or be one, and be ready to start executions."""

    async def close(self) -> None:
        """Undo `open`."""
        return

    @abstractmethod
    async def run(self, execution: str) -> None:
        """Run an execution from its start to its end."""

    async def submit(self, executions: Sequence[str]) -> None:
        """W3: start executions that the worker, another process, will run. If `work` starts them: nothing."""
        return

    async def work(self, executions: Sequence[str]) -> None:
        """W3: be a worker, until this process is killed."""
        raise NotImplementedError

    async def park(self, execution: str) -> None:
        """W4: start an execution that makes a model step, waits for a signal, and makes a tool step."""
        raise NotImplementedError

    async def all_parked(self, count: int) -> None:
        """W4: return once `count` of them wait."""
        return

    async def release(self, execution: str) -> None:
        """W4: send it the signal."""
        raise NotImplementedError

    async def all_ended(self, executions: Sequence[str]) -> None:
        """W4: return once all of them have ended."""
        return

    def drive(self, work: Awaitable[Any]) -> Any:
        """Run the driver. A runtime that has a loop for its verbs runs it there."""

        async def run() -> Any:
            return await work

        return asyncio.run(run())

    def stored(self) -> int:
        """Return the bytes that its store takes."""
        return sum(file.stat().st_size for file in self.options.folder.rglob("*") if file.is_file())

    def processes(self) -> dict[str, int]:
        """Return the processes that take part, by their roles. Children count with their parents."""
        own = {"driver": os.getpid()}
        return {**own, "database": self.options.database_pid} if self.options.database_pid else own

    def start(self, command: Sequence[str | Path], **environment: str) -> subprocess.Popen[Any]:
        """Start a process that ends with this run; what it says goes to a file in the folder."""
        name = f"process-{len(self.started)}.log"
        with open(self.options.folder / name, "ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[Any], number: int = signal.SIGTERM) -> None:
        """End a process that `start` started, and its children."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.started.remove(process)

    def end_all(self) -> None:
        """End all of them, the youngest first."""
        for process in reversed(list(self.started)):
            self.end(process)


async def until(fact: Callable[[], Awaitable[bool]], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Return once a fact holds. It belongs to another process, so it has to be asked for."""
    deadline = time.monotonic() + seconds
    while not await fact():
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up after {seconds:.0f} s: {what}")
        await asyncio.sleep(POLL_SECONDS)


async def at_once(width: int, work: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
    """Do `work` for all names, `width` of them at a time."""
    rest = iter(names)

    async def lane() -> None:
        for name in rest:
            await work(name)

    await asyncio.gather(*(lane() for _ in range(width)))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# -- W1 and W2 ---------------------------------------------------------------------------------------------------------


async def w1(contender: Contender) -> dict[str, Any]:
    """Keep `concurrency` executions going. One at a time, the step log tells the time from step to step: W2."""
    options = contender.options
    log = options.folder / "steps.log"
    if options.concurrency == 1:
        os.environ[STEP_LOG] = str(log)
    await contender.serve()
    await contender.open()
    await at_once(min(options.concurrency, WARM), contender.run, [f"warm-{number}" for number in range(WARM)])
    if options.concurrency > WARM:
        await _closed_loop(contender, "warm", min(0.5, options.seconds))
    before, began = _spent(contender), time.perf_counter()
    took = await _closed_loop(contender, "run", options.seconds)
    seconds = time.perf_counter() - began
    cpu_ms = {role: (spent - before[role]) * 1000 / len(took) for role, spent in _spent(contender).items()}
    await contender.close()
    found = {"executions": len(took), "seconds": seconds, "steps_per_second": len(took) * contender.steps / seconds}
    return {**found, "p50_ms": quantile(took, 0.5), "p99_ms": quantile(took, 0.99), "cpu_ms": cpu_ms, **_gaps(log)}


async def _closed_loop(contender: Contender, prefix: str, seconds: float) -> list[float]:
    """Return the milliseconds of each execution."""
    stop, number, took = time.perf_counter() + seconds, 0, list[float]()

    async def lane() -> None:
        nonlocal number
        while time.perf_counter() < stop:
            number += 1
            began = time.perf_counter()
            await contender.run(f"{prefix}-{number}")
            took.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(lane() for _ in range(contender.options.concurrency)))
    return took


def _gaps(log: Path) -> dict[str, float]:
    """Return quantiles of the milliseconds between the starts of two steps of an execution that follow each other."""
    by_execution: dict[str, list[int]] = {}
    for execution, step, when in told(log):
        if execution.startswith("run") and step != ENDED:
            by_execution.setdefault(execution, []).append(when)
    gaps = [(b - a) / 1e6 for at in by_execution.values() for a, b in pairwise(at)]
    return {"gap_p50_ms": quantile(gaps, 0.5), "gap_p99_ms": quantile(gaps, 0.99)} if gaps else {}


def _spent(contender: Contender) -> dict[str, float]:
    return {role: cpu_seconds(pid) for role, pid in contender.processes().items()}


def cpu_seconds(leader: int) -> float:
    """Return the CPU time of a process, of its living descendants, and of the children that it has seen end."""
    ticks = 0
    for pid in family(leader):
        with suppress(OSError):
            ticks += sum(map(int, _facts(pid)[11:15]))
    return ticks / TICKS_A_SECOND


def family(leader: int) -> list[int]:
    """Return a process and its descendants, without what this program started for itself."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(_facts(int(entry.name))[1])
    found = [leader]
    if leader != os.getpid():
        for member in found:
            found += [pid for pid, parent in parents.items() if parent == member]
    return found


def _facts(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the name."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def memory_kb(contender: Contender) -> float:
    """Return the memory of all processes that take part, what they share counted once."""
    total = 0
    for leader in contender.processes().values():
        for pid in family(leader):
            with suppress(OSError, IndexError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                total += int(text.split("\nPss:")[1].split()[0])
    return float(total)


# -- the program -------------------------------------------------------------------------------------------------------


def contest(
    contender: Callable[[Options], Contender], more: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] | None = None
) -> None:
    """Run the workload that the command line names, print what was found as one line of JSON, and end the process.

    `more`: workloads that only this contender has.
    """
    options = read_options()
    it = contender(options)
    if options.workload == "work":
        it.drive(it.work([f"w3-{number}" for number in range(options.count)]))
        return
    workloads: dict[str, Any] = {"w1": w1, **(more or {})}
    try:
        found = it.drive(workloads[options.workload](it))
    finally:
        it.end_all()
    print(json.dumps(found), flush=True)
    os._exit(0)  # some runtimes leave threads behind


def read_options() -> Options:
    """Read the command line of a runner."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    for name in ("mode", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--database", default="")
    parser.add_argument("--database-pid", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--again", action="store_true")
    given = vars(parser.parse_args(sys.argv[1:]))
    return Options(**{**given, "folder": Path(given["folder"])})
