"""Any part of a log, continued, equals running through: the same is asked for, seen and done, whatever died between."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_journal import MemoryLog
from perdure.core.events import ASKED, Event, Kind
from programs import Op, Program, again, asked, cuts, in_virtual_time, live, what

SINGLE = st.sampled_from([("step",), ("step",), ("task",), ("task",), ("ask",), ("sleep",), ("look",)])


def _gathers(inner: st.SearchStrategy[Op]) -> st.SearchStrategy[Op]:
    branches = st.lists(st.lists(inner, min_size=1, max_size=2), min_size=2, max_size=3)
    return branches.map(lambda given: ("gather", *given))


OPS = st.lists(st.recursive(SINGLE, _gathers, max_leaves=6), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32)


def run_live(ops: list[Op], seed: int) -> tuple[MemoryLog, list[str]]:
    """Half of the seeds show the code its own steps before the log has them: nobody may see a difference."""
    program = Program(ops)
    return in_virtual_time(lambda: live(program, seed, previews=seed % 2 == 0)), program.began


def run_again(ops: list[Op], then: MemoryLog, cut: int) -> tuple[list[Event], list[str]]:
    program = Program(ops)
    return in_virtual_time(lambda: again(program, then, cut, previews=cut % 2 == 0)).events, program.began


@settings(max_examples=60)
@given(OPS, SEEDS)
def test_every_part_of_a_log_continued_equals_running_through(ops: list[Op], seed: int) -> None:
    then, _ = run_live(ops, seed)
    events = then.events
    assert events[-1].kind in (Kind.COMPLETED, Kind.CANCELLED), events[-1]
    for cut in cuts(then):
        found, began = run_again(ops, then, cut)
        assert what(found) == what(events), f"from event {cut}"
        recorded = {event.address for event in events[:cut] if event.kind is Kind.STEP_RECORDED}
        assert not recorded & set(began), "a recorded step ran again"


@settings(max_examples=60)
@given(OPS, SEEDS, st.data())
def test_any_part_of_a_log_goes_on_to_an_end_that_its_own_log_leads_to(ops: list[Op], seed: int, data: Any) -> None:
    """Wherever it was cut, and whatever happens then: nothing recorded changes, is lost or runs again."""
    then, _ = run_live(ops, seed)
    cut = data.draw(st.integers(1, len(then.events)), label="cut")
    past = then.events[:cut]
    program = Program(ops)
    if past[-1].kind in (Kind.COMPLETED, Kind.CANCELLED):
        return
    found = in_virtual_time(lambda: live(program, seed + 1, past, previews=cut % 2 == 0))
    assert found.events[:cut] == past
    assert not {event.address for event in past if event.kind is Kind.STEP_RECORDED} & set(program.began)
    assert len(asked(found.events)) == len(set(asked(found.events)))
    again, began = run_again(ops, found, len(found.events) - 1)
    assert again[-1] == found.events[-1]
    assert found.events[-1].kind is Kind.CANCELLED or not began


@settings(max_examples=60)
@given(OPS, SEEDS)
def test_a_step_runs_once_for_each_holder_and_is_recorded_once(ops: list[Op], seed: int) -> None:
    then, began = run_live(ops, seed)
    events = then.events
    assert len(asked(events)) == len(set(asked(events)))
    takeovers = sum(event.kind is Kind.TAKEN_OVER for event in events)
    for address in set(began):
        assert began.count(address) <= 1 + takeovers
    if events[-1].kind is Kind.COMPLETED:
        told = str(events[-1].data["output"]["seen"]).count("'message'")
        assert told == sum(event.kind is Kind.MESSAGE for event in events), "it ended over a message"
        assert {event.address for event in events if event.kind is Kind.STEP_RECORDED} == set(began)


def test_the_programs_are_shown_too_much_now_and_then() -> None:
    """Else the properties above say nothing about what becomes of such a run."""
    ops: list[Any] = [("step",), ("task",), ("step",)]
    assert sum(run_live(ops, seed)[0].overtaken for seed in range(0, 60, 2)) > 5


def test_the_programs_reach_every_kind_of_event() -> None:
    """What they do not reach, the properties above say nothing about."""
    ops: list[Any] = [("gather", [("task",), ("look",)], [("ask",), ("step",)], [("sleep",), ("task",)]), ("look",)]
    reached = {event.kind for seed in range(60) for event in run_live(ops, seed)[0].events}
    expected = {Kind.MESSAGE, Kind.STOP_REQUESTED, Kind.CANCEL_REQUESTED, Kind.PAUSED, Kind.RESUMED, Kind.TAKEN_OVER}
    children = {Kind.CHILD_STARTED}  # asked for by users' functions only
    assert (ASKED - children) | expected | {Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED, Kind.TASK_FAILED} <= reached
