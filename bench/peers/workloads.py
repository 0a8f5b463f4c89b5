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
import signal
import subprocess
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from costs import cpu_seconds, database_bytes, is_sqlite, memory_kb, sqlite_bytes
from step_log import ENDED, STEP_LOG, STEPS, Told, told

WARM = 3
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 90.0


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


Workload = Callable[[Any], Awaitable[dict[str, Any]]]
"""Of a contender; returns what was found."""


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

    def start_worker(self, *, again: bool = False) -> subprocess.Popen[Any]:
        """W3: start a process that is a worker. `again`: after another one was killed."""
        given = self.options
        command = [sys.executable, sys.argv[0], "work", "--mode", given.mode, "--folder", given.folder]
        command += ["--database", given.database, "--count", given.count, *(["--again"] if again else [])]
        return self.start([str(part) for part in command])

    async def recovered(self, lines: Sequence[Told], killed_ns: int) -> dict[str, Any]:
        """W3: return what else there is to say of a recovery, once all have ended."""
        return {}

    async def park(self, execution: str) -> None:
        """W4: start an execution that makes a model step, waits for a signal, and makes a tool step."""
        raise NotImplementedError

    async def all_parked(self, count: int) -> None:
        """W4: return once `count` of them wait."""
        return

    async def release(self, execution: str) -> None:
        """W4: send it the signal."""
        raise NotImplementedError

    async def ended(self, execution: str) -> None:
        """W4: return once it has ended."""
        raise NotImplementedError

    async def all_ended(self, executions: Sequence[str]) -> None:
        """W4: return once all of them have ended."""
        await at_once(AT_ONCE, self.ended, executions)

    async def settled(self, log: Path) -> bool:
        """W3: say whether every execution has come as far as it can by itself."""
        return len({line.execution for line in told(log) if line.step == ENDED}) >= self.options.count

    @property
    def own(self) -> dict[str, Workload]:
        """Workloads that are measured in another way for this contender."""
        return {}

    def drive(self, work: Awaitable[Any]) -> Any:
        """Run the driver. A runtime that has a loop for its verbs runs it there."""

        async def run() -> Any:
            return await work

        return asyncio.run(run())

    async def stored(self) -> int:
        """Return the bytes that its store takes: of files, or of its database."""
        if self.options.database:
            return database_bytes(self.options.database)
        return sum(sqlite_bytes(file) for file in self.options.folder.rglob("*") if is_sqlite(file))

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
        await _closed_loop(contender, "warmer", min(0.5, options.seconds))
    before, began = spent(contender), time.perf_counter()
    took = await _closed_loop(contender, "run", options.seconds)
    seconds = time.perf_counter() - began
    cpu_ms = {role: (after - before[role]) * 1000 / len(took) for role, after in spent(contender).items()}
    await contender.close()
    found = {"executions": len(took), "seconds": seconds, "steps_per_second": len(took) * contender.steps / seconds}
    return {**found, "p50_ms": quantile(took, 0.5), "p99_ms": quantile(took, 0.99), "cpu_ms": cpu_ms, **gaps_of(log)}


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


def gaps_of(log: Path) -> dict[str, float]:
    """Return quantiles of the milliseconds between the starts of two steps of an execution that follow each other."""
    by_execution: dict[str, list[int]] = {}
    for line in told(log):
        if line.execution.startswith("run") and line.step != ENDED:
            by_execution.setdefault(line.execution, []).append(line.at_ns)
    gaps = [(b - a) / 1e6 for at in by_execution.values() for a, b in pairwise(at)]
    return {"gap_p50_ms": quantile(gaps, 0.5), "gap_p99_ms": quantile(gaps, 0.99)} if gaps else {}


def spent(contender: Contender) -> dict[str, float]:
    """Return the CPU seconds of the processes that take part, by their roles; `server` and `server 2` are one role."""
    found: dict[str, float] = {}
    for name, pid in contender.processes().items():
        role = name.rstrip(" 0123456789")
        found[role] = found.get(role, 0.0) + cpu_seconds(pid)
    return found


# -- W3 ----------------------------------------------------------------------------------------------------------------


def w3_names(count: int) -> list[str]:
    return [f"w3-{number}" for number in range(count)]


