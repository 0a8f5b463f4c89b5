"""The worker under hundreds of orders of events: requests and replies lost at random, the connection flapping."""

from __future__ import annotations

import asyncio
import random

import anyio
import pytest

from memory_tasks import Fault, MemoryTasks, Verb
from perdure.agent.tool import definition_of
from perdure.core.work import Lane
from perdure.errors import Unreachable
from perdure.testing.clock import LoopClock, SeededRandom
from perdure.testing.simulation import run_simulation
from perdure.worker.loop import Worker, WorkerOptions

VERBS: tuple[Verb, ...] = ("lease", "begin", "report", "beat")
TASKS = 12
SEEDS = 60


class World:
    """What the bodies did."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}
        self.at_once = 0
        self.most_at_once = 0


async def scenario(seed: int, chance: float, *, stop_within: float = 0) -> tuple[MemoryTasks, World]:
    """Have twelve tasks done by a worker of three slots, half of them acts. Stop it then, or at some time before."""
    dice, clock, world = random.Random(seed), LoopClock(asyncio.get_running_loop()), World()
    source = MemoryTasks(clock)

    async def work(name: str, seconds: float) -> str:
        world.started[name] = world.started.get(name, 0) + 1
        world.at_once += 1
        world.most_at_once = max(world.most_at_once, world.at_once)
        await asyncio.sleep(seconds)
        world.at_once -= 1
        return name

    for verb in VERBS:
        source.faults[verb] = [_fault(dice, chance) for _ in range(40)]
    names = [f"t{n}" for n in range(TASKS)]
    addresses = [
        source.add(
            "work",
            {"name": name, "seconds": dice.choice([0, 0.01, 5, 70])},
            delivery=dice.choice(["at_most_once", "at_least_once"]),
        )
        for name in names
    ]
    options = WorkerOptions(slots=3, tool_loop=asyncio.get_running_loop())
    tools = {Lane("agent", "work"): definition_of(work)}
    worker = Worker(source, tools, options, clock=clock, random=SeededRandom(seed))
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        for _ in range(dice.randrange(4) if chance else 0):
            await clock.sleep(dice.uniform(0, 40))
            source.close_link()
            await clock.sleep(dice.uniform(0, 8))
            source.open_link()
        if stop_within:
            await clock.sleep(dice.uniform(0, stop_within))
            worker.stop(dice.choice([0, 1, 20, 100]))
        else:
            await source.reported(*addresses)
            worker.stop()
    return source, world


def _fault(dice: random.Random, chance: float) -> Fault:
    if dice.random() >= chance:
        return Fault()
    return Fault(Unreachable("lost"), after=dice.random() < 0.5)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.7])
def test_every_task_is_done_and_no_act_is_started_twice(chance: float) -> None:
    for seed in range(SEEDS):
        source, world = run_simulation(seed, lambda seed=seed: scenario(seed, chance)).value
        for address, row in source.rows.items():
            name = row.task.args["name"]
            assert source.outcomes(address) == ["completed"], f"seed {seed}"
            assert row.reports[0].value == name
            if row.task.delivery == "at_most_once" or not source.lapses:
                assert world.started[str(name)] == 1, f"seed {seed}"
        assert world.most_at_once <= 3
        assert chance or not source.lapses


def test_whenever_it_is_stopped_nothing_is_left_in_its_hands() -> None:
    seen: set[str] = set()
    for seed in range(2 * SEEDS):
        source, _ = run_simulation(seed, lambda seed=seed: scenario(seed, 0, stop_within=100)).value
        for row in source.rows.values():
            seen.add(row.state)
            assert row.state in ("ready", "done", "uncertain"), f"seed {seed}: {row}"
            assert row.state != "uncertain" or row.task.delivery == "at_most_once"
    assert seen == {"ready", "done", "uncertain"}


def test_the_same_seed_is_the_same_run() -> None:
    traces = {run_simulation(7, lambda: scenario(7, 0.4)).trace for _ in range(3)}
    assert len(traces) == 1
