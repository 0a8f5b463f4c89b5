"""Tools that a server calls are called for every company, each in its own company's name."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from answering_server import Answering, Says, answering
from node_bench import PATIENCE, NodeBench, Script, node_over, spec
from perdure.core.events import Kind
from perdure.core.views import ExecutionView, ForkEdits, StartRequest
from perdure.core.work import SERVER_QUEUE, Answer, LeaseRequest, Report
from perdure.models.scripted import call, say
from perdure.server.node import Node
from perdure.server.tool_source import ServerTaskSource, ServerTools
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_tool import http_tool

pytestmark = pytest.mark.anyio

TOOLS = ServerTools(Outbound(allow_private=True))
COMPANIES = ("acme", "beta", "default")


def pay(server: Answering, **options: Any) -> Any:
    return http_tool("pay", "Pay.", f"{server.url}/pay", "POST", retry_pause_seconds=0, **options).entry


def script() -> Script:
    return Script([call("pay", {}), say("done"), say("done indeed")])


async def known(node: Node) -> None:
    """Have companies that a key was given to, as every company but the default one has."""
    for number, company in enumerate(COMPANIES[:2]):
        await node.add_key(company, "ops", f"pdk_{number}")


async def end_of(bench: NodeBench, company: str, execution: str) -> ExecutionView:
    async with asyncio.timeout(PATIENCE):
        async for _ in bench.node.api(company).follow(execution):
            pass
    return await bench.node.api(company).execution(execution)


async def scheduled(bench: NodeBench, company: str, execution: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in bench.node.api(company).follow(execution):
            if event.kind is Kind.TASK_SCHEDULED:
                return


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
async def test_a_server_calls_the_tools_of_every_company(tmp_path: Path, delivery: str) -> None:
    async with (
        answering(lambda _seen: Says(body=b"paid")) as server,
        node_over(tmp_path, script(), tools=TOOLS) as bench,
    ):
        await known(bench.node)
        request = StartRequest(spec(pay(server, delivery=delivery)), "hi")
        started = {company: (await bench.node.api(company).start(request)).id for company in COMPANIES}
        for company, execution in started.items():
            assert (await end_of(bench, company, execution)).state == "completed"
            [effect] = await bench.node.api(company).effects(execution=execution)
            assert (effect.outcome, effect.value) == ("done", "paid")
        assert len(server.seen) == len(COMPANIES)
        assert len({seen.headers["idempotency-key"] for seen in server.seen}) == len(COMPANIES)


async def test_a_failed_call_of_another_company_is_tried_again(tmp_path: Path) -> None:
    async with (
        answering(lambda _seen: Says(503 if len(server.seen) == 1 else 200, b"paid")) as server,
        node_over(tmp_path, script(), tools=TOOLS) as bench,
    ):
        await known(bench.node)
        api = bench.node.api("acme")
        execution = (await api.start(StartRequest(spec(pay(server)), "hi"))).id
        assert (await end_of(bench, "acme", execution)).state == "completed"
        assert [event.kind for event in await api.events(execution)].count(Kind.ATTEMPT_FAILED) == 1


async def test_the_same_request_gets_the_same_tasks_of_all_companies(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says()) as server, node_over(tmp_path, script()) as bench:
        await known(bench.node)
        for company in COMPANIES:
            api = bench.node.api(company)
            await scheduled(bench, company, (await api.start(StartRequest(spec(pay(server)), "hi"))).id)
        source = ServerTaskSource(bench.node, TOOLS, OrderedDict())
        request = LeaseRequest("local/wrk", "n", (), 10)
        first, again = await source.take(request), await source.take(request)
        assert len(first) == len(COMPANIES)
        assert sorted(one.execution for one in first) == sorted(one.execution for one in again)
        reports = [Report(one.execution, one.address, one.fence, "completed", "paid") for one in first]
        assert await source.report("local/wrk", reports) == [Answer.ACCEPTED] * len(COMPANIES)


async def test_companies_share_the_slots_and_take_turns(tmp_path: Path) -> None:
    async with answering(lambda _seen: Says()) as server, node_over(tmp_path, script()) as bench:
        await known(bench.node)
        whose: dict[str, str] = {}
        for company in ("acme", "acme", "acme", "acme", "beta", "default"):
            started = await bench.node.api(company).start(StartRequest(spec(pay(server)), "hi"))
            whose[started.id] = company
            await scheduled(bench, company, started.id)
        source = ServerTaskSource(bench.node, TOOLS, OrderedDict())

        async def take(slots: int, nonce: str) -> list[str]:
            return [whose[one.execution] for one in await source.take(LeaseRequest("local/wrk", nonce, (), slots))]

        assert await take(1, "n1") == ["acme"]
        assert await take(1, "n2") == ["beta"]
        assert await take(2, "n3") == ["default", "acme"]
        assert await take(9, "n4") == ["acme", "acme"]


async def test_a_fork_is_given_what_stands_in_for_an_answer_and_calls_nobody(tmp_path: Path) -> None:
    replies = Script([lambda request: call("pay", {"n": len(request.messages[-1].text)}), say("done")])
    anything: dict[str, Any] = {"type": "object"}
    async with (
        answering(lambda _seen: Says(body=b"paid")) as server,
        node_over(tmp_path, replies, tools=TOOLS) as bench,
    ):
        origin = await bench.start(pay(server, input_schema=anything, simulate={"paid": "as if"}), input="four")
        await bench.result(origin)
        made = await bench.api.fork(origin, 1, ForkEdits(prompt="twelve chars"))
        assert (await bench.result(made.id)).state == "completed"
        assert len(server.seen) == 1
        [effect] = await bench.api.effects(execution=made.id)
        assert (effect.outcome, effect.value) == ("simulated", {"paid": "as if"})
        [task] = await bench.api.tasks(made.id)
        assert (task.tool, task.queue, task.simulated) == ("pay", SERVER_QUEUE, True)
