"""Tools that the server calls: real requests from a node, by the rules of every task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answering_server import Answering, Says, Seen, answering
from node_bench import NodeBench, Script, node_over
from perdure.core.events import Kind
from perdure.core.work import SERVER_QUEUE, Lane, LeaseRequest
from perdure.models.scripted import call, say, together
from perdure.server.tool_source import ServerTools, tools_by
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_tool import http_tool

pytestmark = pytest.mark.anyio

TOOLS = ServerTools(Outbound(allow_private=True))
CENTS = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def pay(server: Answering, **options: Any) -> Any:
    given: dict[str, Any] = {"retry_pause_seconds": 0, **options}
    return http_tool("pay", "Pay.", server.url + "/pay", "POST", input_schema=CENTS, **given).entry


def once() -> Script:
    return Script([call("pay", {"cents": 5}), say("done"), say("done indeed")])


async def told(bench: NodeBench) -> str:
    """Return what the model was told of the call."""
    return bench.script.shown(1)[-1][1]


async def test_a_call_needs_no_worker(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(body=b"paid")) as server, node_over(tmp_path, once(), tools=TOOLS) as bench:
        execution = await bench.start(pay(server))
        assert (await bench.result(execution)).state == "completed"
        assert await told(bench) == "paid"
        [seen] = server.seen
        assert json.loads(seen.body) == {"cents": 5}
        [task] = await bench.api.tasks(execution)
        assert seen.headers["idempotency-key"] == task.key
        assert (task.tool, task.queue, task.state) == ("pay", SERVER_QUEUE, "done")


async def test_every_attempt_carries_the_same_key(tmp_path: Path) -> None:
    def answer(seen: Seen) -> Says:
        return Says(503) if len(server.seen) == 1 else Says(body=b"paid")

    async with answering(answer) as server, node_over(tmp_path, once(), tools=TOOLS) as bench:
        execution = await bench.start(pay(server))
        await bench.result(execution)
        assert await told(bench) == "paid"
        assert len(server.seen) == 2
        assert len({seen.headers["idempotency-key"] for seen in server.seen}) == 1
        [failed] = [event for event in await bench.log(execution) if event.kind is Kind.ATTEMPT_FAILED]
        assert "answered 503" in failed.data["error"]


async def test_a_refusal_is_told_to_the_model_at_once(tmp_path: Path) -> None:
    async with (
        answering(lambda _seen: Says(402, b"no money")) as server,
        node_over(tmp_path, once(), tools=TOOLS) as bench,
    ):
        execution = await bench.start(pay(server))
        await bench.result(execution)
        assert "answered 402: no money" in await told(bench)
        assert len(server.seen) == 1


async def test_at_most_once_a_lost_answer_is_uncertain_and_is_not_asked_for_again(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(cut=True)) as server, node_over(tmp_path, once(), tools=TOOLS) as bench:
        execution = await bench.start(pay(server, delivery="at_most_once"))
        lost = await bench.until(execution, Kind.TASK_UNCERTAIN)
        await bench.api.rule(execution, lost.address, "happened", by="ann")
        await bench.result(execution)
        assert len(server.seen) == 1
        assert "OUTCOME UNKNOWN" in await told(bench)


async def test_at_most_once_too_a_call_that_takes_too_long_is_uncertain(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(hang=True)) as server, node_over(tmp_path, once(), tools=TOOLS) as bench:
        execution = await bench.start(pay(server, delivery="at_most_once", timeout_seconds=0.2))
        await bench.until(execution, Kind.TASK_UNCERTAIN)
        assert len(server.seen) == 1


async def test_two_executions_keep_the_endpoint_that_each_began_with(tmp_path: Path) -> None:
    script = Script([together(call("pay", {"cents": 1}), call("pay", {"cents": 2})), say("done")])
    async with (
        answering(lambda _seen: Says(body=b"first")) as first,
        answering(lambda _seen: Says(body=b"second")) as second,
        node_over(tmp_path, script, tools=TOOLS) as bench,
    ):
        executions = [await bench.start(pay(server)) for server in (first, second)]
        for execution in executions:
            await bench.result(execution)
        assert (len(first.seen), len(second.seen)) == (2, 2)


async def test_what_was_leased_when_its_server_died_is_called_again_by_the_next(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(body=b"paid")) as server:
        async with node_over(tmp_path, script := once()) as bench:
            execution = await bench.start(pay(server))
            await bench.until(execution, Kind.TASK_SCHEDULED)
            request = LeaseRequest("local/wrk_gone", "n", (Lane("clerk", "pay", SERVER_QUEUE),), 1)
            assert len(await bench.source.lease(request, wait_seconds=30)) == 1
        async with node_over(tmp_path, script, tools=TOOLS) as bench:
            await bench.result(execution)
            assert len(server.seen) == 1


async def test_leaving_waits_for_no_call_for_long(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(hang=True)) as server:
        async with node_over(tmp_path, script := once(), tools=TOOLS) as bench:
            execution = await bench.start(pay(server))
            while not server.seen:
                await bench.node.parts.clock.sleep(0.01)
        server.answer = lambda _seen: Says(body=b"paid")
        async with node_over(tmp_path, script, tools=TOOLS) as bench:
            await bench.result(execution)
            assert len(server.seen) == 2


def test_an_operator_allows_by_options_and_by_the_environment() -> None:
    environ = {"A": "1", "B": "2", "C": "3", "PERDURE_TOOL_ENV": "B, NOT_THERE"}
    assert tools_by(environ, ["A"]).outbound == Outbound(variables={"A": "1", "B": "2"})
    assert tools_by({}).outbound == Outbound()
    assert tools_by({}, allow_private=True).outbound.allow_private
    assert tools_by({"PERDURE_ALLOW_PRIVATE_HTTP": "1"}).outbound.allow_private
    assert not tools_by({"PERDURE_ALLOW_PRIVATE_HTTP": "0"}).outbound.allow_private


async def test_the_doctor_asks_for_no_worker(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(hang=True)) as server, node_over(tmp_path, once()) as bench:
        execution = await bench.start(pay(server))
        await bench.until(execution, Kind.TASK_SCHEDULED)
        said = " ".join(finding.what for finding in await bench.api.diagnose(execution))
        assert "no worker" not in said


async def test_a_cancelled_execution_makes_no_further_call(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says(hang=True)) as server, node_over(tmp_path, once(), tools=TOOLS) as bench:
        execution = await bench.start(pay(server))
        while not server.seen:
            await bench.node.parts.clock.sleep(0.01)
        await bench.api.cancel(execution, by="ann")
        assert (await bench.result(execution)).state == "cancelled"
        assert len(server.seen) == 1
