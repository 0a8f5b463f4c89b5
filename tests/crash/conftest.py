"""The drivers of the crash runs, as processes of their own: a test runner has threads, and whoever forks must not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import postgres_server
from crash_case import Case, Outcome
from which_store import kind, store_at

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="session")
def driver() -> Iterator[Callable[[Case], Outcome]]:
    """Have cases run, one after the other."""
    with _driver("crash_driver.py") as run:
        yield run


@pytest.fixture(scope="session")
def on_postgres() -> Iterator[Callable[[Case], Outcome]]:
    """The same, with the store in a database."""
    if postgres_server.find_binaries() is None:
        pytest.skip("no PostgreSQL binaries: install Debian's postgresql, or let ./dev test install the wheel")
    with _driver("crash_on_postgres.py") as run:
        yield run


@contextmanager
def _driver(program: str) -> Iterator[Callable[[Case], Outcome]]:
    command = [sys.executable, str(SUPPORT / program)]
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
