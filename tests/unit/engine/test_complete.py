"""Reports: the first counts, the same again changes nothing, an old fence is refused, attempts are counted exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_bench import Bench, completion, once, request, task, wish
from perdure.core.work import Answer, Failure
from perdure.engine.complete import complete
from perdure.engine.lease import lease
from perdure.engine.park import Finish, finish
from perdure.engine.rule import Rule, rule
from perdure.engine.signal import signal


def test_a_result_is_recorded_and_wakes_its_execution(bench: Bench) -> None:
    held = bench.leased()
    assert bench.report(held, value={"id": 7}) is Answer.ACCEPTED
    last = bench.last(held.execution)
    assert (last.kind, last.data["value"], last.data["attempt"], last.data["worker"]) == (
        "task_completed",
        {"id": 7},
        1,
        "wrk_1",
    )
    assert bench.state(held.execution) == ("ready", "ready")


def test_the_same_report_again_is_accepted_and_changes_nothing(bench: Bench) -> None:
    for outcome in ("completed", "failed"):
        held = bench.leased(task(max_attempts=1))
        first, second = bench.twice(complete, completion(held, outcome))
        assert (first, second) == (Answer.ACCEPTED, Answer.ALREADY_ACCEPTED)
        assert bench.execution(held.execution)["next_seq"] == 4


def test_the_first_report_wins(bench: Bench) -> None:
    held = bench.leased(task(max_attempts=1))
    bench.report(held, value=1)
    assert bench.report(held, "failed") is Answer.CONFLICT
    other = bench.leased(task(max_attempts=1))
    bench.report(other, "failed")
    assert bench.report(other, value=1) is Answer.CONFLICT


def test_two_reports_of_one_task_never_share_a_batch(bench: Bench) -> None:
    held = bench.leased()
    with pytest.raises(AssertionError, match="one batch"):
        bench.together((complete, completion(held)), (complete, completion(held, "failed")))
    bench.writer.drain()
    assert bench.task(held.execution)["state"] == "done"


def test_a_late_finisher_is_refused(bench: Bench) -> None:
    held = bench.leased()
    bench.expire(31)
    [second] = bench.lease("wrk_2")
    assert second.fence == held.fence + 1
    assert bench.report(held, value="late") is Answer.LEASE_LOST
    assert bench.report(second, value="right") is Answer.ACCEPTED
    assert bench.last(held.execution).data["value"] == "right"


def test_a_report_for_what_is_not_there_or_not_yours_is_refused(bench: Bench) -> None:
    held = bench.leased()
    assert bench.report(replace(held, execution="exe_none")) is Answer.LEASE_LOST
    assert bench.report(replace(held, address="none")) is Answer.LEASE_LOST
    assert bench.report(held, fence=held.fence + 1) is Answer.LEASE_LOST
    assert bench.report(held, company="other") is Answer.LEASE_LOST
    assert bench.task(held.execution)["state"] == "leased"


def test_a_failed_attempt_waits_and_is_tried_again(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    last = bench.last(held.execution)
    assert (last.kind, last.data["error"], last.data["code"]) == ("attempt_failed", "it broke", "boom")
    assert last.data["retry_ms"] == 2_000
    assert bench.lease("wrk_2") == []
    bench.clock.advance(2)
    [again] = bench.lease("wrk_2")
    assert (again.attempt, again.fence) == (2, 2)


def test_a_tool_may_name_its_own_pause(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("busy", "later", retry_after_ms=70_000))
    assert ("tasks", "default/default", 70_000) in [(note.topic, note.key, note.after_ms) for note in bench.notes]
    bench.clock.advance(69.999)
    assert bench.lease() == []
    bench.clock.advance(0.001)
    assert len(bench.lease()) == 1


def test_attempts_end_at_the_number_declared(bench: Bench) -> None:
    bench.waiting(task())
    for attempt in (1, 2, 3):
        [held] = bench.lease(nonce=str(attempt))
        assert held.attempt == attempt
        bench.report(held, "failed", failure=Failure("boom", "it broke"))
        bench.clock.advance(60)
    assert bench.lease(nonce="4") == []
    assert [kind for kind in bench.kinds(held.execution) if "fail" in kind] == [
        "attempt_failed",
        "attempt_failed",
        "task_failed",
    ]
    assert bench.last(held.execution).data["attempt"] == 3


def test_a_failure_that_asking_again_cannot_change_is_final_at_once(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("bad_args", "no", permanent=True))
    assert bench.task(held.execution)["state"] == "dead"


def test_an_attempt_that_was_stopped_is_not_tried_again(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "cancelled")
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"]) == ("task_failed", "cancelled")


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_what_has_begun_and_did_not_succeed_is_uncertain(bench: Bench, outcome: str) -> None:
    held = bench.begun()
    assert bench.report(held, outcome, failure=Failure("timeout", "no answer", permanent=True)) is Answer.ACCEPTED  # type: ignore[arg-type]
    last = bench.last(held.execution)
    assert (last.kind, last.data["why"]) == ("task_uncertain", "no answer")
    assert bench.lease("wrk_2") == []
    assert bench.report(held, outcome) is Answer.ALREADY_ACCEPTED  # type: ignore[arg-type]


def test_the_holder_of_a_claim_may_report_late(bench: Bench) -> None:
    held = bench.uncertain()
    assert bench.report(held, value="sent") is Answer.ACCEPTED
    last = bench.last(held.execution)
    assert (last.kind, last.data["value"], last.data["late"]) == ("task_completed", "sent", True)
    assert bench.report(held, value="sent") is Answer.ALREADY_ACCEPTED


def test_after_a_ruling_to_run_the_first_holder_is_shut_out(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, Rule("default", held.execution, "tool", "run", "ann", "it did not arrive"))
    assert bench.report(held, "failed") is Answer.LEASE_LOST
    [second] = bench.lease("wrk_2")
    assert bench.begin(held) is Answer.LEASE_LOST
    assert bench.begin(second, "b2") is Answer.ACCEPTED
    assert bench.report(second, value="sent again") is Answer.ACCEPTED


def test_after_a_ruling_that_it_happened_a_late_report_changes_nothing(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, Rule("default", held.execution, "tool", "happened", "ann", "seen", value="receipt"))
    assert bench.report(held, value="other") is Answer.ALREADY_ACCEPTED
    assert bench.last(held.execution).kind == "effect_ruled"


def test_a_report_to_a_paused_execution_is_kept_and_wakes_nobody(bench: Bench) -> None:
    held = bench.leased()
    bench.signal(held.execution, "pause")
    assert bench.report(held, value=1) is Answer.ACCEPTED
    assert bench.state(held.execution) == ("paused", "parked")
    bench.signal(held.execution, "resume")
    [claimed] = bench.claim()
    assert "task_completed" in [row["kind"] for row in claimed.events]


def test_a_failure_under_cancel_is_final(bench: Bench) -> None:
    """Tasks scheduled before a cancel get no new lease."""
    held = bench.leased()
    bench.signal(held.execution, "cancel")
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    assert bench.task(held.execution)["state"] == "dead"
    bench.clock.advance(60)
    assert bench.lease() == []


def test_a_report_to_an_ended_execution_touches_only_the_task(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, task("a"), task("b"))
    first, second = bench.lease()
    bench.do(finish, Finish(owner.ref, owner.fence, 3, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    assert bench.report(first, value=1) is Answer.ACCEPTED
    assert bench.report(second, "failed") is Answer.ACCEPTED
    assert bench.last(first.execution).kind == "failed"
    assert (bench.task(first.execution, "a")["state"], bench.task(first.execution, "b")["state"]) == ("done", "dead")
    assert bench.ready() == []


def test_complete_and_cancel_in_one_batch_agree(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.leased(once())
        rows = [(complete, completion(held, value=1)), (signal, request(held.execution, "cancel"))]
        bench.together(*rows[::order])
        assert bench.task(held.execution)["state"] == "done"
        assert bench.state(held.execution) == ("cancelling", "ready")
        bench.claim()


def test_a_report_in_the_batch_of_another_lease_is_the_holders(bench: Bench) -> None:
    held = bench.leased()
    bench.expire(31)
    given, answer = bench.together((lease, wish("wrk_2")), (complete, completion(held)))
    assert answer is Answer.LEASE_LOST
    assert len(given) == 1


def test_a_report_whose_value_cannot_be_stored_spoils_no_other(bench: Bench) -> None:
    from perdure.errors import InvalidInput, LimitExceeded

    bench.waiting(task("a"), task("b"), task("c"))
    bad, huge, good = bench.lease()
    jobs = [
        bench.writer.submit(complete, completion(one, value=value), _Nobody())
        for one, value in ((bad, float("nan")), (huge, "x" * 9_000_000), (good, 1))
    ]
    bench.writer.drain()
    assert isinstance(jobs[0].error, InvalidInput)
    assert isinstance(jobs[1].error, LimitExceeded)
    assert jobs[2].result is Answer.ACCEPTED
    assert bench.task(bad.execution, "a")["state"] == "leased"


class _Nobody:
    def settle(self, entries: object) -> None:
        return
