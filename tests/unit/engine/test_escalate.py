"""An approval that nobody decided in time goes to others, and the log says so: once, and only while it is open."""

from __future__ import annotations

from dataclasses import replace

from engine_bench import Bench, ask, ref
from perdure.core.approval import ApprovalRules
from perdure.core.events import Kind
from perdure.engine.due import Sweep
from perdure.engine.escalate import escalate_approvals
from perdure.engine.resolve import Decide, Decided, decide

RULES = ApprovalRules(approvers=("ann",), escalate_ms=60_000, escalate_to=("bob", "cleo"))


def waiting(bench: Bench) -> str:
    return bench.waiting(replace(ask(), rules=RULES)).ref.execution


def sweep(bench: Bench) -> int:
    return bench.do(escalate_approvals, Sweep(10))


def test_the_log_says_that_it_went_to_others_and_since_when(bench: Bench) -> None:
    execution = waiting(bench)
    bench.clock.advance(59)
    assert sweep(bench) == 0
    bench.clock.advance(2)
    assert sweep(bench) == 1
    event = bench.last(execution)
    assert (event.kind, event.address) == (Kind.APPROVAL_ESCALATED, "tool/approval")
    assert event.data == {"id": "apr_1", "to": ["bob", "cleo"], "after_ms": 61_000}


def test_it_is_said_once_and_wakes_nobody(bench: Bench) -> None:
    execution = waiting(bench)
    bench.clock.advance(61)
    assert (sweep(bench), sweep(bench)) == (1, 0)
    assert bench.kinds(execution).count("approval_escalated") == 1
    assert bench.state(execution) == ("waiting", "parked")
    assert bench.do(decide, Decide("default", "apr_1", "approve", "bob", "")) == Decided(ref(execution))


def test_what_was_decided_before_is_not_escalated(bench: Bench) -> None:
    execution = waiting(bench)
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.clock.advance(61)
    assert sweep(bench) == 0
    assert "approval_escalated" not in bench.kinds(execution)


def test_what_was_cancelled_is_not_escalated(bench: Bench) -> None:
    execution = waiting(bench)
    bench.signal(execution, "cancel")
    bench.clock.advance(61)
    sweep(bench)
    assert "approval_escalated" not in bench.kinds(execution)


def test_a_run_that_is_held_meanwhile_goes_on_as_it_was(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, replace(ask(), rules=RULES))
    bench.clock.advance(61)
    sweep(bench)
    news = bench.record(held, seen=2)
    assert [row["kind"] for row in news.events] == ["approval_escalated"]
