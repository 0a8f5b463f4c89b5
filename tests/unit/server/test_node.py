"""One process's share of a store: from start to stop, and what is left behind for the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from node_bench import PATIENCE, Hold, Script, node_over, tool
from perdure import failpoints
from perdure.core.functions import ClaimRequest
from perdure.core.work import FunctionLane, Lane, LeaseRequest, WorkerInfo
from perdure.engine.keys import DEFAULT_COMPANY, Principal
from perdure.engine.look import deadlines
from perdure.errors import InternalError, Retryable, StoreFailed, StoreInUse
from perdure.models.catalog import Catalog
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.server.node import Node, Parts
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import open_store

pytestmark = pytest.mark.anyio


def node_in(folder: Path, *replies: object) -> Node:
    clock, random = SystemClock(), SeededRandom(3)
    parts = Parts(Catalog(scripted={"clerk": Script(replies)}, environ={}), clock, random)  # type: ignore[arg-type]
    return Node(open_store(folder / "p.db", clock=clock, random=random), parts)


async def test_a_stopped_node_hands_back_what_it_owned_at_once(tmp_path: Path) -> None:
    """On a clock that stands still, no lease could run out."""
    clock, hold = FakeClock(), Hold("turn 1/model")
    script = Script([say("done")], gate=hold)
    async with node_over(tmp_path, script, clock=clock) as bench:
        execution = await bench.start()
        await hold.reached()
        assert await bench.ownership(execution) == "owned"
    hold.open()
    async with node_over(tmp_path, script, clock=clock) as bench:
        assert (await bench.result(execution)).state == "completed"
        assert await bench.kinds(execution) == ["started", "taken_over", "step_recorded", "completed"]


async def test_a_stopped_node_leaves_what_was_parked_alone(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        await bench.state(execution, "waiting", ownership="parked")
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        [task] = await bench.lease("look")
        await bench.done(task)
        await bench.result(execution)
        assert "taken_over" not in await bench.kinds(execution)


@pytest.mark.sqlite_only("a file has one owner, a database any number of equals")
async def test_two_nodes_cannot_have_one_file(tmp_path: Path) -> None:
    async with node_over(tmp_path, []):
        with pytest.raises(StoreInUse) as refused:
            async with node_over(tmp_path, []):
                pass
        assert refused.value.code == "store_in_use"


async def test_it_is_ready_between_start_and_stop_only(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    assert not node.ready()
    node.start()
    assert node.ready()
    assert node.accepting
    node.drain()
    assert not node.ready()
    assert not node.accepting
    await asyncio.to_thread(node.stop)
    await asyncio.to_thread(node.stop)
    with pytest.raises(Retryable) as refused:
        await node.api("default").cancel("exe_1")
    assert refused.value.code == "shutting_down"


async def test_a_node_that_was_never_started_stops(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    node.stop()
    assert not node.ready()


async def test_it_runs_on_a_loop_that_is_given(tmp_path: Path) -> None:
    node = node_in(tmp_path, say("done"))
    node.start(asyncio.get_running_loop())
    from node_bench import NodeBench

    bench = NodeBench(node, Script([]))
    assert (await bench.result(await bench.start())).state == "completed"
    await asyncio.to_thread(node.stop)


@pytest.mark.sqlite_only("a file can be moved")
async def test_a_file_that_is_moved_away_fails_the_node_and_says_what_to_do(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    node.start()
    (tmp_path / "p.db").rename(tmp_path / "elsewhere.db")

    async def until_it_is_noticed() -> None:
        async with asyncio.timeout(PATIENCE):
            while True:  # it looks again whenever its clock has gone on far enough
                await node.add_key("acme", "k", "pdk_1")

    try:
        with pytest.raises(StoreFailed) as refused:
            await until_it_is_noticed()
        assert refused.value.code == "store_moved"
        assert isinstance(node.failure, StoreFailed)
        assert not node.ready()
    finally:
        await asyncio.to_thread(node.stop)


async def test_a_bug_that_ends_the_executor_is_seen_from_outside(tmp_path: Path) -> None:
    failpoints.arm("claim.after_commit=raise")
    try:
        node = node_in(tmp_path)
        node.start()
        async with asyncio.timeout(PATIENCE):
            while node.failure is None:  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.002)
    finally:
        failpoints.arm("")
    assert isinstance(node.failure, InternalError)
    assert "the executor died" in node.failure.message
    assert not node.ready()
    await asyncio.to_thread(node.stop)


async def test_a_sweep_that_fails_keeps_no_other_from_its_work_and_is_made_again(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = ModelError("transient", "slow down", retry_after=25.0)

    def reply(request: ModelRequest) -> ModelReply:
        if request.messages[0].text == "slow":
            raise slow
        return call("look")

    async with node_over(tmp_path, [reply, say("done")], clock=clock) as bench:
        waits, works = await bench.start(input="slow"), await bench.start(tool("look"))
        await bench.until(waits, "timer_set")
        await bench.lease("look")
        await clock.asleep(2)
        failpoints.arm("fire_timers.before_commit=raise")
        try:
            clock.advance(31)
            await bench.until(works, "attempt_lost")
            assert "timer_fired" not in await bench.kinds(waits)
        finally:
            failpoints.arm("")
        async with asyncio.timeout(PATIENCE):
            while "timer_fired" not in await bench.kinds(waits):
                clock.advance(1)


async def test_keys_belong_to_companies_and_companies_see_their_own(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        await bench.node.add_key("acme", "laptop", "pdk_1")
        assert await bench.node.authenticate("pdk_1") == Principal("acme", "laptop")
        assert await bench.node.authenticate("pdk_2") is None
        execution = await bench.start(tool("look"))
        await bench.until(execution, "task_scheduled")
        other, tasks = bench.node.api("acme"), bench.node.tasks("acme")
        assert (await other.executions()).items == ()
        assert await other.approvals() == []
        request = LeaseRequest("wrk_1", "n", (Lane("clerk", "look"),), 5)
        assert await tasks.lease(request, wait_seconds=0) == []
        [mine] = await bench.lease("look")
        from perdure.core.work import Answer, Held, Report

        report = Report(mine.execution, mine.address, mine.fence, "completed", "stolen")
        assert await tasks.report("wrk_1", [report]) == [Answer.LEASE_LOST]
        assert await tasks.beat("wrk_1", [Held(*held_by(mine))]) == [Answer.LEASE_LOST]
        assert await tasks.hand_back("wrk_1", [Held(*held_by(mine))]) == [Answer.LEASE_LOST]


def held_by(task: object) -> tuple[str, str, int]:
    return task.execution, task.address, task.fence  # type: ignore[attr-defined]


async def test_a_worker_is_known_while_it_is_connected_and_its_leases_shrink_when_it_leaves(tmp_path: Path) -> None:
    clock = FakeClock()
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        execution = await bench.start(tool("look"))
        signs = cast("AsyncGenerator[None]", bench.source.alive(WorkerInfo("wrk_1", "laptop")))
        await anext(signs)
        assert [worker.name for worker in await bench.api.workers()] == ["laptop"]
        assert await bench.node.api("acme").workers() == []
        await bench.lease("look")
        await signs.aclose()
        assert await bench.api.workers() == []
        await clock.asleep(2)
        clock.advance(3.5)
        await bench.until(execution, "attempt_lost")


async def test_a_draining_node_shrinks_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with node_over(tmp_path, [call("look"), say("done")], clock=clock) as bench:
        await bench.start(tool("look"))
        signs = cast("AsyncGenerator[None]", bench.source.alive(WorkerInfo("wrk_1", "laptop")))
        await anext(signs)
        [task] = await bench.lease("look")
        bench.node.drain()
        await signs.aclose()
        due = await bench.node.bridge.read(deadlines)
        assert due["task_ms"] == clock.wall_ms() + task.lease_ms


async def test_a_draining_node_lets_nobody_wait_for_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tasks", "functions"):
        monkeypatch.setattr(f"perdure.server.{module}.POLL_SECONDS", 3_600)  # nobody looks by themselves
    clock = FakeClock()
    async with node_over(tmp_path, [say("done")], clock=clock) as bench:
        lane = Lane("clerk", "look")
        tasks = asyncio.ensure_future(bench.source.lease(LeaseRequest("w", "n", (lane,), 1), wait_seconds=3_600))
        functions = bench.node.functions(DEFAULT_COMPANY)
        claim = ClaimRequest("w", "n", (FunctionLane("onboard", "b1"),), 1)
        claims = asyncio.ensure_future(functions.claim(claim, wait_seconds=3_600))
        await asyncio.sleep(0)
        assert await bench.none_to_lease("look")  # asked for after them: they have looked, and wait
        assert not any((tasks.done(), claims.done()))
        async with asyncio.timeout(PATIENCE):
            bench.node.drain()
            assert await tasks == []
            assert (await claims).executions == ()


async def test_a_lease_waits_for_a_task_and_no_longer_than_asked(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        request = LeaseRequest("wrk_1", "n", (Lane("clerk", "look"),), 1)
        assert await bench.source.lease(request, wait_seconds=0.01) == []
        waiting = asyncio.ensure_future(bench.source.lease(request, wait_seconds=PATIENCE))
        await asyncio.sleep(0)
        await bench.start(tool("look"))
        [task] = await waiting
        assert task.tool == "look"


async def test_a_resume_wakes_whoever_waits_for_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.server.tasks.POLL_SECONDS", 3_600)  # it does not look by itself
    async with node_over(tmp_path, [call("look"), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        await bench.until(execution, "task_scheduled")
        await bench.api.pause(execution)
        request = LeaseRequest("wrk_1", "n", (Lane("clerk", "look"),), 1)
        waiting = asyncio.ensure_future(bench.source.lease(request, wait_seconds=3_600))
        await asyncio.sleep(0)
        assert await bench.none_to_lease("look")  # asked for after it: it has looked, and waits
        async with asyncio.timeout(PATIENCE):
            await bench.api.resume(execution)
            assert len(await waiting) == 1
