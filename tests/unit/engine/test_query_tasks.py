"""Tool calls, and why an execution does not move."""

from __future__ import annotations

import pytest

from engine_bench import WORKER, Bench, ask, once, task
from perdure.core.views import Finding, TaskView
from perdure.core.work import Failure, Lane, WorkerInfo
from perdure.engine.park import Finish, Halt, finish, halt
from perdure.engine.query_tasks import diagnose, tasks_view
from perdure.errors import NotFound


def tasks(bench: Bench, execution: str) -> list[TaskView]:
    return bench.read(lambda reads: tasks_view(reads, "default", execution))


def findings(bench: Bench, execution: str, *workers: WorkerInfo) -> list[Finding]:
    return bench.read(lambda reads: diagnose(reads, "default", execution, workers))


def test_tool_calls_are_listed_in_the_order_they_were_scheduled(bench: Bench) -> None:
    held = bench.waiting(task("b", args={"n": 2}), task("a", max_attempts=1), task("c"))
    leased = {one.address: one for one in bench.lease()}
    bench.report(leased["b"], value={"ok": True})
    bench.report(leased["a"], "failed", failure=Failure("boom", "it broke"))
    first, second, third = tasks(bench, held.ref.execution)
    assert (first.address, first.state, first.value, first.args) == ("b", "done", {"ok": True}, {"n": 2})
    assert (first.worker, first.attempt, first.key) == (WORKER, 1, f"{held.ref.execution}/b")
    assert first.ended_ms == bench.clock.wall_ms()
    assert (second.address, second.state, second.failure) == ("a", "dead", Failure("boom", "it broke"))
    assert (third.address, third.state, third.ended_ms, third.failure) == ("c", "leased", None, None)


def test_a_failed_attempt_is_not_the_end(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    [seen] = tasks(bench, held.execution)
    assert (seen.state, seen.failure, seen.ended_ms) == ("ready", None, None)


def test_tool_calls_of_nobody_are_not_found(bench: Bench) -> None:
    with pytest.raises(NotFound):
        tasks(bench, "exe_none")


def test_the_doctor_names_the_command_that_helps(bench: Bench) -> None:
    held = bench.owned()
    bench.do(halt, Halt(held.ref, held.fence, "pause", "key", "set OPENAI_API_KEY"))
    paused = held.ref.execution
    assert findings(bench, paused) == [
        Finding("problem", "it is paused (key): set OPENAI_API_KEY", f"perdure executions resume {paused}")
    ]
    held = bench.owned()
    bench.do(halt, Halt(held.ref, held.fence, "stick", "mismatch", "the code changed"))
    stuck = held.ref.execution
    assert findings(bench, stuck) == [Finding("problem", "the code changed", f"perdure executions cancel {stuck}")]
    by_person = bench.started()
    bench.signal(by_person, "pause")
    assert "somebody paused it" in findings(bench, by_person)[0].what


def test_the_doctor_says_that_it_ended(bench: Bench) -> None:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    [found] = findings(bench, held.ref.execution)
    assert (found.level, found.what) == ("ok", "it has completed.")


def test_the_doctor_says_who_runs_it_or_that_nobody_does(bench: Bench) -> None:
    execution = bench.started()
    assert findings(bench, execution) == [Finding("note", "it is ready and waits for a server to claim it.")]
    bench.claim()
    assert findings(bench, execution) == [Finding("ok", "server srv_1 runs it, under fence 1.")]


def test_the_doctor_explains_every_wait(bench: Bench) -> None:
    held = bench.waiting(ask("z/approval"), task("a"), once("b"), task("c"), task("d", queue="slow"))
    a, b, c = sorted(bench.lease(), key=lambda one: one.address)
    bench.begin(b)
    bench.report(b, "failed")
    bench.report(c, "failed")
    worker = WorkerInfo("wrk_9", "w", (Lane("clerk", "post"),))
    found = {(one.level, one.what, one.command) for one in findings(bench, held.ref.execution, worker)}
    execution = held.ref.execution
    assert found == {
        ("problem", "a call of post waits for a person's decision.", "perdure approvals approve apr_1"),
        ("ok", f"worker {WORKER} runs post, attempt {a.attempt}.", None),
        (
            "problem",
            "nobody knows what became of post at 'b': it had begun.",
            f"perdure effects rule {execution} 'b' happened|run|give_up",
        ),
        ("note", "post waits on queue default for a free slot, or for its retry pause.", None),
        (
            "problem",
            "post waits on queue slow, and no worker connected here serves it.",
            "perdure worker MODULE:AGENT",
        ),
    }
