"""Requests to an execution: each once, each with its place in the log, and no lie about what was accepted."""

from __future__ import annotations

import pytest

from engine_bench import AGENT, SPEC, Bench, Verb, ask, once, request, task
from perdure.core import codec
from perdure.core.items import BeginStep, StartChild
from perdure.engine.park import Finish, finish
from perdure.engine.signal import signal
from perdure.engine.sweep import Sweep, expire_owned
from perdure.errors import Conflict, NotFound

VERBS: tuple[Verb, ...] = ("send", "stop", "pause", "resume", "cancel")


def ended(bench: Bench) -> str:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    return held.ref.execution


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_reaches_an_execution_of_others_or_of_nobody(bench: Bench, verb: Verb) -> None:
    execution = bench.started()
    assert isinstance(bench.signal(execution, verb, company="other"), NotFound)
    assert isinstance(bench.signal("exe_none", verb), NotFound)
    assert bench.kinds(execution) == ["started"]


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_reaches_an_ended_execution(bench: Bench, verb: Verb) -> None:
    execution = ended(bench)
    refusal = bench.signal(execution, verb)
    assert isinstance(refusal, Conflict)
    assert (refusal.code, refusal.details["state"]) == ("ended", "completed")
    assert bench.kinds(execution) == ["started", "completed"]


def test_a_message_is_stored_with_who_and_what_and_wakes(bench: Bench) -> None:
    held = bench.waiting(task())
    assert bench.signal(held.ref.execution, "send", by="ann", text="hurry") == 3
    assert bench.last(held.ref.execution).data == {"text": "hurry", "by": "ann", "dedupe": None}
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_a_message_with_a_key_is_accepted_once_for_life(bench: Bench) -> None:
    execution = bench.started()
    assert bench.twice(signal, request(execution, "send", text="a", dedupe="k")) == (2, 2)
    refused = bench.signal(execution, "send", text="other words", dedupe="k")
    assert isinstance(refused, Conflict)
    assert refused.code == "dedupe_conflict"
    assert bench.signal(execution, "send", text="a", dedupe="k2") == 3
    assert bench.kinds(execution).count("message") == 2


def test_a_key_belongs_to_one_execution(bench: Bench) -> None:
    one, other = bench.started(), bench.started()
    assert bench.signal(one, "send", dedupe="k") == bench.signal(other, "send", dedupe="k") == 2


def test_a_message_that_was_accepted_is_still_accepted_after_the_end(bench: Bench) -> None:
    """Whoever lost the answer must not be told that it was refused."""
    held = bench.owned()
    assert bench.signal(held.ref.execution, "send", dedupe="k") == 2
    bench.signal(held.ref.execution, "cancel")
    assert bench.signal(held.ref.execution, "send", dedupe="k") == 2
    bench.do(finish, Finish(held.ref, held.fence, 3, 0, "end", "{}"))
    assert bench.signal(held.ref.execution, "send", dedupe="k") == 2
    assert isinstance(bench.signal(held.ref.execution, "send", dedupe="new"), Conflict)


def test_a_cancelling_execution_takes_no_message(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "cancel")
    refusal = bench.signal(execution, "send")
    assert isinstance(refusal, Conflict)
    assert refusal.code == "ended"


def test_signals_of_one_execution_wait_for_each_other(bench: Bench) -> None:
    execution = bench.started()
    with pytest.raises(AssertionError, match="one batch"):
        bench.together((signal, request(execution, "pause")), (signal, request(execution, "resume")))
    bench.writer.drain()
    assert bench.kinds(execution) == ["started", "paused", "resumed"]


