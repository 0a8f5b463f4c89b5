"""A schedule wakes an agent in a room: one message a tick, said once, and under the rules of the room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Script
from perdure.core import codec
from perdure.core.notices import Notice, notice_to_json
from perdure.core.rooms import Leave, SetRights, Stop
from perdure.core.schedules import ScheduleRequest
from perdure.core.views import ForkEdits
from perdure.errors import Conflict, InvalidInput
from room_node import GLOBEX, RoomNode, answer, room_over

pytestmark = pytest.mark.anyio


async def scheduled(room: RoomNode, nonce: str = "1", **more: str) -> str:
    """Make a schedule, and have it run now; return the execution that it began."""
    spec = notice_to_json(Notice(room.room, "globex/clerk", "count the beams"))
    api = room.globex
    await api.create_schedule(ScheduleRequest("daily", {**spec, **more}, None, "0 7 * * *"), by="bob")
    return (await api.trigger_schedule("daily", nonce=nonce)).id


async def test_it_wakes_the_agent_it_is_meant_for_and_says_it_once(tmp_path: Path) -> None:
    script = Script([answer("12")])
    async with room_over(tmp_path, script) as room:
        said = await scheduled(room)
        output: Any = (await room.ended(said)).output
        [wake] = output["woken"]
        assert (await room.ended(wake)).state == "completed"
        assert await scheduled(room) == said, "the same tick"
        first, reply = await room.acme.room_messages(room.room)
        assert (first.company, first.author, first.kind) == (GLOBEX, "schedule", "person")
        assert first.text == "count the beams"
        assert (first.to, reply.text, reply.steered_by) == (("globex/clerk",), "12", ())
        assert (await room.globex.schedule("daily")).agent == "notice/globex/clerk"
        with pytest.raises(Conflict, match="would say it there a second time"):
            await room.globex.fork(said, 2, ForkEdits())


async def test_what_the_room_says_against_it_fails_it_and_says_why(tmp_path: Path) -> None:
    async with room_over(tmp_path, []) as room:
        for then, code in (("refuse", "not_allowed"), ("hold", "needs_approval")):
            rule = {"name": "quiet", "then": then, "acts": ["post"], "who": "globex/schedule"}
            await room.globex.write_in_room(room.room, SetRights(codec.encode({"rules": [rule]})), by="bob")
            view = await room.ended(await scheduled(room, nonce=then))
            assert (view.state, view.failure and view.failure.code) == ("failed", code)
            await room.globex.delete_schedule("daily")
        await room.globex.write_in_room(room.room, Leave(), by="bob")
        view = await room.ended(await scheduled(room, nonce="left"))
        assert view.failure
        assert view.failure.code == "not_found"
        assert await room.texts() == []


async def test_under_a_stop_it_waits_and_is_said_after_it(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("12")]) as room:
        await room.globex.write_in_room(room.room, Stop(GLOBEX), by="bob")
        said = await scheduled(room)
        await room.bench_state(said, "paused")
        assert await room.texts() == []
        assert (await room.globex.start_room(room.room, GLOBEX, by="bob")).wakes == 1
        await room.ended(said)
        assert (await room.texts())[0] == "count the beams"


@pytest.mark.parametrize("wrong", [{"text": ""}, {"to": ""}, {"author": "the president"}])
async def test_what_cannot_be_said_is_refused_when_it_is_made(tmp_path: Path, wrong: dict[str, str]) -> None:
    async with room_over(tmp_path, []) as room:
        with pytest.raises(InvalidInput):
            await scheduled(room, **wrong)
