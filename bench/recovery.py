"""Run a durable function again from its log: how long until it stands where it was, for logs of 1,000 to 20,000 steps.

The log is made by the function itself, through the real store; then another run of it is driven from that log, as a
process does that takes it over. Printed are the steps, the time to read the log and to run it again, and the time
per step, which must not grow with the log: exit 1 if the longest costs more than twice the shortest per step.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from perdure.core.functions import ClaimRequest, function_spec
from perdure.core.views import StartRequest
from perdure.core.work import FunctionLane
from perdure.engine.claim import Claimed
from perdure.engine.lanes import ClaimLanes, claim_lanes
from perdure.flow import step
from perdure.flow.driver import Run
from perdure.flow.durable import DurableDefinition, run_durable
from perdure.flow.scope import scoped_tasks
from perdure.models.catalog import Catalog
from perdure.server.journal import DirectJournal
from perdure.server.node import Node
from perdure.shared_store import open_node
from perdure.system import SystemClock

SIZES = (1_000, 5_000, 20_000)
WIDTH = 50
"""Steps side by side."""
BAR = 2.0
LANE = FunctionLane("recovery", "1")


async def look(n: int) -> str:
    return "r" * 200


async def recovery(steps: int) -> int:
    """Make steps in groups, then stand where it would ask for one more."""
    for start in range(0, steps, WIDTH):
        await asyncio.gather(*(step(look, n) for n in range(start, start + WIDTH)))
    return steps


def a_run(execution: str, steps: int) -> Run:
    definition = DurableDefinition(LANE.name, recovery, LANE.build)
    ids = iter(range(10**9))
    function = partial(run_durable, definition=definition, input=steps)
    return Run(execution, function, SystemClock(), lambda prefix: f"{prefix}_{next(ids)}")


async def claimed(node: Node, worker: str) -> Claimed:
    request = ClaimRequest(worker, worker, (LANE,), 1)
    [one] = await node.bridge.run(claim_lanes, ClaimLanes("default", request))
    return one


async def measure(node: Node, steps: int) -> tuple[float, float]:
    """Return the milliseconds to read the log, and to run the function again from it to its end."""
    await node.api("default").start(StartRequest(function_spec(LANE), steps))
    first = await claimed(node, f"w{steps}")
    journal = DirectJournal(node.bridge, SystemClock(), first.ref, first.fence)
    run = a_run(first.ref.execution, steps)
    log = await journal.events(0)
    assert await run.drive(journal, log) == "ended"
    began = time.perf_counter()
    log = (await journal.events(0))[:-1]
    read = time.perf_counter()
    again = a_run(first.ref.execution, steps)
    assert await again.drive(_NoJournal(log[-1].seq), log) == "ended"
    return (read - began) * 1e3, (time.perf_counter() - read) * 1e3


def measure_all(node: Node, sizes: list[int]) -> list[float]:
    """Measure each size, print it, and return the milliseconds per step."""
    per_step: list[float] = []
    with asyncio.Runner() as runner:
        scoped_tasks(runner.get_loop())
        for steps in sizes:
            read_ms, run_ms = runner.run(measure(node, steps))
            per_step.append((read_ms + run_ms) / steps)
            figures = f"read {read_ms:8,.1f} ms   run again {run_ms:8,.1f} ms   {per_step[-1] * 1e3:6.1f} us a step"
            print(f"{steps:7,} steps   {figures}")
    return per_step


class _NoJournal:
    """Takes the end and nothing else: whatever a re-run would write before it is an error."""

    def __init__(self, last_seq: int) -> None:
        self._last_seq = last_seq

    async def record(self, seen: int, items: Any) -> Any:
        raise AssertionError(f"a re-run wrote {items}")

    async def events(self, after: int) -> Any:
        raise AssertionError(f"a re-run read on after {after} of {self._last_seq}")

    async def park(self, seen: int, active_ms: int) -> Any:
        raise AssertionError("a re-run parked")

    async def finish(self, seen: int, active_ms: int, event: str, data: str) -> Any:
        assert seen == self._last_seq
        return "ended"

    async def halt(self, event: str, reason: str, message: str) -> None:
        raise AssertionError(message)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--no-bar", action="store_true", help="print, and judge nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        node = open_node(Path(folder) / "recovery.db", Catalog(scripted={}))
        node.start()
        try:
            per_step = measure_all(node, options.sizes)
        finally:
            node.stop()
    ratio = per_step[-1] / per_step[0]
    print(f"longest / shortest, per step = {ratio:.2f} (bar {BAR:.1f})")
    return 0 if options.no_bar or ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
