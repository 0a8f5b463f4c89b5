"""Claims: one holder at a time, a fence that grows, and everything a run needs."""

from __future__ import annotations

import pytest

from engine_bench import Bench, ask, ref, step, task
from perdure.engine import claim as module
from perdure.engine.claim import Claim, claim
from perdure.engine.signal import Signal, signal
from perdure.engine.sweep import Sweep, expire_owned


def test_a_claim_takes_the_execution_and_raises_the_fence(bench: Bench) -> None:
    execution = bench.started()
    [held] = bench.claim()
    assert (held.ref, held.fence, held.state, held.last_seq) == (ref(execution), 1, "running", 1)
    assert [row["kind"] for row in held.events] == ["started"]
    assert bench.state(execution) == ("running", "owned")
    assert bench.claim() == []


def test_the_longest_ready_is_claimed_first_and_never_more_than_asked(bench: Bench) -> None:
    first, second, third = (bench.started() for _ in range(3) if bench.clock.advance(1) is None)
    assert [one.ref.execution for one in bench.claim(limit=2)] == [first, second]
    assert [one.ref.execution for one in bench.claim(limit=2)] == [third]


def test_claimers_of_one_batch_share_what_is_ready(bench: Bench) -> None:
    ids = {bench.started() for _ in range(5)}
    one, two = bench.together((claim, Claim("a", 3, 1_000)), (claim, Claim("b", 3, 1_000)))
    assert (len(one), len(two)) == (3, 2)
    assert {held.ref.execution for held in [*one, *two]} == ids


def test_a_claim_sends_only_what_its_holder_has_not_seen(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.do(signal, Signal("default", held.ref.execution, "send", text="hello"))
    [again] = bench.do(claim, Claim("srv_1", 1, 1_000, {held.ref.execution: 2}))
    assert [(row["seq"], row["kind"]) for row in again.events] == [(3, "message")]
    assert (again.fence, again.last_seq) == (2, 3)


def test_a_claim_in_the_batch_of_what_woke_it_brings_that_along(bench: Bench) -> None:
    execution = bench.started()
    cancelled, [held] = bench.together(
        (signal, Signal("default", execution, "cancel")), (claim, Claim("srv_1", 1, 1_000))
    )
    assert cancelled == 2
    assert [row["kind"] for row in held.events] == ["started", "cancel_requested"]
    assert (held.state, held.last_seq) == ("cancelling", 2)


def test_a_long_log_comes_with_the_claim_a_page_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_PAGE", 2)
    held = bench.waiting(step("a"), step("b"), ask())
    bench.do(signal, Signal("default", held.ref.execution, "send"))
    [again] = bench.claim()
    assert ([row["seq"] for row in again.events], again.last_seq) == ([1, 2], 5)


def test_of_a_log_of_large_events_a_claim_brings_no_more_than_its_share(bench: Bench) -> None:
    large = f'"{"x" * 200_000}"'
    held = bench.waiting(step("a", large), step("b", large), step("c", large), ask())
    bench.do(signal, Signal("default", held.ref.execution, "send"))
    [again] = bench.claim()
    assert ([row["seq"] for row in again.events], again.last_seq) == ([1, 2, 3], 6)


def test_taking_over_from_a_silent_holder_is_recorded(bench: Bench) -> None:
    first = bench.owned()
    bench.clock.advance(31)
    assert bench.do(expire_owned, Sweep(10)) == 1
    [second] = bench.claim(holder="srv_2")
    assert second.fence == first.fence + 1
    assert bench.last(first.ref.execution).kind == "taken_over"
    assert [row["kind"] for row in second.events] == ["started", "taken_over"]


def test_going_on_after_a_park_is_no_takeover(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.do(signal, Signal("default", held.ref.execution, "send"))
    bench.claim(holder="srv_2")
    assert "taken_over" not in bench.kinds(held.ref.execution)


def test_a_claim_and_a_pause_in_one_batch_leave_nothing_unowned_and_ready(bench: Bench) -> None:
    execution = bench.started()
    [held], _ = bench.together((claim, Claim("srv_1", 1, 1_000)), (signal, Signal("default", execution, "pause")))
    assert held.ref.execution == execution
    assert bench.state(execution) == ("paused", "owned")
    _, second = bench.together(
        (signal, Signal("default", (other := bench.started()), "pause")), (claim, Claim("srv_1", 1, 1_000))
    )
    assert second == []
    assert bench.state(other) == ("paused", "parked")
    assert bench.ready() == []


def test_what_cannot_be_read_stays_ready_and_keeps_nobody_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.engine.start.LOG_FORMAT", 3)
    newer = [bench.started() for _ in range(3)]
    monkeypatch.undo()
    older = bench.started()
    assert [one.ref.execution for one in bench.claim(limit=2)] == [older]
    assert set(bench.ready()) == set(newer)
