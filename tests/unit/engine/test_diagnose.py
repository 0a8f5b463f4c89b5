"""The doctor: for each cause the real situation, what it says of it, and the command that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_bench import COMPANY, WORKER, Bench, ask, once, step, task
from perdure.core.functions import ClaimRequest, HeldExecution
from perdure.core.items import AwaitSignal, OpenToken, SetTimer, StartChild
from perdure.core.rules import TaskRules
from perdure.core.views import Finding
from perdure.core.work import Answer, Failure, FunctionLane, Held, Lane, WorkerInfo
from perdure.engine.diagnose import diagnose
from perdure.engine.held import Beats, beat
from perdure.engine.lanes import ClaimLanes, RenewExecutions, claim_lanes, renew_executions
from perdure.engine.park import Finish, Halt, finish, halt
from perdure.engine.signal import Signal, signal
from perdure.engine.start import start
from perdure.errors import NotFound

LANE = Lane("clerk", "post")
FUNCTION = FunctionLane("onboard", "b1")


def worker(*lanes: Lane, id: str = WORKER, functions: tuple[FunctionLane, ...] = ()) -> WorkerInfo:
    return WorkerInfo(id, id, lanes, functions=functions)


def findings(bench: Bench, execution: str, *workers: WorkerInfo) -> list[Finding]:
    now_ms = bench.clock.wall_ms()
    return bench.read(lambda reads: diagnose(reads, "default", execution, workers, now_ms))


def only(bench: Bench, execution: str, *workers: WorkerInfo) -> Finding:
    [found] = findings(bench, execution, *workers)
    return found


def function(bench: Bench, build: str = "b1") -> str:
    """Begin a durable function."""
    row = replace(bench.new(), lane="onboard", build=build)
    bench.do(start, row)
    return row.id


def test_a_decision_waits_for_a_person_since_then(bench: Bench) -> None:
    held = bench.waiting(ask())
    bench.clock.advance(600)
    found = only(bench, held.ref.execution)
    assert found.what.startswith("a call of post waits for a person's decision since ")
    assert "(10 min)" in found.what
    assert (found.level, found.command) == ("problem", "perdure approvals approve apr_1")


def test_no_worker_is_there_at_all(bench: Bench) -> None:
    held = bench.waiting(task())
    found = only(bench, held.ref.execution)
    assert "no worker is connected here: it is for queue default" in found.what
    assert (found.level, found.command) == ("problem", "perdure worker MODULE:AGENT")


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        (Lane("clerk", "post", "slow"), "no worker connected here serves queue default: the tool is served on slow"),
        (Lane("clerk", "other"), "no worker connected here serves tool post of clerk"),
        (Lane("other", "post"), "no worker connected here serves the tools of clerk on queue default"),
    ],
)
def test_no_worker_serves_that_queue_or_tool(bench: Bench, lane: Lane, words: str) -> None:
    found = only(bench, bench.waiting(task()).ref.execution, worker(lane))
    assert words in found.what
    assert (found.level, found.command) == ("problem", "perdure worker MODULE:AGENT")


def test_all_slots_are_taken(bench: Bench) -> None:
    found = only(bench, bench.waiting(task()).ref.execution, worker(LANE))
    assert found.level == "note"
    assert found.what.startswith("post waits for a free slot on queue default, since ")


def test_the_next_try_has_its_time(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(pause_ms=50_000)))
    bench.report(held, "failed", failure=Failure("boom", "the line is busy"))
    found = only(bench, held.execution, worker(LANE))
    assert "post is tried again at " in found.what
    assert "(in 50 s), for the 2. of 3 times. The last one: the line is busy" in found.what
    assert found.level == "note"


def test_a_worker_runs_it_and_its_lease_has_an_end(bench: Bench) -> None:
    held = bench.leased()
    bench.do(beat, Beats(COMPANY, WORKER, (Held(held.execution, held.address, held.fence, progress="0.42"),)))
    found = only(bench, held.execution, worker(LANE))
    assert found.what.startswith(f"worker {WORKER} runs post since ")
    assert "try 1 of 3, lease until " in found.what
    assert found.what.endswith(": 42 %.")
    assert found.level == "ok"


def test_the_worker_that_has_it_is_not_heard_of(bench: Bench) -> None:
    found = only(bench, bench.leased().execution)
    assert "That worker is not connected here; if nothing is heard of it by then, it is tried again." in found.what
    assert found.level == "note"


def test_nobody_knows_what_became_of_it_and_from_when_on_a_ruling_counts(bench: Bench) -> None:
    held = bench.begun(once(rules=TaskRules(rule_by_ms=3_600_000, rule_as="give_up", settle_ms=120_000)))
    bench.expire(31)
    found = only(bench, held.execution)
    assert found.what.startswith("nobody knows what became of post at 'tool', since ")
    assert "That it did not happen can be said from " in found.what
    assert "it counts as give_up." in found.what
    assert found.command == f"perdure effects rule {held.execution} 'tool' happened|run|give-up"
    assert found.level == "problem"


def test_a_call_failed_for_good_and_can_be_tried_anew(bench: Bench) -> None:
    held = bench.leased(task(max_attempts=1))
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    found = findings(bench, held.execution)[0]
    assert found == Finding(
        "note", "post at 'tool' has failed for good: it broke", f"perdure tasks retry {held.execution} 'tool'"
    )


def test_a_poisoned_call_is_named_and_no_retry_is_offered(bench: Bench) -> None:
    held = bench.leased(task(delivery="repeatable"))
    bench.report(held, "failed", failure=Failure("too_large", "the result takes 9 MB", permanent=True))
    found = findings(bench, held.execution)[0]
    assert "has failed for good (poison: no retry can change it): the result takes 9 MB" in found.what
    assert found.command is None


@pytest.mark.parametrize(
    ("reason", "words"), [("key", "it is paused for a key since "), ("quota", "it is paused for quota since ")]
)
def test_it_is_paused_until_somebody_acts(bench: Bench, reason: str, words: str) -> None:
    held = bench.owned()
    bench.do(halt, Halt(held.ref, held.fence, "pause", reason, "raise the limit"))
    found = only(bench, held.ref.execution)
    assert found.what.startswith(words)
    assert found.what.endswith(": raise the limit")
    assert found.command == f"perdure executions resume {held.ref.execution}"


def test_somebody_paused_it(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "pause", by="ann", text="for lunch")
    found = only(bench, execution)
    assert found.what.startswith("it was paused by ann since ")
    assert found.command == f"perdure executions resume {execution}"


def test_it_is_stuck_as_log_and_code_disagree(bench: Bench) -> None:
    held = bench.owned()
    bench.do(halt, Halt(held.ref, held.fence, "stick", "mismatch", "the log says a, the code says b"))
    first, *ways = findings(bench, held.ref.execution)
    assert first.what.startswith("it is stuck (mismatch) since ")
    assert "the log says a, the code says b" in first.what
    assert [one.command for one in ways] == [
        f"perdure executions resume {held.ref.execution}",
        f"perdure executions cancel {held.ref.execution}",
    ]


def test_it_sleeps_until_then(bench: Bench) -> None:
    held = bench.waiting(SetTimer("nap", "d", 7_200_000))
    found = only(bench, held.ref.execution)
    assert found.what.startswith("it sleeps at 'nap' until ")
    assert found.what.endswith("in 2 h.")
    bench.clock.advance(7_260)
    assert "no server sweeps this store" in only(bench, held.ref.execution).what


def test_it_waits_for_a_token(bench: Bench) -> None:
    held = bench.waiting(OpenToken("token yes", "d", "tok_1", "yes", "h" * 64))
    found = only(bench, held.ref.execution)
    assert found.what.startswith("it waits for token 'yes' to be completed since ")
    assert found.command == "perdure tokens complete tok_1 --value JSON"


def test_it_waits_for_a_signal_that_nobody_sent_yet(bench: Bench) -> None:
    held = bench.waiting(AwaitSignal("go 1", "d", "go"), AwaitSignal("go 2", "d", "go"))
    execution = held.ref.execution
    assert [one.command for one in findings(bench, execution)] == [f"perdure executions signal {execution} go"] * 2
    bench.do(signal, Signal(COMPANY, execution, "signal", name="go", dedupe="1"))
    commands = [one.command for one in findings(bench, execution)]
    assert commands.count(f"perdure executions signal {execution} go") == 1


def test_it_waits_for_its_child(bench: Bench) -> None:
    row = bench.new(id="exe_child")
    held = bench.waiting(StartChild("child", "d", "exe_child", {"name": "clerk"}, "clerk", row.definition, '"hi"'))
    found = only(bench, held.ref.execution)
    assert found.what.startswith("it waits for its child exe_child of clerk since ")
    assert found.what.endswith("which is ready.")
    assert found.command == "perdure doctor exe_child"


def test_no_server_has_claimed_it(bench: Bench) -> None:
    found = only(bench, bench.started())
    assert found.what.startswith("it is ready and waits for a server to claim it, since ")


def test_no_worker_serves_that_durable_function(bench: Bench) -> None:
    found = only(bench, function(bench), worker(LANE))
    assert found == Finding(
        "problem",
        "no worker connected here serves the durable function onboard.",
        "perdure worker MODULE:FUNCTION",
    )


def test_no_worker_serves_that_build(bench: Bench) -> None:
    execution = function(bench)
    other = worker(functions=(FunctionLane("onboard", "b2"),))
    assert "no worker connected here serves build b1 of onboard, only b2." in only(bench, execution, other).what
    right = worker(functions=(FUNCTION,))
    assert only(bench, execution, right).what == "it waits for a free slot of a worker that serves onboard."


def test_its_code_waits_for_something_that_is_no_step(bench: Bench) -> None:
    execution = function(bench)
    wish = ClaimRequest(WORKER, "n1", (FUNCTION,), 10)
    assert len(bench.do(claim_lanes, ClaimLanes(COMPANY, wish))) == 1
    assert [one.level for one in findings(bench, execution)] == ["ok"]
    bench.clock.advance(20)
    first, _ = findings(bench, execution)
    assert first.what.startswith("its code has asked for nothing for 20 s: it computes, or waits for what is no step")
    assert (first.level, first.command) == ("problem", "perdure check MODULE")


def test_where_its_code_waits_outside_a_step_is_named(bench: Bench) -> None:
    execution = function(bench)
    wish = ClaimRequest(WORKER, "n1", (FUNCTION,), 10)
    [held] = bench.do(claim_lanes, ClaimLanes(COMPANY, wish))

    def renew(outside: str) -> None:
        kept = HeldExecution(execution, held.fence, outside)
        assert bench.do(renew_executions, RenewExecutions(COMPANY, WORKER, 30_000, (kept,))) == [Answer.ACCEPTED]

    renew("shop.py:12 in main")
    found = findings(bench, execution)
    assert (found[0].level, found[0].command) == ("problem", "perdure check MODULE")
    assert "waits for the world outside a step, at shop.py:12 in main" in found[0].what
    renew("")
    assert [one.level for one in findings(bench, execution)] == ["ok"]


def test_a_server_waits_for_the_model(bench: Bench) -> None:
    held = bench.owned()
    found = only(bench, held.ref.execution)
    assert found.what.startswith("server srv_1 runs it since ")
    assert "lease until " in found.what
    bench.clock.advance(20)
    assert "it has been waiting for the model's reply for 20 s." in [
        one.what for one in findings(bench, held.ref.execution)
    ]


def test_whoever_had_it_fell_silent(bench: Bench) -> None:
    held = bench.owned()
    bench.clock.advance(60)
    found = only(bench, held.ref.execution)
    assert "server srv_1 had it and fell silent; its lease ended " in found.what
    assert found.level == "problem"


def test_it_is_being_cancelled(bench: Bench) -> None:
    held = bench.leased()
    bench.signal(held.execution, "cancel")
    assert any("it is being cancelled since " in one.what for one in findings(bench, held.execution, worker(LANE)))


def test_it_has_ended(bench: Bench) -> None:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    found = only(bench, held.ref.execution)
    assert (found.level, found.what) == ("ok", "it has completed.")
    assert found.command == f"perdure executions show {held.ref.execution}"


def test_the_worst_comes_first(bench: Bench) -> None:
    held = bench.waiting(SetTimer("nap", "d", 7_200_000), task("a"), ask("z/approval"), step("done"))
    bench.lease()
    levels = [one.level for one in findings(bench, held.ref.execution, worker(LANE))]
    assert levels == ["problem", "ok", "ok"]


def test_what_is_not_there_has_no_doctor(bench: Bench) -> None:
    with pytest.raises(NotFound):
        findings(bench, "exe_none")
