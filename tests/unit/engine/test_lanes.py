"""Executions of durable functions: given to workers of their company whose build serves them, and to nobody else."""

from __future__ import annotations

from typing import Any

from engine_bench import Bench, ref, step, task
from perdure.core.functions import ClaimRequest, HeldExecution
from perdure.core.work import Answer, FunctionLane
from perdure.engine.claim import Claimed
from perdure.engine.lanes import (
    ClaimLanes,
    ReleaseExecutions,
    RenewExecutions,
    ShrinkOwned,
    claim_lanes,
    release_executions,
    renew_executions,
    shrink_owned,
)
from perdure.engine.park import Park, park
from perdure.engine.signal import Signal, signal
from perdure.engine.start import Start, start
from perdure.engine.sweep import Sweep, expire_owned, take_over

ONBOARD = FunctionLane("onboard", "b1")
LEASE_MS = 30_000


def begun(bench: Bench, *, lane: str = "onboard", company: str = "default", id: str = "") -> str:
    row = bench.new(id=id, company=company)
    bench.clock.advance(0.001)  # who is ready first is claimed first
    bench.do(start, Start(row.id, company, lane, "d", '{"kind":"durable"}', row.input, None, lane=lane))
    return row.id


def wish(
    worker: str = "wrk_1",
    nonce: str = "n1",
    *,
    company: str = "default",
    lanes: tuple[FunctionLane, ...] = (ONBOARD,),
    **options: Any,
) -> ClaimLanes:
    return ClaimLanes(company, ClaimRequest(worker, nonce, lanes, options.pop("slots", 10), LEASE_MS, **options))


def two_owned(bench: Bench) -> list[Claimed]:
    for _ in range(2):
        begun(bench)
    return bench.do(claim_lanes, wish())


def ids(claimed: list[Claimed]) -> list[str]:
    return [one.ref.execution for one in claimed]


def held(one: Claimed) -> HeldExecution:
    return HeldExecution(one.ref.execution, one.fence)


def renew(bench: Bench, *some: HeldExecution, worker: str = "wrk_1", company: str = "default") -> list[Answer]:
    return bench.do(renew_executions, RenewExecutions(company, worker, LEASE_MS, some))


def release(bench: Bench, *some: HeldExecution, worker: str = "wrk_1", company: str = "default") -> list[Answer]:
    return bench.do(release_executions, ReleaseExecutions(company, worker, some))


def test_servers_leave_a_durable_function_to_workers_and_workers_leave_agents_to_servers(bench: Bench) -> None:
    agent, function = bench.started(), begun(bench)
    assert ids(bench.claim()) == [agent]
    assert ids(bench.do(claim_lanes, wish())) == [function]


def test_a_claim_raises_the_fence_and_brings_the_log(bench: Bench) -> None:
    execution = begun(bench)
    [one] = bench.do(claim_lanes, wish())
    assert (one.ref, one.fence, one.state, one.last_seq, one.agent) == (ref(execution), 1, "running", 1, "onboard")
    assert [row["kind"] for row in one.events] == ["started"]
    assert bench.state(execution) == ("running", "owned")
    assert bench.do(claim_lanes, wish(nonce="n2")) == []


def test_a_lost_reply_is_asked_for_again_with_the_same_nonce(bench: Bench) -> None:
    first, second = begun(bench), begun(bench)
    one, again = bench.twice(claim_lanes, wish(slots=1))
    assert ids(one) == ids(again) == [first]
    assert one[0].fence == again[0].fence == 1
    assert [row["seq"] for row in again[0].events] == [1]
    assert ids(bench.do(claim_lanes, wish(nonce="n2"))) == [second]


def test_asking_again_prolongs_what_is_given_again(bench: Bench) -> None:
    begun(bench)
    bench.do(claim_lanes, wish())
    bench.clock.advance(20)
    bench.do(claim_lanes, wish())
    bench.clock.advance(20)
    assert bench.do(expire_owned, Sweep(10)) == 0


def test_the_first_claim_gives_an_execution_its_build_and_other_builds_leave_it(bench: Bench) -> None:
    execution = begun(bench)
    [one] = bench.do(claim_lanes, wish())
    assert bench.execution(execution)["build"] == "b1"
    bench.do(expire_owned, Sweep(10))
    release(bench, held(one))
    newer = FunctionLane("onboard", "b2")
    assert bench.do(claim_lanes, wish("wrk_2", lanes=(newer,))) == []
    both = (newer, ONBOARD)
    assert ids(bench.do(claim_lanes, wish("wrk_2", "n2", lanes=both))) == [execution]
    assert bench.execution(execution)["build"] == "b1"


def test_a_claim_takes_no_more_than_its_slots_over_all_lanes(bench: Bench) -> None:
    for lane in ("onboard", "onboard", "close"):
        begun(bench, lane=lane)
    lanes = (ONBOARD, FunctionLane("close", "b1"))
    assert len(bench.do(claim_lanes, wish(slots=2, lanes=lanes))) == 2
    assert bench.do(claim_lanes, wish(nonce="n2", slots=0, lanes=lanes)) == []
    assert len(bench.do(claim_lanes, wish(nonce="n3", lanes=lanes))) == 1


