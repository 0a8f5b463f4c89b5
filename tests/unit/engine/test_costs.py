"""What attempts cost is kept in the log with how they ended, and summed up in the ledger."""

from __future__ import annotations

from typing import Any

from engine_bench import COMPANY, Bench, completion, once
from perdure.core.events import Kind
from perdure.core.views import EffectFilter, EffectView
from perdure.core.work import Failure, LeasedTask, Report
from perdure.engine.complete import Completion, complete
from perdure.engine.ledger import effects_view


def report(bench: Bench, held: LeasedTask, outcome: Any, cost: dict[str, str], **options: Any) -> None:
    said = Report(held.execution, held.address, held.fence, outcome, cost=cost, **options)
    bench.do(complete, Completion(COMPANY, said))


def effect(bench: Bench, execution: str) -> EffectView:
    [found] = bench.read(lambda reads: effects_view(reads, COMPANY, EffectFilter(execution=execution)))
    return found


def test_all_attempts_count_the_failed_ones_too(bench: Bench) -> None:
    held = bench.leased()
    report(bench, held, "failed", {"USD": "0.10"}, failure=Failure("x", "no"))
    bench.clock.advance(10)
    [again] = bench.lease()
    report(bench, again, "completed", {"USD": "0.25", "EUR": "1"}, value=1)
    assert effect(bench, held.execution).cost == {"EUR": "1", "USD": "0.35"}
    assert bench.last(held.execution).data["cost"] == {"EUR": "1", "USD": "0.25"}


def test_a_result_that_cost_nothing_is_recorded_as_ever(bench: Bench) -> None:
    held = bench.leased()
    bench.do(complete, completion(held, value=1))
    assert "cost" not in bench.last(held.execution).data
    assert effect(bench, held.execution).cost == {}


def test_what_an_unknown_outcome_cost_is_known(bench: Bench) -> None:
    held = bench.begun(once())
    report(bench, held, "failed", {"USD": "5"}, failure=Failure("x", "half way"))
    assert bench.last(held.execution).kind is Kind.TASK_UNCERTAIN
    assert effect(bench, held.execution).cost == {"USD": "5"}


def test_a_cost_that_is_none_keeps_no_ledger_from_being_read(bench: Bench) -> None:
    held = bench.leased()
    report(bench, held, "completed", {"USD": "much"}, value=1)
    assert effect(bench, held.execution).cost == {}
