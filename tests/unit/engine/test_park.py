"""Letting go: never over unseen news, and what has ended stays ended."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from engine_bench import Bench, ask, once, step, task
from perdure.core.functions import ClaimRequest
from perdure.core.work import FunctionLane
from perdure.engine.claim import Claimed
from perdure.engine.lanes import ClaimLanes, claim_lanes
from perdure.engine.park import Finish, Halt, Park, Released, StillHeld, finish, halt, park
from perdure.engine.record import News, Record, record
from perdure.engine.signal import Signal, signal
from perdure.engine.start import Start, start
from perdure.engine.sweep import Drop, Sweep, drop, expire_owned, expire_tasks
from perdure.errors import LeaseLost


def finishing(
    bench: Bench, held: Claimed, event: Literal["complete", "fail", "end"] = "complete", *, seen: int | None = None
) -> Finish:
    last = bench.execution(held.ref.execution)["next_seq"] - 1
    data = {"complete": '{"output":{"result":"done"}}', "fail": '{"error":"it broke","code":"broken"}', "end": "{}"}
    return Finish(held.ref, held.fence, last if seen is None else seen, 7, event, data[event])


def test_a_parked_execution_waits_and_holds_nothing(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task())
    assert bench.park(held, active_ms=40) == Released()
    row = bench.execution(held.ref.execution)
    assert (row["state"], row["ownership"], row["active_ms"]) == ("waiting", "parked", 40)
    assert bench.row("owner_of", shard=held.ref.shard, execution=held.ref.execution) is None


def test_nothing_parks_over_news(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "send", text="wait"))
    answer = bench.park(held, seen=1)
    assert isinstance(answer, News)
    assert [row["kind"] for row in answer.events] == ["message"]
    assert bench.state(held.ref.execution) == ("running", "owned")


def test_a_park_in_the_batch_of_news_does_not_sleep_on_it(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.owned()
        rows = [(signal, Signal("default", held.ref.execution, "send")), (park, Park(held.ref, held.fence, 1, 0))]
        bench.together(*rows[::order])
        assert bench.state(held.ref.execution) in {("running", "owned"), ("ready", "ready")}


def test_a_park_whose_answer_was_lost_is_answered_again(bench: Bench) -> None:
    held = bench.owned()
    first, second = bench.twice(park, Park(held.ref, held.fence, 1, 5))
    assert first == Released()
    assert second == Released(again=True)
    assert bench.execution(held.ref.execution)["active_ms"] == 5


def test_a_park_sent_again_says_nothing_to_a_later_holder(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.signal(held.ref.execution, "send")
    [later] = bench.claim()
    assert isinstance(bench.do(park, Park(held.ref, held.fence, 2, 5)), LeaseLost)
    assert bench.state(later.ref.execution) == ("running", "owned")


def test_who_was_taken_for_dead_and_finishes_is_refused(bench: Bench) -> None:
    held = bench.owned()
    bench.clock.advance(31)
    bench.do(expire_owned, Sweep(10))
    assert isinstance(bench.do(finish, finishing(bench, held)), LeaseLost)
    assert bench.state(held.ref.execution)[1] == "ready"


@pytest.mark.parametrize("verb", ["record", "park", "finish", "halt"])
def test_a_worker_speaks_for_durable_functions_of_its_own_company_only(bench: Bench, verb: str) -> None:
    agent, function = bench.owned(), owned_function(bench)
    for held, company in ((agent, "default"), (function, "other")):
        assert isinstance(bench.do(*said(verb, held, company)), LeaseLost)
    assert not isinstance(bench.do(*said(verb, function, "default")), LeaseLost)


@pytest.mark.parametrize("verb", ["park", "finish", "halt"])
def test_a_late_holder_lets_go_of_nothing(bench: Bench, verb: str) -> None:
    held = bench.owned()
    bench.do(drop, Drop("srv_1"))
    bench.claim(holder="srv_2")
    rows: dict[str, tuple[Any, Any]] = {
        "park": (park, Park(held.ref, held.fence, 2, 0)),
        "finish": (finish, finishing(bench, held)),
        "halt": (halt, Halt(held.ref, held.fence, "stick", "poison", "no")),
    }
    assert isinstance(bench.do(*rows[verb]), LeaseLost)
    assert bench.state(held.ref.execution) == ("running", "owned")


def test_a_finish_is_final(bench: Bench) -> None:
    held = bench.owned()
    first, second = bench.twice(finish, finishing(bench, held))
    assert first == Released()
    assert second == Released(again=True)
    row = bench.execution(held.ref.execution)
    assert (row["state"], row["ownership"], row["active_ms"]) == ("completed", "parked", 7)
    assert row["finished_ms"] is not None
    assert bench.last(held.ref.execution).data == {"output": {"result": "done"}}
    assert bench.ready() == []


def test_a_finish_is_put_off_by_news(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "send", text="one more thing"))
    answer = bench.do(finish, finishing(bench, held, seen=1))
    assert isinstance(answer, News)
    assert bench.state(held.ref.execution) == ("running", "owned")


def test_a_failure_takes_down_what_nobody_began(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task(), ask("b/approval"))
    bench.do(finish, finishing(bench, held, "fail"))
    assert bench.state(held.ref.execution)[0] == "failed"
    assert bench.task(held.ref.execution)["state"] == "dead"
    point = bench.row("waitpoint", shard=held.ref.shard, execution=held.ref.execution, address="b/approval")
    assert point is not None
    assert point["state"] == "cancelled"
    assert bench.lease() == []


def test_a_cancelled_execution_ends_only_when_nobody_holds_a_task_of_it(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task(), once("effect"))
    [first, second] = bench.lease()
    bench.do(signal, Signal("default", held.ref.execution, "cancel"))
    assert bench.do(finish, finishing(bench, held, "end")) == StillHeld()
    bench.report(first)
    assert bench.do(finish, finishing(bench, held, "end")) == StillHeld()
    bench.clock.advance(31)
    bench.do(expire_tasks, Sweep(10))
    assert bench.do(finish, finishing(bench, held, "end")) == Released()
    assert bench.state(held.ref.execution) == ("cancelled", "parked")
    assert bench.task(held.ref.execution, second.address)["state"] == "dead"


def test_however_its_code_ended_a_cancelled_execution_ends_cancelled(bench: Bench) -> None:
    for event in ("complete", "fail", "end"):
        held = bench.owned()
        bench.signal(held.ref.execution, "cancel")
        assert bench.do(finish, finishing(bench, held, event)) == Released()
        assert bench.state(held.ref.execution)[0] == "cancelled"
        assert bench.last(held.ref.execution).data == {}


def test_a_paused_execution_does_not_end_until_it_is_resumed(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "pause")
    assert bench.do(finish, finishing(bench, held)) == StillHeld()
    bench.park(held)
    assert bench.state(held.ref.execution) == ("paused", "parked")
    bench.signal(held.ref.execution, "resume")
    [again] = bench.claim()
    assert bench.do(finish, finishing(bench, again)) == Released()


@pytest.mark.parametrize(("event", "state", "kind"), [("pause", "paused", "paused"), ("stick", "stuck", "stuck")])
def test_a_halt_says_why_and_lets_go(bench: Bench, event: Any, state: str, kind: str) -> None:
    held = bench.owned()
    row = Halt(held.ref, held.fence, event, "key", "set OPENAI_API_KEY")
    first, second = bench.twice(halt, row)
    assert first == Released()
    assert second == Released(again=True)
    assert bench.state(held.ref.execution) == (state, "parked")
    last = bench.last(held.ref.execution)
    assert (last.kind, last.data) == (kind, {"reason": "key", "message": "set OPENAI_API_KEY", "by": "perdure"})
    assert bench.ready() == []


def test_a_halted_execution_goes_on_after_a_resume_with_what_came_meanwhile(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "send", text="unseen")
    bench.do(halt, Halt(held.ref, held.fence, "pause", "quota", "pay"))
    bench.signal(held.ref.execution, "resume")
    [again] = bench.claim()
    assert [row["kind"] for row in again.events] == ["started", "message", "paused", "resumed"]


def test_a_pause_by_its_holder_does_not_replace_one_by_a_person(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "pause", text="lunch", by="ann")
    bench.do(halt, Halt(held.ref, held.fence, "pause", "key", "set it"))
    assert bench.state(held.ref.execution) == ("paused", "parked")
    assert bench.execution(held.ref.execution)["reason"] == "user"


@pytest.mark.parametrize("event", ["pause", "stick"])
def test_what_cannot_go_on_can_still_be_cancelled(bench: Bench, event: Any) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "cancel")
    assert bench.do(halt, Halt(held.ref, held.fence, event, "key", "no")) == Released()
    assert bench.state(held.ref.execution) == ("cancelled", "parked")


def test_a_stuck_execution_that_is_cancelled_ends_once_its_tasks_have_reported(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, task(), step())
    [leased] = bench.lease()
    bench.do(halt, Halt(held.ref, held.fence, "stick", "mismatch", "no"))
    bench.signal(held.ref.execution, "cancel")
    [again] = bench.claim()
    bench.do(halt, Halt(again.ref, again.fence, "stick", "mismatch", "no"))
    assert bench.state(held.ref.execution) == ("cancelling", "parked")
    bench.report(leased, "cancelled")
    [last] = bench.claim()
    bench.do(halt, Halt(last.ref, last.fence, "stick", "mismatch", "no"))
    assert bench.state(held.ref.execution) == ("cancelled", "parked")


def owned_function(bench: Bench) -> Claimed:
    new = bench.new()
    bench.do(start, Start(new.id, "default", "onboard", "d", "{}", new.input, None, lane="onboard"))
    wish = ClaimRequest("wrk_1", "n", (FunctionLane("onboard", "b"),), 1)
    return bench.do(claim_lanes, ClaimLanes("default", wish))[0]


def said(verb: str, held: Claimed, company: str) -> tuple[Any, Any]:
    match verb:
        case "record":
            return record, Record(held.ref, held.fence, 1, (), company)
        case "park":
            return park, Park(held.ref, held.fence, 1, 0, company)
        case "finish":
            return finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":1}', company)
        case _:
            return halt, Halt(held.ref, held.fence, "pause", "user", "", company)
