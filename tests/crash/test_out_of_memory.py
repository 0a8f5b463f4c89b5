"""Death by the kernel: the client that is also the worker leaks in a small control group until it is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import crash_judge
from crash_case import Case, Outcome

LIMIT_BYTES = 384 * 1024 * 1024


def test_the_server_and_the_execution_outlive_a_client_that_ran_out_of_memory(
    crash: Callable[[Case], Outcome],
) -> None:
    """The skills run as users run them, as programs of their own."""
    try:
        crash_judge.memory_group(LIMIT_BYTES).rmdir()
    except OSError as error:
        pytest.skip(f"no memory control group can be made here: {error}")
    outcome = crash(
        Case("out of memory", layout="joint", setup={"leaks": True, "processes": True}, memory_bytes=LIMIT_BYTES)
    )
    assert outcome.ok, outcome
    assert outcome.oom_kills >= 1
    assert [death.partition(" at ")[0] for death in outcome.deaths] == ["client", "client (0)"]
