"""What the limits of a queue promise, on both databases: never more than they say, and what is held back comes soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, Bench, named, once, task, wish
from perdure.core.queues import DeadFilter, DeadPage, QueueLimits, QueueView
from perdure.core.work import Failure, Lane, LeasedTask, WorkerInfo
from perdure.engine.dead import dead_page
from perdure.engine.diagnose import diagnose
from perdure.engine.held import HandBack, hand_back
from perdure.engine.lease import lease
from perdure.engine.queues import ChangeQueue, change_queue, queue_views
from perdure.engine.sweep import tell_time
from perdure.engine.wake import SOON_MS
from perdure.errors import InvalidInput
from perdure.store.batch import Entry

MAIL = (Lane(AGENT, "post", "mail"),)
QUEUE = ("tasks", f"{COMPANY}/mail")


def limit(bench: Bench, concurrency: int | None = None, rate: int | None = None, per: float | None = None) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "limit", QueueLimits(concurrency, rate, per), "eve"))


def pause(bench: Bench) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "pause", by="eve"))


def resume(bench: Bench) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "resume", by="eve"))


def backlog(bench: Bench, count: int, **options: Any) -> None:
    bench.waiting(*(task(f"t{n}", queue="mail", **options) for n in range(count)))


def take(bench: Bench, worker: str = "wrk_1", **options: Any) -> list[LeasedTask]:
    return bench.lease(worker, lanes=MAIL, **options)


def told(bench: Bench) -> list[int]:
    """Return after how many milliseconds those were told who wait for the queue, since the last look."""
    found = [note.after_ms for note in bench.notes if (note.topic, note.key) == QUEUE]
    bench.notes.clear()
    return found


def now_ms(bench: Bench) -> int:
    return bench.do(tell_time, None)


def seen(bench: Bench, name: str = "mail") -> QueueView:
    now = now_ms(bench)
    [one] = bench.read(lambda reads: queue_views(reads, COMPANY, now, name))
    return one


def test_a_paused_queue_gives_nothing_until_it_goes_on(bench: Bench) -> None:
    backlog(bench, 2)
    [held] = take(bench, slots=1)
    pause(bench)
    assert take(bench) == []
    assert bench.report(held) == "accepted"  # what is under way goes on
    told(bench)
    resume(bench)
    assert told(bench) == [SOON_MS]
    assert len(take(bench)) == 1


def test_other_queues_and_companies_go_on(bench: Bench) -> None:
    backlog(bench, 1)
    bench.waiting(task(queue="slow"))
    bench.do(change_queue, ChangeQueue("other", "mail", "pause"))
    assert len(take(bench)) == 1
    pause(bench)
    assert len(bench.lease(lanes=(*MAIL, Lane(AGENT, "post", "slow")))) == 1


def test_no_more_are_held_at_once_than_the_limit(bench: Bench) -> None:
    backlog(bench, 5)
    limit(bench, concurrency=2)
    first = take(bench, "wrk_1")
    assert len(first) == 2
    assert take(bench, "wrk_2") == []
    told(bench)
    bench.report(first[0])
    assert SOON_MS in told(bench)
    assert len(take(bench, "wrk_2")) == 1
    assert take(bench, "wrk_3") == []


def test_workers_of_one_batch_share_what_is_left(bench: Bench) -> None:
    backlog(bench, 9)
    limit(bench, concurrency=3)
    given = bench.together(*((lease, wish(f"wrk_{n}", slots=2, lanes=MAIL)) for n in range(3)))
    assert [len(tasks) for tasks in given] == [2, 1, 0]


def test_what_has_begun_counts_until_it_ends(bench: Bench) -> None:
    bench.waiting(once("a", queue="mail", args={"n": 1}), once("b", queue="mail", args={"n": 2}))
    limit(bench, concurrency=1)
    [held] = take(bench, lease_ms=100)
    bench.begin(held)
    assert take(bench, "wrk_2") == []
    told(bench)
    while not bench.expire(0.01):  # by the database's own clock
        pass
    assert bench.task(held.execution, "a")["state"] == "uncertain", "nobody holds it any more"
    assert SOON_MS in told(bench)
    assert [one.address for one in take(bench, "wrk_2")] == ["b"]


def test_a_retry_that_pauses_makes_room_at_once(bench: Bench) -> None:
    backlog(bench, 2)
    limit(bench, concurrency=1)
    [held] = take(bench)
    told(bench)
    bench.report(held, "failed")
    assert sorted(told(bench)) == [SOON_MS, 2_000]
    assert len(take(bench)) == 1


def test_one_that_is_handed_back_makes_room(bench: Bench) -> None:
    backlog(bench, 2)
    limit(bench, concurrency=1)
    [held] = take(bench)
    told(bench)
    bench.do(hand_back, HandBack(COMPANY, (named(held),)))
    assert SOON_MS in told(bench)
    assert len(take(bench, "wrk_2")) == 1


def test_a_lost_answer_takes_no_further_room(bench: Bench) -> None:
    backlog(bench, 3)
    limit(bench, concurrency=1, rate=2, per=60)
    first = take(bench, nonce="n1")
    assert take(bench, nonce="n1") == first
    bench.report(first[0])
    assert len(take(bench, nonce="n2")) == 1


def test_a_limit_that_comes_later_counts_what_is_held_and_hears_of_its_end(bench: Bench) -> None:
    backlog(bench, 3)
    held = take(bench, slots=2)
    limit(bench, concurrency=1)
    assert take(bench, "wrk_2") == []
    told(bench)
    bench.report(held[0])
    assert SOON_MS in told(bench)
    assert take(bench, "wrk_2") == [], "the other one is still under way"
    bench.report(held[1])
    assert len(take(bench, "wrk_2")) == 1


def test_nobody_is_told_of_ends_where_there_is_no_limit(bench: Bench) -> None:
    backlog(bench, 2)
    [held] = take(bench, slots=1)
    told(bench)
    bench.report(held)
    assert told(bench) == []


def test_a_rate_gives_its_number_and_says_when_the_next_comes(bench: Bench) -> None:
    backlog(bench, 10)
    limit(bench, rate=3, per=27)
    assert len(take(bench)) == 3
    assert 4_000 < told(bench)[-1] <= 9_000
    assert take(bench) == []
    assert 4_000 < told(bench)[-1] <= 9_000


def test_a_rate_gives_again_when_it_said_so(bench: Bench) -> None:
    backlog(bench, 3)
    limit(bench, rate=1, per=0.2)
    given = take(bench)
    while len(given) < 3:  # by the database's own clock
        bench.clock.advance(0.01)
        given += take(bench)
    begun = [bench.task(one.execution, one.address)["started_ms"] for one in given]
    assert begun[1] >= begun[0] + 200
    assert begun[2] >= begun[0] + 400


def test_a_rate_that_is_set_again_or_changed_is_not_filled_again(bench: Bench) -> None:
    backlog(bench, 10)
    limit(bench, rate=2, per=1_000)
    take(bench)
    limit(bench, rate=2, per=1_000)
    assert take(bench) == []
    limit(bench, rate=5, per=1_000)
    assert take(bench) == []
    limit(bench)
    assert len(take(bench)) == 8


def test_both_limits_hold(bench: Bench) -> None:
    backlog(bench, 10)
    limit(bench, concurrency=2, rate=3, per=60)
    held = take(bench)
    assert len(held) == 2
    for one in held:
        bench.report(one)
    assert len(take(bench)) == 1


def test_a_wish_that_stands_is_granted_no_more_than_the_limit(bench: Bench) -> None:
    granted: list[LeasedTask] = []

    class Waiting:
        def settle(self, entries: Sequence[Entry]) -> None:
            granted.extend(task for entry in entries for task in entry.result)

    limit(bench, concurrency=2)
    bench.writer.submit(lease, wish("wrk_1", "w", lanes=MAIL), Waiting(), wants=(QUEUE,))
    backlog(bench, 3)
    assert len(granted) == 2, "in the transaction that made them"
    assert take(bench, "wrk_2") == []


def test_a_queue_shows_what_waits_and_what_is_under_way(bench: Bench) -> None:
    assert seen(bench) == QueueView("mail", False, None, None, None, 0, 0, None)
    since = now_ms(bench)
    backlog(bench, 3)
    limit(bench, concurrency=1, rate=10, per=0.5)
    pause(bench)
    resume(bench)
    take(bench)
    found = seen(bench)
    assert (found.concurrency, found.rate, found.per_seconds, found.paused) == (1, 10, 0.5, False)
    assert (found.backlog, found.leased, found.changed_by) == (2, 1, "eve")
    assert found.oldest_ms is not None
    assert found.changed_ms is not None
    assert since <= found.oldest_ms <= found.changed_ms <= now_ms(bench)
    bench.waiting(task(queue="slow"))
    now = now_ms(bench)
    names = [one.name for one in bench.read(lambda reads: queue_views(reads, COMPANY, now))]
    assert names == ["mail", "slow"]


def test_the_doctor_says_what_holds_a_call_back(bench: Bench) -> None:
    held = bench.waiting(task(queue="mail"))
    here = [WorkerInfo("wrk_1", "w", MAIL)]

    def found() -> list[tuple[str, str | None]]:
        now = now_ms(bench)
        said = bench.read(lambda reads: diagnose(reads, COMPANY, held.ref.execution, here, now))
        return [(one.what, one.command) for one in said if one.what.startswith("post waits")]

    limit(bench, concurrency=3, rate=5, per=60)
    [(text, _)] = found()
    assert text.endswith(", 0 of 3 that may be are under way, at most 5 come in 60 s.")
    pause(bench)
    [(text, command)] = found()
    assert "queue mail is paused, by eve" in text
    assert command == "perdure queues resume mail"


def test_what_failed_for_good_is_listed_the_newest_first_page_by_page(bench: Bench) -> None:
    for n, tool in enumerate(("post", "post", "get")):
        held = bench.waiting(task(f"t{n}", tool=tool, queue="mail", max_attempts=1, args={"n": n}))
        [leased] = bench.lease(lanes=(Lane(AGENT, tool, "mail"),))
        bench.report(leased, "failed", failure=Failure("boom", f"no {n}"))
        bench.clock.advance(1)
        last = held.ref.execution
    ended = bench.waiting(task("t3", queue="mail"))
    bench.signal(ended.ref.execution, "cancel")

    def page(cursor: str | None = None, limit: int = 2, **wanted: str) -> DeadPage:
        return bench.read(lambda reads: dead_page(reads, COMPANY, DeadFilter(**wanted), cursor, limit))  # type: ignore[arg-type]

    first = page()
    assert (first.items[0].execution, first.items[0].code, first.items[0].error) == (last, "boom", "no 2")
    assert first.cursor is not None
    second = page(first.cursor)
    assert ([one.address for one in (*first.items, *second.items)], second.cursor) == (["t2", "t1", "t0"], None)
    assert [one.address for one in page(tool="get").items] == ["t2"]
    assert page(queue="other").items == page(agent="other").items == ()
    with pytest.raises(InvalidInput, match="none that a page gave"):
        page("nonsense")
