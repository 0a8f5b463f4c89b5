"""Users' functions: any part of a log, continued, equals running through; no address depends on time or crashes."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durable_programs import DurableProgram, addresses, in_durable_time
from memory_journal import MemoryLog
from perdure.core.events import Event, Kind
from programs import Op, again, asked, cuts, live, what

PLAIN = st.sampled_from([("step",), ("step",), ("token",), ("sleep",), ("signal",), ("now",), ("patched",)])
WITH_IO = st.sampled_from([("step",), ("step",), ("token",), ("sleep",), ("now",), ("io",), ("io",)])
SEEDS = st.integers(0, 2**32)
JOINS = ("gather", "group", "bounded")
RACES = ("first", "completed", "timeout")


def ops(single: st.SearchStrategy[Op], kinds: tuple[str, ...]) -> st.SearchStrategy[list[Op]]:
    def together(inner: st.SearchStrategy[Op]) -> st.SearchStrategy[Op]:
        branches = st.lists(st.lists(inner, min_size=1, max_size=2), min_size=2, max_size=3)
        return st.tuples(st.sampled_from(kinds), branches).map(lambda given: (given[0], *given[1]))

    return st.lists(st.recursive(single, together, max_leaves=6), min_size=1, max_size=4)


def run_live(program: list[Op], seed: int) -> tuple[MemoryLog, list[str]]:
    made = DurableProgram(program)
    return in_durable_time(lambda: live(made, seed)), made.began


def run_again(program: list[Op], then: MemoryLog, cut: int) -> tuple[list[Event], list[str]]:
    made = DurableProgram(program)
    return in_durable_time(lambda: again(made, then, cut)).events, made.began


@settings(max_examples=80)
@given(ops(PLAIN, JOINS + RACES), SEEDS)
def test_every_part_of_a_log_continued_equals_running_through(program: list[Op], seed: int) -> None:
    then, _ = run_live(program, seed)
    events = then.events
    assert events[-1].kind in (Kind.COMPLETED, Kind.CANCELLED), events[-1]
    for cut in cuts(then):
        found, began = run_again(program, then, cut)
        assert what(found) == what(events), f"from event {cut}"
        recorded = {event.address for event in events[:cut] if event.kind is Kind.STEP_RECORDED}
        assert not recorded & set(began), "a recorded step ran again"


@settings(max_examples=80)
@given(ops(PLAIN, JOINS + RACES), SEEDS)
def test_running_again_from_the_whole_log_sees_the_same_in_the_same_order(program: list[Op], seed: int) -> None:
    then, _ = run_live(program, seed)
    found, began = run_again(program, then, len(then.events) - 1)
    assert found[-1].data == then.events[-1].data
    assert then.events[-1].kind is Kind.CANCELLED or not began


@settings(max_examples=80)
@given(ops(WITH_IO, JOINS + RACES), SEEDS, st.data())
def test_with_real_io_in_between_nothing_recorded_changes(program: list[Op], seed: int, data: Any) -> None:
    made = DurableProgram(program, io=random.Random(seed), keep_order=False)
    then = in_durable_time(lambda: live(made, seed))
    cut = data.draw(st.integers(1, len(then.events)), label="cut")
    past = then.events[:cut]
    assert then.events[-1].kind in (Kind.COMPLETED, Kind.CANCELLED), then.events[-1]
    if past[-1].kind in (Kind.COMPLETED, Kind.CANCELLED):
        return
    other = DurableProgram(program, io=random.Random(seed + 1), keep_order=False)
    found = in_durable_time(lambda: live(other, seed + 1, past))
    assert found.events[:cut] == past
    assert found.events[-1].kind in (Kind.COMPLETED, Kind.CANCELLED), found.events[-1]
    assert not {event.address for event in past if event.kind is Kind.STEP_RECORDED} & set(other.began)
    assert len(asked(found.events)) == len(set(asked(found.events)))
    last = DurableProgram(program, io=random.Random(seed + 2), keep_order=False)
    again_ = in_durable_time(lambda: live(last, seed + 2, found.events[:-1]))
    if found.events[-1].kind is Kind.COMPLETED and again_.events[-1].kind is Kind.COMPLETED:
        assert again_.events[-1].data == found.events[-1].data
        assert not last.began


@settings(max_examples=200)
@given(ops(WITH_IO, JOINS), SEEDS, st.data())
def test_whatever_part_of_it_was_done_the_rest_has_the_same_addresses(program: list[Op], seed: int, data: Any) -> None:
    made = DurableProgram(program, io=random.Random(seed), slow=0.3)
    then = in_durable_time(lambda: live(made, seed))
    past = then.events[: data.draw(st.integers(1, len(then.events)), label="cut")]
    if then.events[-1].kind is not Kind.COMPLETED or past[-1].kind is Kind.COMPLETED:
        return
    other = DurableProgram(program, io=random.Random(seed + 1))
    found = in_durable_time(lambda: live(other, seed + 1, past))
    if found.events[-1].kind is not Kind.CANCELLED:
        assert addresses(found) == addresses(then)


@settings(max_examples=150)
@given(ops(st.sampled_from([("once",), ("once",), ("step",), ("sleep",), ("io",)]), JOINS + RACES), SEEDS)
def test_a_claimed_body_starts_once_for_each_claim_and_every_claim_ends(program: list[Op], seed: int) -> None:
    made = DurableProgram(program, io=random.Random(seed))
    log = in_durable_time(lambda: live(made, seed))
    rulings = [event.address for event in log.events if event.data.get("ruling") == "run"]
    for address in set(made.acted):
        begun = [event for event in log.events if event.kind is Kind.TASK_BEGUN and event.address == address]
        assert made.acted.count(address) <= len(begun) <= 1 + rulings.count(address)
    if log.events[-1].kind is Kind.COMPLETED:
        latest = {event.address: event.kind for event in log.events if event.address in made.acted}
        assert Kind.TASK_BEGUN not in latest.values()
        assert Kind.TASK_UNCERTAIN not in latest.values()


def test_the_programs_reach_every_kind_of_event() -> None:
    """What they do not reach, the properties above say nothing about."""
    program: list[Any] = [
        ("gather", [("token",), ("signal",)], [("sleep",), ("step",)]),
        ("first", [("step",)], [("sleep",)]),
        ("timeout", [("token",)], [("step",)]),
        ("patched",),
    ]
    reached = {event.kind for seed in range(300) for event in run_live(program, seed)[0].events}
    expected = {Kind.STEP_RECORDED, Kind.WAIT_OPENED, Kind.WAIT_RESOLVED, Kind.SIGNAL, Kind.TIMER_SET, Kind.TIMER_FIRED}
    assert expected | {Kind.CANCEL_REQUESTED, Kind.PAUSED, Kind.RESUMED, Kind.TAKEN_OVER} <= reached
