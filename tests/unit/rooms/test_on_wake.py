"""`@on_wake`: a company's own function decides about a wake, in its own worker, under the rules of the room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Script, wait_until
from perdure import Agent, AgentRuntime, ToolContext
from perdure.agent.on_wake import on_wake
from perdure.core.codec import Json
from perdure.core.rooms import Post, Remember
from perdure.errors import InvalidInput
from room_node import ACME, GLOBEX, RoomNode, room_over

HERE = pytest.mark.anyio


@on_wake(name="clerk")
def clerk(room: dict[str, Any]) -> dict[str, Any]:
    """Never called: a worker by hand answers in its place."""
    raise NotImplementedError


async def woken(room: RoomNode, text: str = "@clerk?") -> str:
    await room.globex.put_room_agent(room.room, clerk.compile(), by="bob")
    return (await room.globex.write_in_room(room.room, Post(text, key=text), by="bob")).woken[0]


async def decide(room: RoomNode, value: Json) -> dict[str, Any]:
    """Answer as a worker would; return what the function was given."""
    [task] = await room.bench.lease("on_wake")
    await room.bench.done(task, value)
    return dict(task.args["room"])  # type: ignore[call-overload, arg-type] - it is an object


@HERE
async def test_what_it_returns_is_done_once_and_no_model_is_asked(tmp_path: Path) -> None:
    script = Script([])
    async with room_over(tmp_path, script) as room:
        wake = await woken(room)
        given = await decide(room, {"reply": "12", "remember": [{"text": "a"}, {"text": "b"}]})
        assert (given["you"], given["woken_by"]["text"], given["withheld"]) == ("globex/clerk", "@clerk?", 0)
        assert (await room.ended(wake)).state == "completed"
        assert await room.texts() == ["@clerk?", "12"]
        assert [one.text for one in await room.memory()] == ["a", "b"]
        assert script.requests == []


@HERE
async def test_what_others_text_may_have_led_to_waits_for_its_company(tmp_path: Path) -> None:
    async with room_over(tmp_path, []) as room:
        await woken(room, "hello @clerk")
        await decide(room, {})
        wake = await room.post("@clerk, order it")
        await decide(room, {"create_task": {"title": "deliver", "to": ACME}})

        async def asked() -> list[Any]:
            return await room.globex.approvals()

        [one] = await wait_until(asked)
        assert await room.acme.room_tasks(room.room) == []
        await room.globex.decide(one.id, "approve", by="bob", digest=one.digest)
        await room.ended(wake)
        assert [task.title for task in await room.acme.room_tasks(room.room)] == ["deliver"]


@HERE
async def test_it_is_shown_withheld_lines_on_its_wish_and_is_labelled_for_it(tmp_path: Path) -> None:
    async with room_over(tmp_path, []) as room:
        await room.globex.write_in_room(room.room, Remember("we have 12", (GLOBEX,)))
        await woken(room)
        first = await decide(room, {"recall": True})
        again = await decide(room, {"reply": "12"})
        assert ([one["text"] for one in first["memory"]], first["withheld"]) == ([], 1)
        assert [one["text"] for one in again["memory"]] == ["we have 12"]

        async def asked() -> list[Any]:
            return await room.globex.approvals()

        [one] = await wait_until(asked)
        assert one.args["hold"]["rule"] == "globex:default-private"


@HERE
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("12", 'what it returned is "12"'),
        ({"replies": "12"}, "what it returned has 'replies'"),
        ({"reply": 12}, "its reply is 12"),
        ({"remember": {"line": "12"}}, "do not fit its schema"),
        ({"create_task": "12"}, "should be a JSON object"),
    ],
)
async def test_what_cannot_be_read_is_told_and_nothing_of_it_is_done(tmp_path: Path, value: Json, why: str) -> None:
    async with room_over(tmp_path, []) as room:
        wake = await woken(room)
        await decide(room, value)
        view = await room.ended(wake)
        assert (view.state, view.failure and view.failure.code) == ("failed", "on_wake_failed")
        assert why in (view.failure.message if view.failure else "")
        assert (await room.texts(), (await room.ledger())[-1]) == (["@clerk?"], "wake_ended")


@HERE
async def test_one_that_raises_for_good_ends_the_wake(tmp_path: Path) -> None:
    async with room_over(tmp_path, []) as room:
        wake = await woken(room)
        [task] = await room.bench.lease("on_wake")
        await room.bench.failed(task, "it broke")
        view = await room.ended(wake)
        assert "it broke" in (view.failure.message if view.failure else "")


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_a_program_serves_its_function(tmp_path: Path) -> None:
    seen: list[str] = []

    @on_wake
    async def counter(room: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """Count."""
        seen.append(ctx.idempotency_key)
        return {"reply": f"{room['room']['name']}: {len(room['messages'])}"}

    with AgentRuntime(store=tmp_path / "p.db") as runtime:
        room = runtime.rooms.create("the bridge")
        room.add_agent(counter)
        runtime.serve(counter, blocking=False)
        [wake] = room.post("@counter").woken
        assert runtime.attach(wake).result().status == "completed"
        assert room.messages()[-1].text == "the bridge: 1"
    assert seen == [f"{wake}/turn 1/on_wake"]


def test_three_workers_that_die_in_a_row_leave_it_a_try() -> None:
    assert clerk.definitions()["on_wake"].options.attempts > 3


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_what_is_no_such_function_is_refused_when_it_is_declared(tmp_path: Path) -> None:
    for wrong in (lambda: None, lambda space: space, lambda room, more: room):
        with pytest.raises(InvalidInput):
            on_wake(wrong)
    with AgentRuntime(store=tmp_path / "p.db") as runtime:
        room = runtime.rooms.create("the bridge")
        with pytest.raises(InvalidInput, match="declare it by @on_wake"):
            room.add_agent(Agent(name="x", model="on_wake/function"))
