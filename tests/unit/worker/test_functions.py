"""Durable functions in workers: in one process with the store, and over HTTP through a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from perdure.client.functions import HttpFunctionSource
from perdure.core import codec
from perdure.core.functions import function_spec
from perdure.core.views import ExecutionView, StartRequest
from perdure.core.work import FunctionLane
from perdure.engine.signal import Signal
from perdure.engine.signal import signal as signal_operation
from perdure.engine.sweep import Drop, drop
from perdure.flow import durable, gather_at_most, signal, sleep, step
from perdure.flow.durable import DurableDefinition, durable_definition
from perdure.server.functions import DirectFunctionSource
from perdure.worker.functions import FunctionOptions, FunctionWorker

pytestmark = pytest.mark.anyio

PATIENCE = 60.0


@dataclass
class World:
    """What steps do to the outside: counted by name. Gates hold a step until they are opened."""

    done: list[str] = field(default_factory=list)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    entered: dict[str, threading.Event] = field(default_factory=dict)

    def hold(self, name: str) -> None:
        self.gates[name], self.entered[name] = threading.Event(), threading.Event()

    async def act(self, name: str) -> str:
        self.done.append(name)
        if name in self.gates:
            self.entered[name].set()
            while not self.gates[name].is_set():  # noqa: ASYNC110 - it is opened on another loop
                await asyncio.sleep(0.002)
        return f"did {name}"


def two_steps(world: World, *, build: str = "b1") -> DurableDefinition:
    @durable(name="two", build=build)
    async def two(who: str) -> dict[str, Any]:
        first = await step(world.act, f"first {who}", name="first")
        second = await step(world.act, f"second {who}", name="second")
        return {"answers": [first, second]}

    return durable_definition(two)


def waiting(world: World) -> DurableDefinition:
    @durable(name="waiting", build="b1")
    async def waits(who: str) -> Any:
        await step(world.act, f"before {who}", name="before")
        told = await signal("go")
        await step(world.act, f"after {who}", name="after")
        return told

    return durable_definition(waits)


@dataclass
class Shop:
    """A server, and workers that run durable functions."""

    server: Server
    over_http: bool
    running: dict[FunctionWorker, asyncio.Task[None]] = field(default_factory=dict)

    async def open(self, *definitions: DurableDefinition, **options: Any) -> FunctionWorker:
        """Begin a worker, and return it when the server knows it."""
        node = self.server.node
        alive = self.server.tasks() if self.over_http else node.tasks("default")
        worker = FunctionWorker(self._source, alive, definitions, FunctionOptions(**options))
        self.running[worker] = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            await worker.connected()
        return worker

    def _source(self) -> Any:
        if self.over_http:
            return HttpFunctionSource(self.server.url, self.server.key)
        return DirectFunctionSource(self.server.node, "default")

    async def close(self, worker: FunctionWorker, drain_seconds: float | None = None) -> None:
        worker.stop(drain_seconds)
        async with asyncio.timeout(PATIENCE):
            await self.running.pop(worker)

    @property
    def api(self) -> Any:
        return self.server.node.api("default")

    async def start(self, name: str, input: Any = "ann", **options: Any) -> str:
        lane = FunctionLane(name, options.pop("build", "b1"))
        return (await self.api.start(StartRequest(function_spec(lane), input, **options))).id

    async def signal(self, execution: str, name: str, value: Any) -> None:
        row = Signal("default", execution, "signal", name=name, value=codec.encode(value), dedupe=f"{name}{value}")
        assert isinstance(await self.server.node.bridge.run(signal_operation, row), int)

    async def result(self, execution: str) -> ExecutionView:
        async with asyncio.timeout(PATIENCE):
            await self.api.wait(execution)
        return await self.api.execution(execution)

    async def until(self, fact: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fact():  # noqa: ASYNC110 - a fact of any kind has no event
                await asyncio.sleep(0.005)

    async def state(self, execution: str, state: str) -> ExecutionView:
        async with asyncio.timeout(PATIENCE):
            while True:
                view = await self.api.execution(execution)
                if view.state == state:
                    return view
                await asyncio.sleep(0.005)

    async def kinds(self, execution: str) -> list[str]:
        return [str(event.kind) for event in await self.api.events(execution)]


@asynccontextmanager
async def shop_in(folder: Path, *, over_http: bool) -> AsyncIterator[Shop]:
    async with serving(folder / "p.db") as server:
        shop = Shop(server, over_http)
        try:
            yield shop
        finally:
            for worker in list(shop.running):
                await shop.close(worker, 0)


@pytest.fixture(params=["direct", "http"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with shop_in(tmp_path, over_http=request.param == "http") as made:
        yield made


async def test_a_worker_runs_a_durable_function_to_its_end(shop: Shop) -> None:
    world = World()
    await shop.open(two_steps(world))
    view = await shop.result(await shop.start("two"))
    assert (view.state, view.output) == ("completed", {"answers": ["did first ann", "did second ann"]})
    assert world.done == ["first ann", "second ann"]


async def test_what_waits_takes_no_slot_and_goes_on_from_its_live_coroutine(shop: Shop) -> None:
    world = World()
    worker = await shop.open(waiting(world), slots=1)
    ids = [await shop.start("waiting", f"n{n}") for n in range(3)]
    for execution in ids:
        await shop.state(execution, "waiting")
    for execution in ids:
        await shop.signal(execution, "go", "yes")
    assert [(await shop.result(execution)).output for execution in ids] == ["yes"] * 3
    assert sorted(world.done) == sorted(f"{when} n{n}" for when in ("before", "after") for n in range(3))
    assert worker.id.startswith("wrk_")


async def test_recorded_steps_do_not_run_again_on_another_worker(shop: Shop) -> None:
    world = World()
    first = await shop.open(waiting(world))
    execution = await shop.start("waiting")
    await shop.state(execution, "waiting")
    await shop.close(first)
    await shop.open(waiting(world))
    await shop.signal(execution, "go", 7)
    assert (await shop.result(execution)).output == 7
    assert world.done == ["before ann", "after ann"]


async def test_a_stopped_worker_hands_back_what_did_not_end_in_time(shop: Shop) -> None:
    world = World()
    world.hold("second ann")
    first = await shop.open(two_steps(world), lease_ms=600_000)
    execution = await shop.start("two")
    await shop.until(lambda: world.entered.get("second ann") and world.entered["second ann"].is_set())
    await shop.close(first, 0)
    world.gates["second ann"].set()
    await shop.open(two_steps(world))
    assert (await shop.result(execution)).state == "completed"
    assert world.done == ["first ann", "second ann", "second ann"]
    assert (await shop.kinds(execution)).count("taken_over") == 1


async def test_a_stopped_worker_lets_what_runs_end(shop: Shop) -> None:
    world = World()
    world.hold("second ann")
    worker = await shop.open(two_steps(world))
    execution = await shop.start("two")
    await shop.until(lambda: world.entered["second ann"].is_set())
    worker.stop(PATIENCE)
    world.gates["second ann"].set()
    assert (await shop.result(execution)).state == "completed"
    async with asyncio.timeout(PATIENCE):
        await shop.running.pop(worker)
    assert world.done == ["first ann", "second ann"]


async def test_a_worker_leaves_executions_that_another_build_began(shop: Shop) -> None:
    world = World()
    old = await shop.open(waiting(world))
    execution = await shop.start("waiting")
    await shop.state(execution, "waiting")
    await shop.close(old)
    newer = durable_definition(waiting(world))
    await shop.open(DurableDefinition(name="waiting", function=newer.function, build="b2"))
    await shop.signal(execution, "go", 1)
    fresh = await shop.start("waiting", "bob")
    await shop.signal(fresh, "go", 2)
    assert (await shop.result(fresh)).output == 2
    assert (await shop.api.execution(execution)).state == "ready"
    await shop.open(waiting(world))
    assert (await shop.result(execution)).output == 1


async def test_no_more_run_at_once_than_there_are_slots(shop: Shop) -> None:
    world = World()
    for n in range(4):
        world.hold(f"first n{n}")
    await shop.open(two_steps(world), slots=2)
    ids = [await shop.start("two", f"n{n}") for n in range(4)]
    await shop.until(lambda: len(world.done) == 2)
    assert len([1 for execution in ids if (await shop.api.execution(execution)).state == "running"]) == 2
    for gate in world.gates.values():
        gate.set()
    for execution in ids:
        assert (await shop.result(execution)).state == "completed"
    assert len(world.done) == 8


async def test_a_cancel_reaches_a_running_step_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.worker.claimer.WAIT_SECONDS", 3_600)  # it does not ask again by itself
    monkeypatch.setattr("perdure.server.functions.POLL_SECONDS", 3_600)
    monkeypatch.setattr("perdure.client.functions.MAX_WAIT_SECONDS", 60)
    world = World()
    world.hold("first ann")
    await shop.open(two_steps(world), lease_ms=600_000)
    execution = await shop.start("two")
    await shop.until(lambda: world.entered["first ann"].is_set())
    await shop.api.cancel(execution)
    assert (await shop.result(execution)).state == "cancelled"
    assert world.done == ["first ann"]


async def test_a_lost_lease_ends_the_run_here_and_it_goes_on_elsewhere(shop: Shop) -> None:
    world = World()
    world.hold("second ann")
    await shop.open(two_steps(world), lease_ms=1_000)
    execution = await shop.start("two")
    await shop.until(lambda: world.entered["second ann"].is_set())
    [holder] = [info.worker for info in await shop.api.workers()]
    await shop.server.node.bridge.run(drop, Drop(holder))
    await shop.until(lambda: world.done.count("second ann") == 2)
    world.gates["second ann"].set()
    view = await shop.result(execution)
    assert view.output == {"answers": ["did first ann", "did second ann"]}
    assert (await shop.kinds(execution)).count("step_recorded") == 2


async def test_who_vanishes_is_followed_long_before_its_lease_would_end(shop: Shop) -> None:
    world = World()
    world.hold("second ann")
    first = await shop.open(two_steps(world), lease_ms=600_000)
    execution = await shop.start("two")
    await shop.until(lambda: world.entered["second ann"].is_set())
    vanished = shop.running.pop(first)
    vanished.cancel()
    await asyncio.gather(vanished, return_exceptions=True)
    await shop.open(two_steps(world))
    world.gates["second ann"].set()
    assert (await shop.result(execution)).state == "completed"
    assert world.done == ["first ann", "second ann", "second ann"]


async def test_branches_run_side_by_side_and_in_the_same_places_again(shop: Shop) -> None:
    world = World()

    @durable(name="fan", build="b1")
    async def fan(count: int) -> list[str]:
        async def one(n: int) -> str:
            await step(world.act, f"a{n}", name="a")
            await sleep(days=0)
            return await step(world.act, f"b{n}", name="b")

        return list(await gather_at_most(3, *[one(n) for n in range(count)]))

    await shop.open(durable_definition(fan), cache=0)
    view = await shop.result(await shop.start("fan", 5))
    assert view.output == [f"did b{n}" for n in range(5)], view
    assert sorted(world.done) == sorted(f"{letter}{n}" for letter in "ab" for n in range(5))
