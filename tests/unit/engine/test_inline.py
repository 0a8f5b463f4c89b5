"""Claims of steps that the holder of an execution runs itself: one commit with the step, ended by their own nonce."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, ref
from perdure.core.events import Kind
from perdure.core.items import BeginStep, EndStep
from perdure.core.ledger import CONTRADICTED
from perdure.core.views import EffectFilter
from perdure.core.work import Failure
from perdure.engine.claim import Claimed
from perdure.engine.ledger import effects_view
from perdure.engine.park import Finish, Released, finish
from perdure.engine.record import Record, record
from perdure.engine.rule import Rule, rule
from perdure.engine.signal import Signal, signal
from perdure.engine.sweep import Sweep, expire_owned
from perdure.errors import LeaseLost


def begin(nonce: str = "cla_1") -> BeginStep:
    return BeginStep("charge", "d", nonce, "charge", {"args": [5]}, 1_000)


def end(nonce: str = "cla_1", outcome: Any = "completed", **options: Any) -> EndStep:
    return EndStep("charge", "d", nonce, outcome, **options)


def stolen(bench: Bench, held: Claimed) -> Claimed:
    """Have the lease run out, and another holder claim it."""
    bench.clock.advance(100)
    bench.do(expire_owned, Sweep(10))
    [again] = bench.claim(holder="srv_2")
    assert again.ref == held.ref
    return again


def test_a_step_is_scheduled_and_claimed_in_one_commit(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    assert bench.kinds(held.ref.execution)[-2:] == ["task_scheduled", "task_begun"]
    task = bench.task(held.ref.execution, "charge")
    assert (task["state"], task["claims"], task["fence"], task["lease_until_ms"]) == ("begun", 1, 1, None)


def test_saying_it_again_claims_nothing_more(bench: Bench) -> None:
    held = bench.owned()
    before = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.record(held, begin(), seen=before)
    bench.record(held, begin(), seen=before)
    assert bench.task(held.ref.execution, "charge")["claims"] == 1
    bench.record(held, end(value="7"))
    bench.record(held, end(value="7"))
    assert bench.kinds(held.ref.execution).count("task_completed") == 1
    assert bench.last(held.ref.execution).data["value"] == 7


def test_no_sweep_takes_it_from_a_holder_that_lives(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    bench.expire(100_000)
    assert bench.task(held.ref.execution, "charge")["state"] == "begun"


def test_a_failure_leaves_it_uncertain_and_not_done_does_not(bench: Bench) -> None:
    for code, state in (("raised", "uncertain"), ("not_done", "dead")):
        held = bench.owned()
        bench.record(held, begin())
        bench.record(held, end(outcome="failed", failure=Failure(code, "x")))
        assert bench.task(held.ref.execution, "charge")["state"] == state


def test_only_the_next_holder_says_that_it_is_lost(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    again = stolen(bench, held)
    assert isinstance(bench.do(record, Record(held.ref, held.fence, 0, (end("", "lost"),))), LeaseLost)
    assert bench.task(held.ref.execution, "charge")["state"] == "begun"
    bench.record(again, end("", "lost"))
    assert bench.last(held.ref.execution).kind is Kind.TASK_UNCERTAIN


def test_who_lost_the_execution_may_still_report_its_claim(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    again = stolen(bench, held)
    bench.record(again, end("", "lost"))
    assert isinstance(bench.do(record, Record(held.ref, held.fence, 0, (end(value='"paid"'),))), LeaseLost)
    last = bench.last(held.ref.execution)
    assert (last.kind, last.data["value"], last.data["late"]) == (Kind.TASK_COMPLETED, "paid", True)


def test_another_nonce_ends_nothing(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    bench.record(held, end("cla_9"))
    assert bench.task(held.ref.execution, "charge")["state"] == "begun"


def test_a_ruling_to_run_it_opens_one_more_claim(bench: Bench) -> None:
    held = bench.owned()
    execution = held.ref.execution
    bench.record(held, begin())
    bench.record(held, end(outcome="failed", failure=Failure("raised", "x")))
    bench.clock.advance(3_600)
    ruling = Rule("default", execution, "charge", "run", "ann", "it did not happen")
    assert bench.do(rule, ruling) is None
    again = bench.claim()
    holder = again[0] if again else held
    bench.record(holder, begin("cla_2"))
    assert bench.last(execution).data["nonce"] == "cla_2"
    assert bench.task(execution, "charge")["claims"] == 2
    bench.record(holder, end("cla_1", value="1"))
    assert bench.task(execution, "charge")["state"] == "begun"
    bench.record(holder, end("cla_2", value="2"))
    assert bench.last(execution).data["value"] == 2


@pytest.mark.parametrize("begun_again", [False, True])
def test_what_the_first_claim_says_after_a_ruling_to_run_is_kept_as_evidence(bench: Bench, begun_again: bool) -> None:
    """Somebody ruled that it did not happen, and it did: that is on record, as it is of tools that workers run."""
    held = bench.owned()
    bench.record(held, begin())
    again = stolen(bench, held)
    bench.record(again, end("", "lost"))
    bench.clock.advance(3_600)
    execution = held.ref.execution
    assert bench.do(rule, Rule("default", execution, "charge", "run", "ann", "it did not happen")) is None
    if begun_again:
        bench.record(again, begin("cla_2"))
    state = bench.task(execution, "charge")["state"]
    late = Record(held.ref, held.fence, 0, (end(value='"paid"'),))
    assert [type(answer) for answer in bench.twice(record, late)] == [LeaseLost, LeaseLost]
    said = [event for event in bench.log(execution) if event.kind is Kind.EFFECT_CONTRADICTED]
    assert [(event.data["value"], event.data["claim"], event.data["fence"]) for event in said] == [("paid", 1, 1)]
    assert bench.task(execution, "charge")["state"] == state == ("begun" if begun_again else "ready")
    effect = bench.read(lambda reads: effects_view(reads, "default", EffectFilter(execution)))[0]
    assert effect.outcome == CONTRADICTED


def test_what_the_first_claim_does_not_know_after_a_ruling_is_no_evidence(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, begin())
    again = stolen(bench, held)
    bench.record(again, end("", "lost"))
    bench.clock.advance(3_600)
    bench.do(rule, Rule("default", held.ref.execution, "charge", "run", "ann", "it did not happen"))
    for outcome in ("failed", "cancelled"):
        late = end(outcome=outcome, failure=Failure("raised", "x"))
        bench.do(record, Record(held.ref, held.fence, 0, (late,)))
    assert bench.last(held.ref.execution).kind is Kind.EFFECT_RULED


def test_what_was_cancelled_before_it_was_written_is_not_begun(bench: Bench) -> None:
    held = bench.owned()
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.signal(held.ref.execution, "cancel")
    bench.record(held, begin(), seen=seen)
    assert bench.task(held.ref.execution, "charge")["state"] == "dead"
    assert "task_begun" not in bench.kinds(held.ref.execution)
    assert ref(held.ref.execution) == held.ref


def test_what_a_cancelled_execution_still_claims_is_lost_when_its_holder_ends_it(bench: Bench) -> None:
    """Nobody holds it after that, so nobody else would ever say so, and it would never end."""
    held = bench.owned()
    bench.record(held, begin())
    again = stolen(bench, held)
    bench.do(signal, Signal("default", held.ref.execution, "cancel"))
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    assert bench.do(finish, Finish(again.ref, again.fence, seen, 0, "end", "{}")) == Released()
    assert bench.kinds(held.ref.execution)[-2:] == ["task_uncertain", "cancelled"]
    assert bench.task(held.ref.execution, "charge")["state"] == "uncertain"
