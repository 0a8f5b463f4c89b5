"""When the next try of a task comes, and when none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_bench import COMPANY, Bench, completion, named, task
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure
from perdure.engine.complete import complete
from perdure.engine.due import Sweep
from perdure.engine.held import HandBack, hand_back
from perdure.engine.tries import expire_tries


def test_the_pause_grows_as_the_policy_says(bench: Bench) -> None:
    rules = TaskRules(pause_ms=100, factor=3, ceiling_ms=500, jitter=0)
    held = bench.leased(task(max_attempts=9, rules=rules))
    pauses: list[int] = []
    for _ in range(4):
        bench.report(held, "failed", failure=Failure("tool_error", "no"))
        pauses.append(bench.last(held.execution).data["retry_ms"])
        bench.expire(1)
        [held] = bench.lease()
    assert pauses == [100, 300, 500, 500]


@pytest.mark.parametrize(("chance", "pause_ms"), [(0.0, 1_000), (0.5, 750), (1.0, 500)])
def test_jitter_only_ever_cuts_the_pause(bench: Bench, chance: float, pause_ms: int) -> None:
    held = bench.leased(task(rules=TaskRules(pause_ms=1_000, jitter=0.5)))
    failed = completion(held, "failed", failure=Failure("tool_error", "no"))
    bench.do(complete, replace(failed, chance=chance))
    assert bench.last(held.execution).data["retry_ms"] == pause_ms


@pytest.mark.parametrize(("asked_ms", "pause_ms"), [(0, 0), (90_000, 90_000), (-5, 0), (2**62, 366 * 86_400_000)])
def test_a_pause_that_was_asked_for_replaces_the_policy(bench: Bench, asked_ms: int, pause_ms: int) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("retry_later", "busy", retry_after_ms=asked_ms))
    assert bench.last(held.execution).data["retry_ms"] == pause_ms
    row = bench.task(held.execution)
    assert row["run_at_ms"] == row["updated_ms"] + pause_ms


def test_a_permanent_failure_is_the_last(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("permanent", "no such order", permanent=True))
    assert bench.last(held.execution).kind == "task_failed"
    assert bench.task(held.execution)["state"] == "dead"


def test_no_try_follows_that_would_begin_after_the_deadline(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(pause_ms=2_000, deadline_ms=5_000)))
    bench.report(held, "failed", failure=Failure("tool_error", "no"))
    bench.expire(2)
    [held] = bench.lease()
    bench.report(held, "failed", failure=Failure("tool_error", "no"))
    last = bench.last(held.execution)
    assert last.kind == "task_failed"
    assert last.data["error"].startswith("no; it is not tried again, as its deadline of 5 s for all tries")


def test_an_attempt_may_not_take_longer_than_the_deadline_leaves(bench: Bench) -> None:
    rules = TaskRules(pause_ms=2_000, deadline_ms=5_000)
    held = bench.leased(task(rules=rules, timeout_ms=4_000))
    assert held.timeout_ms == 4_000
    bench.report(held, "failed", failure=Failure("tool_error", "no"))
    bench.expire(2)
    [held] = bench.lease()
    assert held.timeout_ms == 3_000


def test_what_waits_for_its_next_try_fails_at_the_deadline(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(pause_ms=2_000, deadline_ms=5_000)))
    bench.report(held, "failed", failure=Failure("tool_error", "no"))
    bench.expire(4.999)
    assert bench.do(expire_tries, Sweep(10)) == 0
    bench.expire(0.001)
    assert bench.lease() == []
    assert bench.do(expire_tries, Sweep(10)) == 1
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"], bench.task(held.execution)["state"]) == ("task_failed", "deadline", "dead")
    assert bench.state(held.execution) == ("ready", "ready")
    assert bench.do(expire_tries, Sweep(10)) == 0


def test_a_running_attempt_is_left_to_its_worker_at_the_deadline(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(deadline_ms=5_000)))
    bench.expire(6)
    assert bench.do(expire_tries, Sweep(10)) == 1
    assert bench.task(held.execution)["state"] == "leased"
    bench.report(held, "failed", failure=Failure("timeout", "took too long"))
    assert bench.task(held.execution)["state"] == "dead"


def test_what_is_handed_back_after_the_deadline_has_failed(bench: Bench) -> None:
    """Back on its queue nobody would be given it, and nobody would end it: its execution would wait for ever."""
    held = bench.leased(task(rules=TaskRules(deadline_ms=5_000)))
    bench.clock.advance(6)
    assert bench.do(expire_tries, Sweep(10)) == 1
    assert bench.do(hand_back, HandBack(COMPANY, (named(held),))) == [Answer.ACCEPTED]
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"]) == ("task_failed", "deadline")
    assert bench.task(held.execution)["state"] == "dead"
    assert bench.state(held.execution) == ("ready", "ready")


def test_what_is_handed_back_before_the_deadline_fails_there_if_nobody_takes_it(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(deadline_ms=5_000)))
    bench.clock.advance(4)
    bench.do(hand_back, HandBack(COMPANY, (named(held),)))
    assert bench.task(held.execution)["state"] == "ready"
    bench.clock.advance(1)
    assert bench.do(expire_tries, Sweep(10)) == 1
    assert bench.task(held.execution)["state"] == "dead"


def test_what_was_never_begun_has_no_deadline_yet(bench: Bench) -> None:
    execution = bench.waiting(task(rules=TaskRules(deadline_ms=5_000))).ref.execution
    bench.expire(3600)
    assert bench.do(expire_tries, Sweep(10)) == 0
    assert bench.task(execution)["state"] == "ready"
    [held] = bench.lease()
    assert held.timeout_ms == 5_000


def test_an_attempt_whose_worker_fell_silent_counts_and_the_last_is_the_last(bench: Bench) -> None:
    held = bench.leased(task(max_attempts=3))
    tries = 1
    while True:
        bench.expire(31)
        if not (again := bench.lease()):
            break
        [held] = again
        tries += 1
    assert tries == 3
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"]) == ("task_failed", "lease_expired")
    assert "on try 3 of 3" in last.data["error"]


def test_what_an_attempt_saved_is_given_to_the_next(bench: Bench) -> None:
    held = bench.leased()
    assert held.saved is None
    report = completion(held, "failed", failure=Failure("tool_error", "no"))
    bench.do(complete, replace(report, report=replace(report.report, saved='{"done":3}')))
    bench.expire(2)
    [held] = bench.lease()
    assert held.saved == '{"done":3}'
