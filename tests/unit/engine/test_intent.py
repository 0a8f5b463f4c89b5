"""Models plan the same act again under another name. Its author says what makes it the same."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, named, once, task
from perdure.core.items import ScheduleTask
from perdure.core.work import Answer, Begin, LeasedTask
from perdure.engine.begin import Beginning, begin
from perdure.engine.held import HandBack, hand_back
from perdure.engine.rule import Rule, rule


def acts(bench: Bench, *items: ScheduleTask) -> Any:
    owner = bench.owned()
    bench.record(owner, *items)
    return owner


def leased(bench: Bench, worker: str = "wrk_1", **options: Any) -> dict[str, LeasedTask]:
    return {one.address: one for one in bench.lease(worker, **options)}


def meaning(bench: Bench, held: LeasedTask, intent: str = '["o1",5]', nonce: str = "b") -> Answer:
    return bench.do(begin, Beginning("default", Begin(held.execution, held.address, held.fence, nonce, intent)))


@pytest.mark.parametrize("kind", [once, task])
def test_the_same_act_is_served_the_first_receipt_and_does_not_run(bench: Bench, kind: Any) -> None:
    owner = acts(bench, kind("1", args={"to": "ann"}))
    first = leased(bench)["1"]
    assert meaning(bench, first) is Answer.ACCEPTED
    bench.report(first, value="receipt")
    bench.record(owner, kind("2", args={"to": "Ann "}))
    second = leased(bench)["2"]
    assert meaning(bench, second) is Answer.LEASE_LOST
    last = bench.last(first.execution)
    assert (last.kind, last.address, last.data["value"], last.data["served"]) == (
        "task_completed", "2", "receipt", "1",
    )  # fmt: skip
    assert bench.task(first.execution, "2")["claims"] == 0
    assert meaning(bench, second) is Answer.LEASE_LOST, "the answer was lost"
    assert bench.kinds(first.execution).count("task_completed") == 2


def test_another_act_runs(bench: Bench) -> None:
    owner = acts(bench, once("1"))
    first = leased(bench)["1"]
    meaning(bench, first)
    bench.report(first, value=1)
    bench.record(owner, once("2"))
    assert meaning(bench, leased(bench)["2"], '["o2",5]') is Answer.ACCEPTED


def test_the_same_act_elsewhere_is_another(bench: Bench) -> None:
    for _ in range(2):
        acts(bench, once("1"))
    both = bench.lease()
    assert [meaning(bench, one, nonce=one.execution) for one in both] == [Answer.ACCEPTED] * 2


@pytest.mark.parametrize("kind", [once, task])
def test_while_the_same_act_is_under_way_it_waits_on_its_queue(bench: Bench, kind: Any) -> None:
    acts(bench, kind("1"), kind("2", args={"n": 2}))
    both = leased(bench)
    assert meaning(bench, both["1"]) is Answer.ACCEPTED
    assert meaning(bench, both["2"]) is Answer.CANCEL
    hand_back_to_queue(bench, both["2"])
    assert leased(bench, "wrk_2") == {}
    bench.report(both["1"], value="receipt")
    again = leased(bench, "wrk_2")["2"]
    assert meaning(bench, again) is Answer.LEASE_LOST
    assert bench.last(again.execution).data["value"] == "receipt"


def test_it_is_held_while_the_first_is_uncertain_and_then_served(bench: Bench) -> None:
    acts(bench, once("1"), once("2", args={"n": 2}))
    both = leased(bench, lease_ms=90_000)
    meaning(bench, both["1"])
    bench.report(both["1"], "failed")
    assert meaning(bench, both["2"]) is Answer.CANCEL
    hand_back_to_queue(bench, both["2"])
    assert leased(bench, "wrk_2") == {}
    bench.do(rule, Rule("default", both["1"].execution, "1", "happened", "ann", "seen", "found"))
    again = leased(bench, "wrk_2")["2"]
    assert meaning(bench, again) is Answer.LEASE_LOST
    assert bench.last(again.execution).data["value"] == "found"


def test_what_was_given_up_is_not_begun_under_another_name(bench: Bench) -> None:
    owner = acts(bench, once("1"))
    first = leased(bench)["1"]
    meaning(bench, first)
    bench.report(first, "failed")
    bench.do(rule, Rule("default", first.execution, "1", "give_up", "ann", "cannot be known"))
    bench.record(owner, once("2", args={"n": 2}))
    assert meaning(bench, leased(bench)["2"]) is Answer.LEASE_LOST
    last = bench.last(first.execution)
    assert (last.kind, last.data["code"]) == ("task_failed", "given_up")


def test_what_surely_failed_may_be_done_under_another_name(bench: Bench) -> None:
    owner = acts(bench, task("1", max_attempts=1))
    first = leased(bench)["1"]
    meaning(bench, first)
    bench.report(first, "failed")
    bench.record(owner, task("2", args={"n": 2}))
    assert meaning(bench, leased(bench)["2"]) is Answer.ACCEPTED


def test_an_earlier_try_that_waits_goes_first(bench: Bench) -> None:
    acts(bench, task("1"), task("2", args={"n": 2}))
    both = leased(bench)
    meaning(bench, both["1"])
    bench.report(both["1"], "failed")
    assert meaning(bench, both["2"]) is Answer.CANCEL
    hand_back_to_queue(bench, both["2"])
    assert leased(bench, "wrk_2") == {}
    bench.clock.advance(2)
    assert list(leased(bench, "wrk_2")) == ["1"]


def test_of_two_that_begin_in_one_batch_one_waits(bench: Bench) -> None:
    acts(bench, once("1"), once("2", args={"n": 2}))
    both = leased(bench)
    rows = [
        (begin, Beginning("default", Begin(one.execution, one.address, one.fence, "b", "same")))
        for one in both.values()
    ]
    assert sorted(bench.together(*rows)) == [Answer.ACCEPTED, Answer.CANCEL]


def test_a_served_call_uses_up_no_approval(bench: Bench) -> None:
    owner = acts(bench, once("1"))
    first = leased(bench)["1"]
    meaning(bench, first)
    bench.report(first, value="receipt")
    bench.record(owner, once("2", args={"n": 2}, approval="2/approval"))
    assert meaning(bench, leased(bench)["2"]) is Answer.LEASE_LOST
    assert bench.task(first.execution, "2")["state"] == "done"


def hand_back_to_queue(bench: Bench, held: LeasedTask) -> None:
    assert bench.do(hand_back, HandBack("default", (named(held),))) == [Answer.ACCEPTED]
