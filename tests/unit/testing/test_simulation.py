"""The same seed is the same run; other seeds are other orders; hours cost nothing; nothing real gets in."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import count

import anyio
import pytest

from perdure.testing.simulation import Escape, SimLoop, Standstill, run_simulation


async def busy() -> list[str]:
    """Tasks that meet at queues, locks, time-outs and a group that is cancelled as a set."""
    seen: list[str] = []
    queue: asyncio.Queue[int] = asyncio.Queue(2)
    lock = asyncio.Lock()

    async def produce(n: int) -> None:
        for _ in range(3):
            await queue.put(n)
            await asyncio.sleep(n % 3)

    async def consume(n: int) -> None:
        for _ in range(3):
            item = await queue.get()
            async with lock:
                seen.append(f"{n} got {item}")
                await asyncio.sleep(0.5)

    async def stay(n: int) -> None:
        try:
            await asyncio.sleep(10**9)
        finally:
            seen.append(f"{n} left")

    async with asyncio.TaskGroup() as group:
        for n in range(6):
            group.create_task(produce(n))
            group.create_task(consume(n))
    with anyio.move_on_after(60):
        async with anyio.create_task_group() as crowd:
            for n in range(30):
                crowd.start_soon(stay, n)
    return seen


def test_the_same_seed_is_the_same_run() -> None:
    ballast: list[bytearray] = []
    for seed in range(20):
        first = run_simulation(seed, busy)
        ballast += [bytearray(64 * n) for n in range(seed)]  # moves objects to other addresses
        assert run_simulation(seed, busy) == first


def test_other_seeds_are_other_orders() -> None:
    runs = [run_simulation(seed, busy) for seed in range(20)]
    assert len({tuple(run.value) for run in runs}) > 15
    assert len({run.trace for run in runs}) == 20


def test_every_order_of_a_few_tasks_is_found() -> None:
    async def main() -> str:
        seen: list[str] = []

        async def note(name: str) -> None:
            seen.append(name)

        await asyncio.gather(*map(note, "abc"))
        return "".join(seen)

    assert len({run_simulation(seed, main).value for seed in range(100)}) == 6


def test_days_pass_in_milliseconds() -> None:
    async def main() -> float:
        for _ in range(300):
            await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    started = time.monotonic()
    outcome = run_simulation(1, main)
    assert outcome.value == outcome.virtual_seconds == 300 * 3600
    assert time.monotonic() - started < outcome.virtual_seconds / 20_000


def test_timers_fire_in_order_and_not_early() -> None:
    async def main() -> list[tuple[float, float]]:
        loop = asyncio.get_running_loop()
        woken: list[tuple[float, float]] = []

        async def sleeper(due: float) -> None:
            await asyncio.sleep(due)
            woken.append((due, loop.time()))

        await asyncio.gather(*(sleeper(due) for due in (0.3, 0.1, 7e6, 0.2)))
        return woken

    woken = run_simulation(3, main).value
    assert [due for due, _ in woken] == [0.1, 0.2, 0.3, 7e6]
    assert all(at >= due for due, at in woken)


def test_a_deadlock_is_named() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Standstill, match="waits for another") as failure:
        run_simulation(5, main)
    assert failure.value.__notes__ == ["simulation seed 5, at 0.000 virtual seconds"]


def test_an_endless_loop_is_ended() -> None:
    async def main() -> None:
        for second in count():
            await asyncio.sleep(second)

    with pytest.raises(Standstill, match="still turning after 1,000 rounds"):
        run_simulation(5, main, max_rounds=1_000)


def test_a_failure_names_its_seed() -> None:
    async def main() -> None:
        await asyncio.sleep(1.5)
        raise LookupError("planted")

    with pytest.raises(LookupError, match="planted") as failure:
        run_simulation(42, main)
    assert failure.value.__notes__ == ["simulation seed 42, at 1.500 virtual seconds"]


WAYS_OUT: dict[str, Callable[[], object]] = {
    "socket": socket.socket,
    "thread": lambda: threading.Thread(target=print, name="t").start(),
    "sleep": lambda: time.sleep(0.001),
    "process": lambda: subprocess.Popen(["true"]),
    "fork": lambda: os.fork(),
    "executor": lambda: asyncio.get_running_loop().run_in_executor(None, print),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_is_closed(way: str) -> None:
    async def main() -> None:
        try:
            WAYS_OUT[way]()
        except Escape:
            return  # even a swallowed one counts

    with pytest.raises(Escape, match="in a simulation"):
        run_simulation(0, main)


def test_opening_a_connection_is_refused() -> None:
    async def main() -> None:
        await asyncio.open_connection("localhost", 1)

    with pytest.raises(Escape, match="getaddrinfo"):
        run_simulation(0, main)


def test_the_ways_are_open_again_afterwards() -> None:
    run_simulation(0, busy)
    socket.socket().close()
    thread = threading.Thread(target=time.sleep, args=(0,), name="t")
    thread.start()
    thread.join()


def test_other_threads_are_not_held() -> None:
    entered, done = threading.Event(), threading.Event()

    def other() -> None:
        entered.wait(10)
        socket.socket().close()
        time.sleep(0)
        done.set()

    async def main() -> bool:
        entered.set()
        return done.wait(10)

    thread = threading.Thread(target=other, name="other")
    thread.start()
    assert run_simulation(0, main).value
    thread.join()


def test_a_callback_from_another_thread_is_refused() -> None:
    loop = SimLoop(0)
    caught: list[Escape] = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except Escape as escape:
            caught.append(escape)

    thread = threading.Thread(target=call, name="stranger")
    thread.start()
    thread.join()
    loop.close()
    assert caught == [loop.escape]