async def w3(contender: Contender) -> dict[str, Any]:
    """Kill the worker when half of all steps were made, start another one at once, and see all executions to an end."""
    options = contender.options
    log, names = options.folder / "steps.log", w3_names(options.count)
    os.environ[STEP_LOG] = str(log)
    await contender.serve()
    worker = contender.start_worker()
    submitting = asyncio.ensure_future(contender.submit(names))
    await until(lambda: _begun(log, options.count * contender.steps // 2), "half of the steps")
    killed_ns = time.monotonic_ns()
    contender.end(worker, signal.SIGKILL)
    contender.start_worker(again=True)
    await submitting
    before = [line for line in told(log) if line.at_ns <= killed_ns]
    await until(lambda: contender.settled(log), "all executions to end")
    lines = told(log)
    after = [line for line in lines if line.at_ns > killed_ns and line.process != worker.pid]
    made = Counter((line.execution, line.step) for line in lines if line.step != ENDED)
    return {
        "made_before": len([line for line in before if line.step != ENDED]),
        "first_s": (min(line.at_ns for line in after) - killed_ns) / 1e9,
        "all_s": (max(line.at_ns for line in after) - killed_ns) / 1e9,
        "completed": len({line.execution for line in lines if line.step == ENDED}),
        "run_again": sum(number - 1 for number in made.values()),
        **await contender.recovered(lines, killed_ns),
    }


async def _begun(log: Path, steps: int) -> bool:
    return sum(line.step != ENDED for line in told(log)) >= steps


# -- W4 ----------------------------------------------------------------------------------------------------------------

SETTLE_SECONDS = 2.0
"""Before memory and bytes are looked at: what is on its way to the disk, or out of a cache, may arrive."""
WAKES = 10
AT_ONCE = 50


async def w4(contender: Contender) -> dict[str, Any]:
    """Park executions, look at what they cost while they wait, wake a few one by one, then all."""
    count = contender.options.count
    await contender.serve()
    await contender.open()
    warm = [f"warm-{number}" for number in range(WAKES)]
    await at_once(AT_ONCE, contender.park, warm)
    await contender.all_parked(len(warm))
    few_ms = await _wake(contender, warm)
    names = [f"w4-{number}" for number in range(count)]
    memory, stored, began = memory_kb(contender.processes().values()), await contender.stored(), time.perf_counter()
    await at_once(AT_ONCE, contender.park, names)
    await contender.all_parked(count + len(warm))
    parking = time.perf_counter() - began
    await asyncio.sleep(SETTLE_SECONDS)
    found = {
        "parked": count,
        "parked_per_second": count / parking,
        "memory_kb": (memory_kb(contender.processes().values()) - memory) / count,
        "bytes": (await contender.stored() - stored) / count,
    }
    many_ms = await _wake(contender, names[:WAKES])
    began = time.perf_counter()
    await at_once(AT_ONCE, contender.release, names[WAKES:])
    await contender.all_ended([*warm, *names])
    resumed = (count - WAKES) / (time.perf_counter() - began)
    await contender.close()
    return {**found, "resumed_per_second": resumed, "wake_few_ms": few_ms, "wake_many_ms": many_ms}


async def _wake(contender: Contender, names: Sequence[str]) -> float:
    """Return the median of the milliseconds from a signal to the end of what waited for it."""
    took: list[float] = []
    for name in names:
        began = time.perf_counter()
        await contender.release(name)
        await contender.ended(name)
        took.append((time.perf_counter() - began) * 1000)
    return quantile(took, 0.5)


# -- the program -------------------------------------------------------------------------------------------------------


WORKLOADS: dict[str, Workload] = {"w1": w1, "w3": w3, "w4": w4}


def contest(contender: Callable[[Options], Contender]) -> None:
    """Run the workload that the command line names, print what was found as one line of JSON, and end the process."""
    options = read_options()
    it = contender(options)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what it started ends too
    if options.workload == "work":
        it.drive(it.work(w3_names(options.count)))
        return
    try:
        print(json.dumps(it.drive({**WORKLOADS, **it.own}[options.workload](it))), flush=True)
        code = 0
    except BaseException:  # noqa: BLE001 - told, and the process ends
        traceback.print_exc()
        code = 1
    it.end_all()
    sys.stderr.flush()
    os._exit(code)  # some runtimes leave threads behind


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
