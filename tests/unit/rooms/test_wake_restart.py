"""A wake whose server goes: carried on with what it had read, or abandoned, as its agent's company wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import Hold, Script
from room_node import answer, room_over, shown

pytestmark = pytest.mark.anyio


async def test_a_wake_that_is_carried_on_sees_what_it_saw_before(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([answer("42", remember={"text": "kept"})], gate=hold)
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk, how many?")
        await hold.reached()
        await room.post("never mind")
    hold.open()
    async with room_over(tmp_path, script) as room:
        assert (await room.ended(wake)).state == "completed"
        assert await room.texts() == ["@clerk, how many?", "never mind", "42"]
        assert [one.text for one in await room.memory()] == ["kept"]
        first, second = (shown(request) for request in script.requests)
        assert first == second
        assert len(first["messages"]) == 1


async def test_a_wake_that_is_abandoned_does_nothing_more_and_the_next_message_begins_anew(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([answer("42")], gate=hold)
    async with room_over(tmp_path, script, on_crash="abandon") as room:
        wake = await room.post("@clerk, how many?")
        await hold.reached()
    hold.open()
    async with room_over(tmp_path, script, on_crash="abandon") as room:
        view = await room.ended(wake)
        assert view.failure is not None
        assert (view.failure.code, len(script.requests)) == ("abandoned", 1)
        assert await room.texts() == ["@clerk, how many?"]
        assert (await room.ledger())[-2:] == ["posted", "wake_ended"]
        assert (await room.ended(await room.post("@clerk, once more"))).state == "completed"
        assert await room.texts() == ["@clerk, how many?", "@clerk, once more", "42"]


async def test_the_same_message_after_a_restart_is_the_same_wake(tmp_path: Path) -> None:
    script = Script([answer("42")])
    async with room_over(tmp_path, script) as room:
        await room.ended(await room.post("@clerk, how many?", key="k"))
    async with room_over(tmp_path, script) as room:
        assert await room.post("@clerk, how many?", key="k") == ""
        assert len(await room.wakes()) == 1
        assert await room.texts() == ["@clerk, how many?", "42"]
