"""When a word on an unknown outcome counts, and what is kept of those that turn out wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine_bench import Bench, Outcome, named, once, task, wish
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure, LeasedTask
from perdure.engine.diagnose import diagnose
from perdure.engine.held import Beats, beat
from perdure.engine.lease import lease
from perdure.engine.rule import Rule, rule
from perdure.errors import Conflict

NOT_DONE = Failure("not_done", "the bank refused it")


def say(bench: Bench, held: LeasedTask, word: Any, *, value: Any = None) -> Any:
    return bench.do(rule, Rule("default", held.execution, held.address, word, "ann", "seen", value))


def lost(bench: Bench, **rules: Any) -> LeasedTask:
    """Return an effect whose holder said that it failed, 2 s after it began."""
    held = bench.begun(once(timeout_ms=20_000, rules=TaskRules(**rules)))
    bench.clock.advance(2)
    bench.report(held, "failed", failure=Failure("tool_error", "no answer"))
    return held


@pytest.mark.parametrize(("rules", "settle_s"), [({}, 50), ({"settle_ms": 7_000}, 7)])
def test_that_it_did_not_happen_counts_only_after_settle(bench: Bench, rules: dict[str, int], settle_s: int) -> None:
    """By default the time-out and one lease since begin: until then the request may still be on its way."""
    held = lost(bench, **rules)
    bench.clock.advance(settle_s - 2 - 0.001)
    refusal = say(bench, held, "run")
    assert isinstance(refusal, Conflict)
    assert (refusal.code, refusal.details["after_ms"]) == ("not_settled", 1)
    assert "may still be happening" in refusal.message
    assert bench.task(held.execution)["state"] == "uncertain"
    bench.clock.advance(0.001)
    assert say(bench, held, "run") is None


def test_with_a_settle_of_nothing_it_counts_at_once(bench: Bench) -> None:
    assert say(bench, lost(bench, settle_ms=0), "run") is None


@pytest.mark.parametrize("word", ["happened", "give_up"])
def test_other_rulings_need_not_wait(bench: Bench, word: str) -> None:
    assert say(bench, lost(bench), word) is None


def test_nobody_can_rule_that_it_did_not_happen_while_its_holder_beats(bench: Bench) -> None:
    held = bench.uncertain()  # fell silent for a lease, and comes back
    bench.clock.advance(1_000)
    assert bench.do(beat, Beats("default", "wrk_1", (named(held),))) == [Answer.ACCEPTED]
    assert say(bench, held, "run").details["after_ms"] == 30_000
    bench.clock.advance(30)
    assert say(bench, held, "run") is None
    assert bench.do(beat, Beats("default", "wrk_1", (named(held),))) == [Answer.LEASE_LOST]


def test_a_holder_that_comes_back_may_report(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(beat, Beats("default", "wrk_1", (named(held),)))
    assert bench.report(held, value="sent") is Answer.ACCEPTED
    assert bench.task(held.execution)["state"] == "done"


def test_what_the_first_holder_says_after_a_second_claim_is_kept_and_not_applied(bench: Bench) -> None:
    held = bench.uncertain()
    say(bench, held, "run")
    [second] = bench.lease("wrk_2")
    bench.begin(second, "b2")
    assert bench.report(held, value="sent") is Answer.CONFLICT
    last = bench.last(held.execution)
    assert last.kind == "effect_contradicted"
    assert last.data == {"claim": 1, "worker": "wrk_1", "fence": 1, "value": "sent"}
    assert bench.execution(held.execution)["log_format"] == 2
    assert bench.report(second, value="sent again") is Answer.ACCEPTED
    assert bench.report(held, value="sent") is Answer.CONFLICT, "the answer was lost"
    assert bench.kinds(held.execution).count("effect_contradicted") == 1


def test_a_first_holder_that_knows_nothing_contradicts_nothing(bench: Bench) -> None:
    held = bench.uncertain()
    say(bench, held, "run")
    assert bench.report(held, "failed") is Answer.LEASE_LOST
    assert bench.report(held, "failed", failure=NOT_DONE) is Answer.LEASE_LOST
    assert "effect_contradicted" not in bench.kinds(held.execution)


@pytest.mark.parametrize(
    ("word", "outcome", "failure", "kept"),
    [
        ("give_up", "completed", None, True),
        ("give_up", "failed", NOT_DONE, False),
        ("happened", "failed", NOT_DONE, True),
        ("happened", "failed", None, False),
    ],
)
def test_a_ruling_that_its_holder_knows_better_is_contradicted(
    bench: Bench, word: str, outcome: Outcome, failure: Failure | None, kept: bool
) -> None:
    held = bench.uncertain()
    say(bench, held, word)
    state = bench.task(held.execution)["state"]
    assert bench.report(held, outcome, failure=failure) in (Answer.CONFLICT, Answer.ALREADY_ACCEPTED)
    assert ("effect_contradicted" in bench.kinds(held.execution)) is kept
    assert bench.task(held.execution)["state"] == state


def test_its_authors_word_that_nothing_happened_ends_it_as_failed(bench: Bench) -> None:
    held = bench.begun()
    assert bench.report(held, "failed", failure=NOT_DONE) is Answer.ACCEPTED
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"]) == ("task_failed", "not_done")
    assert bench.report(held, "failed", failure=NOT_DONE) is Answer.ALREADY_ACCEPTED


def test_its_authors_word_that_nothing_happened_lets_it_be_tried_again(bench: Bench) -> None:
    held = bench.begun(once(max_attempts=2))
    bench.report(held, "failed", failure=NOT_DONE)
    assert bench.last(held.execution).kind == "attempt_failed"
    bench.clock.advance(2)
    [second] = bench.lease("wrk_2")
    assert bench.begin(held, "b") is Answer.LEASE_LOST
    assert bench.begin(second, "b2") is Answer.ACCEPTED
    bench.report(second, "failed", failure=NOT_DONE)
    assert bench.task(held.execution)["state"] == "dead"


def test_the_late_word_that_nothing_happened_ends_the_doubt(bench: Bench) -> None:
    held = bench.uncertain()
    assert bench.report(held, "failed", failure=NOT_DONE) is Answer.ACCEPTED
    assert bench.kinds(held.execution)[-2:] == ["task_uncertain", "task_failed"]
    assert bench.task(held.execution)["doubt"] == 0


# -- keys that are forgotten


def windowed(**options: Any) -> Any:
    return task(rules=TaskRules(key_ttl_ms=60_000), max_attempts=9, **options)


def test_past_its_key_window_a_step_is_not_tried_again_by_itself(bench: Bench) -> None:
    held = bench.leased(windowed())
    bench.clock.advance(20)
    bench.report(held, "failed", failure=Failure("boom", "it broke", retry_after_ms=39_000))
    assert bench.last(held.execution).kind == "attempt_failed"
    bench.clock.advance(39)
    [again] = bench.lease()
    bench.report(again, "failed", failure=Failure("boom", "it broke"))
    last = bench.last(held.execution)
    assert (last.kind, last.data["error"]) == ("task_uncertain", "it broke")
    assert "remembered for 60 s only" in last.data["why"]
    assert bench.lease() == []


def test_past_its_key_window_a_step_whose_worker_fell_silent_is_uncertain(bench: Bench) -> None:
    held = bench.leased(windowed(), lease_ms=90_000)
    bench.expire(91)
    assert bench.last(held.execution).kind == "task_uncertain"
    assert bench.report(held, value="sent") is Answer.ACCEPTED


def test_nobody_is_given_a_step_whose_key_was_forgotten_while_it_waited(bench: Bench) -> None:
    held = bench.leased(windowed())
    bench.expire(31)
    assert bench.task(held.execution)["state"] == "ready"
    bench.clock.advance(30)
    assert bench.lease("wrk_2") == []
    assert bench.last(held.execution).kind == "task_uncertain"
    assert bench.lease("wrk_2") == []


def test_a_ruling_to_run_takes_the_key_for_a_new_one(bench: Bench) -> None:
    held = bench.leased(windowed())
    bench.expire(31)
    bench.clock.advance(60)
    bench.lease("wrk_2")
    assert say(bench, held, "run") is None
    [again] = bench.lease("wrk_2")
    bench.report(again, "failed")
    assert bench.last(held.execution).kind == "attempt_failed"


def test_what_never_started_has_its_whole_window(bench: Bench) -> None:
    held = bench.waiting(windowed())
    bench.clock.advance(3_600)
    assert [one.execution for one in bench.lease()] == [held.ref.execution]


# -- leases that ran out


def test_the_result_of_who_fell_silent_counts_until_another_is_given_the_task(bench: Bench) -> None:
    held = bench.leased()
    bench.expire(31)
    assert bench.report(held, value="late") is Answer.ACCEPTED
    last = bench.last(held.execution)
    assert (last.kind, last.data["value"], last.data["worker"], last.data["late"]) == (
        "task_completed", "late", "wrk_1", True,
    )  # fmt: skip
    assert bench.report(held, value="late") is Answer.ALREADY_ACCEPTED
    assert bench.lease("wrk_2") == []


def test_who_said_that_it_failed_cannot_say_later_that_it_did_not(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed")
    assert bench.report(held, value="yet") is Answer.CONFLICT
    assert bench.task(held.execution)["state"] == "ready"


def test_the_result_of_a_step_that_was_given_up_is_evidence(bench: Bench) -> None:
    held = bench.leased(task(max_attempts=1))
    bench.expire(31)
    assert bench.task(held.execution)["state"] == "dead"
    assert bench.report(held, value="late") is Answer.CONFLICT
    last = bench.last(held.execution)
    assert (last.kind, last.data["value"], last.data["claim"]) == ("effect_contradicted", "late", 0)


# -- a second call


def called(bench: Bench, *items: Any) -> Any:
    owner = bench.owned()
    bench.record(owner, *items)
    return owner


def in_doubt(bench: Bench, owner: Any) -> LeasedTask:
    """Return the first call, uncertain."""
    [held] = [one for one in bench.lease(slots=1) if one.execution == owner.ref.execution]
    bench.begin(held)
    bench.expire(31)
    return held


def leased(bench: Bench) -> list[str]:
    return [one.address for one in bench.lease("wrk_2")]


def test_an_equal_call_is_held_until_the_outcome_of_the_first_is_known(bench: Bench) -> None:
    owner = called(bench, once("1"))
    first = in_doubt(bench, owner)
    bench.record(owner, once("2"), once("3", args={"n": 2}), once("4", tool="other"))
    assert leased(bench) == ["3"]
    say(bench, first, "give_up")
    assert leased(bench) == ["2"]


def test_a_read_is_not_held(bench: Bench) -> None:
    owner = called(bench, once("1"))
    in_doubt(bench, owner)
    bench.record(owner, task("2", delivery="repeatable"))
    assert leased(bench) == ["2"]


@pytest.mark.parametrize("how", ["ruled", "reported"])
def test_who_asks_again_while_it_is_unknown_gets_the_receipt_of_the_first(bench: Bench, how: str) -> None:
    owner = called(bench, once("1"))
    first = in_doubt(bench, owner)
    bench.record(owner, once("2"))
    if how == "ruled":
        say(bench, first, "happened", value="receipt")
    else:
        bench.report(first, value="receipt")
    last = bench.last(first.execution)
    assert (last.kind, last.address) == ("task_completed", "2")
    assert (last.data["value"], last.data["served"]) == ("receipt", "1")
    assert leased(bench) == []


def test_two_equal_calls_of_one_turn_are_two_acts(bench: Bench) -> None:
    owner = called(bench, once("1"), once("2"))
    first = in_doubt(bench, owner)
    assert leased(bench) == []
    say(bench, first, "happened")
    assert leased(bench) == ["2"]


def test_an_equal_call_waits_for_the_second_claim_too(bench: Bench) -> None:
    owner = called(bench, once("1"))
    first = in_doubt(bench, owner)
    bench.record(owner, once("2"))
    say(bench, first, "run")
    [second] = bench.lease("wrk_2")
    assert second.address == "1"
    bench.begin(second, "b2")
    assert leased(bench) == []
    bench.report(second, value="receipt")
    assert (bench.last(first.execution).address, bench.last(first.execution).data["value"]) == ("2", "receipt")


def test_a_call_that_was_leased_before_its_twin_became_uncertain_does_not_begin(bench: Bench) -> None:
    owner = called(bench, once("1"))
    [first] = bench.lease()
    bench.begin(first)
    bench.record(owner, once("2"))
    [second] = bench.do(lease, wish("wrk_2", lease_ms=90_000))
    bench.expire(31)
    assert bench.begin(second, "b2") is Answer.CANCEL
    assert bench.task(second.execution, "2")["claims"] == 0


def test_two_calls_in_doubt_do_not_wait_for_each_other(bench: Bench) -> None:
    owner = called(bench, once("1"), once("2"))
    both = bench.lease()
    for number, one in enumerate(both):
        bench.begin(one, str(number))
    bench.expire(31)
    for one in both:
        assert say(bench, replace(one, execution=owner.ref.execution), "run") is None
    [first] = bench.lease("wrk_2")
    assert first.address == "1"
    bench.begin(first, "b3")
    bench.report(first, value=1)
    assert leased(bench) == ["2"]


def test_the_doctor_says_which_call_a_held_one_waits_for(bench: Bench) -> None:
    owner = called(bench, once("1"))
    in_doubt(bench, owner)
    bench.record(owner, once("2"))
    now_ms = bench.clock.wall_ms()
    found = bench.read(lambda reads: diagnose(reads, "default", owner.ref.execution, [], now_ms))
    said = [one.what for one in found if "'2'" in one.what]
    assert said == ["post at '2' waits until it is known what becomes of the equal call at '1'."]
    assert any("effects rule" in (one.command or "") for one in found), "and who has to say"
