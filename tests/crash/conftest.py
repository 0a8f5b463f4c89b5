"""The driver of the crash runs, as a process of its own: a test runner has threads, and whoever forks must not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from crash_case import Case, Outcome
from which_store import kind, store_at

DRIVER = Path(__file__).parents[1] / "support" / "crash_driver.py"


@pytest.fixture(scope="session")
def driver() -> Iterator[Callable[[Case], Outcome]]:
    """Have cases run, one after the other."""
    command = [sys.executable, str(DRIVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        asked, answers = driver.stdin, driver.stdout

        def run(case: Case) -> Outcome:
            asked.write(json.dumps(case.to_json()) + "\n")
            asked.flush()
            answer = answers.readline()
            assert answer, f"the driver ended with {driver.wait()}; what it said is above"
            return Outcome.from_json(json.loads(answer))

        yield run
        asked.close()
        driver.wait(30)


@pytest.fixture
def crash(driver: Callable[[Case], Outcome], tmp_path: Path) -> Callable[[Case], Outcome]:
    """Run one case on a store of its own and return what came of it."""
    places = (tmp_path / str(number) for number in count())

    def run(case: Case) -> Outcome:
        if kind() == "postgres":
            case = replace(case, setup={**case.setup, "database": store_at(next(places))})
        return driver(case)

    return run
