"""Hooks over a real socket: whoever has the address says something to one member, once; without it nobody does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from perdure.client.http import HttpApi
from perdure.core.hooks import PATH, new_secret
from perdure.core.rooms import Invite, Join, Leave, Stop
from perdure.errors import Conflict, InvalidInput, NotFound
from perdure.system import SystemRandom
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio

AGENT: dict[str, Any] = {"name": "bot", "model": "scripted/plain", "instructions": ""}
SECRET, OTHER = new_secret(SystemRandom()), new_secret(SystemRandom())


@dataclass
class Place:
    """A server with a room of two companies, where globex has an agent."""

    server: Server
    acme: HttpApi
    globex: HttpApi
    room: str

    async def post(self, secret: str, body: Any = "x", method: str = "POST", **headers: str) -> Reply:
        text = None if method == "GET" else body if isinstance(body, bytes) else json.dumps(body)
        asked = request(method, f"{PATH}{secret}", self.server.address, body=text, **headers)
        return await exchange(self.server.address, asked)

    async def said(self) -> list[tuple[str, str, tuple[str, ...]]]:
        found = await self.acme.room_messages(self.room)
        return [(f"{one.company}/{one.author}", one.text, one.steered_by) for one in found if one.kind == "person"]


@asynccontextmanager
async def place(path: Path) -> AsyncGenerator[Place]:
    async with serving(path) as server:
        for name in ("acme", "globex"):
            await server.node.add_key(name, f"{name}-ops", f"pdk_{name}{'0' * 40}")
        acme, globex = (server.api(f"pdk_{name}{'0' * 40}") for name in ("acme", "globex"))
        room = (await acme.create_room("the project", key="k")).id
        await acme.write_in_room(room, Invite("globex"))
        await globex.write_in_room(room, Join())
        await globex.put_room_agent(room, AGENT)
        yield Place(server, acme, globex, room)


async def test_what_comes_wakes_the_agent_once_and_is_labelled(tmp_path: Path) -> None:
    async with place(tmp_path / "s.db") as there:
        made = await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        assert await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET) == made
        assert await there.globex.room_hooks() == [made]
        for headers in ({"webhook_id": "1"}, {"webhook_id": "1"}, {"webhook_id": "2"}, {}, {}):
            reply = await there.post(SECRET, {"build": "broken"}, **headers)
            assert (reply.status, reply.json) == (200, {"status": "accepted"})
        text = json.dumps({"build": "broken"})
        assert await there.said() == [("globex/hook:ci", text, ("hook:ci",))] * 3
        wakes = await there.globex.room_wakes(there.room)
        assert len(wakes) == 3
        for wake in wakes:
            await there.globex.wait(wake.execution)
        replies = [one for one in await there.acme.room_messages(there.room) if one.kind == "agent"]
        assert {one.steered_by for one in replies} == {("hook:ci",)}


async def test_a_header_with_nothing_in_it_names_no_delivery(tmp_path: Path) -> None:
    """Else all that come with one would be the same delivery, and of two that say different things one was refused."""
    async with place(tmp_path / "s.db") as there:
        await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        for number in (1, 2, 2):
            assert (await there.post(SECRET, {"build": number}, webhook_id=" ")).status == 200
        assert (await there.post(SECRET, {"build": 2}, idempotency_key=" ", webhook_id="7")).status == 200
        texts = [text for _, text, _ in await there.said()]
        assert texts == [json.dumps({"build": number}) for number in (1, 2, 2)]


async def test_a_secret_that_is_none_is_answered_like_one_that_was_taken_away(tmp_path: Path) -> None:
    async with place(tmp_path / "s.db") as there:
        await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        assert (await there.post(SECRET, method="GET")).json == (await there.post(OTHER, method="GET")).json
        await there.globex.remove_room_hook("ci")
        gone, never = await there.post(SECRET), await there.post(OTHER)
        assert (gone.status, gone.body) == (never.status, never.body) == (404, gone.body)
        with pytest.raises(NotFound):
            await there.globex.remove_room_hook("ci")
        assert await there.said() == []
        for _ in range(20):
            last = await there.post(OTHER)
        assert last.status == 429


async def test_what_cannot_be_said_is_refused_and_what_is_too_long_is_cut(tmp_path: Path) -> None:
    async with place(tmp_path / "s.db") as there:
        await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        assert (await there.post(SECRET, b"{not json")).status == 400
        assert (await there.post(SECRET, method="PUT")).status in (400, 405)
        assert (await there.post(SECRET, ["long" * 10_000])).status == 200
        [(_, text, _)] = await there.said()
        assert (len(text) <= 32_000, "[cut: it had" in text) == (True, True)
        await there.globex.write_in_room(there.room, Stop("globex"))
        assert (await there.post(SECRET, "stopped")).status == 409
        await there.globex.write_in_room(there.room, Leave())
        assert (await there.post(SECRET, "gone")).status == 404


async def test_a_hook_is_its_companys_alone(tmp_path: Path) -> None:
    async with place(tmp_path / "s.db") as there:
        await there.globex.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        assert await there.acme.room_hooks() == []
        with pytest.raises(NotFound):
            await there.acme.remove_room_hook("ci")
        with pytest.raises(Conflict, match="used before"):
            await there.acme.add_room_hook(there.room, "ci", "globex/bot", SECRET)
        with pytest.raises(Conflict, match="has a hook 'ci'"):
            await there.globex.add_room_hook(there.room, "ci", "globex/bot", OTHER)
        for wrong in (("a b", "globex/bot", OTHER), ("x", "globex/nobody", OTHER), ("x", "globex/bot", "short")):
            with pytest.raises(InvalidInput):
                await there.globex.add_room_hook(there.room, *wrong)
        assert {key.name for one in await there.server.api().companies() for key in one.keys} == {
            "admin",
            "acme-ops",
            "globex-ops",
        }, "a hook is no key"
