"""A person's word for what nobody knows. Nothing runs again without it."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, once
from perdure.core.views import Ruling
from perdure.core.work import Answer
from perdure.engine.park import Finish, finish
from perdure.engine.rule import Rule, rule
from perdure.errors import Conflict, NotFound


def ruling(execution: str, word: Ruling, *, by: str = "ann", value: Any = None, **options: Any) -> Rule:
    return Rule(options.pop("company", "default"), execution, options.pop("address", "tool"), word, by, "seen", value)


@pytest.mark.parametrize(("word", "state"), [("happened", "done"), ("give_up", "dead"), ("run", "ready")])
def test_a_ruling_is_recorded_with_who_and_why_and_wakes(bench: Bench, word: Ruling, state: str) -> None:
    held = bench.uncertain()
    bench.park(bench.claim()[0])
    assert bench.do(rule, ruling(held.execution, word, value="receipt")) is None
    last = bench.last(held.execution)
    assert (last.kind, last.address) == ("effect_ruled", "tool")
    assert last.data == {"ruling": word, "by": "ann", "reason": "seen", "value": "receipt"}
    assert bench.task(held.execution)["state"] == state
    assert bench.state(held.execution) == ("ready", "ready")


def test_only_what_is_uncertain_can_be_ruled_on(bench: Bench) -> None:
    held = bench.begun()
    for word in ("happened", "run", "give_up"):
        refusal = bench.do(rule, ruling(held.execution, word))
        assert isinstance(refusal, Conflict)
        assert (refusal.code, refusal.details["state"]) == ("not_uncertain", "begun")


def test_what_is_not_there_or_belongs_to_others_is_not_found(bench: Bench) -> None:
    held = bench.uncertain()
    for row in (
        ruling("exe_none", "run"),
        ruling(held.execution, "run", company="other"),
        ruling(held.execution, "run", address="none"),
    ):
        assert isinstance(bench.do(rule, row), NotFound)
    assert bench.task(held.execution)["state"] == "uncertain"


@pytest.mark.parametrize("word", ["happened", "give_up", "run"])
def test_the_same_ruling_again_changes_nothing(bench: Bench, word: Ruling) -> None:
    held = bench.uncertain()
    assert bench.twice(rule, ruling(held.execution, word, value=1)) == (None, None)
    assert bench.kinds(held.execution).count("effect_ruled") == 1
    assert bench.task(held.execution)["fence"] == held.fence + (word == "run")


def test_another_ruling_afterwards_is_refused(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, ruling(held.execution, "happened", value=1))
    for row in (ruling(held.execution, "give_up"), ruling(held.execution, "happened", value=1, by="bob")):
        assert isinstance(bench.do(rule, row), Conflict)


def test_a_ruling_of_an_earlier_claim_is_not_the_same(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, ruling(held.execution, "run"))
    [second] = bench.lease("wrk_2")
    bench.begin(second, "b2")
    bench.expire(31)
    assert bench.do(rule, ruling(held.execution, "run")) is None
    assert bench.kinds(held.execution).count("effect_ruled") == 2
    [third] = bench.lease("wrk_3")
    assert (third.fence, third.attempt) == (5, 3)


def test_a_second_claim_is_made_in_the_rulers_name_and_counted(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, ruling(held.execution, "run"))
    [second] = bench.lease("wrk_2")
    assert bench.begin(second, "b2") is Answer.ACCEPTED
    row = bench.task(held.execution)
    assert (row["claims"], row["fence"], row["max_attempts"]) == (2, held.fence + 2, 2)
    assert bench.report(second, value=1) is Answer.ACCEPTED


def test_a_ruling_to_run_is_kept_back_while_paused(bench: Bench) -> None:
    held = bench.uncertain()
    bench.signal(held.execution, "pause")
    bench.do(rule, ruling(held.execution, "run"))
    assert bench.lease("wrk_2") == []
    bench.signal(held.execution, "resume")
    assert len(bench.lease("wrk_2")) == 1


def test_nothing_is_run_for_an_execution_that_is_cancelled(bench: Bench) -> None:
    held = bench.uncertain()
    bench.signal(held.execution, "cancel")
    refusal = bench.do(rule, ruling(held.execution, "run"))
    assert isinstance(refusal, Conflict)
    assert refusal.code == "ended"
    assert bench.do(rule, ruling(held.execution, "happened")) is None


def test_what_an_ended_execution_left_uncertain_can_be_ruled_on_but_not_run(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, once())
    [held] = bench.lease()
    bench.begin(held)
    bench.do(finish, Finish(owner.ref, owner.fence, 3, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    bench.expire(31)
    refusal = bench.do(rule, ruling(held.execution, "run"))
    assert isinstance(refusal, Conflict)
    assert refusal.code == "ended"
    assert bench.do(rule, ruling(held.execution, "happened", value=1)) is None
    assert bench.task(held.execution)["state"] == "done"
    assert bench.last(held.execution).kind == "failed"
