"""The arithmetic of a queue's rate, to the millisecond."""

from __future__ import annotations

import pytest

from engine_bench import AGENT, COMPANY, Bench, task
from perdure.core.queues import QueueLimits
from perdure.core.work import Lane, LeasedTask
from perdure.engine.queues import ChangeQueue, change_queue


def limited(bench: Bench, rate: int, seconds: float, count: int = 50) -> None:
    bench.waiting(*(task(f"t{n}", queue="mail") for n in range(count)))
    bench.do(change_queue, ChangeQueue(COMPANY, "mail", "limit", QueueLimits(None, rate, seconds)))


def take(bench: Bench, slots: int = 10) -> list[LeasedTask]:
    return bench.lease(lanes=(Lane(AGENT, "post", "mail"),), slots=slots)


def told(bench: Bench) -> int:
    """Return when those are told who wait for the queue, as it was said last."""
    found = [note.after_ms for note in bench.notes if note.key == f"{COMPANY}/mail"]
    bench.notes.clear()
    return found[-1]


def test_tokens_come_evenly_and_not_a_millisecond_early(bench: Bench) -> None:
    limited(bench, 3, 3.0)
    assert len(take(bench)) == 3
    assert told(bench) == 1_000
    bench.clock.advance(0.4)
    assert take(bench) == []
    assert told(bench) == 600
    bench.clock.advance(0.599)
    assert take(bench) == []
    bench.clock.advance(0.001)
    assert len(take(bench)) == 1


def test_a_quiet_time_is_worth_one_period_and_no_more(bench: Bench) -> None:
    limited(bench, 3, 1.0)
    take(bench)
    bench.clock.advance(1_000)
    assert len(take(bench)) == 3


@pytest.mark.parametrize(("rate", "seconds"), [(7, 1.0), (2, 0.3), (3, 0.1)])
def test_a_rate_that_does_not_divide_its_period_loses_and_gains_nothing(
    bench: Bench, rate: int, seconds: float
) -> None:
    limited(bench, rate, seconds)
    given, passed_ms = len(take(bench, slots=50)), 0
    while given < 50:
        assert given == rate + passed_ms * rate // round(seconds * 1000)
        bench.clock.advance(0.011)
        passed_ms += 11
        given += len(take(bench, slots=50))


def test_a_wish_that_is_granted_by_rate_costs_what_it_took(bench: Bench) -> None:
    limited(bench, 10, 10.0)
    assert len(take(bench, slots=4)) == 4
    assert len(take(bench, slots=4)) == 4
    assert len(take(bench, slots=4)) == 2
    assert told(bench) == 1_000


def test_a_token_that_comes_late_is_announced_when_it_is_near(bench: Bench) -> None:
    """Who waits looks again every few seconds, and each look must not leave a timer for the next day."""
    limited(bench, 1, 86_400.0)
    assert len(take(bench)) == 1
    bench.notes.clear()
    assert take(bench) == []
    assert [note for note in bench.notes if note.after_ms] == []
    bench.clock.advance(86_395)
    assert take(bench) == []
    assert told(bench) == 5_000
