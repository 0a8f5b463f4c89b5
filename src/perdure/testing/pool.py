"""Run many crash cases, some at a time, each process of the pool forked before any of them opened a thing."""

from __future__ import annotations

import json
import os
import selectors
import signal
import struct
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

INDEX = struct.Struct("=i")


def run_all(
    count: int, one: Callable[[int], Any], at_once: int, until: float = float("inf")
) -> Generator[tuple[int, Any]]:
    """Yield (number, result) of `one(number)` for each number below `count`, as they end; results travel as JSON.

    None is begun after `until`, by the monotonic clock. Raises `RuntimeError` if a process of the pool breaks.
    """
    numbers, feed = os.pipe()
    pids: list[int] = []
    with selectors.DefaultSelector() as waiting, _ended(pids):
        for _ in range(at_once):
            results, out = os.pipe()
            if (pid := os.fork()) == 0:
                os.close(feed)
                _work(one, numbers, out, until)
            os.close(out)
            pids.append(pid)
            waiting.register(os.fdopen(results, encoding="utf-8"), selectors.EVENT_READ)
        os.close(numbers)
        _feed(feed, count)
        for line in _lines(waiting):
            number, found = json.loads(line)
            yield number, found
        if any(os.waitpid(pids.pop(), 0)[1] for _ in list(pids)):
            raise RuntimeError("a process of the pool broke; what it printed is above")


@contextmanager
def _ended(pids: list[int]) -> Generator[None]:
    """Kill the processes that are left where nobody wants their results any more."""
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _feed(feed: int, count: int) -> None:
    """Write the numbers without waiting for anybody to read them."""
    if os.fork() == 0:
        try:
            for number in range(count):
                os.write(feed, INDEX.pack(number))
        finally:
            os._exit(0)
    os.close(feed)


def _lines(waiting: selectors.BaseSelector) -> Iterator[str]:
    """Yield what comes from all of the pipes, until all are closed."""
    while waiting.get_map():
        for key, _ in waiting.select():
            line = cast("IO[str]", key.fileobj).readline()
            if line:
                yield line
            else:
                waiting.unregister(key.fileobj)


def _work(one: Callable[[int], Any], numbers: int, out: int, until: float) -> None:
    code = 1
    try:
        with os.fdopen(out, "w", encoding="utf-8") as results:
            while time.monotonic() < until and (record := os.read(numbers, INDEX.size)):
                (number,) = INDEX.unpack(record)
                results.write(json.dumps([number, one(number)]) + "\n")
                results.flush()
        code = 0
    finally:
        os._exit(code)
