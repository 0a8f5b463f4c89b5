"""Forks: a prefix of another's log, edited, that goes on by itself and does nothing again that the origin did."""

from __future__ import annotations

from typing import Any

from engine_bench import Bench, ask, once, ref, step, task
from perdure.core.ids import shard_of
from perdure.core.views import ForkEdits, Started
from perdure.engine.claim import Claimed
from perdure.engine.fork import Fork, fork
from perdure.errors import Conflict, InvalidInput, NotFound


def origin_with(bench: Bench, *items: Any) -> str:
    return bench.waiting(*items).ref.execution


def forked(bench: Bench, origin: str, at: int, *, id: str = "exe_fork", company: str = "default", **edits: Any) -> Any:
    return bench.do(fork, Fork(id, company, origin, at, ForkEdits(**edits), "ann"))


def done(bench: Bench, origin: str) -> None:
    for held in bench.lease():
        if held.delivery == "at_most_once":
            bench.begin(held)
        bench.report(held, value=f"did {held.address}")


def claimed(bench: Bench, execution: str = "exe_fork") -> Claimed:
    return next(one for one in bench.claim() if one.ref.execution == execution)


def test_a_fork_has_the_prefix_and_goes_on(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    done(bench, origin)
    assert forked(bench, origin, 4) == Started("exe_fork", created=True)
    assert bench.kinds("exe_fork") == ["started", "step_recorded", "task_scheduled", "task_completed", "forked"]
    assert bench.last("exe_fork").data["origin"] == origin
    assert claimed(bench).ref == ref("exe_fork")
    assert bench.state(origin)[0] != "running" or bench.kinds(origin)[-1] == "task_completed"


def test_asked_twice_it_is_made_once(bench: Bench) -> None:
    origin = origin_with(bench, step())
    row = Fork("exe_fork", "default", origin, 2, ForkEdits(), "ann")
    first, second = bench.twice(fork, row)
    assert first == second == Started("exe_fork", created=True)
    assert bench.kinds("exe_fork") == ["started", "step_recorded", "forked"]


def test_another_company_cannot_fork(bench: Bench) -> None:
    assert isinstance(forked(bench, origin_with(bench, step()), 2, company="other"), NotFound)
    assert isinstance(forked(bench, "exe_nobody", 2), NotFound)


def test_edits_of_prompt_and_results_stand_in_the_prefix(bench: Bench) -> None:
    origin = origin_with(bench, step("turn 1/model"), task(), step("turn 2/model"))
    done(bench, origin)
    log = bench.log(origin)
    assert [str(event.kind) for event in log][-1] == "task_completed"
    forked(bench, origin, 5, prompt="another", results={"tool": 42})
    events = bench.log("exe_fork")
    assert events[0].data["input"] == "another"
    assert [event.digest for event in events if event.kind == "step_recorded"] == ["*", "*"]
    assert next(event for event in events if event.kind == "task_completed").data["value"] == 42
    assert bench.log(origin) == log


def test_an_edited_result_leaves_what_stands_before_it_as_it_was(bench: Bench) -> None:
    origin = origin_with(bench, step("turn 1/model"), task())
    done(bench, origin)
    forked(bench, origin, 4, results={"tool": 42})
    assert [event.digest for event in bench.log("exe_fork") if event.kind == "step_recorded"] == ["d"]


def test_an_acting_call_past_the_prefix_takes_the_origins_result(bench: Bench) -> None:
    origin = origin_with(bench, step(), once())
    done(bench, origin)
    forked(bench, origin, 2)
    held = claimed(bench)
    news = bench.record(held, once())
    assert [row["kind"] for row in news.events] == ["task_scheduled", "task_completed"]
    assert bench.log("exe_fork")[-1].data["value"] == "did tool"
    assert bench.lease(worker="wrk_2") == []
    assert bench.task("exe_fork")["claims"] == 0


def test_a_call_that_the_origin_did_not_make_waits_for_a_person(bench: Bench) -> None:
    origin = origin_with(bench, step())
    forked(bench, origin, 2)
    held = claimed(bench)
    bench.record(held, task())
    assert bench.state("exe_fork")[0] == "paused"
    assert bench.lease() == []
    bench.park(held)
    bench.signal("exe_fork", "resume")
    assert [one.execution for one in bench.lease()] == ["exe_fork"]


def test_a_call_with_other_arguments_waits_too_and_one_that_only_reads_does_not(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    done(bench, origin)
    forked(bench, origin, 2)
    held = claimed(bench)
    bench.record(held, task("look", delivery="repeatable"))
    assert bench.state("exe_fork")[0] == "running"
    bench.record(held, task(digest="other"))
    assert bench.state("exe_fork")[0] == "paused"


def test_a_claim_that_was_open_in_the_prefix_is_never_armed_again(bench: Bench) -> None:
    held = bench.begun()
    seq = bench.execution(held.execution)["next_seq"] - 1
    forked(bench, held.execution, seq)
    assert bench.task("exe_fork", held.address)["state"] == "uncertain"
    assert bench.lease(worker="wrk_2") == []
    assert "task_uncertain" in bench.kinds("exe_fork")
    bench.report(held, value="late")
    assert bench.task("exe_fork", held.address)["state"] == "uncertain"


def test_a_call_that_was_open_in_the_prefix_takes_what_the_origin_heard_later(bench: Bench) -> None:
    origin = origin_with(bench, step(), once())
    seq = bench.execution(origin)["next_seq"] - 1
    done(bench, origin)
    forked(bench, origin, seq)
    assert bench.task("exe_fork")["state"] == "done"
    assert bench.log("exe_fork")[-1].data["value"] == "did tool"


def test_no_fork_takes_over_an_approval_that_is_the_origins(bench: Bench) -> None:
    origin = origin_with(bench, step(), ask())
    refused = forked(bench, origin, 3)
    assert isinstance(refused, Conflict)
    assert refused.code == "not_forkable"
    assert "fork it at 2 or earlier" in refused.message
    assert isinstance(forked(bench, origin, 2), Started)


def test_a_place_or_a_result_that_is_not_there_is_named(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    assert isinstance(forked(bench, origin, 9), InvalidInput)
    assert isinstance(forked(bench, origin, 3, results={"tool": 1}), InvalidInput)
    bench.signal(origin, "cancel")
    assert isinstance(forked(bench, origin, 4), Conflict)


def test_its_lineage_names_the_origin(bench: Bench) -> None:
    origin = origin_with(bench, step())
    forked(bench, origin, 2)
    assert bench.execution("exe_fork")["origin"] == origin
    assert bench.execution("exe_fork")["shard"] == shard_of("exe_fork")
