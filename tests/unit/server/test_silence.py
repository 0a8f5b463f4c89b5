"""When a worker's connection closes: proof of its death ends its leases at once, suspicion leaves them seconds."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from node_bench import NodeBench, node_over, tool, wait_until
from perdure import file_lock
from perdure.core.functions import ClaimRequest, function_spec
from perdure.core.views import StartRequest
from perdure.core.work import ORPHAN_LEASE_MS, FunctionLane, WorkerInfo
from perdure.engine.look import deadlines
from perdure.models.scripted import call, say
from perdure.server.silence import BEQUEST_LEASE_MS, bury, fell_silent
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from perdure.wire.worker_lock import machine

pytestmark = pytest.mark.anyio


async def left_ms(bench: NodeBench, clock: FakeClock) -> int:
    """Return how long the only lease still lasts."""
    due_ms = (await bench.node.bridge.read(deadlines))["task_ms"]
    assert due_ms is not None
    return due_ms - clock.wall_ms()


async def over(bench: NodeBench, clock: FakeClock, kind: str) -> bool:
    """Say whether no lease of a kind lasts. Asked again: the node that begins looks too, and who looks first cuts."""
    due_ms = (await bench.node.bridge.read(deadlines))[kind]
    return due_ms is None or due_ms < clock.wall_ms()


def worker_in(folder: Path, left: bytes = b"") -> WorkerInfo:
    path = folder / "wrk_1.outbox"
    path.write_bytes(left)
    return WorkerInfo("wrk_1", "laptop", machine=machine(), lock=str(path))


async def claim(bench: NodeBench, worker: str, start: int = 0) -> list[str]:
    """Have a worker claim all it can get of what stands ready, after so many were started; return which."""
    lane = FunctionLane("held", "b1")
    for _ in range(start):
        await bench.api.start(StartRequest(function_spec(lane), "go"))
    request = ClaimRequest(worker, f"nonce of {worker}", (lane,), slots=10, lease_ms=60_000)
    claims = await bench.node.functions("default").claim(request, wait_seconds=0)
    return sorted(one.execution for one in claims.executions)


async def test_a_dead_workers_leases_end_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    info = worker_in(tmp_path)
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        await bench.start(tool("look"))
        signs = cast("AsyncGenerator[str]", bench.source.alive(info))
        await anext(signs)
        await bench.lease("look")
        await signs.aclose()
        assert await bench.lease("look", worker="wrk_2")


async def test_a_dead_worker_that_left_results_leaves_its_heir_time(tmp_path: Path) -> None:
    clock = FakeClock()
    info = worker_in(tmp_path, b"a result")
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        await bench.start(tool("look"))
        await bench.lease("look")
        await fell_silent(bench.node.bridge, clock, "default", info)
        assert await left_ms(bench, clock) == BEQUEST_LEASE_MS


async def test_who_keeps_its_lock_is_only_suspected(tmp_path: Path) -> None:
    clock = FakeClock()
    info = worker_in(tmp_path)
    descriptor = file_lock.take_at(info.lock, os.O_RDWR, 0)
    assert descriptor is not None
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        await bench.start(tool("look"))
        await bench.lease("look")
        await fell_silent(bench.node.bridge, SystemClock(), "default", info)
        assert await left_ms(bench, clock) == ORPHAN_LEASE_MS
        os.close(descriptor)
        await fell_silent(bench.node.bridge, clock, "default", info)
        assert await bench.lease("look", worker="wrk_2")


@pytest.mark.both_stores
async def test_a_dead_workers_executions_are_anothers_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    info = worker_in(tmp_path)
    async with node_over(tmp_path, [], clock=clock) as bench:
        mine = await claim(bench, "wrk_1", start=3)
        signs = cast("AsyncGenerator[str]", bench.source.alive(info))
        await anext(signs)
        await signs.aclose()
        assert await claim(bench, "wrk_2") == mine


async def test_what_a_dead_worker_left_to_deliver_keeps_no_execution(tmp_path: Path) -> None:
    clock = FakeClock()
    info = worker_in(tmp_path, b"a result")
    async with node_over(tmp_path, [], clock=clock) as bench:
        mine = await claim(bench, "wrk_1", start=1)
        await fell_silent(bench.node.bridge, clock, "default", info)
        assert await claim(bench, "wrk_2") == mine


@pytest.mark.both_stores
async def test_who_keeps_its_lock_keeps_its_executions_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.server.silence.LOOKS_SECONDS", (0.0,))
    clock = FakeClock()
    info = worker_in(tmp_path)
    descriptor = file_lock.take_at(info.lock, os.O_RDWR, 0)
    assert descriptor is not None
    async with node_over(tmp_path, [], clock=clock) as bench:
        await claim(bench, "wrk_1", start=1)
        await fell_silent(bench.node.bridge, clock, "default", info)
        assert await claim(bench, "wrk_2") == []
        due_ms = (await bench.node.bridge.read(deadlines))["owned_ms"]
        assert due_ms == clock.wall_ms() + ORPHAN_LEASE_MS
    os.close(descriptor)


async def test_a_server_that_begins_looks_for_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "perdure" / "outbox"
    folder.mkdir(parents=True)
    clock = FakeClock()
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bury(bench.node.bridge)
        assert await left_ms(bench, clock) == task.lease_ms, "a worker elsewhere has no file here"
        info = worker_in(folder)
        descriptor = file_lock.take_at(info.lock, os.O_RDWR, 0)
        assert descriptor is not None
        await bury(bench.node.bridge)
        assert await left_ms(bench, clock) == task.lease_ms, "it lives"
        os.close(descriptor)
        await bury(bench.node.bridge)
        await wait_until(lambda: over(bench, clock, "task_ms"))


@pytest.mark.both_stores
async def test_a_server_that_begins_looks_for_the_dead_who_ran_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "perdure" / "outbox"
    folder.mkdir(parents=True)
    clock = FakeClock()
    async with node_over(tmp_path, [], clock=clock) as bench:
        await claim(bench, "wrk_1", start=1)
        worker_in(folder)
        await bury(bench.node.bridge)
        await wait_until(lambda: over(bench, clock, "owned_ms"))
