"""Each tick of a schedule begins one execution: across restarts, hours without anybody, clocks that are set back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calendar_starts import schedule
from engine_bench import AGENT, COMPANY, Bench, bench_in
from perdure.core.schedules import ScheduleView
from perdure.core.views import Started
from perdure.engine.calendar import latest_ticks
from perdure.engine.due import Sweep
from perdure.engine.park import Finish, finish
from perdure.engine.schedule import (
    LATE_MS,
    ChangeSchedule,
    change_schedule,
    fire_schedules,
    make_schedule,
    schedule_view,
    schedules_view,
)
from perdure.errors import Conflict, NotFound

HOUR = 3600


def change(verb: Any, **options: Any) -> ChangeSchedule:
    return ChangeSchedule(COMPANY, "nightly", verb, **options)


def fire(bench: Bench) -> int:
    """Sweep until nothing is due; return how many executions were begun."""
    before = len(bench.ready())
    for _ in range(1_000):
        if not bench.do(fire_schedules, Sweep(10)):
            return len(bench.ready()) - before
    raise AssertionError("there is always something due")


def test_each_tick_begins_one_execution_with_the_input(bench: Bench) -> None:
    assert bench.do(make_schedule, schedule()) is None
    assert fire(bench) == 0
    begun = []
    for _ in range(5):
        bench.clock.advance(HOUR)
        begun.append(fire(bench))
        assert fire(bench) == 0
    assert begun == [1] * 5
    assert bench.log(bench.ready()[0])[0].data["input"] == {"day": 1}


def test_a_tick_is_never_early(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    [view] = bench.read(lambda reads: schedules_view(reads, COMPANY))
    assert view.next_ms is not None
    bench.clock.advance((view.next_ms - 1 - bench.clock.wall_ms()) / 1000)
    assert fire(bench) == 0
    bench.clock.advance(0.001)
    assert fire(bench) == 1


@pytest.mark.parametrize(("missed", "begun"), [("skip", 0), ("one", 1), ("all", 12)])
def test_after_twelve_hours_down_ticks_are_made_up_for_by_the_rule(tmp_path: Path, missed: str, begun: int) -> None:
    """The process is gone for twelve hours; the next one opens the file."""
    with bench_in(tmp_path) as bench:
        bench.do(make_schedule, schedule(missed=missed))
        [view] = bench.read(lambda reads: schedules_view(reads, COMPANY))
        now_ms = bench.clock.wall_ms()
    with bench_in(tmp_path) as bench:
        bench.clock.advance((now_ms - bench.clock.wall_ms()) / 1000 + 12 * HOUR)
        first = view.next_ms
        assert first is not None
        due = latest_ticks("0 * * * *", "UTC", first, bench.clock.wall_ms(), 100)
        assert len(due) == 12
        assert bench.clock.wall_ms() - due[-1] > LATE_MS
        assert fire(bench) == begun
        assert fire(bench) == 0
        bench.clock.advance((due[-1] + HOUR * 1000 - bench.clock.wall_ms()) / 1000)
        assert fire(bench) == 1


def test_all_that_was_missed_is_bounded_and_the_latest_count(bench: Bench) -> None:
    bench.do(make_schedule, schedule(missed="all", cron="* * * * *"))
    bench.clock.advance(12 * HOUR)
    assert fire(bench) == 100
    [view] = bench.read(lambda reads: schedules_view(reads, COMPANY))
    assert view.last_tick_ms is not None
    assert bench.clock.wall_ms() - view.last_tick_ms < 60_000


def test_a_tick_that_is_a_little_late_is_not_missed(bench: Bench) -> None:
    bench.do(make_schedule, schedule(missed="skip"))
    [view] = bench.read(lambda reads: schedules_view(reads, COMPANY))
    assert view.next_ms is not None
    bench.clock.advance((view.next_ms + LATE_MS - bench.clock.wall_ms()) / 1000)
    assert fire(bench) == 1


def test_a_clock_that_is_set_back_begins_nothing_twice_and_skips_nothing(bench: Bench) -> None:
    bench.do(make_schedule, schedule(missed="all"))
    begun = 0
    for _ in range(8):
        bench.clock.advance(HOUR)
        begun += fire(bench)
        bench.clock.step_wall(-1_800)
        begun += fire(bench)
    assert begun == 8


def test_two_passes_in_one_batch_and_a_lost_answer_begin_it_once(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    bench.clock.advance(HOUR)
    bench.together((fire_schedules, Sweep(10)), (fire_schedules, Sweep(10)))
    bench.twice(fire_schedules, Sweep(10))
    assert len(bench.ready()) == 1


def test_a_tick_that_was_begun_is_not_begun_again_by_a_schedule_made_anew(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    bench.clock.advance(HOUR)
    assert fire(bench) == 1
    row = bench.row("schedule", company=COMPANY, name="nightly")
    assert row is not None
    with bench.store.write() as connection:
        scope = {"company": COMPANY, "name": "nightly"}
        connection.run("pause_schedule", **scope, paused=0, next_ms=row["last_tick_ms"])
    assert fire(bench) == 0


def test_a_paused_one_begins_nothing_and_misses_nothing(bench: Bench) -> None:
    bench.do(make_schedule, schedule(missed="all"))
    bench.do(change_schedule, change("pause"))
    bench.clock.advance(5 * HOUR)
    assert fire(bench) == 0
    bench.do(change_schedule, change("resume"))
    assert fire(bench) == 0
    bench.clock.advance(HOUR)
    assert fire(bench) == 1


def test_it_can_be_begun_by_hand_once_for_each_wish_and_keeps_its_ticks(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    first, again = bench.twice(change_schedule, change("trigger", nonce="a"))
    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert (first.created, again.created, first.id) == (True, False, again.id)
    assert bench.do(change_schedule, change("trigger", nonce="b")) != first
    bench.clock.advance(HOUR)
    assert fire(bench) == 1


def test_a_deleted_one_begins_nothing_more(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    assert bench.twice(change_schedule, change("delete")) == (None, None)
    bench.clock.advance(HOUR)
    assert fire(bench) == 0
    assert isinstance(bench.do(change_schedule, change("pause")), NotFound)


def test_the_same_schedule_again_changes_nothing_and_another_is_refused(bench: Bench) -> None:
    assert bench.twice(make_schedule, schedule()) == (None, None)
    for other in (schedule(cron="5 * * * *"), schedule(overlap="skip")):
        refused = bench.do(make_schedule, other)
        assert isinstance(refused, Conflict)
        assert refused.code == "schedule_exists"
    assert bench.do(make_schedule, schedule(company="other", cron="5 * * * *")) is None


def shown(bench: Bench) -> ScheduleView:
    return bench.read(lambda reads: schedule_view(reads, COMPANY, "nightly"))


def ending(bench: Bench) -> Finish:
    """Claim what is ready, which is one, and return its end."""
    [held] = bench.claim()
    last = bench.execution(held.ref.execution)["next_seq"] - 1
    return Finish(held.ref, held.fence, last, 0, "complete", '{"output":1}')


def test_a_tick_begins_nothing_while_the_last_one_goes_on_if_it_is_told_to_skip(bench: Bench) -> None:
    bench.do(make_schedule, schedule(overlap="skip"))
    bench.clock.advance(HOUR)
    assert fire(bench) == 1
    first = shown(bench)
    [execution] = bench.ready()
    bench.signal(execution, "pause")  # nobody is at it: it has not ended for that
    for number in (1, 2):
        tick_ms = shown(bench).next_ms
        bench.clock.advance(HOUR)
        assert fire(bench) == 0
        now = shown(bench)
        assert (now.skipped, now.last_skipped_ms) == (number, tick_ms)
        assert (now.last_execution, now.last_tick_ms) == (execution, first.last_tick_ms)
    bench.signal(execution, "resume")
    bench.do(finish, ending(bench))
    bench.clock.advance(HOUR)
    assert fire(bench) == 1
    assert shown(bench).last_execution != execution
    assert shown(bench).skipped == 2


def test_a_tick_begins_another_beside_the_last_one_if_nothing_is_said(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    for _ in range(2):
        bench.clock.advance(HOUR)
        assert fire(bench) == 1
    assert (shown(bench).overlap, shown(bench).skipped, shown(bench).last_skipped_ms) == ("allow", 0, None)


def test_of_ticks_that_are_made_up_for_one_begins_if_they_are_not_to_overlap(bench: Bench) -> None:
    bench.do(make_schedule, schedule(overlap="skip", missed="all"))
    bench.clock.advance(12 * HOUR)
    assert fire(bench) == 1
    assert shown(bench).skipped == 11
    assert fire(bench) == 0
    assert shown(bench).skipped == 11


def test_a_tick_begins_what_may_begin_when_the_last_one_ends_in_the_same_batch(bench: Bench) -> None:
    bench.do(make_schedule, schedule(overlap="skip"))
    bench.clock.advance(HOUR)
    fire(bench)
    bench.clock.advance(HOUR)
    bench.together((finish, ending(bench)), (fire_schedules, Sweep(10)))
    assert len(bench.ready()) == 1
    assert (shown(bench).skipped, shown(bench).last_execution) == (0, bench.ready()[0])


def test_one_that_skips_is_not_begun_by_hand_beside_the_last_one(bench: Bench) -> None:
    bench.do(make_schedule, schedule(overlap="skip"))
    first, again = bench.twice(change_schedule, change("trigger", nonce="a"))
    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert (again.id, again.created) == (first.id, False), "a lost answer is given again"
    refused = bench.do(change_schedule, change("trigger", nonce="b"))
    assert isinstance(refused, Conflict)
    assert (refused.code, refused.details["execution"]) == ("schedule_busy", first.id)
    bench.clock.advance(HOUR)
    assert fire(bench) == 0
    bench.do(finish, ending(bench))
    assert isinstance(bench.do(change_schedule, change("trigger", nonce="b")), Started)


def test_one_that_cannot_be_read_is_left_out_and_the_others_begin(bench: Bench) -> None:
    bench.do(make_schedule, schedule())
    bench.do(make_schedule, schedule(name="broken"))
    with bench.store.write() as connection:
        connection.run("delete_schedule", company=COMPANY, name="broken")
        made = {"agent": AGENT, "definition": "d", "lane": "", "input": "1", "cron": "no", "zone": "UTC"}
        times = {"missed": "one", "next_ms": 0, "by": "", "now_ms": 0, "tags": "[]", "overlap": "allow"}
        connection.run("insert_schedule", company=COMPANY, name="broken", **made, **times)
    bench.clock.advance(HOUR)
    with pytest.raises(Exception, match="pattern"):
        bench.do(fire_schedules, Sweep(10))
    assert bench.do(fire_schedules, Sweep(10, frozenset({(COMPANY, "broken")}))) == 1
    assert len(bench.ready()) == 1
