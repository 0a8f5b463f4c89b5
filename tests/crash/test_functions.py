"""Kill -9 the worker that runs a durable function, or its server, at each of the points they pass on its way.

The world counts what was done: what is recorded never runs again, and only the step in flight may have run twice,
each time with the same key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_processes import Home, Running, until
from durable_home import STEPS
from perdure.core.functions import function_spec
from perdure.core.views import StartRequest
from perdure.core.work import FunctionLane
from perdure.runtime import AgentRuntime
from perdure.testing.world_client import World, running_world

WORKER = [
    "worker.claim_executions.send@2",
    "worker.claim_executions.received",
    "http.claim_executions.send@2",
    "http.claim_executions.received",
    "http.journal.send",
    "http.journal.received",
    "http.journal.send@3",
    "http.journal.received@3",
    "http.journal.received@7",
    "worker.renew_executions.send",
    "worker.renew_executions.received",
]
SERVER = [
    "claim_lanes.before_commit@2",
    "claim_lanes.after_commit@2",
    "record.before_commit",
    "record.after_commit",
    "record.after_commit@4",
    "park.before_commit",
    "park.after_commit",
    "finish.before_commit",
    "finish.after_commit",
]


@contextmanager
def faulty(home: Home, point: str) -> Iterator[None]:
    """Have the processes that are started in the block kill themselves at a point: `NAME[@N]`."""
    name, _, nth = point.partition("@")
    home.extra["PERDURE_FAILPOINTS"] = f"{name}=kill@{nth or 1}"
    try:
        yield
    finally:
        del home.extra["PERDURE_FAILPOINTS"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path, world: World) -> Iterator[Home]:
    made = Home(tmp_path, extra={"CRASH_WORLD": world.url})
    yield made
    made.close()


def work(home: Home) -> Running:
    return home.work("durable_home:onboard", "--lease-ms", "1000")


def dead(one: Running) -> bool:
    return one.process.poll() is not None


def start(home: Home) -> str:
    """Begin an execution on the server of this home."""
    state = home.server_state()
    with AgentRuntime(state["url"], api_key=state["key"], serve_tools=False) as runtime:
        request = StartRequest(function_spec(FunctionLane("onboard", "b1")), "ann", "once")
        return runtime.wait(runtime.api.start(request)).id


def check(home: Home, world: World, execution: str) -> None:
    """Wait for the end, and hold what was done against what was promised."""
    shown = until(lambda: _ended(home, execution), "the end of the execution")
    view, events = shown["execution"], shown["events"]
    assert view["state"] == "completed", view
    recorded = {event["address"]: event["at_ms"] for event in events if event["kind"] == "step_recorded"}
    assert sorted(recorded) == [f"step {n}" for n in range(STEPS)]
    acts = world.entries()
    counts = Counter(entry.name for entry in acts)
    assert set(counts) == set(recorded)
    assert sum(counts.values()) - STEPS <= 1, f"more than the step in flight ran again: {counts}"
    late = [entry for entry in acts if entry.received_at_ms > recorded[entry.name]]
    assert not late, f"steps that were recorded ran again: {late}"
    assert len({(entry.name, entry.key) for entry in acts}) == STEPS, "a step ran under another key"


def _ended(home: Home, execution: str) -> Any:
    shown = home.json("executions", "show", execution)
    return shown if shown["execution"]["state"] in ("completed", "failed", "cancelled", "stuck") else None


@pytest.mark.parametrize("point", WORKER)
def test_a_worker_that_is_killed_at(point: str, home: Home, world: World) -> None:
    home.serve()
    with faulty(home, point):
        first = work(home)
    execution = start(home)
    until(lambda: dead(first), f"{point} was never passed")
    work(home)
    check(home, world, execution)


@pytest.mark.both_stores
@pytest.mark.parametrize("point", SERVER)
def test_a_server_that_is_killed_at(point: str, home: Home, world: World) -> None:
    with faulty(home, point):
        server = home.serve()
    work(home)
    execution = start(home)
    until(lambda: dead(server), f"{point} was never passed")
    home.serve(port=server.port)
    check(home, world, execution)
