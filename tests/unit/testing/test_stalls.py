"""How long an execution stood still that nobody kept waiting, as the crash runs count it."""

from __future__ import annotations

from crash_stalls import longest_stall
from perdure.testing.evidence import Event, History


def history(*events: tuple[str, int]) -> History:
    return History("exe_1", "running", tuple(Event(n, kind, "", {}, at) for n, (kind, at) in enumerate(events, 1)))


def test_a_gap_that_the_system_ends_counts() -> None:
    stall = longest_stall([history(("started", 0), ("step_recorded", 30), ("task_completed", 90))], [])
    assert (stall.ms, stall.seq) == (60, 3)


def test_of_a_gap_in_which_something_befell_it_the_part_after_that_counts() -> None:
    log = history(("started", 0), ("taken_over", 100))
    assert longest_stall([log], [10, 70, 200]).ms == 30


def test_a_wait_for_a_person_and_a_pause_between_tries_do_not_count() -> None:
    log = history(("started", 0), ("waitpoint_opened", 1), ("waitpoint_resolved", 500), ("attempt_failed", 501))
    log = History(log.id, log.state, (*log.events, Event(5, "task_completed", "", {}, 900)))
    assert longest_stall([log], []).ms == 1
