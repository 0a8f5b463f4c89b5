"""What happens to a reservation while it lasts: prolonged, handed back, cut short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine_bench import COMPANY, WORKER, Bench, completion, named, once, request, task
from perdure.core.work import Answer, Failure
from perdure.engine.complete import complete
from perdure.engine.held import Beats, HandBack, Shrink, beat, hand_back, shrink
from perdure.engine.park import Finish, finish
from perdure.engine.signal import signal
from perdure.engine.sweep import Sweep, expire_tasks


def beats(*held: Any, worker: str = WORKER, company: str = COMPANY) -> Beats:
    return Beats(company, worker, tuple(named(one) for one in held))


def back(*held: Any, company: str = COMPANY) -> HandBack:
    return HandBack(company, tuple(named(one) for one in held))


def test_a_beat_prolongs_the_lease_and_keeps_the_fence(bench: Bench) -> None:
    held = bench.leased()
    bench.clock.advance(20)
    assert bench.do(beat, beats(held)) == [Answer.ACCEPTED]
    assert bench.expire(20) == 0
    assert bench.task(held.execution)["fence"] == held.fence
    assert bench.expire(11) == 1


def test_each_task_of_a_beat_is_answered_for_itself(bench: Bench) -> None:
    bench.waiting(task("a"), task("b"), task("c"))
    a, b, c = bench.lease()
    bench.report(b)
    answers = bench.together((beat, beats(c, b)), (beat, beats(a)), (beat, beats()))
    assert answers == [[Answer.ACCEPTED, Answer.LEASE_LOST], [Answer.ACCEPTED], []]


def test_a_beat_under_an_old_fence_or_by_a_stranger_is_lost(bench: Bench) -> None:
    held = bench.leased()
    assert bench.do(beat, beats(replace(held, fence=0))) == [Answer.LEASE_LOST]
    assert bench.do(beat, beats(held, worker="wrk_2")) == [Answer.LEASE_LOST]
    assert bench.do(beat, beats(held, company="other")) == [Answer.LEASE_LOST]
    assert bench.do(beat, beats(replace(held, execution="exe_none"))) == [Answer.LEASE_LOST]
    bench.expire(31)
    assert bench.do(beat, beats(held)) == [Answer.LEASE_LOST], "it went back to its queue"


def test_an_expired_lease_that_nobody_noticed_is_prolonged(bench: Bench) -> None:
    held = bench.leased()
    bench.clock.advance(100)
    assert bench.do(beat, beats(held)) == [Answer.ACCEPTED]
    assert bench.expire(1) == 0


def test_a_holder_learns_of_a_cancel_from_its_beat_and_keeps_the_lease(bench: Bench) -> None:
    held = bench.begun()
    bench.signal(held.execution, "cancel")
    assert bench.do(beat, beats(held)) == [Answer.CANCEL]
    assert bench.expire(20) == 0


def test_a_holder_learns_that_its_execution_has_ended(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, task())
    [held] = bench.lease()
    bench.do(finish, Finish(owner.ref, owner.fence, 2, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    assert bench.do(beat, beats(held)) == [Answer.CANCEL]


def test_a_beat_in_the_batch_of_a_sweep_is_not_contradicted(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.leased()
        bench.clock.advance(31)
        rows: list[Any] = [(beat, beats(held)), (expire_tasks, Sweep(10))]
        answers = dict(zip(("beat", "sweep")[::order], bench.together(*rows[::order]), strict=True))
        state = bench.task(held.execution)["state"]
        assert (answers["beat"], state) in [([Answer.ACCEPTED], "leased"), ([Answer.LEASE_LOST], "ready")]


def test_a_task_handed_back_is_free_at_once_and_the_attempt_does_not_count(bench: Bench) -> None:
    bench.waiting(task())
    for _ in range(5):
        [held] = bench.lease()
        assert held.attempt == 1
        assert bench.do(hand_back, back(held)) == [Answer.ACCEPTED]
    assert bench.kinds(held.execution)[-5:] == ["attempt_lost"] * 5
    assert bench.last(held.execution).data["why"] == "handed back by its worker"
    [again] = bench.lease("wrk_2")
    assert (again.attempt, again.fence) == (1, 6)


def test_handing_back_twice_changes_nothing(bench: Bench) -> None:
    held = bench.leased()
    assert bench.twice(hand_back, back(held)) == ([Answer.ACCEPTED], [Answer.ALREADY_ACCEPTED])
    bench.lease("wrk_2")
    assert bench.do(hand_back, back(held)) == [Answer.LEASE_LOST]
    assert bench.task(held.execution)["state"] == "leased"


def test_what_has_begun_or_ended_does_not_go_back(bench: Bench) -> None:
    begun = bench.begun()
    assert bench.do(hand_back, back(begun)) == [Answer.CONFLICT]
    assert bench.task(begun.execution)["state"] == "begun"
    done = bench.leased()
    bench.report(done)
    assert bench.do(hand_back, back(done)) == [Answer.CONFLICT]


def test_only_ones_own_go_back(bench: Bench) -> None:
    held = bench.leased()
    assert bench.do(hand_back, back(held, company="other")) == [Answer.LEASE_LOST]
    assert bench.do(hand_back, back(replace(held, address="none"), held)) == [Answer.LEASE_LOST, Answer.ACCEPTED]


def test_a_task_handed_back_under_cancel_is_given_to_nobody(bench: Bench) -> None:
    held = bench.leased()
    bench.signal(held.execution, "cancel")
    bench.claim()
    assert bench.twice(hand_back, back(held)) == ([Answer.ACCEPTED], [Answer.ALREADY_ACCEPTED])
    assert bench.task(held.execution)["state"] == "dead"
    assert bench.last(held.execution).kind == "task_failed"


def test_a_task_handed_back_after_the_end_leaves_the_log_alone(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, task())
    [held] = bench.lease()
    bench.do(finish, Finish(owner.ref, owner.fence, 2, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    assert bench.do(hand_back, back(held)) == [Answer.ACCEPTED]
    assert bench.last(held.execution).kind == "failed"
    assert bench.task(held.execution)["state"] == "dead"


def test_a_report_and_a_hand_back_of_one_task_never_share_a_batch(bench: Bench) -> None:
    held = bench.leased()
    with pytest.raises(AssertionError, match="one batch"):
        bench.together((hand_back, back(held)), (complete, completion(held)))


def test_a_silent_workers_leases_shrink_and_a_beat_restores_them(bench: Bench) -> None:
    bench.waiting(task("a"), once("b"))
    a, b = bench.lease()
    bench.begin(b)
    assert bench.do(shrink, Shrink(COMPANY, WORKER, 3_000)) == 2
    assert bench.do(beat, beats(a)) == [Answer.ACCEPTED]
    assert bench.expire(3.001) == 1
    assert (bench.task(a.execution, "a")["state"], bench.task(a.execution, "b")["state"]) == ("leased", "uncertain")


def test_a_shrink_never_lengthens_and_touches_nobody_else(bench: Bench) -> None:
    held = bench.leased(lease_ms=1_000)
    other = bench.leased(worker="wrk_2")
    assert bench.do(shrink, Shrink(COMPANY, WORKER, 3_000)) == 0
    assert bench.do(shrink, Shrink("other", "wrk_2", 3_000)) == 0
    assert bench.expire(2) == 1
    assert bench.task(held.execution)["state"] == "ready"
    assert bench.task(other.execution)["state"] == "leased"


def test_a_cancel_in_the_batch_of_a_hand_back_leaves_nothing_to_lease(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.leased()
        rows: list[Any] = [(hand_back, back(held)), (signal, request(held.execution, "cancel"))]
        bench.together(*rows[::order])
        assert bench.lease() == []


def test_a_failed_attempt_and_a_hand_back_count_apart(bench: Bench) -> None:
    bench.waiting(task(max_attempts=2))
    [first] = bench.lease()
    bench.report(first, "failed", failure=Failure("boom", "it broke"))
    bench.clock.advance(2)
    [second] = bench.lease()
    bench.do(hand_back, back(second))
    [third] = bench.lease()
    assert third.attempt == 2
    bench.report(third, "failed", failure=Failure("boom", "it broke"))
    assert bench.task(first.execution)["state"] == "dead"