def test_two_workers_of_one_batch_never_get_the_same(bench: Bench) -> None:
    everything = {begun(bench) for _ in range(5)}
    one, two = bench.together((claim_lanes, wish(slots=3)), (claim_lanes, wish("wrk_2", slots=3)))
    assert (len(one), len(two)) == (3, 2)
    assert {*ids(one), *ids(two)} == everything


def test_another_company_neither_claims_nor_renews_nor_releases(bench: Bench) -> None:
    execution = begun(bench)
    assert bench.do(claim_lanes, wish(company="other")) == []
    [one] = bench.do(claim_lanes, wish())
    assert bench.do(claim_lanes, wish(company="other")) == []
    assert renew(bench, held(one), company="other") == [Answer.LEASE_LOST]
    assert release(bench, held(one), company="other") == [Answer.LEASE_LOST]
    assert bench.do(shrink_owned, ShrinkOwned("other", "wrk_1", 0)) == 0
    assert bench.state(execution) == ("running", "owned")


def test_a_renewal_is_answered_one_by_one(bench: Bench) -> None:
    one, two = two_owned(bench)
    release(bench, held(one))
    assert renew(bench, held(one), held(two)) == [Answer.LEASE_LOST, Answer.ACCEPTED]
    assert renew(bench, held(two), worker="wrk_2") == [Answer.LEASE_LOST]


def test_a_renewed_lease_does_not_run_out_and_a_silent_one_does(bench: Bench) -> None:
    one, two = two_owned(bench)
    bench.clock.advance(20)
    renew(bench, held(two))
    bench.clock.advance(20)
    assert bench.do(expire_owned, Sweep(10)) == 1
    [again] = bench.do(claim_lanes, wish("wrk_2"))
    assert (again.ref, again.fence) == (one.ref, 2)
    assert [row["kind"] for row in again.events] == ["started", "taken_over"]


def test_what_is_released_is_ready_at_once_for_others_and_only_once(bench: Bench) -> None:
    execution = begun(bench)
    [one] = bench.do(claim_lanes, wish())
    assert release(bench, held(one), worker="wrk_2") == [Answer.LEASE_LOST]
    assert release(bench, held(one)) == [Answer.ACCEPTED]
    assert release(bench, held(one)) == [Answer.ALREADY_ACCEPTED]
    assert ids(bench.do(claim_lanes, wish("wrk_2"))) == [execution]
    assert release(bench, held(one)) == [Answer.LEASE_LOST]


def test_a_closed_connection_cuts_leases_short_and_a_renewal_restores_them(bench: Bench) -> None:
    one, _two = two_owned(bench)
    assert bench.do(shrink_owned, ShrinkOwned("default", "wrk_1", 3_000)) == 2
    renew(bench, held(one))
    bench.clock.advance(4)
    assert bench.do(expire_owned, Sweep(10)) == 1


def test_a_new_owner_of_the_file_ends_what_died_with_the_old_one_and_nothing_else(bench: Bench) -> None:
    agent = bench.owned().ref.execution
    far, near = begun(bench), begun(bench)
    bench.do(claim_lanes, wish(slots=1))
    bench.do(claim_lanes, wish("local/wrk_2"))
    bench.do(take_over, Sweep(0))
    owned = {one: bench.state(one)[1] for one in (agent, far, near)}
    assert owned == {agent: "ready", far: "owned", near: "ready"}


def test_a_claim_of_what_was_parked_sends_only_what_its_holder_has_not_seen(bench: Bench) -> None:
    execution = begun(bench)
    [one] = bench.do(claim_lanes, wish())
    bench.record(one, step(), task())
    bench.park(one)
    bench.do(signal, Signal("default", execution, "send", text="hello"))
    [again] = bench.do(claim_lanes, wish(nonce="n2", known={execution: 3}))
    assert [row["kind"] for row in again.events] == ["message"]
    assert again.fence == one.fence + 1


def test_others_leave_what_was_parked_to_its_worker_for_a_moment(bench: Bench) -> None:
    execution = begun(bench)
    [one] = bench.do(claim_lanes, wish())
    bench.record(one, task())
    bench.park(one)
    bench.do(signal, Signal("default", execution, "send", text="hello"))
    assert bench.do(claim_lanes, wish("wrk_2")) == []
    assert ids(bench.do(claim_lanes, wish(nonce="n2"))) == [execution]
    again = bench.execution(execution)
    bench.do(park, Park(ref(execution), again["fence"], again["next_seq"] - 1, 0))
    bench.do(signal, Signal("default", execution, "send", text="again"))
    assert any(note.topic == "ready" and note.after_ms for note in bench.notes)
    bench.clock.advance(0.1)
    assert ids(bench.do(claim_lanes, wish("wrk_2", "n2"))) == [execution]
