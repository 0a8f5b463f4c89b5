"""Who is told of what A2A tasks do: what was not told stays to be told, whoever is killed. On both databases."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, SPEC, Bench, step
from perdure.core import codec
from perdure.core.a2a import MOST_PUSHES, A2aMessage, PushConfig
from perdure.engine.a2a import Accept, Publish, accept_message, publish_agent
from perdure.engine.a2a_push import (
    DeletePush,
    DuePush,
    MissedPush,
    SetPush,
    TakePush,
    ToldPush,
    any_push,
    delete_push,
    due_pushes,
    free_pushes,
    missed_push,
    pushes_on,
    pushes_view,
    set_push,
    take_push,
    told_push,
)
from perdure.engine.due import Sweep
from perdure.engine.park import Finish, finish
from perdure.engine.retention import forget, set_retention
from perdure.errors import LimitExceeded, NotFound

TASK = "exe_0001"
LATE_MS = 2**62
"""When all that is due at some time is due."""


def config(id: str = "p1", **more: Any) -> PushConfig:
    return PushConfig(id, "https://x.example/told", "token", "Bearer", "secret", **more)


def begun(bench: Bench, push: PushConfig | None = None) -> None:
    """Have a task that a message began."""
    row = Publish(COMPANY, AGENT, codec.digest(dict(SPEC)), codec.encode(dict(SPEC)), "", "ann")
    bench.do(publish_agent, row)
    bench.do(accept_message, Accept(COMPANY, AGENT, A2aMessage("m1", "hi", push=push), TASK, "ctx", "ann"))


def due(bench: Bench, now_ms: int = LATE_MS) -> list[DuePush]:
    return bench.read(lambda reads: due_pushes(reads, now_ms, 10))


def taken(bench: Bench, one: DuePush, lease_ms: int = 20_000) -> int:
    return bench.do(take_push, TakePush(one.execution, one.id, one.due_ms, lease_ms))


def test_there_is_something_to_tell_when_the_log_goes_on(bench: Bench) -> None:
    begun(bench, config())
    assert bench.read(any_push)
    assert due(bench) == []
    [held] = bench.claim()
    bench.record(held, step("a"))
    [one] = due(bench)
    assert (one.execution, one.id, one.told_seq, one.credentials, one.version) == (TASK, "p1", 1, "secret", "1.0")
    assert "secret" not in repr(one)
    until_ms = taken(bench, one)
    assert bench.do(told_push, ToldPush(TASK, "p1", until_ms, 2, over=False)) == 1
    assert due(bench) == []


def test_one_server_at_a_time_tells(bench: Bench) -> None:
    begun(bench, config())
    bench.record(bench.claim()[0], step("a"))
    [one] = due(bench)
    until_ms = taken(bench, one)
    assert until_ms > 0
    assert taken(bench, one) == 0
    assert due(bench, until_ms - 1) == []
    [again] = due(bench, until_ms)
    second_ms = taken(bench, again, 30_000)
    assert second_ms > 0
    assert bench.do(told_push, ToldPush(TASK, "p1", until_ms, 2, over=False)) == 0, "its time was over"
    assert bench.do(told_push, ToldPush(TASK, "p1", second_ms, 2, over=False)) == 1


def test_who_could_not_be_told_is_tried_again_and_given_up_in_the_end(bench: Bench) -> None:
    begun(bench, config())
    bench.record(bench.claim()[0], step("a"))
    [one] = due(bench)
    bench.do(missed_push, MissedPush(TASK, "p1", taken(bench, one), "no", 5_000))
    [one] = due(bench)
    assert one.tries == 1
    bench.do(missed_push, MissedPush(TASK, "p1", taken(bench, one), "never", None))
    assert due(bench) == []
    assert not bench.read(any_push)
    [shown] = bench.read(lambda reads: pushes_view(reads, COMPANY, ""))
    assert (shown.tries, shown.error, shown.due_ms, shown.told_seq, shown.last_seq) == (2, "never", None, 1, 2)
    assert shown.given_up_ms is not None
    bench.do(set_push, SetPush(COMPANY, AGENT, TASK, config()))
    [one] = due(bench)
    assert (one.tries, one.told_seq) == (0, 1), "it goes on where it was left"


def test_a_file_that_changed_hands_is_told_on_at_once(bench: Bench) -> None:
    begun(bench, config())
    bench.record(bench.claim()[0], step("a"))
    until_ms = taken(bench, due(bench)[0])
    assert bench.do(free_pushes, None) == 1
    [one] = due(bench, until_ms - 1)
    assert one.due_ms < until_ms


def test_who_is_told_no_more_is_not_told(bench: Bench) -> None:
    begun(bench, config())
    bench.record(bench.claim()[0], step("a"))
    for _ in range(2):
        assert bench.do(delete_push, DeletePush(COMPANY, AGENT, TASK, "p1")) is None
    assert due(bench) == []
    assert bench.read(lambda reads: pushes_on(reads, TASK)) == []


def test_a_push_that_is_set_later_tells_what_comes_later(bench: Bench) -> None:
    begun(bench)
    bench.record(bench.claim()[0], step("a"))
    assert bench.do(set_push, SetPush(COMPANY, AGENT, TASK, config())) is None
    assert due(bench) == []
    [kept] = bench.read(lambda reads: pushes_on(reads, TASK))
    assert (kept.token, kept.scheme, kept.credentials) == ("token", "Bearer", "")


def test_to_others_there_is_no_task_to_be_told_of(bench: Bench) -> None:
    begun(bench, config())
    for company, agent, task in (("other", AGENT, TASK), (COMPANY, "another", TASK), (COMPANY, AGENT, "exe_0404")):
        assert isinstance(bench.do(set_push, SetPush(company, agent, task, config())), NotFound)
        assert isinstance(bench.do(delete_push, DeletePush(company, agent, task, "p1")), NotFound)
    assert bench.read(lambda reads: pushes_view(reads, "other", "")) == []
    assert len(bench.read(lambda reads: pushes_view(reads, COMPANY, TASK))) == 1


def test_a_task_tells_so_many_and_no_more(bench: Bench) -> None:
    begun(bench)
    for number in range(MOST_PUSHES):
        assert bench.do(set_push, SetPush(COMPANY, AGENT, TASK, config(f"p{number}"))) is None
    assert isinstance(bench.do(set_push, SetPush(COMPANY, AGENT, TASK, config("more"))), LimitExceeded)
    assert bench.do(set_push, SetPush(COMPANY, AGENT, TASK, config("p0"))) is None
    said = A2aMessage("m2", "more", execution=TASK, push=config("more"))
    assert isinstance(bench.do(accept_message, Accept(COMPANY, AGENT, said, "exe_0002", "", "ann")), LimitExceeded)
    assert len(bench.log(TASK)) == 1


def test_they_go_with_their_execution(bench: Bench) -> None:
    begun(bench, config())
    [held] = bench.claim()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    bench.do(set_retention, 0)
    bench.clock.advance(1)
    assert bench.do(forget, Sweep(10)) == 1
    assert not bench.read(any_push)


@pytest.mark.parametrize("over", [False, True])
def test_who_was_told_the_end_is_told_nothing_more(bench: Bench, over: bool) -> None:
    begun(bench, config())
    [held] = bench.claim()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    until_ms = taken(bench, due(bench)[0])
    bench.do(told_push, ToldPush(TASK, "p1", until_ms, 2, over=over))
    assert due(bench) == []
    assert bench.read(any_push) is not over
