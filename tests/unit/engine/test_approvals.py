"""Approvals cannot be misused: by whom, on what, how often, until when; and exactly one answer counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine_bench import AGENT, SPEC, Bench, once, request, task
from perdure.core import codec
from perdure.core.approval import ApprovalRules
from perdure.core.items import OpenApproval, StartChild
from perdure.core.views import ApprovalView, Decision
from perdure.engine.approvals import call_digest
from perdure.engine.claim import Claimed
from perdure.engine.due import Sweep
from perdure.engine.expire import expire_approvals
from perdure.engine.query import approvals_of
from perdure.engine.resolve import Decide, Decided, decide
from perdure.engine.revive import Revive, revive
from perdure.engine.signal import signal
from perdure.engine.start import start
from perdure.errors import Conflict, InvalidInput

ARGS = {"n": 1}


def asked(bench: Bench, **rules: Any) -> Claimed:
    """Start an execution that waits for an approval by these rules."""
    item = OpenApproval("tool/approval", "d", "apr_1", "post", ARGS, ApprovalRules(**rules))
    return bench.waiting(item)


def said(decision: Decision = "approve", by: str = "ann", **options: Any) -> Decide:
    return Decide("default", "apr_1", decision, by, options.pop("reason", ""), **options)


def refusal(bench: Bench, row: Decide) -> str:
    found = bench.do(decide, row)
    assert isinstance(found, Conflict), found
    return found.code


def view(bench: Bench) -> ApprovalView:
    [found] = bench.read(lambda reads: approvals_of(reads, "default", approval="apr_1"))
    return found


def resolved(bench: Bench, held: Claimed) -> list[dict[str, Any]]:
    return [event.data for event in bench.log(held.ref.execution) if event.kind == "waitpoint_resolved"]


# -- on what -----------------------------------------------------------------------------------------------------------


def test_a_decision_on_another_call_than_the_one_shown_is_refused(bench: Bench) -> None:
    held = asked(bench)
    assert refusal(bench, said(digest="of another call")) == "approval_changed"
    assert resolved(bench, held) == []
    assert bench.do(decide, said(digest=view(bench).digest)) == Decided(held.ref)


def test_what_is_scheduled_is_what_was_approved(bench: Bench) -> None:
    held = asked(bench)
    bench.do(decide, said())
    [again] = bench.claim()
    bench.record(again, task(args={"n": 2}, approval="tool/approval"))
    assert bench.last(held.ref.execution).data["code"] == "not_approved"
    assert bench.task(held.ref.execution)["state"] == "dead"
    assert bench.lease() == []


def test_what_was_not_approved_is_not_made_by_a_retry(bench: Bench) -> None:
    held = asked(bench)
    bench.do(decide, said())
    [again] = bench.claim()
    bench.record(again, task(args={"n": 2}, approval="tool/approval"))
    refused = bench.do(revive, Revive("default", held.ref.execution, "tool", "bob", "all that failed"))
    assert isinstance(refused, Conflict)
    assert refused.code == "not_approved"
    assert bench.task(held.ref.execution)["state"] == "dead"
    assert bench.lease() == []


def test_what_begins_is_what_was_approved(bench: Bench) -> None:
    asked(bench)
    bench.do(decide, said())
    [again] = bench.claim()
    bench.record(again, once(args={"n": 2}, approval="tool/approval"))
    [leased] = bench.lease()
    assert bench.begin(leased).value == "conflict"


def test_an_approval_is_used_once(bench: Bench) -> None:
    held = asked(bench)
    bench.do(decide, said())
    [again] = bench.claim()
    bench.record(again, task("a", approval="tool/approval"), task("b", approval="tool/approval"))
    assert [bench.task(held.ref.execution, name)["state"] for name in "ab"] == ["ready", "dead"]


# -- by whom -----------------------------------------------------------------------------------------------------------


def test_several_must_agree_and_each_counts_once(bench: Bench) -> None:
    held = asked(bench, quorum=2)
    assert refusal(bench, said(by="")) == "name_needed"
    assert bench.do(decide, said(by="ann")) == Decided(held.ref)
    assert bench.do(decide, said(by="ann")) == Decided(held.ref)
    assert (resolved(bench, held), view(bench).approved, view(bench).state) == ([], ("ann",), "open")
    assert bench.kinds(held.ref.execution).count("approval_voted") == 1
    assert bench.state(held.ref.execution) == ("waiting", "parked")
    bench.do(decide, said(by="bob"))
    [end] = resolved(bench, held)
    assert (end["decision"], end["by"]) == ("approve", "ann, bob")
    assert bench.do(decide, said(by="ann")) == Decided(held.ref), "an answer that was lost"
    assert refusal(bench, said(by="carl")) == "already_decided"
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_one_no_outweighs_the_yeses(bench: Bench) -> None:
    held = asked(bench, quorum=3)
    bench.do(decide, said(by="ann"))
    bench.do(decide, said("reject", by="bob", reason="no"))
    [end] = resolved(bench, held)
    assert (end["decision"], end["by"]) == ("reject", "bob")


def test_only_those_named_may_decide_and_after_a_time_others_too(bench: Bench) -> None:
    held = asked(bench, approvers=("ann",), escalate_ms=60_000, escalate_to=("boss",))
    for by in ("bob", "boss"):
        assert refusal(bench, said(by=by)) == "not_an_approver"
        assert refusal(bench, said("reject", by=by)) == "not_an_approver"
    bench.clock.advance(60)
    assert refusal(bench, said(by="bob")) == "not_an_approver"
    assert bench.do(decide, said(by="boss")) == Decided(held.ref)


def test_nobody_approves_what_they_started_themselves(bench: Bench) -> None:
    row = bench.new()
    bench.do(start, replace(row, by="ann"))
    [held] = bench.claim()
    rules = ApprovalRules(not_by_starter=True)
    bench.record(held, OpenApproval("tool/approval", "d", "apr_1", "post", ARGS, rules))
    bench.park(held)
    assert refusal(bench, said(by="ann")) == "self_approval"
    assert refusal(bench, said("edit", by="ann", args={"n": 2})) == "self_approval"
    assert refusal(bench, said(by="")) == "name_needed"
    assert bench.do(decide, said(by="bob")) == Decided(held.ref)


def test_rules_that_nobody_could_fulfil_are_refused() -> None:
    for rules in (
        {"quorum": 0},
        {"quorum": 3, "approvers": ("ann", "bob")},
        {"approvers": ("",)},
        {"escalate_ms": 5},
        {"escalate_to": ("boss",)},
        {"escalate_ms": 5, "escalate_to": ("boss",)},
        {"expires_ms": 5, "escalate_ms": 5, "escalate_to": ("boss",)},
        {"expires_ms": -1},
    ):
        with pytest.raises(InvalidInput) as refused:
            ApprovalRules(**rules)  # pyright: ignore[reportArgumentType] - one each
        assert refused.value.code == "bad_approval"


# -- edit and respond --------------------------------------------------------------------------------------------------


def test_an_edit_makes_a_new_digest_that_the_call_must_match(bench: Bench) -> None:
    held = asked(bench)
    before = view(bench).digest
    bench.do(decide, said("edit", args={"n": 7}))
    [end] = resolved(bench, held)
    assert (end["decision"], end["args"]) == ("edit", {"n": 7})
    assert end["digest"] == view(bench).digest == call_digest("post", {"n": 7}, "tool/approval") != before
    assert (view(bench).args, view(bench).edited) == ({"n": 7}, True)
    assert bench.do(decide, said("edit", args={"n": 7})) == Decided(held.ref)
    assert refusal(bench, said("edit", args={"n": 8})) == "already_decided"
    [again] = bench.claim()
    bench.record(again, task("old", approval="tool/approval"), task("new", args={"n": 7}, approval="tool/approval"))
    assert [bench.task(held.ref.execution, name)["state"] for name in ("old", "new")] == ["dead", "ready"]


def test_an_edit_among_several_asks_the_others_anew(bench: Bench) -> None:
    held = asked(bench, quorum=2)
    shown = view(bench).digest
    bench.do(decide, said(by="ann", digest=shown))
    bench.do(decide, said("edit", by="bob", args={"n": 7}, digest=shown))
    assert (view(bench).approved, view(bench).args) == (("bob",), {"n": 7})
    assert refusal(bench, said(by="ann", digest=shown)) == "approval_changed"
    assert refusal(bench, said(by="ann")) == "approval_changed", "it may be that ann has not seen the edit"
    bench.do(decide, said(by="ann", digest=view(bench).digest))
    [end] = resolved(bench, held)
    assert (end["decision"], end["args"], end["by"]) == ("edit", {"n": 7}, "ann, bob")


def test_an_edit_that_is_said_again_keeps_the_votes_given_since(bench: Bench) -> None:
    """Its answer may be lost, and what it was shown is not what stands any more: it stands so because of it."""
    held = asked(bench, quorum=3)
    shown = view(bench).digest
    edit = said("edit", by="bob", args={"n": 7}, digest=shown)
    assert bench.twice(decide, edit) == (Decided(held.ref), Decided(held.ref))
    bench.do(decide, said(by="ann", digest=view(bench).digest))
    for digest in (shown, view(bench).digest, None):
        assert bench.do(decide, replace(edit, digest=digest)) == Decided(held.ref)
    assert view(bench).approved == ("ann", "bob")
    assert bench.kinds(held.ref.execution).count("approval_voted") == 2
    assert refusal(bench, said("edit", by="bob", args={"n": 8}, digest=shown)) == "approval_changed"
    bench.do(decide, said("edit", by="cid", args={"n": 7}))
    [end] = resolved(bench, held)
    assert (end["decision"], end["args"], end["by"]) == ("edit", {"n": 7}, "ann, bob, cid")


def test_an_answer_ends_the_wait_without_an_approval(bench: Bench) -> None:
    held = asked(bench)
    bench.do(decide, said("respond", answer="ask me tomorrow"))
    [end] = resolved(bench, held)
    assert (end["decision"], end["answer"]) == ("respond", "ask me tomorrow")
    assert view(bench).answer == "ask me tomorrow"
    [again] = bench.claim()
    bench.record(again, task(approval="tool/approval"))
    assert bench.task(held.ref.execution)["state"] == "dead"


# -- until when --------------------------------------------------------------------------------------------------------


def test_an_approval_expires_once_and_not_early(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.clock.advance(59)
    assert bench.do(expire_approvals, Sweep(10)) == 0
    bench.clock.advance(2)
    assert bench.do(expire_approvals, Sweep(10)) == 1
    assert bench.do(expire_approvals, Sweep(10)) == 0
    [end] = resolved(bench, held)
    assert (end["decision"], end["by"], end["reason"]) == ("expired", "perdure", "nobody decided within 60 s")
    assert bench.state(held.ref.execution) == ("ready", "ready")
    assert refusal(bench, said()) == "approval_expired"


def test_the_clock_decides_even_before_a_sweep(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.clock.advance(61)
    assert refusal(bench, said()) == "approval_expired"
    assert [end["decision"] for end in resolved(bench, held)] == ["expired"]
    assert bench.do(expire_approvals, Sweep(10)) == 0


def test_what_was_decided_or_cancelled_does_not_expire(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.do(decide, said())
    bench.clock.advance(61)
    assert bench.do(expire_approvals, Sweep(10)) == 0
    assert [end["decision"] for end in resolved(bench, held)] == ["approve"]


def test_an_expiry_of_a_cancelled_execution_says_nothing(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.signal(held.ref.execution, "cancel", by="carl")
    bench.clock.advance(61)
    assert bench.do(expire_approvals, Sweep(10)) == 1
    assert resolved(bench, held) == []


def test_who_loses_to_a_cancel_is_told_who_cancelled(bench: Bench) -> None:
    held = asked(bench)
    bench.signal(held.ref.execution, "cancel", by="carl")
    refused = bench.do(decide, said())
    assert isinstance(refused, Conflict)
    assert (refused.code, refused.details["decided_by"]) == ("not_waiting", "carl")
    assert "cancelled by carl" in refused.message


def test_an_expiry_and_a_decision_in_one_batch_agree(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.clock.advance(61)
    bench.together((expire_approvals, Sweep(10)), (decide, said()))
    assert [end["decision"] for end in resolved(bench, held)] == ["expired"]


def test_a_cancel_and_an_expiry_in_one_batch_agree(bench: Bench) -> None:
    held = asked(bench, expires_ms=60_000)
    bench.clock.advance(61)
    bench.together((signal, request(held.ref.execution, "cancel")), (expire_approvals, Sweep(10)))
    assert resolved(bench, held) == []


def test_nobody_approves_for_a_child_of_what_they_started(bench: Bench) -> None:
    bench.do(start, replace(bench.new(), by="ann"))
    [parent] = bench.claim()
    child = StartChild("child", "d", "exe_child", dict(SPEC), AGENT, codec.digest(dict(SPEC)), '"hi"')
    bench.record(parent, child)
    bench.park(parent)
    [held] = bench.claim()
    assert held.ref.execution == "exe_child"
    rules = ApprovalRules(not_by_starter=True)
    bench.record(held, OpenApproval("tool/approval", "d", "apr_1", "post", ARGS, rules))
    bench.park(held)
    assert refusal(bench, said(by="ann")) == "self_approval"
    assert bench.do(decide, said(by="bob")) == Decided(held.ref)
