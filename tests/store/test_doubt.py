"""Doubts, probes, policies and intents on both databases, with the same SQL."""

from __future__ import annotations

from engine_bench import AGENT, Bench, once, task, wish
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Begin, Lane, LeasedTask
from perdure.engine.begin import Beginning, begin
from perdure.engine.due import Sweep
from perdure.engine.lease import lease
from perdure.engine.policy import rule_by_policy
from perdure.engine.rule import Rule, rule
from perdure.engine.sweep import expire_tasks

AT_ONCE = TaskRules(settle_ms=0, probe=True)


def doubtful(bench: Bench) -> LeasedTask:
    held = bench.begun(once(rules=AT_ONCE))
    bench.report(held, "failed")
    assert bench.task(held.execution)["state"] == "uncertain"
    return held


def probe(bench: Bench) -> LeasedTask:
    [found] = bench.do(lease, wish("wrk_2", f"p{id(bench)}", lanes=(Lane(AGENT, "post?probe"),)))
    return found


def meaning(bench: Bench, held: LeasedTask) -> Answer:
    return bench.do(begin, Beginning("default", Begin(held.execution, held.address, held.fence, "b", "same")))


def test_a_probe_rules_and_the_first_holder_contradicts_it(bench: Bench) -> None:
    held = doubtful(bench)
    assert bench.report(probe(bench), value={"happened": False}) is Answer.ACCEPTED
    [second] = bench.lease("wrk_3")
    assert bench.begin(second, "b2") is Answer.ACCEPTED
    assert bench.report(held, value="sent") is Answer.CONFLICT
    assert bench.report(held, value="sent") is Answer.CONFLICT
    assert bench.kinds(held.execution).count("effect_contradicted") == 1
    assert bench.report(second, "failed") is Answer.ACCEPTED, "in doubt once more, and probed once more"
    assert bench.task(held.execution, "tool?probe")["state"] == "ready"


def test_an_equal_call_is_held_and_served(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, once("1", rules=AT_ONCE))
    [first] = bench.lease()
    bench.begin(first)
    bench.report(first, "failed")
    bench.record(owner, once("2"), once("3", args={"n": 2}))
    assert [one.address for one in bench.lease("wrk_2")] == ["3"]
    bench.do(rule, Rule("default", first.execution, "1", "happened", "ann", "seen", "receipt"))
    assert bench.last(first.execution).data["served"] == "1"
    assert bench.lease("wrk_2") == []


def test_an_act_is_done_once_whatever_it_is_called(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, task("1"), task("2", args={"n": 2}))
    first, second = bench.lease()
    assert meaning(bench, first) is Answer.ACCEPTED
    assert meaning(bench, second) is Answer.CANCEL
    bench.report(first, value="receipt")
    assert meaning(bench, second) is Answer.LEASE_LOST
    assert bench.task(owner.ref.execution, "2")["state"] == "done"


def test_a_policy_rules_when_nobody_does(bench: Bench) -> None:
    held = bench.begun(once(rules=TaskRules(rule_as="give_up", rule_by_ms=0)))
    bench.report(held, "failed")
    assert bench.do(rule_by_policy, Sweep(10)) == 1
    assert bench.task(held.execution)["state"] == "dead"


def test_the_result_of_who_fell_silent_counts_until_another_is_given_the_task(bench: Bench) -> None:
    held = bench.leased(task(), lease_ms=0)
    while not bench.do(expire_tasks, Sweep(10)):  # PostgreSQL's own clock judges leases
        bench.clock.advance(0.01)
    assert bench.report(held, value="late") is Answer.ACCEPTED
