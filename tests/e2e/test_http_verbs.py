"""The verbs over a real socket mean what they mean in-process, with the same errors."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import pytest

from http_server import SCRIPTS, Server, serving, spec, start_request
from perdure.client.http import HttpApi
from perdure.core.events import Kind
from perdure.core.views import StartRequest
from perdure.core.work import Answer, Begin, Failure, Held, Lane, LeasedTask, LeaseRequest, Report
from perdure.errors import Conflict, LimitExceeded, NotFound, PerdureError, Unauthorized, Unreachable

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"), Lane("tester", "pay"), Lane("tester", "fire"))


def wish(nonce: str = "n1", worker: str = "w1") -> LeaseRequest:
    return LeaseRequest(worker, nonce, LANES, slots=10)


def report(task: LeasedTask, value: object = "ok") -> Report:
    return Report(task.execution, task.address, task.fence, "completed", value)  # type: ignore[arg-type]


async def until_state(api: HttpApi, execution: str, state: str) -> None:
    """Return once an execution is in a state."""
    async with asyncio.timeout(60):
        while (await api.execution(execution)).state != state:  # noqa: ASYNC110 - to park leaves no event to wait for
            await asyncio.sleep(0.01)


async def leased(server: Server, script: str, *, nonce: str = "n1") -> LeasedTask:
    """Start an execution and lease its tool call."""
    await server.api().start(start_request(script))
    (task,) = await server.tasks().lease(wish(nonce), wait_seconds=60)
    return task


async def test_an_execution_runs_and_its_log_is_followed_to_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("plain"))
        assert started.created
        events = [event async for event in api.follow(started.id)]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-1].kind is Kind.COMPLETED
        view = await api.execution(started.id)
        assert (view.state, view.output) == ("completed", events[-1].data["output"])
        assert await api.events(started.id) == events
        assert await api.events(started.id, after=1, limit=1) == events[1:2]
        assert [event async for event in api.follow(started.id, after=events[-1].seq)] == []


async def test_http_and_in_process_show_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "tool")
        direct, http = server.node.api("default"), server.api()
        await until_state(http, task.execution, "waiting")  # nothing changes between the two answers
        assert await http.execution(task.execution) == await direct.execution(task.execution)
        assert await http.tasks(task.execution) == await direct.tasks(task.execution)
        assert await http.effects() == await direct.effects()
        assert await http.approvals(state=None) == await direct.approvals(state=None)
        assert await http.executions(state="waiting") == await direct.executions(state="waiting")
        [newest, *_] = (await direct.executions()).items
        at_ms = newest.created_ms
        assert await http.executions(since_ms=at_ms) == await direct.executions(since_ms=at_ms)
        assert await http.executions(until_ms=at_ms) == await direct.executions(until_ms=at_ms)
        told = await http.diagnose(task.execution), await direct.diagnose(task.execution)
        first, second = ([(one.level, one.command) for one in findings] for findings in told)  # what it says has ages
        assert first == second
        assert await http.info() == await direct.info()
        await server.tasks().report("w1", [report(task)])
        assert [e async for e in http.follow(task.execution)] == [e async for e in direct.follow(task.execution)]


async def test_a_tool_call_is_leased_reported_and_told_to_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, tasks = server.api(), server.tasks()
        task = await leased(server, "tool")
        assert (task.tool, task.args, task.attempt) == ("work", {"n": 1}, 1)
        assert await tasks.lease(wish("n1"), wait_seconds=0) == [task]  # a lost reply is asked for again
        assert await tasks.lease(wish("n2"), wait_seconds=0) == []
        assert await tasks.beat("w1", [Held(task.execution, task.address, task.fence)]) == [Answer.ACCEPTED]
        value = {"big": 2**80, "nul": "\x00", "half": "\ud800", "-0": -0.0, "keys": {"b": 1, "a": 2}}
        assert await tasks.report("w1", [report(task, value)]) == [Answer.ACCEPTED]
        assert await tasks.report("w1", [report(task, value)]) == [Answer.ALREADY_ACCEPTED]
        events = [event async for event in api.follow(task.execution)]
        assert next(event.data["value"] for event in events if event.kind is Kind.TASK_COMPLETED) == value


async def test_reports_are_answered_one_by_one(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "tool")
        old = Report(task.execution, task.address, task.fence - 1, "completed", "late")
        strange = Report("exe_unknown", "x", 1, "completed", "?")
        answers = await server.tasks().report("w1", [old, report(task), strange])
        assert answers == [Answer.LEASE_LOST, Answer.ACCEPTED, Answer.LEASE_LOST]


async def test_a_failure_whose_text_is_half_a_character_is_reported(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "tool")
        failure = Failure("oops", "file \udce4.txt is gone", permanent=True)
        failed = Report(task.execution, task.address, task.fence, "failed", failure=failure)
        assert await server.tasks().report("w1", [failed]) == [Answer.ACCEPTED]
        view = (await server.api().tasks(task.execution))[0]
        assert view.failure is not None
        assert view.failure.message == "file ?.txt is gone"


async def test_an_at_most_once_task_begins_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        tasks = server.tasks()
        task = await leased(server, "once")
        begin = Begin(task.execution, task.address, task.fence, "b1")
        assert await tasks.begin(begin) is Answer.ACCEPTED
        assert await tasks.begin(begin) in (Answer.ACCEPTED, Answer.ALREADY_ACCEPTED)
        other = Begin(task.execution, task.address, task.fence, "b2")
        assert await tasks.begin(other) not in (Answer.ACCEPTED, Answer.ALREADY_ACCEPTED)
        held = [Held(task.execution, task.address, task.fence)]
        assert await tasks.hand_back("w1", held) == [Answer.CONFLICT]
        (effect,) = await server.api().effects(state="begun")
        assert (effect.tool, effect.claims) == ("fire", 1)


async def test_a_task_that_never_began_is_handed_back(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "tool")
        held = [Held(task.execution, task.address, task.fence)]
        assert await server.tasks().hand_back("w1", held) == [Answer.ACCEPTED]
        (again,) = await server.tasks().lease(wish("n2", "w2"), wait_seconds=60)
        assert (again.address, again.attempt) == (task.address, 1)
        assert again.fence > task.fence


async def test_an_uncertain_effect_is_ruled_on_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, tasks = server.api(), server.tasks()
        task = await leased(server, "once")
        await tasks.begin(Begin(task.execution, task.address, task.fence, "b1"))
        failure = Failure("oops", "connection reset")
        await tasks.report("w1", [Report(task.execution, task.address, task.fence, "failed", failure=failure)])
        effect = await api.rule(task.execution, task.address, "happened", by="ada", reason="seen", value="ok")
        assert (effect.state, effect.ruled_by) == ("done", "ada")
        with pytest.raises(Conflict) as caught:
            await api.rule(task.execution, task.address, "give_up")
        assert caught.value.code == "not_uncertain"


async def test_an_approval_is_decided_once_and_says_by_whom(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("approval"))
        await until_state(api, started.id, "waiting")
        (approval,) = await api.approvals(execution=started.id)
        assert (approval.tool, approval.args) == ("pay", {"cents": 5})
        decided = await api.decide(approval.id, "approve", by="ada", reason="fine")
        assert (decided.decision, decided.decided_by, decided.reason) == ("approve", "ada", "fine")
        assert (await api.decide(approval.id, "approve", by="ada", reason="fine")).decided_by == "ada"  # a lost reply
        with pytest.raises(Conflict) as caught:
            await api.decide(approval.id, "reject", by="bob")
        assert caught.value.code == "already_decided"
        assert await api.approvals() == []
        assert [one.id for one in await api.approvals(state=None)] == [approval.id]


async def test_who_does_not_say_who_they_are_is_named_after_their_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("approval"))
        await until_state(api, started.id, "waiting")
        await api.pause(started.id)
        paused = next(event for event in await api.events(started.id) if event.kind is Kind.PAUSED)
        assert paused.data["by"] == "admin"


async def test_pause_resume_and_cancel_reach_the_execution(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("approval"))
        await until_state(api, started.id, "waiting")
        await api.pause(started.id, by="ada", reason="lunch")
        assert (await api.execution(started.id)).state == "paused"
        await api.resume(started.id, by="ada")
        await until_state(api, started.id, "waiting")
        await api.cancel(started.id, by="ada", reason="enough")
        events = [event async for event in api.follow(started.id)]
        assert events[-1].kind is Kind.CANCELLED
        with pytest.raises(Conflict):
            await api.send(started.id, "too late")


async def test_a_message_counts_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("approval"))
        await until_state(api, started.id, "waiting")
        first = await api.send(started.id, "hello", by="ada", dedupe="d1")
        assert await api.send(started.id, "hello", by="ada", dedupe="d1") == first
        assert await api.send(started.id, "hello") > first
        await api.stop(started.id, by="ada")


async def test_the_same_start_key_is_the_same_execution(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        first = await api.start(start_request("plain", key="ticket-77"))
        again = await api.start(start_request("plain", key="ticket-77"))
        assert (first.created, again.created, again.id) == (True, False, first.id)
        with pytest.raises(Conflict) as caught:
            await api.start(start_request("plain", "other input", key="ticket-77"))
        assert caught.value.code == "start_key_conflict"
        assert caught.value.details["execution"] == first.id
        assert (await api.start(start_request("plain"))).id != (await api.start(start_request("plain"))).id


async def test_pages_of_executions_go_on_where_the_last_ended(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        ids = [(await api.start(start_request("plain"))).id for _ in range(5)]
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await api.executions(agent="tester", cursor=cursor, limit=2)
            found += [item.id for item in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(ids)


async def test_a_connected_worker_is_seen_and_leaves(tmp_path: Path) -> None:
    from perdure.core.work import WorkerInfo

    async with serving(tmp_path / "s.db") as server:
        info = WorkerInfo("w1", "laptop", LANES, 4, 4711, "host")
        signs = server.tasks().alive(info)
        await anext(signs)
        assert await server.api().workers() == [info]
        await signs.aclose()
        async with asyncio.timeout(60):
            while await server.api().workers():  # noqa: ASYNC110 - the server hears of it when its socket does
                await asyncio.sleep(0)


NOWHERE = ("exe_unknown", "../../v1/info", "a/b", "%2e%2e", "", "ü", "x" * 300, "\x00", "..", "a?b=c", "a#b")


async def test_unknown_things_are_not_found_whatever_they_are_called(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()

        async def first_event(name: str) -> None:
            await anext(api.follow(name))

        asks = (api.execution, api.events, api.tasks, api.diagnose, api.cancel, first_event)
        for name, ask in product(NOWHERE, asks):
            with pytest.raises(PerdureError) as caught:
                await ask(name)
            assert caught.value.code in ("not_found", "no_such_route", "unstorable"), name
        with pytest.raises(NotFound):
            await api.decide("apr_unknown", "approve")


async def test_a_value_above_the_limit_is_refused_and_one_at_the_limit_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "tool")
        tasks = server.tasks()
        with pytest.raises(LimitExceeded):
            await tasks.report("w1", [report(task, "x" * (9 * 1024 * 1024))])
        assert await tasks.report("w1", [report(task, "x" * (8 * 1024 * 1024 - 100))]) == [Answer.ACCEPTED]


async def test_many_large_reports_go_in_as_many_requests_as_they_need(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, tasks = server.api(), server.tasks()
        for _ in range(3):
            await api.start(start_request("tool"))
        found: list[LeasedTask] = []
        while len(found) < 3:
            found += await tasks.lease(wish(f"n{len(found)}"), wait_seconds=60)
        reports = [report(task, "x" * (5 * 1024 * 1024)) for task in found]
        assert await tasks.report("w1", reports) == [Answer.ACCEPTED] * 3


async def test_a_wrong_key_says_where_the_right_one_is(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for key in ("", "pdk_wrong", server.key + "x"):
            with pytest.raises(Unauthorized, match=r"PERDURE_API_KEY.*perdure/servers"):
                await server.api(key).info()
            with pytest.raises(Unauthorized):
                await anext(server.api(key).follow("exe_1"))


async def test_companies_do_not_see_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        other = "pdk_" + "o" * 43
        await server.node.add_key("acme", "ada", other)
        mine, theirs = server.api(), server.api(other)
        started = await mine.start(start_request("approval"))
        await until_state(mine, started.id, "waiting")
        (approval,) = await mine.approvals()
        assert (await theirs.executions()).items == ()
        assert await theirs.approvals(state=None) == []
        for ask in (
            theirs.execution(started.id),
            theirs.events(started.id),
            theirs.tasks(started.id),
            theirs.diagnose(started.id),
            theirs.send(started.id, "hi"),
            theirs.pause(started.id),
            theirs.resume(started.id),
            theirs.stop(started.id),
            theirs.cancel(started.id),
            theirs.decide(approval.id, "approve"),
            theirs.rule(started.id, "x", "happened"),
        ):
            with pytest.raises(NotFound):
                await ask
        assert (await theirs.start(StartRequest(spec("plain"), "go", "k"))).created


async def test_what_is_too_large_is_refused_the_same_way_before_it_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for api, letters in product((server.api(), server.node.api("default")), (9_000_000, 50_000_000)):
            with pytest.raises(LimitExceeded) as refused:
                await api.start(start_request("plain", "x" * letters))
            assert refused.value.code == "too_large"
        assert (await server.api().executions()).items == ()


async def test_where_nobody_listens_the_error_says_what_to_do() -> None:
    api = HttpApi("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9.*`perdure server`"):
        await api.info()
    with pytest.raises(Unreachable):
        await anext(api.follow("exe_1"))
    await api.aclose()


def test_every_script_is_used() -> None:
    assert set(SCRIPTS) == {"plain", "tool", "approval", "once", "four-eyes"}
