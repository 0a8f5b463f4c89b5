"""Tool calls, and why an execution does not move."""

from __future__ import annotations

import pytest

from engine_bench import WORKER, Bench, task
from perdure.core.views import TaskView
from perdure.core.work import Failure
from perdure.engine.query_tasks import tasks_view
from perdure.errors import NotFound


def tasks(bench: Bench, execution: str) -> list[TaskView]:
    return bench.read(lambda reads: tasks_view(reads, "default", execution))


def test_tool_calls_are_listed_in_the_order_they_were_scheduled(bench: Bench) -> None:
    held = bench.waiting(task("b", args={"n": 2}), task("a", max_attempts=1), task("c"))
    leased = {one.address: one for one in bench.lease()}
    bench.report(leased["b"], value={"ok": True})
    bench.report(leased["a"], "failed", failure=Failure("boom", "it broke"))
    first, second, third = tasks(bench, held.ref.execution)
    assert (first.address, first.state, first.value, first.args) == ("b", "done", {"ok": True}, {"n": 2})
    assert (first.worker, first.attempt, first.key) == (WORKER, 1, f"{held.ref.execution}/b")
    assert first.ended_ms == bench.clock.wall_ms()
    assert (second.address, second.state, second.failure) == ("a", "dead", Failure("boom", "it broke"))
    assert (third.address, third.state, third.ended_ms, third.failure) == ("c", "leased", None, None)


def test_a_failed_attempt_is_not_the_end(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    [seen] = tasks(bench, held.execution)
    assert (seen.state, seen.failure, seen.ended_ms) == ("ready", None, None)


def test_tool_calls_of_nobody_are_not_found(bench: Bench) -> None:
    with pytest.raises(NotFound):
        tasks(bench, "exe_none")
