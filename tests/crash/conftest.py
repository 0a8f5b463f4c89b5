"""The driver of the crash runs, as a process of its own: a test runner has threads, and whoever forks must not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash_case import Case, Outcome

DRIVER = Path(__file__).parents[1] / "support" / "crash_driver.py"


@pytest.fixture(scope="session")
def crash() -> Iterator[Callable[[Case], Outcome]]:
    """Run one case and return what came of it."""
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
