"""A call that acts and gives what cannot be kept is in doubt at first sight: nobody is told that it failed."""

from __future__ import annotations

import pytest

from engine_bench import Bench, task
from perdure.core.work import Failure
from perdure.engine.rule import Rule, rule

UNKEPT = Failure("unserialisable", "it returned a set", permanent=True)


@pytest.mark.parametrize("code", ["unserialisable", "too_large"])
@pytest.mark.parametrize("delivery", ["at_least_once", "transactional"])
def test_it_is_uncertain_and_not_tried_again_by_itself(bench: Bench, delivery: str, code: str) -> None:
    held = bench.leased(task(delivery=delivery))
    bench.report(held, "failed", failure=Failure(code, "it returned a set", permanent=True))
    assert bench.task(held.execution)["state"] == "uncertain"
    told = bench.last(held.execution)
    assert told.kind == "task_uncertain"
    assert told.data["why"] == "it may have acted, but what it gave cannot be kept: it returned a set"
    assert bench.lease(worker="wrk_2") == []


def test_mended_it_runs_again_on_a_persons_word_under_the_same_key(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=UNKEPT)
    bench.clock.advance(60)
    bench.do(rule, Rule("default", held.execution, held.address, "run", "ann", "the tool was mended", None))
    [again] = bench.lease(worker="wrk_2")
    assert (again.key, again.attempt) == (held.key, 2)
    bench.report(again, value="receipt")
    assert bench.task(held.execution)["state"] == "done"


def test_an_equal_call_waits_meanwhile(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task("one"))
    [given] = bench.lease()
    bench.report(given, "failed", failure=UNKEPT)
    bench.record(held, task("two"))
    assert bench.lease(worker="wrk_2") == []


def test_what_only_reads_has_failed_for_good(bench: Bench) -> None:
    held = bench.leased(task(delivery="repeatable"))
    bench.report(held, "failed", failure=UNKEPT)
    assert bench.task(held.execution)["state"] == "dead"


def test_arguments_that_do_not_fit_are_told_at_once(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("invalid_arguments", "n is no text", permanent=True))
    assert bench.task(held.execution)["state"] == "dead"
