"""What people and programs see: rows put together, for one company, of one moment."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import WORKER, Bench, ask, once, step, task
from perdure.core.ids import id_of
from perdure.core.items import SetTimer
from perdure.core.rules import TaskRules
from perdure.core.spoken import moment
from perdure.core.views import ExecutionFilter, ExecutionView
from perdure.core.work import Failure
from perdure.engine import query, query_tasks
from perdure.engine.park import Finish, Halt, finish, halt
from perdure.engine.query_list import execution_page
from perdure.engine.resolve import Decide, decide
from perdure.errors import NotFound

REPLY = (
    '{"outcome":"replied","requests":1,'
    '"reply":{"text":"hi","usage":{"input_tokens":%d,"output_tokens":2},"cost_usd":%s}}'
)


def view(bench: Bench, execution: str, company: str = "default") -> ExecutionView:
    return bench.read(lambda reads: query.execution_view(reads, company, execution))


def test_a_fresh_execution_is_seen_as_it_was_started(bench: Bench) -> None:
    execution = bench.started(input='{"order":7}')
    seen = view(bench, execution)
    assert (seen.id, seen.agent, seen.model, seen.state, seen.input) == (
        execution,
        "clerk",
        "scripted/clerk",
        "ready",
        {"order": 7},
    )
    assert (seen.output, seen.failure, seen.message, seen.waits, seen.last_seq) == (None, None, None, (), 1)


def test_an_execution_of_others_is_not_there(bench: Bench) -> None:
    execution = bench.started()
    for company, name in (("other", execution), ("default", "exe_none")):
        with pytest.raises(NotFound) as refused:
            view(bench, name, company)
        assert refused.value.details == {"execution": name}


def test_whether_it_has_ended_is_told_of_ones_own(bench: Bench) -> None:
    held = bench.owned()
    execution = held.ref.execution
    assert not bench.read(lambda reads: query.has_ended(reads, "default", execution))
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    assert bench.read(lambda reads: query.has_ended(reads, "default", execution))
    with pytest.raises(NotFound):
        bench.read(lambda reads: query.has_ended(reads, "other", execution))


def test_a_completed_execution_shows_its_output(bench: Bench) -> None:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 9, "complete", '{"output":{"result":"done"}}'))
    seen = view(bench, held.ref.execution)
    assert (seen.state, seen.output, seen.active_ms) == ("completed", {"result": "done"}, 9)
    assert seen.finished_ms == bench.clock.wall_ms()


def test_a_failed_execution_shows_why(bench: Bench) -> None:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "fail", '{"error":"it broke","code":"broken"}'))
    seen = view(bench, held.ref.execution)
    assert (seen.failure, seen.message) == (Failure("broken", "it broke"), "it broke")


def test_a_cancelled_execution_shows_neither(bench: Bench) -> None:
    held = bench.owned()
    bench.signal(held.ref.execution, "cancel")
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "end", "{}"))
    seen = view(bench, held.ref.execution)
    assert (seen.state, seen.output, seen.failure, seen.message) == ("cancelled", None, None, None)


@pytest.mark.parametrize("event", ["pause", "stick"])
def test_what_does_not_go_on_says_what_to_do(bench: Bench, event: Any) -> None:
    held = bench.owned()
    bench.do(halt, Halt(held.ref, held.fence, event, "key", "set OPENAI_API_KEY"))
    seen = view(bench, held.ref.execution)
    assert (seen.reason, seen.message) == ("key", "set OPENAI_API_KEY")


def test_a_pause_without_a_reason_has_no_message(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "pause")
    assert view(bench, execution).message is None


def test_usage_sums_recorded_calls_and_an_unknown_price_is_not_zero(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, step("turn 1/model", REPLY % (10, 0.25)), step("turn 2/model", REPLY % (20, 0.5)))
    usage = view(bench, held.ref.execution).usage
    assert (usage.model_calls, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (2, 30, 4, 0.75)
    bench.record(held, step("turn 3/model", '{"outcome":"refused","requests":1}'), step("x"))
    usage = view(bench, held.ref.execution).usage
    assert (usage.model_calls, usage.cost_usd) == (3, 0.75), "one that failed is a call, and cost nothing"
    bench.record(held, step("turn 4/model", REPLY % (1, "null")))
    usage = view(bench, held.ref.execution).usage
    assert (usage.model_calls, usage.cost_usd) == (4, None)


def test_a_step_that_returns_what_looks_like_a_reply_is_no_model_call(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, step("x", '{"reply":{"subject":"your order"}}'), step("y", '{"outcome":"sent"}'))
    assert view(bench, held.ref.execution).usage.model_calls == 0


def test_waits_name_what_is_waited_for_and_since_when(bench: Bench) -> None:
    items = [task("a"), once("b"), task("c"), once("d"), task("e", tool="get", queue="slow"), ask("f/approval")]
    held = bench.waiting(*items, SetTimer("t", "d", 5_000))
    a, b, c, d = sorted(bench.lease(), key=lambda one: one.address)
    bench.begin(b)
    bench.begin(d)
    bench.report(d, "failed")
    bench.report(c, value=1)
    waits = {wait.address: (wait.kind, wait.detail) for wait in view(bench, held.ref.execution).waits}
    assert waits == {
        a.address: ("task", f"post, which worker {WORKER} runs"),
        b.address: ("task", f"post, which worker {WORKER} runs"),
        d.address: ("ruling", "a ruling on what became of post"),
        "e": ("task", "a worker for clerk/get on queue slow"),
        "f/approval": ("approval", "a decision about post"),
        "t": ("timer", f"a timer due at {moment(bench.clock.wall_ms() + 5_000)}"),
    }


def test_approvals_show_exactly_what_is_asked_and_what_was_decided(bench: Bench) -> None:
    held = bench.waiting(ask("a/approval", "apr_a"), ask("b/approval", "apr_b"))
    bench.do(decide, Decide("default", "apr_a", "reject", "ann", "too much"))
    everything = bench.read(lambda reads: query.approvals_of(reads, "default"))
    assert [(one.id, one.state, one.decision, one.decided_by, one.reason) for one in everything] == [
        ("apr_a", "resolved", "reject", "ann", "too much"),
        ("apr_b", "open", None, None, None),
    ]
    assert [(one.tool, one.args, one.execution) for one in everything] == [("post", {"n": 1}, held.ref.execution)] * 2
    assert [one.id for one in view(bench, held.ref.execution).approvals] == ["apr_b"]
    assert bench.read(lambda reads: query.approvals_of(reads, "other")) == []
    assert [one.id for one in bench.read(lambda reads: query.approvals_of(reads, "default", approval="apr_a"))] == [
        "apr_a"
    ]


def test_pages_hold_every_execution_once_newest_first(bench: Bench) -> None:
    ids = [bench.started() for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = bench.read(
            lambda reads, at=cursor: execution_page(reads, "default", ExecutionFilter(), cursor=at, limit=2)
        )
        seen += [one.id for one in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]


def test_a_page_is_filtered_by_state_agent_and_company(bench: Bench) -> None:
    ready, paused = bench.started(), bench.started()
    bench.started(company="other")
    bench.signal(paused, "pause")

    def page(**filters: Any) -> list[str]:
        return [
            one.id
            for one in bench.read(
                lambda reads: execution_page(reads, "default", ExecutionFilter(**filters), limit=9)
            ).items
        ]

    assert page() == [paused, ready]
    assert page(state="paused") == [paused]
    assert page(agent="clerk", state="ready") == [ready]
    assert page(agent="nobody") == []


def test_a_page_of_a_time_holds_what_was_begun_in_it(bench: Bench) -> None:
    began_ms = bench.clock.wall_ms()
    first = bench.started(id=id_of("exe", began_ms + 3_600_000, b"0" * 10))  # by a machine whose clock is ahead
    bench.clock.advance(3 * 86_400)
    second = bench.started(id=id_of("exe", bench.clock.wall_ms(), b"0" * 10))
    bench.signal(first, "pause")

    def page(**window: Any) -> list[str]:
        found = bench.read(lambda reads: execution_page(reads, "default", ExecutionFilter(**window), limit=9))
        return [one.id for one in found.items]

    later_ms = began_ms + 1
    assert page(since_ms=began_ms) == [second, first]
    assert page(since_ms=later_ms) == [second]
    assert page(until_ms=later_ms) == [first]
    assert page(since_ms=later_ms, agent="clerk") == [second]
    assert page(until_ms=later_ms, state="paused") == [first]
    assert page(since_ms=later_ms, until_ms=later_ms + 1, agent="clerk") == []
    assert page(since_ms=0, until_ms=2**60) == [second, first]


def test_pages_of_an_agent_are_newest_first_whatever_their_states(bench: Bench) -> None:
    ids = [bench.started() for _ in range(6)]
    for one in ids[::2]:
        bench.signal(one, "pause")
    seen: list[str] = []
    cursor = None
    while cursor is not None or not seen:
        page = bench.read(
            lambda reads, at=cursor: execution_page(
                reads, "default", ExecutionFilter(agent="clerk"), cursor=at, limit=2
            )
        )
        seen += [one.id for one in page.items]
        cursor = page.cursor
    assert seen == ids[::-1]


def test_a_call_that_is_held_says_which_call_it_waits_for(bench: Bench) -> None:
    owner = bench.owned()
    bench.record(owner, once("1"))
    [first] = bench.lease()
    bench.begin(first)
    bench.expire(31)
    bench.record(owner, once("2"), once("3", args={"n": 2}), task("4", delivery="repeatable"))
    waits = {wait.address: wait for wait in view(bench, first.execution).waits}
    assert waits["1"].kind == "ruling"
    assert waits["2"].detail == "the outcome of the equal call of post at 1"
    assert [waits[address].detail for address in "34"] == ["a worker for clerk/post on queue default"] * 2
    assert bench.lease("wrk_2", slots=1)[0].address == "3"


def test_a_probe_is_no_wait_of_its_own_and_no_call(bench: Bench) -> None:
    held = bench.begun(once(rules=TaskRules(probe=True)))
    bench.expire(31)
    assert [wait.kind for wait in view(bench, held.execution).waits] == ["ruling"]
    assert [
        one.address for one in bench.read(lambda reads: query_tasks.tasks_view(reads, "default", held.execution))
    ] == ["tool"]
