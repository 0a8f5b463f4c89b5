"""What a fork may do past its prefix: the origin's result, else a simulation, else only on a person's word."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import AGENT, Bench, ask, once, ref, step, task
from perdure.core.rules import TaskRules
from perdure.core.views import EffectFilter, EffectView, ForkEdits, Started
from perdure.core.work import Lane
from perdure.engine.claim import Claimed
from perdure.engine.fork import Fork, fork
from perdure.engine.ledger import effects_view
from perdure.engine.query_tasks import tasks_view
from perdure.engine.resolve import Decide, decide
from perdure.engine.rule import Rule, rule

SIMULATING = TaskRules(simulate=True)
SIMULATION = (Lane(AGENT, "post?simulate"),)


def forked(bench: Bench, origin: str, at: int, **edits: Any) -> Claimed | None:
    """Fork it and claim the fork; None if it waits for a person at once."""
    assert bench.do(fork, Fork("exe_fork", "default", origin, at, ForkEdits(**edits), "ann")) == Started(
        "exe_fork", created=True
    )
    return next((one for one in bench.claim() if one.ref == ref("exe_fork")), None)


def effects(bench: Bench, **wanted: Any) -> list[EffectView]:
    return bench.read(lambda reads: effects_view(reads, "default", EffectFilter(**wanted)))


def effect(bench: Bench) -> EffectView:
    [found] = effects(bench, execution="exe_fork")
    return found


def last(bench: Bench, execution: str) -> int:
    return bench.execution(execution)["next_seq"] - 1


def test_without_a_result_of_the_origin_the_simulation_runs_on_a_lane_of_its_own(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, once(rules=SIMULATING))
    assert bench.state("exe_fork")[0] == "running"
    assert bench.lease() == []
    [given] = bench.lease(lanes=SIMULATION)
    assert (given.tool, given.delivery, given.args) == ("post?simulate", "repeatable", {"n": 1})
    bench.report(given, value="as if")
    assert bench.log("exe_fork")[-1].data["simulated"] is True
    assert bench.log("exe_fork")[-1].data["value"] == "as if"


def test_the_ledger_shows_a_simulation_as_one_and_not_as_an_effect(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, task(rules=SIMULATING))
    assert (effect(bench).outcome, effect(bench).simulated) == ("waiting", True)
    [given] = bench.lease(lanes=SIMULATION)
    assert (effect(bench).outcome, effect(bench).attempts) == ("waiting", 0)
    bench.report(given, value="as if")
    found = effect(bench)
    assert (found.tool, found.delivery, found.outcome) == ("post", "at_least_once", "simulated")
    assert (found.claims, found.attempts, found.confirmed, found.doubt) == (0, 0, 0, "")
    assert [one.execution for one in effects(bench, state="simulated", tool="post")] == ["exe_fork"]
    [view] = bench.read(lambda reads: tasks_view(reads, "default", "exe_fork"))
    assert (view.tool, view.delivery, view.simulated) == ("post", "at_least_once", True)


def test_a_simulation_that_fails_is_tried_again_and_then_told_as_any_failure(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, once(rules=SIMULATING, max_attempts=1))
    [given] = bench.lease(lanes=SIMULATION)
    bench.report(given, "failed")
    assert bench.kinds("exe_fork")[-1] == "task_failed"
    assert bench.task("exe_fork")["state"] == "dead"


def test_the_origins_result_goes_before_the_simulation(bench: Bench) -> None:
    origin = bench.waiting(step(), once(rules=SIMULATING)).ref.execution
    [given] = bench.lease()
    bench.begin(given)
    bench.report(given, value="paid")
    held = forked(bench, origin, 2)
    assert held is not None
    bench.record(held, once(rules=SIMULATING))
    assert bench.log("exe_fork")[-1].data["value"] == "paid"
    assert (effect(bench).served, effect(bench).simulated) == (origin, False)


@pytest.mark.parametrize(("ruling", "state"), [("happened", "done"), ("give_up", "dead")])
def test_what_was_ruled_of_the_origins_call_is_its_result(bench: Bench, ruling: Any, state: str) -> None:
    held = bench.uncertain()
    bench.do(rule, Rule("default", held.execution, held.address, ruling, "ann", "I looked", "receipt"))
    mine = forked(bench, held.execution, 1)
    assert mine is not None
    bench.record(mine, once())
    assert bench.state("exe_fork")[0] == "running"
    assert bench.task("exe_fork")["state"] == state


def test_a_call_that_the_origin_began_and_nobody_knows_of_waits_for_a_person(bench: Bench) -> None:
    held = bench.uncertain()
    mine = forked(bench, held.execution, 1)
    assert mine is not None
    bench.record(mine, once())
    assert bench.state("exe_fork")[0] == "paused"
    assert "not known what became" in bench.last("exe_fork").data["message"]


def test_an_open_call_of_the_prefix_is_simulated_too(bench: Bench) -> None:
    origin = bench.waiting(step(), once(rules=SIMULATING)).ref.execution
    assert forked(bench, origin, last(bench, origin)) is not None
    assert bench.state("exe_fork")[0] == "running"
    [given] = bench.lease(lanes=SIMULATION)
    bench.report(given, value="as if")
    assert effect(bench).outcome == "simulated"


def test_an_open_call_of_the_prefix_without_one_keeps_the_fork_off_the_ready_list(bench: Bench) -> None:
    origin = bench.waiting(step(), once()).ref.execution
    assert forked(bench, origin, last(bench, origin)) is None
    assert bench.state("exe_fork") == ("paused", "parked")
    assert "exe_fork" not in bench.ready()
    bench.signal("exe_fork", "resume")
    assert "exe_fork" in bench.ready()
    assert "exe_fork" in {one.execution for one in bench.lease()}


def test_a_claim_that_was_open_in_the_prefix_is_neither_armed_nor_simulated(bench: Bench) -> None:
    held = bench.begun(once(rules=SIMULATING))
    forked(bench, held.execution, last(bench, held.execution))
    row = bench.task("exe_fork")
    assert (row["state"], row["doubt"], row["tool"]) == ("uncertain", 1, "post")
    assert bench.lease(worker="wrk_2", lanes=(*SIMULATION, Lane(AGENT, "post"))) == []


def test_an_equal_call_past_an_unknown_one_of_the_prefix_is_held(bench: Bench) -> None:
    held = bench.uncertain()
    mine = forked(bench, held.execution, last(bench, held.execution))
    assert mine is not None
    bench.record(mine, once("second"))
    bench.signal("exe_fork", "resume")
    assert bench.lease(worker="wrk_2") == []


def test_a_ruling_to_run_it_again_was_the_origins_and_arms_nothing_in_the_fork(bench: Bench) -> None:
    held = bench.uncertain()
    bench.clock.advance(60)
    bench.do(rule, Rule("default", held.execution, held.address, "run", "ann", "I looked", None))
    forked(bench, held.execution, last(bench, held.execution))
    assert bench.task("exe_fork")["state"] == "uncertain"


def test_a_ruling_of_the_prefix_stays_what_it_was(bench: Bench) -> None:
    held = bench.uncertain()
    bench.do(rule, Rule("default", held.execution, held.address, "happened", "ann", "I looked", "receipt"))
    forked(bench, held.execution, last(bench, held.execution))
    assert bench.task("exe_fork")["state"] == "done"
    assert bench.kinds("exe_fork").count("task_uncertain") == 1


def test_a_call_that_was_approved_in_the_fork_itself_needs_no_second_word(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, ask())
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.record(held, task(approval="tool/approval"))
    assert bench.state("exe_fork")[0] == "running"
    assert [one.execution for one in bench.lease()] == ["exe_fork"]


def test_a_call_in_a_fork_that_is_not_what_was_approved_is_not_made(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, ask())
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.record(held, task(approval="tool/approval", args={"n": 2}))
    assert bench.kinds("exe_fork")[-1] == "task_failed"
    assert bench.lease() == []


def test_each_step_that_holds_a_fork_is_named(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, task("one"), task("two"))
    assert [event.address for event in bench.log("exe_fork") if event.kind == "paused"] == ["one", "two"]


def test_a_simulation_of_a_fork_is_one_in_a_fork_of_it(bench: Bench) -> None:
    held = forked(bench, bench.waiting(step()).ref.execution, 2)
    assert held is not None
    bench.record(held, once(rules=SIMULATING))
    [given] = bench.lease(lanes=SIMULATION)
    again = Fork("exe_twice", "default", "exe_fork", last(bench, "exe_fork"), ForkEdits(), "ann")
    bench.report(given, value="as if")
    assert isinstance(bench.do(fork, again), Started)
    [found] = effects(bench, execution="exe_twice")
    assert (found.outcome, found.simulated, found.value) == ("simulated", True, "as if")