def test_a_stop_wakes_and_is_recorded(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.signal(held.ref.execution, "stop", by="ann")
    assert bench.last(held.ref.execution).kind == "stop_requested"
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_a_pause_takes_a_ready_execution_off_the_list(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "pause", by="ann", text="lunch")
    assert bench.state(execution) == ("paused", "parked")
    assert bench.execution(execution)["reason"] == "user"
    assert bench.last(execution).data == {"reason": "user", "message": "lunch", "by": "ann"}
    assert bench.claim() == []


def test_pausing_twice_is_pausing_once(bench: Bench) -> None:
    held = bench.waiting(task())
    assert bench.twice(signal, request(held.ref.execution, "pause")) == (3, 3)
    assert bench.kinds(held.ref.execution).count("paused") == 1


def test_a_pause_that_cannot_be_is_not_accepted(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "cancel")
    refusal = bench.signal(execution, "pause")
    assert isinstance(refusal, Conflict)
    assert refusal.code == "not_pausable"
    assert refusal.details["state"] == "cancelling"


def test_an_owned_execution_is_paused_under_its_holder(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "pause")
    assert bench.state(held.ref.execution) == ("paused", "owned")
    bench.signal(held.ref.execution, "resume")
    assert bench.state(held.ref.execution) == ("running", "owned")
    assert bench.ready() == []


def test_a_resumed_execution_is_ready_with_all_that_came_meanwhile(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.signal(held.ref.execution, "pause")
    bench.signal(held.ref.execution, "send")
    assert bench.ready() == []
    assert bench.signal(held.ref.execution, "resume") == 5
    assert bench.state(held.ref.execution) == ("ready", "ready")
    assert bench.execution(held.ref.execution)["reason"] is None


@pytest.mark.parametrize("verb", ["send", "stop"])
def test_what_is_paused_hears_and_sleeps_on(bench: Bench, verb: Verb) -> None:
    held = bench.waiting(task())
    bench.signal(held.ref.execution, "pause")
    bench.signal(held.ref.execution, verb)
    assert bench.state(held.ref.execution) == ("paused", "parked")


def test_resuming_what_is_not_paused_is_refused(bench: Bench) -> None:
    execution = bench.started()
    refusal = bench.signal(execution, "resume")
    assert isinstance(refusal, Conflict)
    assert (refusal.code, refusal.details["state"]) == ("not_paused", "ready")


def test_a_cancel_is_acknowledged_and_keeps_back_what_nobody_was_given(bench: Bench) -> None:
    held = bench.waiting(task("a"), once("b"), ask("c/approval"))
    [leased] = bench.lease(slots=1)
    assert bench.signal(held.ref.execution, "cancel", by="ann", text="wrong order") == 5
    assert bench.state(held.ref.execution) == ("cancelling", "ready")
    assert bench.last(held.ref.execution).data == {"by": "ann", "reason": "wrong order"}
    assert bench.task(leased.execution, "a")["state"] == "leased"
    assert bench.task(leased.execution, "b")["state"] == "dead"
    point = bench.row("waitpoint", shard=held.ref.shard, execution=leased.execution, address="c/approval")
    assert point is not None
    assert point["state"] == "cancelled"
    assert bench.lease("wrk_2") == []


@pytest.mark.parametrize("before", ["owned", "paused", "waiting", "ready"])
def test_a_cancel_reaches_every_state(bench: Bench, before: str) -> None:
    execution = bench.started()
    if before in ("owned", "waiting"):
        [held] = bench.claim()
        if before == "waiting":
            bench.park(held)
    if before == "paused":
        bench.signal(execution, "pause")
    bench.signal(execution, "cancel")
    assert bench.state(execution) == ("cancelling", "owned" if before == "owned" else "ready")
    assert bench.execution(execution)["reason"] is None


def test_cancelling_twice_is_accepted_and_told_to_the_holder(bench: Bench) -> None:
    execution = bench.owned().ref.execution
    assert bench.signal(execution, "cancel") == 2
    assert bench.signal(execution, "cancel") == 3
    assert bench.state(execution) == ("cancelling", "owned")
    assert bench.kinds(execution)[-2:] == ["cancel_requested", "cancel_requested"]


@pytest.mark.parametrize("before", ["ready", "waiting", "paused"])
def test_a_second_cancel_ends_what_nobody_holds(bench: Bench, before: str) -> None:
    """It skips the cleanup, so nobody needs the code: of a durable function there may be no worker left that has it."""
    execution = bench.started(lane="onboard") if before == "ready" else bench.waiting(ask()).ref.execution
    if before == "paused":
        bench.signal(execution, "pause")
    bench.signal(execution, "cancel")
    assert bench.state(execution) == ("cancelling", "ready")
    bench.signal(execution, "cancel", by="ann", text="its code is gone")
    assert bench.state(execution) == ("cancelled", "parked")
    assert bench.kinds(execution)[-2:] == ["cancel_requested", "cancelled"]
    assert bench.ready() == []
    assert bench.claim() == []


def test_a_second_cancel_waits_for_what_workers_hold(bench: Bench) -> None:
    held = bench.leased()
    bench.signal(held.execution, "cancel")
    bench.signal(held.execution, "cancel")
    assert bench.state(held.execution) == ("cancelling", "parked")
    assert bench.ready() == []
    bench.report(held, value=1)
    assert bench.state(held.execution) == ("cancelling", "ready")


def test_a_second_cancel_leaves_a_claim_that_nobody_reported_on_uncertain(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, BeginStep("charge", "d", "cla_1", "charge", {"args": [5]}, 1_000))
    bench.clock.advance(100)
    bench.do(expire_owned, Sweep(10))
    bench.signal(held.ref.execution, "cancel")
    bench.signal(held.ref.execution, "cancel")
    assert bench.kinds(held.ref.execution)[-2:] == ["task_uncertain", "cancelled"]
    assert bench.task(held.ref.execution, "charge")["state"] == "uncertain"


def test_a_second_cancel_is_told_to_the_parent(bench: Bench) -> None:
    child = StartChild("child", "d", "exe_child", dict(SPEC), AGENT, codec.digest(dict(SPEC)), "1", lane="onboard")
    parent = bench.waiting(child)
    bench.signal("exe_child", "cancel")
    bench.signal("exe_child", "cancel")
    last = bench.last(parent.ref.execution)
    assert (last.kind, last.data["state"]) == ("child_ended", "cancelled")
    assert bench.state(parent.ref.execution) == ("ready", "ready")


@pytest.mark.parametrize("verb", ["stop", "pause", "resume", "cancel"])
def test_a_request_whose_commit_is_reported_lost_is_made_once(bench: Bench, verb: Verb) -> None:
    """A second cancel would skip the cleanup, and a second pause undo what somebody resumed since."""
    execution = bench.started()
    if verb == "resume":
        bench.signal(execution, "pause")
    before = len(bench.log(execution))
    first, again = bench.twice(signal, request(execution, verb, dedupe="k"))
    assert first == again == before + 1
    assert len(bench.log(execution)) == before + 1
    refused = bench.signal(execution, "send", text="other words", dedupe="k")
    assert isinstance(refused, Conflict)
    assert refused.code == "dedupe_conflict"


def test_a_pause_that_is_said_again_after_somebody_resumed_pauses_nothing(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "pause", dedupe="k")
    bench.signal(execution, "resume")
    assert bench.signal(execution, "pause", dedupe="k") == 2
    assert bench.state(execution) == ("ready", "ready")


def test_a_request_that_changed_nothing_leaves_no_key_behind(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "pause", dedupe="k1")
    assert bench.signal(execution, "pause", dedupe="k2") == 2
    assert isinstance(bench.signal(execution, "send", text="hello", dedupe="k2"), int)


def test_a_long_message_counts_towards_the_size_of_a_batch() -> None:
    assert request("exe_1", "send", text="x" * 1_000).size == 1_000
