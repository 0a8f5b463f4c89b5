"""The stream of all that changes: nothing is missed after `ready`, whoever did it; logs go on where they were left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from http_server import Server, serving, start_request
from perdure.wire import frames, routes
from perdure.wire.frames import Frame
from raw_http import Reply, exchange, frames_of, request

pytestmark = pytest.mark.anyio

PATIENCE = 60.0


@asynccontextmanager
async def feed(server: Server, query: str = "", **headers: str) -> AsyncGenerator[AsyncGenerator[Frame]]:
    """Open the stream, and give its frames behind `ready`."""
    reader, writer = await asyncio.open_connection(*server.address)
    given = {"accept": frames.MEDIA_TYPE, **headers}
    writer.write(request("GET", routes.FEED + query, server.address, key=server.key, **given))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        found = frames_of(reader)
        assert (await anext(found)).kind == "ready"
        async with asyncio.timeout(PATIENCE):
            yield found
    finally:
        writer.transport.abort()


async def until(found: AsyncGenerator[Frame], kind: str) -> Any:
    """Return what the next frame of a kind holds."""
    async for frame in found:
        if frame.kind == kind:
            return orjson.loads(frame.data)
    raise AssertionError(f"the stream ended without {kind}")


async def ending(found: AsyncGenerator[Frame]) -> tuple[str, str]:
    """Return what the next frame says that no more comes of an execution, and of which."""
    async for frame in found:
        if frame.kind in ("end", "unknown"):
            return frame.kind, orjson.loads(frame.data)["execution"]
    raise AssertionError("the stream ended first")


async def until_it_stands(found: AsyncGenerator[Frame], execution: str, state: str) -> Any:
    """Return an execution as it is told once it is in a state."""
    while True:
        for one in (await until(found, "executions"))["items"]:
            if (one["id"], one["state"]) == (execution, state):
                return one


@pytest.mark.both_stores
async def test_what_changes_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        async with feed(server) as found:
            started = await api.start(start_request("approval"))
            assert (await until_it_stands(found, started.id, "waiting"))["agent"] == "tester"
        async with feed(server) as found:
            [open_] = await api.approvals()
            await api.decide(open_.id, "approve")
            assert (await until(found, "approvals"))["open"] == 0


async def test_a_log_comes_from_where_it_was_left_and_says_when_it_ends(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("plain"))
        await api.wait(started.id)
        whole = [event.seq for event in await api.events(started.id)]
        for query, headers, first in (
            (f"?follow={started.id}", {}, 1),
            (f"?follow={started.id}:2", {}, 3),
            (f"?follow={started.id}", {"last_event_id": f"{started.id}:2"}, 3),
        ):
            async with feed(server, query, **headers) as found:
                seen = [(await until(found, "log"))["items"][0]["seq"] for _ in whole[first - 1 :]]
                assert seen == whole[first - 1 :]
                assert await until(found, "end") == {"execution": started.id}


async def test_one_stream_follows_several_logs_and_says_which_it_does_not_know(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        one, other = await api.start(start_request("plain")), await api.start(start_request("plain"))
        async with feed(server, f"?follow={one.id}&follow={other.id}&follow=exe_nobody") as found:
            wanted = {("end", one.id), ("end", other.id), ("unknown", "exe_nobody")}
            assert {await ending(found) for _ in wanted} == wanted  # in the order in which they end, and are looked for


async def test_another_company_is_told_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        theirs = "pdk_" + "o" * 43
        await server.node.add_key("acme", "ada", theirs)
        started = await server.api().start(start_request("plain"))
        async with feed(Server(server.node, server.url, theirs, server.stop), f"?follow={started.id}") as found:
            assert await until(found, "unknown") == {"execution": started.id}
            own = await server.api(theirs).start(start_request("plain"))
            items = (await until(found, "executions"))["items"]
            assert {one["id"] for one in items} == {own.id}


async def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        many = "&".join(f"follow=exe_{number}" for number in range(21))
        for query, headers in (
            ("", {"accept": "application/json"}),
            ("?follow=exe_1:x", {"accept": frames.MEDIA_TYPE}),
            ("?follow=", {"accept": frames.MEDIA_TYPE}),
            (f"?{many}", {"accept": frames.MEDIA_TYPE}),
            ("", {"accept": frames.MEDIA_TYPE, "last_event_id": "exe_1:-1"}),
        ):
            data = request("GET", routes.FEED + query, server.address, key=server.key, **headers)
            assert (await exchange(server.address, data)).code == "invalid_input", (query, headers)


@pytest.mark.both_stores
async def test_executions_are_counted_by_state_and_proven(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        for _ in range(2):
            started = await api.start(start_request("plain"))
            await api.wait(started.id)

        async def ask(path: str) -> Any:
            return (await exchange(server.address, request("GET", path, server.address, key=server.key))).json

        found = await ask(routes.COUNTS)
        assert found["counts"]["completed"] == 2
        assert sum(found["counts"].values()) == 2
        assert sum((await ask(f"{routes.COUNTS}?agent=nobody"))["counts"].values()) == 0
        proof = await ask(routes.fill(routes.PROOF, execution=started.id))
        assert proof["twice"] is False
        assert proof["log"]["broken_at"] is None
        assert proof["verdict"].startswith("No: nothing was done or paid twice")
        assert (await ask(routes.fill(routes.PROOF, execution="exe_nobody")))["error"]["code"] == "not_found"


@pytest.mark.both_stores
async def test_executions_are_found_by_a_text_and_counted_by_when_they_were_begun(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        ids = [(await api.start(start_request("plain", f"Order {number}"))).id for number in range(3)]

        async def ask(path: str) -> Reply:
            return await exchange(server.address, request("GET", path, server.address, key=server.key))

        found = (await ask(f"{routes.SEARCH}?text=order%201")).json
        assert [one["id"] for one in found["items"]] == [ids[1]]
        assert (found["cursor"], found["looked_at"]) == (None, 3)
        found = (await ask(f"{routes.SEARCH}?text=Order&agent=tester&limit=2")).json
        rest = (await ask(f"{routes.SEARCH}?text=Order&agent=tester&cursor={found['cursor']}")).json
        assert sorted(one["id"] for page in (found, rest) for one in page["items"]) == sorted(ids)
        for query in ("", "?text=", "?text=%00", "?text=a&cursor=b", "?text=a&tag=", f"?text={'a' * 201}"):
            assert (await ask(routes.SEARCH + query)).code in ("invalid_input", "unstorable", "bad_tags"), query
        lately = (await ask(f"{routes.RECENT}?hours=1")).json
        assert (sum(lately["begun"]), sum(lately["failed"]), len(lately["begun"])) == (3, 0, 48)
        assert (await ask(f"{routes.RECENT}?hours=0")).code == "invalid_input"


@pytest.mark.both_stores
async def test_agents_and_what_they_have_been_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.api().start(start_request("plain"))
        await server.api().start(start_request("tool"))

        async def ask(path: str) -> Any:
            return (await exchange(server.address, request("GET", path, server.address, key=server.key))).json

        [agent] = (await ask(routes.AGENTS))["items"]
        assert (agent["name"], agent["kind"], agent["versions"]) == ("tester", "agent", 2)
        found = (await ask(f"{routes.VERSIONS}?agent=tester"))["items"]
        assert {one["spec"]["model"] for one in found} == {"scripted/plain", "scripted/tool"}
        assert (await ask(f"{routes.VERSIONS}?agent=tester&cursor=x"))["error"]["code"] == "invalid_input"
