"""Published agents, reached by the official SDK's client: a task is an execution, and any server answers for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_clients import Asker, answer, asker, publish, seq_of, state
from http_server import Process, Server, open_node, process, serving, serving_node
from perdure.client.http import HttpApi, HttpTaskSource
from perdure.core.work import Lane, LeaseRequest, Report
from perdure.wire import routes
from raw_http import exchange, request

pytestmark = pytest.mark.anyio

ACME = f"pdk_acme{'0' * 40}"
PATIENCE = 50.0
"""Seconds that something may take. No measure: a loaded machine takes its time."""


async def do_work(url: str, key: str, value: Any = "done") -> None:
    """Be the worker that runs the one task there is to run. In a database a dead server holds it for its lease."""
    source = HttpTaskSource(url, key)
    try:
        wish = LeaseRequest("w1", "n1", (Lane("tester", "work"),), slots=1, lease_ms=30_000)
        [task] = await source.lease(wish, wait_seconds=PATIENCE)
        await source.report("w1", [Report(task.execution, task.address, task.fence, "completed", value)])
    finally:
        await source.aclose()


async def refusal(work: Any, kind: type[A2AError]) -> str:
    """Return why something is refused."""
    with pytest.raises(kind) as refused:
        await work
    return str(refused.value)


async def test_a_message_begins_a_task_that_is_an_execution(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            task = await one.send("go", "m1")
            assert (state(task), answer(task)) == ("COMPLETED", "done")
            [said] = task.history
            assert (said.message_id, said.parts[0].text, said.task_id) == ("m1", "go", task.id)
            assert await one.get(task.id) == task
            assert not (await one.get(task.id, history=0)).history
            page = await one.client.list_tasks(pb.ListTasksRequest())
            assert ([found.id for found in page.tasks], page.total_size) == ([task.id], 1)
        view: Any = await server.api().execution(task.id)
        assert (view.agent, view.input, view.output["result"]) == ("tester", "go", "done")


async def test_the_card_is_its_companys_alone(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.node.add_key("acme", "acme-ops", ACME)
        paths = (routes.A2A_CARD, "/a2a/tester" + routes.A2A_CARD)

        async def card(path: str, key: str) -> Any:
            return await exchange(server.address, request("GET", path, server.address, key=key))

        for path in paths:
            assert (await card(path, server.key)).status == 404
        await publish(server.url, server.key, "plain")
        for path in paths:
            found = await card(path, server.key)
            assert (found.status, found.json["url"]) == (200, f"{server.url}/a2a/tester")
            assert found.json["description"] == "It tests."
            assert found.headers["cache-control"].startswith("private")
            foreign = await card(path, ACME)
            assert (foreign.status, foreign.code) == (404, "no_such_agent")
        await publish(server.url, server.key, "tool", name="second")
        assert (await card(routes.A2A_CARD, server.key)).code == "which_agent"
        assert (await card("/a2a/second" + routes.A2A_CARD, server.key)).json["name"] == "second"
        await server.api().withdraw_agent("second")
        assert (await card("/a2a/second" + routes.A2A_CARD, server.key)).status == 404


async def test_another_company_finds_neither_agent_nor_task(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.node.add_key("acme", "acme-ops", ACME)
        await publish(server.url, server.key, "tool")
        async with asker(server.url, server.key) as own:
            task = await own.send("go", "m1", at_once=True)
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task.id}})
        data = request("POST", "/a2a/tester", server.address, key=ACME, body=body, a2a_version="1.0")
        foreign = await exchange(server.address, data)
        assert (foreign.status, foreign.code) == (404, "no_such_agent")
        await publish(server.url, ACME, "plain")  # under the same name
        async with asker(server.url, ACME) as other:
            nothing = await refusal(other.get(task.id[:-6] + "zzzzzz"), TaskNotFoundError)
            asked = [other.get(task.id), other.cancel(task.id), other.send("go", "m2", task=task.id)]
            said = {await refusal(one, TaskNotFoundError) for one in (*asked, anext(other.again(task.id)))}
            assert said == {nothing.replace("zzzzzz", task.id[-6:])}
            assert answer(await other.send("go", "m1")) == "done", "the same id of another company is another message"
            assert len((await other.client.list_tasks(pb.ListTasksRequest())).tasks) == 1


async def test_an_approval_is_input_required_and_no_message_gives_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "approval")
        async with asker(server.url, server.key) as one:
            task = await one.send("go", "m1")
            assert state(task) == "INPUT_REQUIRED"
            [approval] = await server.api().approvals()
            words, data = task.status.message.parts
            assert "pay(" in words.text
            assert data.data.struct_value["approval"] == approval.id
            again = await one.send("yes, approved", "m2", task=task.id)
            assert (state(again), [one.message_id for one in again.history]) == ("INPUT_REQUIRED", ["m1", "m2"])
            await server.api().decide(approval.id, "reject", by="ann", reason="no")
            await server.api().wait(task.id)
            assert (state(await one.get(task.id)), answer(await one.get(task.id))) == ("COMPLETED", "paid")


async def test_a_cancelled_task_is_canceled(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "tool")
        async with asker(server.url, server.key) as one:
            task = await one.send("go", "m1", at_once=True)
            assert state(await one.cancel(task.id)) == "CANCELED"
            with pytest.raises(TaskNotCancelableError):
                await one.cancel(task.id)
            with pytest.raises(UnsupportedOperationError):
                await one.send("more", "m2", task=task.id)
            with pytest.raises(UnsupportedOperationError):
                await anext(one.again(task.id))


async def test_refusals_are_the_protocols(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            task = await one.send("go", "m1")
            cases: list[tuple[type[A2AError], Any]] = [
                (TaskNotFoundError, one.get("exe_nothing")),
                (TaskNotFoundError, one.send("go", "m2", task="exe_nothing")),
                (InvalidParamsError, one.send("something else", "m1")),
                (InvalidParamsError, one.send("go", "m" * 300)),
                (ContentTypeNotSupportedError, one.send("", "m3", parts=[pb.Part(text="a"), pb.Part()])),
                (ContentTypeNotSupportedError, one.send("", "m4", parts=[pb.Part(url="https://x.example/f.png")])),
                (InvalidParamsError, one.client.list_tasks(pb.ListTasksRequest(page_size=101))),
                (InvalidParamsError, one.client.list_tasks(pb.ListTasksRequest(page_token="x"))),
            ]
            for kind, refused in cases:
                await refusal(refused, kind)
            assert [found.id for found in (await one.client.list_tasks(pb.ListTasksRequest())).tasks] == [task.id]


async def sent_at_once(*clients: Asker) -> set[str]:
    """Have each send the same message, all at the same time; return the tasks that it came to."""
    found: set[str] = set()

    async def send(client: Asker) -> None:
        found.add((await client.send("go", "m1", at_once=True)).id)

    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(send, client)
    return found


async def test_the_same_message_is_one_task_however_often_it_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            assert len(await sent_at_once(*[one] * 20)) == 1
            assert (await one.client.list_tasks(pb.ListTasksRequest())).total_size == 1


async def test_two_servers_of_one_database_take_it_once(postgres_database: str) -> None:
    async with (
        serving_node(open_node(postgres_database)) as first,
        serving_node(open_node(postgres_database)) as second,
    ):
        await publish(first.url, first.key, "plain")
        async with asker(first.url, first.key) as here, asker(second.url, first.key) as there:
            [task] = await sent_at_once(*[here, there] * 50)
            assert answer(await there.send("go", "m1")) == "done"
            assert (await here.client.list_tasks(pb.ListTasksRequest())).total_size == 1
        assert [one.id for one in (await first.api().executions()).items] == [task]


@contextmanager
def dying(place: Path, points: str) -> Iterator[Process]:
    """Run a server that dies at a point."""
    os.environ["PERDURE_FAILPOINTS"] = points
    try:
        with process(place) as server:
            yield server
    finally:
        os.environ.pop("PERDURE_FAILPOINTS", None)


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
async def test_a_message_whose_answer_died_with_its_server_is_sent_again_and_is_one(
    tmp_path: Path, moment: str
) -> None:
    place = tmp_path / "s.db"
    async with serving(place) as server:
        await server.node.add_key("acme", "acme-ops", ACME)
        await publish(server.url, ACME, "plain")
    with dying(place, f"accept_message.{moment}=kill") as first:
        async with asker(first.url, ACME) as one:
            with pytest.raises(A2AClientError):
                await one.send("go", "m1")
        first.popen.wait()
    async with serving(place) as second, asker(second.url, ACME) as one:
        task = await one.send("go", "m1")
        assert (state(task), answer(task)) == ("COMPLETED", "done")
        api = second.api(ACME)
        assert [found.id for found in (await api.executions()).items] == [task.id]


async def test_a_stream_tells_of_a_task_from_beginning_to_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "tool")
        async with asker(server.url, server.key) as one:
            stream = one.stream("go", "m1")
            told = [await anext(stream)]
            assert told[0].HasField("task")
            async with anyio.create_task_group() as group:
                group.start_soon(do_work, server.url, server.key)
                told += [update async for update in stream]
            assert [update.WhichOneof("payload") for update in told[-2:]] == ["artifact_update", "status_update"]
            assert told[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
            seqs = [seq_of(update) for update in told]
            assert seqs == sorted(seqs)
            assert seqs[-1] == (await server.api().execution(told[0].task.id)).last_seq


async def test_a_stream_ends_where_somebody_has_to_decide_and_another_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "approval")
        async with asker(server.url, server.key) as one:
            told = [update async for update in one.stream("go", "m1")]
            assert told[-1].status_update.status.state == pb.TASK_STATE_INPUT_REQUIRED
            task = told[0].task.id
            rest = one.again(task)
            assert state((await anext(rest)).task) == "INPUT_REQUIRED"
            [approval] = await server.api().approvals()
            await server.api().decide(approval.id, "reject", by="ann")
            updates = [update async for update in rest]
            assert updates[0].status_update.status.state == pb.TASK_STATE_WORKING
            assert updates[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_stream_goes_on_at_another_server_after_the_first_was_killed(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    async with serving(place) as server:
        await server.node.add_key("default", "ops", ACME)
        await publish(server.url, ACME, "tool")
    told: list[pb.StreamResponse] = []
    with process(place) as first:
        async with asker(first.url, ACME) as one:
            stream = one.stream("go", "m1")
            told.append(await anext(stream))
            first.popen.kill()
            with pytest.raises(A2AClientError):
                await until_over(stream, told)
    task = told[0].task.id
    with process(place) as second:
        async with asker(second.url, ACME) as one:
            rest = one.again(task)
            now = (await anext(rest)).task
            assert now.metadata["seq"] >= seq_of(told[-1])
            async with anyio.create_task_group() as group:
                group.start_soon(do_work, second.url, ACME)
                updates = [update async for update in rest]
        api = HttpApi(second.url, ACME)
        log = await api.events(task)
        await api.aclose()
    assert [update.WhichOneof("payload") for update in updates[-2:]] == ["artifact_update", "status_update"]
    assert [now.metadata["seq"] < seq_of(update) <= log[-1].seq for update in updates] == [True] * len(updates)


async def until_over(stream: Any, told: list[pb.StreamResponse]) -> None:
    """Hear a stream to its end."""
    told += [update async for update in stream]


async def test_only_what_the_protocol_sends_is_taken(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")

        async def ask(method: str, path: str, body: bytes | None = None) -> Any:
            data = request(method, path, server.address, key=server.key, body=body, a2a_version="1.0")
            return await exchange(server.address, data)

        for method, path in (("GET", "/a2a/tester"), ("PUT", "/a2a/tester"), ("POST", routes.A2A_CARD)):
            assert (await ask(method, path)).status == 405, path
        for path in ("/a2a/", "/a2a/tester/card", "/a2a/tester/.well-known"):
            assert (await ask("POST", path, b"{}")).code == "no_such_route"
        for body, code in ((b"[]", -32600), (b"{}", -32600), (b'{"jsonrpc": "2.0", "id": 1, "method": "x"}', -32601)):
            assert (await ask("POST", "/a2a/tester", body)).json["error"]["code"] == code


async def test_a_server_without_the_sdk_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perdure.doors.a2a_protocol", None)
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        data = request("POST", "/a2a/tester", server.address, key=server.key, body=b"{}")
        reply = await exchange(server.address, data)
        assert (reply.status, reply.code) == (400, "a2a_missing")
        assert "pip install 'perdure[a2a]'" in reply.json["error"]["message"]


async def until_nobody_listens(server: Server, execution: str) -> None:
    """Return once nobody follows an execution. Nothing that a client can ask tells it."""
    with anyio.fail_after(PATIENCE):
        while execution in server.node.hub.heard("events"):  # noqa: ASYNC110 - as above
            await anyio.sleep(0.01)


async def test_whoever_hangs_up_waits_no_longer(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "tool")
        async with asker(server.url, server.key) as one:
            stream = one.stream("go", "m1")
            task = (await anext(stream)).task.id
            await stream.aclose()
        await until_nobody_listens(server, task)
