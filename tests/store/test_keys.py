"""What keys promise, on both databases: they take turns, and no queue has more of one under way than it may."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine_bench import AGENT, COMPANY, Bench, named, once, task, wish
from perdure.core.items import StartChild
from perdure.core.queues import QueueLimits
from perdure.core.views import ForkEdits
from perdure.core.work import Lane, LeasedTask, WorkerInfo
from perdure.engine.diagnose import diagnose
from perdure.engine.fork import Fork, fork
from perdure.engine.held import HandBack, hand_back
from perdure.engine.lease import lease
from perdure.engine.look import Wanted, look
from perdure.engine.queues import ChangeQueue, change_queue, queue_views
from perdure.engine.start import Start, start
from perdure.engine.sweep import tell_time
from perdure.engine.wake import SOON_MS
from perdure.store.batch import Entry

MAIL = Lane(AGENT, "post", "mail")


def waiting(bench: Bench, key: str, count: int = 1, priority: int = 0, item: str = "t") -> str:
    """Start an execution of a key that waits for some tasks."""
    new = bench.new()
    given = (new.id, new.company, new.agent, new.definition, new.spec, new.input, None)
    bench.do(start, Start(*given, limit_key=key, priority=priority))
    [held] = [one for one in bench.claim() if one.ref.execution == new.id]
    bench.record(held, *(task(f"{item}{n}", queue="mail", args={"n": n}) for n in range(count)))
    bench.park(held)
    return new.id


def limit(bench: Bench, per_key: int | None = None, **limits: int) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "limit", QueueLimits(per_key=per_key, **limits), "eve"))


def take(bench: Bench, slots: int = 10, worker: str = "wrk_1", lanes: tuple[Lane, ...] = (MAIL,)) -> list[LeasedTask]:
    return bench.lease(worker, lanes=lanes, slots=slots)


def keys(bench: Bench, given: list[LeasedTask]) -> str:
    """Return whose tasks they are, in the order in which they were given."""
    return " ".join(bench.task(one.execution, one.address)["limit_key"] or "-" for one in given)


def told(bench: Bench) -> list[int]:
    found = [note.after_ms for note in bench.notes if (note.topic, note.key) == ("tasks", f"{COMPANY}/mail")]
    bench.notes.clear()
    return found


def test_keys_take_turns_and_so_does_what_has_none(bench: Bench) -> None:
    for key, count in (("a", 6), ("b", 2), ("", 3)):
        waiting(bench, key, count)
    assert keys(bench, take(bench, 3)) == "a b -"
    assert keys(bench, take(bench, 3)) == "a b -"
    assert keys(bench, take(bench)) == "a - a a a"
    assert take(bench) == []


def test_who_asks_for_one_at_a_time_goes_round_too(bench: Bench) -> None:
    for key in ("b", "a", "c"):
        waiting(bench, key, 2)
    assert [keys(bench, take(bench, 1)) for _ in range(6)] == ["a", "b", "c"] * 2


def test_a_key_goes_on_where_the_last_lease_stopped_whoever_asks(bench: Bench) -> None:
    for key in ("a", "b", "c"):
        waiting(bench, key, 4)
    assert keys(bench, take(bench, 2)) == "a b"
    given = bench.together(*((lease, wish(f"wrk_{n}", slots=2, lanes=(MAIL,))) for n in range(2)))
    assert [keys(bench, some) for some in given] == ["c a", "b c"]


def test_within_a_key_the_urgent_goes_first_and_between_keys_turns_do(bench: Bench) -> None:
    waiting(bench, "a", 1)
    urgent = waiting(bench, "a", 2, priority=9)
    waiting(bench, "b", 1)
    given = take(bench, 2)
    assert (keys(bench, given), given[0].execution) == ("a b", urgent)


def test_no_more_of_a_key_are_held_at_once_than_the_limit(bench: Bench) -> None:
    limit(bench, per_key=2)
    for key, count in (("a", 5), ("b", 1), ("", 3)):
        waiting(bench, key, count)
    first = take(bench)
    assert sorted(keys(bench, first).split()) == ["-", "-", "-", "a", "a", "b"]
    assert take(bench, worker="wrk_2") == []
    told(bench)
    bench.report(next(one for one in first if keys(bench, [one]) == "a"))
    assert SOON_MS in told(bench)
    assert keys(bench, take(bench, worker="wrk_2")) == "a"
    assert take(bench, worker="wrk_3") == []


def test_workers_of_one_batch_share_what_a_key_may_have(bench: Bench) -> None:
    limit(bench, per_key=3)
    waiting(bench, "a", 9)
    given = bench.together(*((lease, wish(f"wrk_{n}", slots=2, lanes=(MAIL,))) for n in range(3)))
    assert [len(tasks) for tasks in given] == [2, 1, 0]


def test_a_key_with_its_fill_keeps_no_other_waiting_nor_does_one_that_is_paused(bench: Bench) -> None:
    limit(bench, per_key=1)
    paused = [waiting(bench, f"p{n}") for n in range(3)]
    for one in paused:
        bench.signal(one, "pause")
    for key in ("a", "b", "z"):
        waiting(bench, key, 3)
    assert [keys(bench, take(bench, 1)) for _ in range(4)] == ["a", "b", "z", ""]
    bench.signal(paused[1], "resume")
    assert keys(bench, take(bench)) == "p1"


def test_what_has_begun_counts_and_what_is_handed_back_does_not(bench: Bench) -> None:
    limit(bench, per_key=1)
    new = bench.new()
    bench.do(start, Start(new.id, COMPANY, AGENT, new.definition, new.spec, new.input, None, limit_key="a"))
    [held] = bench.claim()
    bench.record(held, *(once(one, queue="mail", args={"of": one}) for one in "xy"))
    bench.park(held)
    [first] = take(bench)
    bench.do(hand_back, HandBack(COMPANY, (named(first),)))
    [again] = take(bench, worker="wrk_2")
    bench.begin(again)
    assert take(bench, worker="wrk_3") == []


def test_both_limits_and_a_rate_hold(bench: Bench) -> None:
    limit(bench, per_key=2, concurrency=3, rate=4, per_seconds=1_000)
    for key in ("a", "b", "c"):
        waiting(bench, key, 4)
    held = take(bench)
    assert keys(bench, held) == "a b c"
    for one in held:
        bench.report(one)
    assert keys(bench, take(bench)) == "a"
    assert take(bench) == []


def test_a_limit_that_comes_later_counts_what_is_held(bench: Bench) -> None:
    waiting(bench, "a", 4)
    held = take(bench, 2)
    limit(bench, per_key=1)
    assert take(bench, worker="wrk_2") == []
    for one in held:
        told(bench)
        bench.report(one)
        assert SOON_MS in told(bench)
    assert len(take(bench, worker="wrk_2")) == 1


def test_a_paused_queue_gives_no_key_anything(bench: Bench) -> None:
    waiting(bench, "a")
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "pause"))
    assert take(bench) == []


def test_a_retry_of_a_key_comes_when_its_pause_is_over(bench: Bench) -> None:
    execution = waiting(bench, "a")
    [first] = take(bench)
    bench.report(first, "failed")
    assert take(bench) == []
    assert bench.task(execution, "t0")["limit_key"] == "a"


def test_a_wish_that_stands_is_granted_what_a_key_has_left(bench: Bench) -> None:
    limit(bench, per_key=1)
    granted: list[LeasedTask] = []

    class Waiting:
        def settle(self, entries: Sequence[Entry]) -> None:
            granted.extend(task for entry in entries for task in entry.result)

    bench.writer.submit(lease, wish("wrk_1", "w", lanes=(MAIL,)), Waiting(), wants=(("tasks", f"{COMPANY}/mail"),))
    waiting(bench, "a", 3)
    assert len(granted) <= 1, "in the transaction that made them, or when it asks again"
    assert len([*granted, *take(bench, worker="wrk_2")]) == 1


def test_what_it_begins_and_what_is_forked_off_it_have_its_key(bench: Bench) -> None:
    new = bench.new()
    bench.do(start, Start(new.id, COMPANY, AGENT, new.definition, new.spec, new.input, None, limit_key="a"))
    [held] = bench.claim()
    spec = {"name": AGENT, "model": "scripted/clerk", "instructions": ""}
    bench.record(held, StartChild("child", "d", "exe_child", spec, AGENT, "def", '"hi"'))
    bench.do(fork, Fork("exe_fork", COMPANY, new.id, 1, ForkEdits(), "eve"))
    assert [bench.execution(one)["limit_key"] for one in ("exe_child", "exe_fork")] == ["a", "a"]
    assert bench.log(new.id)[0].data["limit_key"] == "a"


def test_only_what_somebody_said_of_a_queue_is_shown(bench: Bench) -> None:
    waiting(bench, "a")
    [held] = take(bench)
    bench.report(held)
    now_ms = bench.do(tell_time, None)
    assert bench.read(lambda reads: queue_views(reads, COMPANY, now_ms)) == [], "that keys took turns is no setting"
    limit(bench, per_key=2)
    [one] = bench.read(lambda reads: queue_views(reads, COMPANY, now_ms))
    assert (one.per_key, one.changed_by) == (2, "eve")


def test_the_doctor_says_how_many_of_a_key_there_may_be(bench: Bench) -> None:
    limit(bench, per_key=1)
    execution = waiting(bench, "ann", 2)
    take(bench)
    now_ms = bench.do(tell_time, None)
    here = [WorkerInfo("wrk_1", "w", (MAIL,))]
    said = bench.read(lambda reads: diagnose(reads, COMPANY, execution, here, now_ms))
    [waits] = [one.what for one in said if one.what.startswith("post waits")]
    assert waits.endswith(", at most 1 of key ann at once.")


@pytest.mark.parametrize("key", ["", "a"])
def test_a_look_finds_what_waits_whether_it_has_a_key_or_not(bench: Bench, key: str) -> None:
    wanted = Wanted(tasks=[(COMPANY, MAIL)])
    assert not bench.read(lambda reads: look(reads, wanted, bench.clock.wall_ms())).tasks
    waiting(bench, key)
    now_ms = bench.do(tell_time, None)
    assert list(bench.read(lambda reads: look(reads, wanted, now_ms)).tasks) == [(COMPANY, MAIL)]
