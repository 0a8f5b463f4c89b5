"""What nobody reports is noticed: once, never early, and without guessing."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import HOLDER, WORKER, Bench, completion, once, request, step, task
from perdure.core.items import ScheduleTask, SetTimer
from perdure.core.work import Answer
from perdure.engine.complete import complete
from perdure.engine.park import Finish, Park, Released, finish, park
from perdure.engine.signal import signal
from perdure.engine.sweep import (
    Drop,
    Renew,
    Sweep,
    drop,
    expire_owned,
    expire_tasks,
    fire_timers,
    renew,
    take_over,
)
from perdure.errors import LeaseLost


def test_a_task_that_kills_its_workers_is_given_up_after_its_attempts(bench: Bench) -> None:
    bench.waiting(task())
    for attempt in (1, 2, 3):
        [held] = bench.lease(f"wrk_{attempt}")
        assert held.attempt == attempt
        assert bench.expire(31) == 1
    assert bench.lease() == []
    assert bench.task(held.execution)["state"] == "dead"
    last = bench.last(held.execution)
    assert (last.kind, last.data["code"], last.data["attempt"]) == ("task_failed", "lease_expired", 3)


@pytest.mark.parametrize(("item", "held_by"), [(task(), WORKER), (once(), None)])
def test_a_silent_workers_task_goes_back_with_the_same_fence(
    bench: Bench, item: ScheduleTask, held_by: str | None
) -> None:
    """What had perhaps begun may still be reported by who held it; what surely had not may not."""
    held = bench.leased(item)
    assert bench.expire(30) == 0
    assert bench.expire(0.001) == 1
    row = bench.task(held.execution)
    assert (row["state"], row["fence"], row["worker"]) == ("ready", held.fence, held_by)
    assert bench.last(held.execution).kind == "attempt_lost"


def test_an_effect_that_never_began_goes_back_however_often(bench: Bench) -> None:
    bench.waiting(once())
    for _ in range(4):
        [held] = bench.lease()
        bench.expire(31)
    [held] = bench.lease()
    assert bench.begin(held) is Answer.ACCEPTED


def test_a_begun_effect_is_uncertain_and_never_given_out_again(bench: Bench) -> None:
    held = bench.begun()
    assert bench.expire(31) == 1
    assert bench.task(held.execution)["state"] == "uncertain"
    assert bench.expire(10_000) == 0
    assert bench.lease("wrk_2") == []
    assert bench.kinds(held.execution).count("task_uncertain") == 1


def test_expiry_raises_no_fence_so_the_holder_of_a_claim_may_report(bench: Bench) -> None:
    held = bench.begun()
    bench.expire(31)
    assert bench.task(held.execution)["fence"] == held.fence
    assert bench.report(held, value=1) is Answer.ACCEPTED


def test_a_lease_that_ends_under_cancel_is_no_retry(bench: Bench) -> None:
    held = bench.leased()
    bench.signal(held.execution, "cancel")
    bench.expire(31)
    assert bench.task(held.execution)["state"] == "dead"


def test_a_lease_that_ends_after_the_execution_touches_only_the_task(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, task("a"), once("b"))
    _, effect = bench.lease()
    bench.begin(effect)
    bench.do(finish, Finish(owner.ref, owner.fence, 4, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    assert bench.expire(31) == 2
    states = [bench.task(effect.execution, address)["state"] for address in ("a", "b")]
    assert states == ["dead", "uncertain"]
    assert bench.last(effect.execution).kind == "failed"


def test_a_sweep_is_bounded_and_a_full_one_says_so(bench: Bench) -> None:
    bench.waiting(*(task(str(i)) for i in range(3)))
    bench.lease()
    bench.clock.advance(31)
    assert bench.together((expire_tasks, Sweep(1)), (expire_tasks, Sweep(1))) == [2, 0]
    assert bench.do(expire_tasks, Sweep(10)) == 1


def test_a_report_in_the_batch_of_the_sweep_counts(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.begun()
        bench.clock.advance(31)
        rows: list[Any] = [(complete, completion(held, value=1)), (expire_tasks, Sweep(10))]
        bench.together(*rows[::order])
        assert bench.task(held.execution)["state"] == "done"


def test_a_timer_fires_once_and_never_early(bench: Bench) -> None:
    held = bench.waiting(SetTimer("t", "d", 5_000))
    bench.clock.advance(4.999)
    assert bench.do(fire_timers, Sweep(10)) == 0
    bench.clock.advance(0.001)
    assert bench.twice(fire_timers, Sweep(10)) == (1, 0)
    assert bench.kinds(held.ref.execution).count("timer_fired") == 1
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_a_wall_clock_set_back_fires_no_timer_early_and_keeps_none_back(bench: Bench) -> None:
    bench.waiting(SetTimer("t", "d", 5_000))
    bench.clock.step_wall(-3_600)
    assert bench.do(fire_timers, Sweep(10)) == 0
    bench.clock.advance(5)
    assert bench.do(fire_timers, Sweep(10)) == 1


def test_a_timer_of_a_paused_execution_is_recorded_and_waits(bench: Bench) -> None:
    held = bench.waiting(SetTimer("t", "d", 5_000))
    bench.signal(held.ref.execution, "pause")
    bench.clock.advance(5)
    bench.do(fire_timers, Sweep(10))
    assert bench.last(held.ref.execution).kind == "timer_fired"
    assert bench.state(held.ref.execution) == ("paused", "parked")


def test_a_timer_of_an_ended_execution_is_gone(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, SetTimer("t", "d", 5_000))
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "complete", '{"output":{}}'))
    bench.clock.advance(5)
    bench.do(fire_timers, Sweep(10))
    assert bench.last(held.ref.execution).kind == "completed"
    assert bench.do(fire_timers, Sweep(10)) == 0


def test_sweeps_of_one_batch_fire_each_timer_once(bench: Bench) -> None:
    held = bench.waiting(SetTimer("t", "d", 1))
    bench.clock.advance(1)
    assert sum(bench.together((fire_timers, Sweep(10)), (fire_timers, Sweep(10)))) == 1
    assert bench.kinds(held.ref.execution).count("timer_fired") == 1


def test_a_holder_keeps_what_it_renews(bench: Bench) -> None:
    held = bench.owned()
    other = bench.owned()
    bench.clock.advance(20)
    assert bench.do(renew, Renew(HOLDER, 30_000)) == {held.ref.execution: 1, other.ref.execution: 1}
    assert bench.do(renew, Renew("srv_2", 30_000)) == {}
    bench.clock.advance(20)
    assert bench.do(expire_owned, Sweep(10)) == 0


def test_a_renewal_prolongs_no_lease_of_another_holder(bench: Bench) -> None:
    held = bench.owned()
    bench.clock.advance(20)
    bench.do(renew, Renew("srv_2", 30_000))
    bench.clock.advance(10.001)
    assert bench.do(expire_owned, Sweep(10)) == 1, "a dead holder's execution would never be anybody else's"
    assert bench.state(held.ref.execution) == ("running", "ready")


def test_a_silent_holders_execution_is_ready_under_the_same_fence(bench: Bench) -> None:
    held = bench.owned()
    bench.clock.advance(30)
    assert bench.do(expire_owned, Sweep(10)) == 0
    bench.clock.advance(0.001)
    assert bench.twice(expire_owned, Sweep(10)) == (1, 0)
    assert bench.execution(held.ref.execution)["fence"] == held.fence
    assert bench.state(held.ref.execution) == ("running", "ready")
    assert "taken_over" not in bench.kinds(held.ref.execution), "only the next claim says so"


def test_a_renewal_in_the_batch_of_a_sweep_is_not_contradicted(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.owned()
        bench.clock.advance(31)
        rows: list[Any] = [(renew, Renew(HOLDER, 30_000)), (expire_owned, Sweep(10))]
        answers = dict(zip(("renew", "sweep")[::order], bench.together(*rows[::order]), strict=True))
        still = held.ref.execution in answers["renew"]
        assert still == (bench.state(held.ref.execution)[1] == "owned")


def test_a_park_in_the_batch_of_a_sweep_is_no_takeover(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task())
    bench.clock.advance(31)
    parked, _ = bench.together((park, Park(held.ref, held.fence, 2, 0)), (expire_owned, Sweep(10)))
    assert parked == Released()
    assert bench.state(held.ref.execution) == ("waiting", "parked")


def test_a_holder_that_leaves_gives_back_all_or_what_it_names(bench: Bench) -> None:
    first, second, third = bench.owned(), bench.owned(), bench.owned()
    assert bench.do(drop, Drop(HOLDER, (second.ref.execution,))) == 1
    assert bench.ready() == [second.ref.execution]
    assert bench.together((drop, Drop(HOLDER)), (drop, Drop("srv_2"))) == [2, 0]
    assert {first.ref.execution, third.ref.execution} < set(bench.ready())


def test_a_holder_that_leaves_twice_in_one_batch_leaves_once(bench: Bench) -> None:
    running, paused = bench.owned(), bench.owned()
    bench.signal(paused.ref.execution, "pause")
    bench.together((drop, Drop(HOLDER)), (drop, Drop(HOLDER)))
    assert bench.ready() == [running.ref.execution]
    assert bench.kinds(paused.ref.execution).count("taken_over") == 1
    assert bench.execution(paused.ref.execution)["fence"] == paused.fence + 1


def test_a_paused_execution_whose_holder_fell_silent_shuts_it_out(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "pause")
    bench.clock.advance(31)
    bench.do(expire_owned, Sweep(10))
    assert bench.state(held.ref.execution) == ("paused", "parked")
    assert bench.last(held.ref.execution).kind == "taken_over"
    assert isinstance(bench.record(held, step()), LeaseLost)
    bench.signal(held.ref.execution, "resume")
    [again] = bench.claim()
    assert bench.kinds(held.ref.execution) == ["started", "paused", "taken_over", "resumed"]
    assert again.fence == 3


def test_a_pause_of_what_was_abandoned_keeps_the_takeover(bench: Bench) -> None:
    """The step in flight may have run, whenever somebody goes on with it."""
    held = bench.owned()
    bench.clock.advance(31)
    bench.do(expire_owned, Sweep(10))
    bench.signal(held.ref.execution, "pause")
    bench.signal(held.ref.execution, "resume")
    bench.claim(holder="srv_2")
    assert bench.kinds(held.ref.execution).count("taken_over") == 1
    assert isinstance(bench.record(held, step()), LeaseLost)


def test_a_cancel_of_what_was_abandoned_keeps_the_takeover(bench: Bench) -> None:
    held = bench.owned()
    bench.do(drop, Drop(HOLDER))
    bench.signal(held.ref.execution, "cancel")
    [again] = bench.claim(holder="srv_2")
    assert again.state == "cancelling"
    assert bench.kinds(held.ref.execution) == ["started", "cancel_requested", "taken_over"]


def test_a_new_owner_of_the_file_ends_what_the_former_one_held_itself(bench: Bench) -> None:
    owned = bench.owned()
    bench.waiting(task("a"), once("b"))
    a, b = sorted(bench.lease("local/1"), key=lambda one: one.address)
    bench.begin(b)
    remote = bench.leased(worker="wrk_1")
    assert bench.do(take_over, Sweep(0)) == 3
    assert [bench.task(a.execution, one)["state"] for one in ("a", "b")] == ["ready", "uncertain"]
    assert bench.task(remote.execution)["state"] == "leased", "it lives elsewhere"
    assert bench.state(owned.ref.execution) == ("running", "ready")
    bench.claim()
    assert bench.last(owned.ref.execution).kind == "taken_over"


def test_a_cancel_in_the_batch_of_a_sweep_leaves_nothing_to_lease(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.leased()
        bench.clock.advance(31)
        rows: list[Any] = [(expire_tasks, Sweep(10)), (signal, request(held.execution, "cancel"))]
        bench.together(*rows[::order])
        assert bench.lease() == []
        bench.expire(31)
        bench.claim()
