"""A runtime that was server and worker in one process is killed: the next one on the same file goes on at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crash_case import Case, Outcome, Strike
from perdure.core.work import LEASE_MS
from perdure.server.executor import ExecutorOptions

pytestmark = pytest.mark.sqlite_only("a program that is its own server has a file")

PLACES = [
    ("claim.after_commit", 1),
    ("model.received", 2),
    ("record.before_commit", 3),
    ("lease.after_commit", 2),
    ("tool.before_body", 1),
    ("tool.after_body", 2),
    ("begin.after_commit", 1),
    ("tool.after_body", 3),
    ("complete.before_commit", 2),
    ("decide.after_commit", 1),
]


@pytest.mark.parametrize(("point", "nth"), PLACES)
def test_a_rerun_waits_for_no_lease(point: str, nth: int, crash: Callable[[Case], Outcome]) -> None:
    leases = {LEASE_MS, ExecutorOptions().lease_ms}
    assert leases == {30_000}, "what is measured here is measured against these"
    outcome = crash(Case(f"rerun after {point}@{nth}", (Strike(point, "client", nth, ("client",)),), layout="embedded"))
    assert outcome.ok, outcome
    assert outcome.kills == 1
    assert outcome.resumed_seconds < min(leases) / 1000 / 2, outcome  # of a lease that is kept, two thirds are left
