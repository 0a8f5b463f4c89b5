"""The claim of an effect: durable before the body, once, and on an approval that is used up by it."""

from __future__ import annotations

import pytest

from engine_bench import Bench, ask, beginning, once, request
from perdure.core.work import Answer
from perdure.engine.begin import begin
from perdure.engine.resolve import Decide, decide
from perdure.engine.signal import signal


def test_a_claim_is_recorded_before_the_body_may_start(bench: Bench) -> None:
    held = bench.leased(once())
    assert bench.begin(held) is Answer.ACCEPTED
    row = bench.task(held.execution)
    assert (row["state"], row["claims"]) == ("begun", 1)
    assert bench.last(held.execution).data == {"claim": 1, "worker": "wrk_1", "attempt": 1, "fence": 1}


def test_the_same_nonce_gets_the_same_answer_and_no_other_does(bench: Bench) -> None:
    held = bench.leased(once())
    assert bench.begin(held, "b") is Answer.ACCEPTED
    assert bench.begin(held, "b") is Answer.ALREADY_ACCEPTED
    assert bench.begin(held, "c") is Answer.CONFLICT
    assert bench.kinds(held.execution).count("task_begun") == 1


def test_two_begins_in_a_row_wait_for_each_other(bench: Bench) -> None:
    held = bench.leased(once())
    with pytest.raises(AssertionError, match="one batch"):
        bench.together((begin, beginning(held, "b")), (begin, beginning(held, "c")))
    bench.writer.drain()
    assert bench.task(held.execution)["begin_nonce"] == "b"


def test_a_stranger_to_the_task_begins_nothing(bench: Bench) -> None:
    held = bench.leased(once())
    late = bench.leased(once())
    bench.expire(31)
    assert bench.lease("wrk_2")
    assert bench.begin(late) is Answer.LEASE_LOST
    assert bench.do(begin, beginning(held, company="other")) is Answer.LEASE_LOST
    for unknown in ({"execution": "exe_none"}, {"address": "none"}):
        from dataclasses import replace

        assert bench.begin(replace(held, **unknown)) is Answer.LEASE_LOST


def test_what_has_ended_is_not_begun(bench: Bench) -> None:
    held = bench.leased(once())
    bench.report(held, "failed")
    assert bench.begin(held) is Answer.LEASE_LOST


def test_an_expired_lease_that_nobody_took_may_still_begin(bench: Bench) -> None:
    held = bench.leased(once())
    bench.clock.advance(100)
    assert bench.begin(held) is Answer.ACCEPTED


def test_a_task_that_went_back_is_not_begun_by_its_former_holder(bench: Bench) -> None:
    held = bench.leased(once())
    bench.expire(31)
    assert bench.begin(held) is Answer.LEASE_LOST


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_nothing_begins_while_the_execution_does_not_want_it(bench: Bench, verb: str) -> None:
    held = bench.leased(once())
    bench.signal(held.execution, verb)  # type: ignore[arg-type]
    assert bench.begin(held) is Answer.CANCEL
    assert bench.task(held.execution)["claims"] == 0


def test_begin_and_cancel_in_one_batch_agree(bench: Bench) -> None:
    first = bench.leased(once())
    _, answer = bench.together((signal, request(first.execution, "cancel")), (begin, beginning(first)))
    assert answer is Answer.CANCEL
    second = bench.leased(once())
    answer, _ = bench.together((begin, beginning(second)), (signal, request(second.execution, "cancel")))
    assert answer is Answer.ACCEPTED
    assert bench.task(second.execution)["state"] == "begun"
    assert bench.state(second.execution)[0] == "cancelling"


def approved(bench: Bench) -> None:
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", "fine"))


def test_an_approval_is_used_up_by_the_claim(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, ask())
    approved(bench)
    bench.record(owner, once(approval="tool/approval"))
    bench.park(owner)
    [held] = bench.lease()
    assert bench.begin(held) is Answer.ACCEPTED
    point = bench.row("waitpoint", shard=owner.ref.shard, execution=held.execution, address="tool/approval")
    assert point is not None
    assert point["consumed_ms"] == bench.clock.wall_ms()


def test_an_approval_authorises_one_effect(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, ask())
    approved(bench)
    bench.record(owner, once("a", approval="tool/approval"), once("b", approval="tool/approval"))
    bench.park(owner)
    first, second = bench.lease()
    assert bench.begin(first) is Answer.ACCEPTED
    assert bench.begin(second) is Answer.CONFLICT
    assert bench.task(second.execution, "b")["claims"] == 0


@pytest.mark.parametrize("decision", ["reject", None])
def test_without_an_approval_nothing_begins(bench: Bench, decision: str | None) -> None:
    owner = bench.owned()
    bench.record(owner, ask())
    if decision:
        bench.do(decide, Decide("default", "apr_1", "reject", "ann", ""))
    bench.record(owner, once(approval="tool/approval"))
    bench.park(owner)
    [held] = bench.lease()
    assert bench.begin(held) is Answer.CONFLICT


def test_a_second_claim_by_ruling_needs_no_second_approval(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, ask())
    approved(bench)
    bench.record(owner, once(approval="tool/approval"))
    bench.park(owner)
    [held] = bench.lease()
    bench.begin(held)
    bench.expire(31)
    from perdure.engine.rule import Rule, rule

    bench.do(rule, Rule("default", held.execution, "tool", "run", "ann", "it did not arrive"))
    [again] = bench.lease("wrk_2")
    assert bench.begin(again, "b2") is Answer.ACCEPTED
    assert bench.task(held.execution)["claims"] == 2


def test_an_ended_execution_begins_nothing(bench: Bench) -> None:
    from perdure.engine.park import Finish, finish

    owner = bench.owned()
    bench.record(owner, once())
    [held] = bench.lease()
    bench.do(finish, Finish(owner.ref, owner.fence, 2, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    assert bench.begin(held) is Answer.LEASE_LOST
