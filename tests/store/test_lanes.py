"""Durable functions and forks on both databases: the same text of SQL gives, keeps and copies them alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine_bench import COMPANY, Bench, once, step, task
from perdure.core.functions import ClaimRequest, HeldExecution
from perdure.core.ids import shard_of
from perdure.core.views import ForkEdits, Started
from perdure.core.work import Answer, FunctionLane
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.fork import Fork, fork
from perdure.engine.lanes import (
    ClaimLanes,
    ReleaseExecutions,
    RenewExecutions,
    ShrinkOwned,
    claim_lanes,
    latest_of,
    release_executions,
    renew_executions,
    shrink_owned,
)
from perdure.engine.start import Start, start
from perdure.engine.sweep import Drop, drop
from perdure.store.tx import Tx
from which_store import rows_of

OLD, NEW = FunctionLane("onboard", "b1"), FunctionLane("onboard", "b2")


def begun(bench: Bench) -> str:
    row = bench.new()
    bench.do(start, Start(row.id, COMPANY, "onboard", "d", "{}", row.input, None, lane="onboard"))
    return row.id


def ask(bench: Bench, nonce: str, *lanes: FunctionLane, worker: str = "wrk_1", **options: Any) -> list[Claimed]:
    given = {"slots": 10, **options}
    return bench.do(claim_lanes, ClaimLanes(COMPANY, ClaimRequest(worker, nonce, lanes or (OLD,), **given)))


def test_a_function_is_claimed_once_and_again_by_its_nonce(bench: Bench) -> None:
    execution = begun(bench)
    first, again, other = ask(bench, "n1"), ask(bench, "n1"), ask(bench, "n2")
    assert [one.ref.execution for one in first] == [execution]
    assert [(one.ref, one.fence, one.build) for one in again] == [(first[0].ref, 1, "b1")]
    assert other == []
    assert bench.claim() == []


def test_the_build_that_began_it_is_kept_and_the_only_one_to_go_on(bench: Bench) -> None:
    begun(bench)
    [one] = ask(bench, "n1")
    held = (HeldExecution(one.ref.execution, one.fence),)
    assert bench.do(release_executions, ReleaseExecutions(COMPANY, "wrk_1", held)) == [Answer.ACCEPTED]
    assert ask(bench, "n2", NEW, worker="wrk_2") == []
    [again] = ask(bench, "n3", NEW, OLD, worker="wrk_2")
    assert (again.fence, again.build) == (2, "b1")
    assert bench.do(release_executions, ReleaseExecutions(COMPANY, "wrk_1", held)) == [Answer.LEASE_LOST]


def claimed_after(bench: Bench, operation: Any, row: Any, meanwhile: Callable[[], object]) -> list[Claimed]:
    """Claim, with something done by others between the look for candidates and their lock."""
    with bench.store.write() as connection:
        tx = Tx(connection)
        steps = operation.apply(tx, [row])
        found = list(next(steps))
        assert len(found) == 1
        meanwhile()
        tx.lock(found)
        try:
            next(steps)
        except StopIteration as end:
            tx.flush()
            return end.value[0]
    raise AssertionError("it yielded twice")


def test_what_another_build_began_since_it_was_found_is_not_given(servers: tuple[Bench, Bench]) -> None:
    """A worker that was given it would not know the code, and stick it."""
    first, second = servers
    execution = begun(first)

    def claim_and_let_go() -> None:
        [one] = ask(second, "n2", NEW, worker="wrk_2")
        second.do(release_executions, ReleaseExecutions(COMPANY, "wrk_2", (HeldExecution(execution, one.fence),)))

    row = ClaimLanes(COMPANY, ClaimRequest("wrk_1", "n1", (OLD,), 10))
    assert claimed_after(first, claim_lanes, row, claim_and_let_go) == []
    [again] = ask(second, "n3", NEW, worker="wrk_2")
    assert (again.ref.execution, again.build) == (execution, "b2")


def test_what_became_of_a_newer_format_since_it_was_found_is_not_given(
    servers: tuple[Bench, Bench], store_database: str
) -> None:
    first, _ = servers
    execution = first.started()
    newer = "UPDATE executions SET log_format = 99"
    assert claimed_after(first, claim, Claim("srv_1", 10, 30_000), lambda: rows_of(store_database, newer)) == []
    assert first.state(execution) == ("ready", "ready")


def claiming(durable: bool, holder: str) -> tuple[Any, Any]:
    """Return how a server claims agents, or a worker its functions, under a name that asks once."""
    if durable:
        return claim_lanes, ClaimLanes(COMPANY, ClaimRequest(holder, "n1", (OLD,), 10))
    return claim, Claim(holder, 10, 30_000)


EITHER = pytest.mark.parametrize("durable", [False, True], ids=["agent", "function"])


@EITHER
def test_what_was_abandoned_since_it_was_found_is_taken_over(servers: tuple[Bench, Bench], durable: bool) -> None:
    first, second = servers
    execution = begun(first) if durable else first.started()

    def claim_and_fall() -> None:
        assert len(second.do(*claiming(durable, "two"))) == 1
        second.do(drop, Drop("two"))

    [one] = claimed_after(first, *claiming(durable, "one"), claim_and_fall)
    assert one.fence == 2
    assert first.kinds(execution) == ["started", "taken_over"]


@EITHER
def test_what_was_let_go_of_since_it_was_found_is_not_taken_over(servers: tuple[Bench, Bench], durable: bool) -> None:
    first, second = servers
    execution = begun(first) if durable else first.started()
    assert len(first.do(*claiming(durable, "one"))) == 1
    first.do(drop, Drop("one"))

    def take_over_and_park() -> None:
        [one] = second.do(*claiming(durable, "two"))
        second.park(one)
        second.signal(execution, "send", text="go on")

    [one] = claimed_after(first, *claiming(durable, "three"), take_over_and_park)
    assert one.fence == 3
    assert first.kinds(execution) == ["started", "taken_over", "message"]


def test_leases_are_renewed_cut_short_and_watched(bench: Bench) -> None:
    execution = begun(bench)
    [one] = ask(bench, "n1")
    held = (HeldExecution(execution, one.fence), HeldExecution(execution, one.fence + 1))
    renewal = RenewExecutions(COMPANY, "wrk_1", 60_000, held)
    assert bench.do(renew_executions, renewal) == [Answer.ACCEPTED, Answer.LEASE_LOST]
    assert bench.do(shrink_owned, ShrinkOwned(COMPANY, "wrk_1", 10)) == 1
    bench.record(one, step())
    wanted = {execution: shard_of(execution)}
    assert bench.read(lambda reads: latest_of(reads, COMPANY, wanted)) == {execution: 2}
    assert bench.read(lambda reads: latest_of(reads, "other", wanted)) == {}


def test_a_fork_is_made_and_takes_the_origins_result(bench: Bench) -> None:
    origin = bench.waiting(step(), once()).ref.execution
    [held] = bench.lease()
    bench.begin(held)
    bench.report(held, value="did it")
    made = bench.do(fork, Fork("exe_fork", COMPANY, origin, 2, ForkEdits(prompt="other"), "ann"))
    assert made == Started("exe_fork", created=True)
    mine = next(one for one in bench.claim() if one.ref.execution == "exe_fork")
    bench.record(mine, once())
    assert bench.log("exe_fork")[-1].data["value"] == "did it"
    bench.record(mine, task("new"))
    assert bench.execution("exe_fork")["state"] == "paused"
    assert bench.execution("exe_fork")["origin"] == origin
