"""A wake whose act needs a yes: it waits for it, holding nothing, over restarts, and goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Script, wait_until
from perdure.core import codec
from perdure.core.rooms import SetRights
from perdure.core.views import ApprovalView
from room_node import ACME, GLOBEX, RoomNode, answer, room_over, shown

pytestmark = pytest.mark.anyio

ORDER = answer("ordered", remember={"text": "40 beams"}, create_task={"title": "deliver 40 beams", "to": ACME})


async def asked(room: RoomNode, company: str = GLOBEX) -> ApprovalView:
    """Return the only open approval, once it is there."""
    api = room.bench.node.api(company)

    async def open_ones() -> list[ApprovalView]:
        return await api.approvals()

    [found] = await wait_until(open_ones)
    return found


async def parked(room: RoomNode, wake: str) -> None:
    async def waiting() -> bool:
        return (await room.globex.execution(wake)).state == "waiting"

    await wait_until(waiting)


async def say(room: RoomNode, *rules: dict[str, Any], company: str = GLOBEX) -> None:
    await room.bench.node.api(company).write_in_room(room.room, SetRights(codec.encode({"rules": list(rules)})), by="b")


async def test_a_held_act_is_done_after_the_yes_and_all_else_before(tmp_path: Path) -> None:
    async with room_over(tmp_path, [ORDER]) as room:
        wake = await room.post("@clerk, order the beams")
        one = await asked(room)
        assert one.args["title"] == "deliver 40 beams"
        assert await room.texts() == ["@clerk, order the beams", "ordered"]
        assert [line.text for line in await room.memory()] == ["40 beams"]
        assert await room.acme.room_tasks(room.room) == []
        await room.globex.decide(one.id, "approve", by="bob", digest=one.digest)
        assert (await room.ended(wake)).state == "completed"
        assert [task.title for task in await room.acme.room_tasks(room.room)] == ["deliver 40 beams"]
        assert (await room.ledger())[-4:] == ["remembered", "act_held", "task_opened", "wake_ended"]


async def test_it_waits_over_restarts_and_the_model_is_not_asked_again(tmp_path: Path) -> None:
    script = Script([ORDER])
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk, order the beams")
        one = await asked(room)
        await parked(room, wake)
    async with room_over(tmp_path, script) as room:
        await room.globex.decide(one.id, "approve", by="bob")
    async with room_over(tmp_path, script) as room:
        assert (await room.ended(wake)).state == "completed"
        assert len(await room.acme.room_tasks(room.room)) == 1
    assert len(script.requests) == 1


async def test_a_no_is_in_the_ledger_and_before_the_next_wake(tmp_path: Path) -> None:
    script = Script([ORDER])
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk, order the beams")
        await room.globex.decide((await asked(room)).id, "reject", by="bob", reason="too many")
        output = await room.output(wake)
        assert output["acts"][-1]["refused"] == "hold_rejected"
        assert await room.acme.room_tasks(room.room) == []
        assert (await room.ledger())[-3:] == ["act_held", "act_refused", "wake_ended"]
        await room.post("@clerk, and now?")
        await asked(room)
        assert shown(script.requests[-1])["not_done"] == [{"act": "OpenTask", "why": "hold_rejected", "rule": ""}]


async def test_a_reply_that_is_held_comes_before_all_else(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("here it is", remember={"text": "said it"})]) as room:
        await say(room, {"name": "look", "then": "hold", "acts": ["post"], "by": {"company": ACME}}, company=ACME)
        wake = await room.post("@clerk?")
        one = await asked(room, ACME)
        assert await room.memory() == []
        assert (await room.globex.execution(wake)).waits[0].detail == "a decision of acme about Post"
        await room.acme.decide(one.id, "approve", by="ann")
        await room.ended(wake)
        assert (await room.ledger())[-4:] == ["act_held", "posted", "remembered", "wake_ended"]


async def test_two_companies_both_say_yes(tmp_path: Path) -> None:
    async with room_over(tmp_path, [ORDER]) as room:
        await say(room, {"name": "in", "then": "hold", "acts": ["create_task"], "to": ACME}, company=ACME)
        wake = await room.post("@clerk, order the beams")
        await room.globex.decide((await asked(room)).id, "approve", by="bob")
        await room.acme.decide((await asked(room, ACME)).id, "approve", by="ann")
        assert (await room.ended(wake)).state == "completed"
        assert len(await room.acme.room_tasks(room.room)) == 1


async def test_rights_that_change_while_somebody_is_asked_count(tmp_path: Path) -> None:
    async with room_over(tmp_path, [ORDER]) as room:
        wake = await room.post("@clerk, order the beams")
        one = await asked(room)
        await say(room, {"name": "never", "then": "refuse", "acts": ["create_task"]})
        await room.globex.decide(one.id, "approve", by="bob")
        assert (await room.output(wake))["acts"][-1]["refused"] == "not_allowed"
        assert await room.acme.room_tasks(room.room) == []


async def test_a_cancelled_wake_that_waits_for_a_yes_does_nothing_more(tmp_path: Path) -> None:
    async with room_over(tmp_path, [ORDER]) as room:
        wake = await room.post("@clerk, order the beams")
        await asked(room)
        await room.globex.cancel(wake)
        assert (await room.ended(wake)).state == "cancelled"
        assert await room.acme.room_tasks(room.room) == []
