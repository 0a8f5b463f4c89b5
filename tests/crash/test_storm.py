"""Kills at moments that a seed chooses, and system calls that do not do what they should. A sample of the long run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import islice

import pytest

from crash_case import Case, Outcome
from crash_disk_calls import Broken
from crash_long import storms


@pytest.mark.parametrize("case", [make() for make in islice(storms(7), 5)], ids=lambda case: case.name)
def test_random_kills_break_no_promise(crash: Callable[[Case], Outcome], case: Case) -> None:
    outcome = crash(case)
    assert outcome.ok, outcome
    assert outcome.kills + outcome.stops > 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("call", "fault", "when"),
    [("fdatasync", "signal=KILL", 5), ("pwrite64", "error=EIO", 20), ("pwrite64", "error=ENOSPC", 14)],
)
@pytest.mark.sqlite_only("the calls are those on a file")
def test_a_broken_system_call_breaks_no_promise(
    crash: Callable[[Case], Outcome], call: str, fault: str, when: int
) -> None:
    outcome = crash(Broken(call, fault, when).case())
    assert outcome.ok, outcome
    assert outcome.deaths[0].startswith("server")
