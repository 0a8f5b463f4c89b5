"""A person's decision: once, on exactly what was shown, with who and why."""

from __future__ import annotations

import pytest

from engine_bench import Bench, ask, request
from perdure.core.views import Decision
from perdure.engine.park import Finish, finish
from perdure.engine.resolve import Decide, Decided, decide
from perdure.engine.signal import signal
from perdure.errors import Conflict, NotFound


def answer(decision: Decision = "approve", *, by: str = "ann", reason: str = "", company: str = "default") -> Decide:
    return Decide(company, "apr_1", decision, by, reason)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_is_recorded_with_who_and_why_and_wakes(bench: Bench, decision: Decision) -> None:
    held = bench.waiting(ask())
    assert bench.do(decide, answer(decision, reason="over budget")) == Decided(held.ref)
    last = bench.last(held.ref.execution)
    assert (last.kind, last.address) == ("waitpoint_resolved", "tool/approval")
    assert last.data == {"id": "apr_1", "decision": decision, "by": "ann", "reason": "over budget"}
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_the_same_answer_again_changes_nothing(bench: Bench) -> None:
    held = bench.waiting(ask())
    assert bench.twice(decide, answer()) == (Decided(held.ref), Decided(held.ref))
    assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


@pytest.mark.parametrize("other", [answer("reject"), answer(by="bob"), answer(reason="why")], ids=["no", "who", "why"])
def test_a_second_decision_is_refused_and_names_the_first(bench: Bench, other: Decide) -> None:
    held = bench.waiting(ask())
    bench.do(decide, answer())
    refusal = bench.do(decide, other)
    assert isinstance(refusal, Conflict)
    assert refusal.code == "already_decided"
    assert refusal.details == {"decision": "approve", "decided_by": "ann"}
    assert "approve by ann" in refusal.message
    assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


def test_approve_and_reject_at_once_have_one_winner(bench: Bench) -> None:
    held = bench.waiting(ask())
    with pytest.raises(AssertionError, match="one batch"):
        bench.together((decide, answer("approve")), (decide, answer("reject", by="bob")))
    bench.writer.drain()
    assert bench.last(held.ref.execution).data["decision"] == "approve"


def test_a_decision_and_a_cancel_in_one_batch_agree(bench: Bench) -> None:
    held = bench.waiting(ask())
    decided, _ = bench.together((decide, answer()), (signal, request(held.ref.execution, "cancel")))
    assert decided == Decided(held.ref)
    assert bench.kinds(held.ref.execution)[-2:] == ["waitpoint_resolved", "cancel_requested"]
    other = bench.waiting(ask(id="apr_2"))
    row = Decide("default", "apr_2", "approve", "ann", "")
    _, refused = bench.together((signal, request(other.ref.execution, "cancel")), (decide, row))
    assert isinstance(refused, Conflict)
    assert refused.code == "not_waiting"
    assert "waitpoint_resolved" not in bench.kinds(other.ref.execution)


def test_what_is_not_there_or_belongs_to_others_is_not_found(bench: Bench) -> None:
    bench.waiting(ask())
    for row in (answer(company="other"), Decide("default", "apr_none", "approve", "ann", "")):
        refusal = bench.do(decide, row)
        assert isinstance(refusal, NotFound)
        assert row.approval in refusal.message


def test_what_is_waited_for_no_more_cannot_be_decided(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, ask())
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    refusal = bench.do(decide, answer())
    assert isinstance(refusal, Conflict)
    assert refusal.code == "not_waiting"
    assert "failed" in refusal.message


def test_an_approval_given_while_paused_is_kept(bench: Bench) -> None:
    held = bench.waiting(ask())
    bench.signal(held.ref.execution, "pause")
    assert bench.do(decide, answer()) == Decided(held.ref)
    assert bench.state(held.ref.execution) == ("paused", "parked")
    bench.signal(held.ref.execution, "resume")
    [again] = bench.claim()
    assert "waitpoint_resolved" in [row["kind"] for row in again.events]


def test_a_decision_under_an_owner_is_only_appended(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, ask())
    bench.do(decide, answer())
    assert bench.state(held.ref.execution) == ("running", "owned")
    assert bench.ready() == []


def test_who_decided_without_a_name_is_somebody(bench: Bench) -> None:
    bench.waiting(ask())
    bench.do(decide, answer(by=""))
    refusal = bench.do(decide, answer("reject"))
    assert isinstance(refusal, Conflict)
    assert "by somebody" in refusal.message
