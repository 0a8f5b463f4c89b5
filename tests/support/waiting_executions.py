"""Executions that wait for something outside, made by hand: the test is the worker that holds their code."""

from __future__ import annotations

from perdure.client.functions import HttpFunctionSource
from perdure.client.http import HttpApi
from perdure.core.credentials import hash_of
from perdure.core.functions import ClaimedExecution, ClaimRequest
from perdure.core.items import Item, OpenToken
from perdure.core.views import StartRequest
from perdure.core.work import FunctionLane
from perdure.server.node import Node

LANE = FunctionLane("onboard", "build-1")


async def claimed(node: Node) -> ClaimedExecution:
    """Start an execution of a durable function and hold it."""
    spec = {"kind": "durable", "name": LANE.name, "build": LANE.build}
    await node.api("default").start(StartRequest(spec, "hi"))  # type: ignore[arg-type]
    request = ClaimRequest("wrk_1", "n1", (LANE,), slots=1)
    (held,) = (await node.functions("default").claim(request, wait_seconds=10)).executions
    return held


async def waits_for(node: Node, held: ClaimedExecution, *items: Item) -> None:
    """Record what it waits for, and park it."""
    journal = node.functions("default").opened("wrk_1", held)
    events = await journal.record(1, items)
    await journal.park(events[-1].seq, 0)


async def with_token(node: Node, timeout_ms: int | None = None) -> tuple[str, str, str]:
    """Start an execution that waits for a token; return its id, the secret and the callback address."""
    held = await claimed(node)
    assert held.tokens is not None
    secret = held.tokens.secret("tok_1")
    item = OpenToken("token yes", "d", "tok_1", "yes", hash_of(secret), held.tokens.base, timeout_ms)
    await waits_for(node, held, item)
    return held.execution, secret, held.tokens.url("tok_1", held.tokens.base)


async def with_token_over_http(url: str, key: str) -> tuple[str, str]:
    """As `with_token`, on a server that is another process; return the execution's id and the secret."""
    api, source = HttpApi(url, key), HttpFunctionSource(url, key)
    try:
        await api.start(StartRequest({"kind": "durable", "name": LANE.name, "build": LANE.build}, "hi"))
        (held,) = (await source.claim(ClaimRequest("wrk_1", "n1", (LANE,), slots=1), wait_seconds=10)).executions
        assert held.tokens is not None
        secret = held.tokens.secret("tok_1")
        journal = source.opened("wrk_1", held)
        await journal.record(1, [OpenToken("token yes", "d", "tok_1", "yes", hash_of(secret))])
        await journal.park(2, 0)
        return held.execution, secret
    finally:
        await source.aclose()
        await api.aclose()
