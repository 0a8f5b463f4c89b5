"""Whole worlds on virtual time: server, workers, client and store, with all that can go wrong between them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from planted import PATCHES, ROOT
from simulated_processes import Process, ProcessLoop, run_processes

ROUNDS = 10_000
pytestmark = pytest.mark.sqlite_only("virtual time needs a store that answers on the same thread")

CHILD = """
import json, os, sys
sys.path[:0] = sys.argv[1:3]
sys.unraisablehook = lambda what: None
from simulate import run_seed

found = [run_seed(seed, twice=TWICE) for seed in SEEDS]
print(json.dumps([[one.trace, *one.problems] for one in found]), flush=True)
os._exit(0)  # what a world left is thrown away with the process
"""


def test_no_promise_is_broken_in_any_of_these_worlds() -> None:
    found = in_child(ROOT / "src", range(12))
    assert [problems for _, *problems in found] == [[]] * 12


def test_the_same_seed_is_the_same_run_in_another_process_too() -> None:
    seeds = [3, 8]
    twice = in_child(ROOT / "src", seeds, twice=True)
    assert [problems for _, *problems in twice] == [[], []]
    assert in_child(ROOT / "src", seeds, hash_seed="99") == twice


def test_a_bug_that_is_planted_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "perdure", tmp_path / "src" / "perdure")
    patch = PATCHES / "begun_goes_back.patch"
    subprocess.run(["patch", "-p1", "--batch", "--silent", "--input", str(patch)], cwd=tmp_path, check=True)
    found = in_child(tmp_path / "src", range(8))
    assert any("its body started 2 times, 1 allowed" in problem for _, *problems in found for problem in problems)


def in_child(source: Path, seeds: Iterable[int], *, twice: bool = False, hash_seed: str = "1") -> list[list[str]]:
    """Run seeds in a process of their own; return of each its trace, and what was violated.

    `hash_seed`: in which order sets of texts are.
    """
    program = CHILD.replace("SEEDS", repr(list(seeds))).replace("TWICE", repr(twice))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program, str(source), str(ROOT / "tests" / "support")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    return json.loads(done.stdout)


def test_a_killed_process_does_nothing_more() -> None:
    done: list[str] = []

    async def main(loop: ProcessLoop) -> list[str]:
        process = Process(loop, "p")
        process.run(work("p"))
        Process(loop, "q").run(work("q"))
        await asyncio.sleep(1.5)
        process.kill()
        await asyncio.sleep(5)
        return list(done)

    async def work(name: str) -> None:
        try:
            for second in range(3):
                done.append(f"{name}{second}")
                await asyncio.sleep(1)
        finally:
            done.append(f"{name} left")

    done = run_processes(1, main, ROUNDS).value
    assert [one for one in done if one[0] == "p"] == ["p0", "p1"]
    assert [one for one in done if one[0] == "q"] == ["q0", "q1", "q2", "q left"]


def test_a_stopped_process_goes_on_where_it_was_with_all_that_came_meanwhile() -> None:
    woken: list[float] = []

    async def main(loop: ProcessLoop) -> None:
        process = Process(loop, "p")

        async def work() -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                woken.append(loop.time())

        process.run(work())
        await asyncio.sleep(0.5)
        process.stop()
        await asyncio.sleep(10)
        process.go_on()
        await asyncio.sleep(10)

    run_processes(1, main, ROUNDS)
    assert woken == [10.5, 11.5, 12.5]


def test_callbacks_of_one_process_keep_their_order_and_those_of_several_are_mixed() -> None:
    async def main(loop: ProcessLoop) -> str:
        order: list[str] = []

        async def note(name: str) -> None:
            order.append(name)

        processes = [Process(loop, "p"), Process(loop, "q")]
        for number in range(3):
            for process in processes:
                process.run(note(f"{process.name}{number}"))
        await asyncio.sleep(1)
        return " ".join(order)

    orders = {run_processes(seed, main, ROUNDS).value for seed in range(60)}
    assert len(orders) == 20, "all ways to mix three with three"
    assert all(order.index("p0") < order.index("p1") < order.index("p2") for order in orders)
