"""Rooms over MCP: clients of the official SDK against a server process, over HTTP in both eras and over stdio."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from cli_processes import Home
from http_server import Process, process
from mcp_members import DOORS, WRITES_OF_A_ROOM, Door, add_companies, member, shared_room
from perdure.doors.room_tools import TOOLS

pytestmark = pytest.mark.anyio

each_door = pytest.mark.parametrize("door", DOORS)
each_era = pytest.mark.parametrize("door", ["http", "http-2025"])
"""Where what is looked at is the same over stdio, whose every client costs a process."""
PATIENCE = 50.0
"""Seconds that a wait may take. No measure: it ends as soon as there is something."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server process whose store knows three companies."""
    place = tmp_path_factory.mktemp("mcp") / "s.db"
    asyncio.run(add_companies(place))
    with process(place) as server:
        yield server


@each_door
async def test_two_companies_finish_a_task_together(server: Process, door: Door) -> None:
    """One of them comes in for this room alone, and has no other."""
    room, other = [await shared_room(server.url, name) for name in ("the bridge", "the tower")]
    alone = member(door, server.url, "acme", f"?room={room}", "--room", room)
    async with alone as acme, member("http", server.url, "globex") as globex:
        assert [one["id"] for one in (await acme.call("list_rooms"))["rooms"]] == [room]
        assert (await acme.refused("read_messages", room=other))["code"] == "other_room"
        shown = await acme.call("show_room")
        assert [one["company"] for one in shown["members"]] == ["acme", "globex"]
        asked = await acme.call("post_message", text="How many beams?", to=["globex"])
        task = await acme.call("create_task", room=room, title="Count the beams", to="globex", thread=asked["id"])
        [found] = (await globex.call("list_tasks", room=room, state="open", to="globex"))["tasks"]
        assert (found["id"], found["company"], found["author"]) == (task["id"], "acme", "acme-ops")
        assert (await globex.call("claim_task", room=room, task=task["id"]))["created"]
        await globex.call("post_message", room=room, text="Twelve.", thread=asked["id"])
        await globex.call("complete_task", room=room, task=task["id"], result="12")
        news = await acme.call("wait_for_answer", room=room, about=asked["id"], after=asked["seq"])
        assert [(one["company"], one["text"]) for one in news["messages"]] == [("globex", "Twelve.")]
        closed = await acme.call("wait_for_answer", room=room, about=task["id"], after=news["next_after"])
        assert (closed["task"]["state"], closed["task"]["result"], closed["again"]) == ("done", "12", False)
        kept = await acme.call("remember", room=room, text="It takes 12 beams.", source=task["id"])
        [line] = (await globex.call("read_memory", room=room))["lines"]
        best = (await globex.call("search", room=room, query="it takes how many beams?", limit=1))["items"]
        assert [(one["kind"], one["id"], one["snippet"]) for one in best] == [("memory", kept["id"], line["text"])]
        assert (line["id"], line["source"]) == (kept["id"], task["id"])
        read = await globex.call("read_messages", room=room, limit=1)
        rest = await globex.call("read_messages", room=room, after=read["next_after"])
        assert [one["text"] for one in read["messages"] + rest["messages"]] == ["How many beams?", "Twelve."]


@each_era
async def test_a_call_that_is_made_again_is_done_once(server: Process, door: Door) -> None:
    room = await shared_room(server.url, "the bridge")
    async with member(door, server.url, "acme") as acme, member("http", server.url, "globex") as globex:
        for tool, given in (
            ("post_message", {"text": "hello"}),
            ("create_task", {"title": "count", "to": "globex"}),
            ("remember", {"text": "the river is wide"}),
        ):
            first = await acme.call(tool, room=room, **given)
            again = await acme.call(tool, room=room, **given)
            assert (again["id"], again["created"], "said exactly this before" in again["note"]) == (
                first["id"],
                False,
                True,
            )
            on_purpose = await acme.call(tool, room=room, key="twice", **given)
            assert (on_purpose["created"], on_purpose["id"] != first["id"]) == (True, True)
            named = await acme.call(tool, {"idempotencyKey": "mine"}, room=room, **given)
            assert not (await acme.call(tool, {"idempotencyKey": "mine"}, room=room, **given))["created"]
            assert named["id"] not in (first["id"], on_purpose["id"])
            other = {**given, next(iter(given)): "something else"}
            assert (await acme.refused(tool, room=room, key="twice", **other))["code"] == "room_key_conflict"
        [task, *_] = (await globex.call("list_tasks", room=room))["tasks"]
        for tool, given in (("claim_task", {}), ("complete_task", {"result": "12"})):
            did = [(await globex.call(tool, room=room, task=task["id"], **given))["created"] for _ in range(2)]
            assert did == [True, False]
        assert len((await globex.call("read_messages", room=room))["messages"]) == 3


@pytest.mark.parametrize("door", ["http", "stdio"])
async def test_to_a_stranger_a_room_is_not_there_whatever_tool_it_tries(server: Process, door: Door) -> None:
    room = await shared_room(server.url, "the bridge")
    async with member("http", server.url, "acme") as acme:
        task = (await acme.call("create_task", room=room, title="count", to="globex"))["id"]
        message = (await acme.call("post_message", room=room, text="hello"))["id"]
    more = {
        "post_message": {"text": "hello"},
        "create_task": {"title": "count", "to": "globex"},
        "claim_task": {"task": task},
        "complete_task": {"task": task},
        "change_task": {"task": task, "verb": "cancel"},
        "remember": {"text": "hello"},
        "search": {"query": "hello"},
        "wait_for_answer": {"about": message, "seconds": 0},
    }
    async with member(door, server.url, "initech") as stranger:
        assert await stranger.call("list_rooms") == {"rooms": []}
        for tool in TOOLS:
            if tool.name != "list_rooms":
                given = more.get(tool.name, {})
                here = await stranger.refused(tool.name, room=room, **given)
                there = await stranger.refused(tool.name, room="room_nowhere", **given)
                assert here["code"] == "not_found"
                assert str(here).replace(room, "room_nowhere") == str(there)


@each_era
async def test_who_waits_hears_an_answer_when_it_comes(server: Process, door: Door) -> None:
    room = await shared_room(server.url, "the bridge")
    async with member(door, server.url, "acme") as acme, member("http", server.url, "globex") as globex:
        asked = await acme.call("post_message", room=room, text="How many?")
        waiting = {"room": room, "about": asked["id"], "after": asked["seq"]}
        nothing = await acme.call("wait_for_answer", **waiting, seconds=0)
        assert nothing == {"messages": [], "task": None, "next_after": asked["seq"], "again": True}
        async with anyio.create_task_group() as group:
            heard: list[str] = []

            async def wait() -> None:
                news = await acme.call("wait_for_answer", **waiting, seconds=PATIENCE)
                heard.extend(one["text"] for one in news["messages"])

            group.start_soon(wait)
            await globex.call("post_message", room=room, text="of something else")  # ends no wait about another thing
            await globex.call("post_message", room=room, text="Twelve.", thread=asked["id"])
        assert heard == ["Twelve."]
        assert (await acme.refused("wait_for_answer", room=room, about="msg_nothing"))["code"] == "not_found"


async def test_a_call_whose_answer_was_lost_is_done_once_by_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server commits the message and dies before it can say so."""
    place = tmp_path / "s.db"
    await add_companies(place)
    monkeypatch.setenv("PERDURE_FAILPOINTS", f"write_in_room.after_commit=kill@{WRITES_OF_A_ROOM + 1}")
    async with AsyncExitStack() as all_:
        first = all_.enter_context(process(place))
        room = await shared_room(first.url, "the bridge")
        globex = await all_.enter_async_context(member("http-2025", first.url, "globex"))
        at_home = await all_.enter_async_context(member("stdio", first.url, "globex"))
        with pytest.raises(ExceptionGroup, match="unhandled errors"):  # the SDK's client goes with its connection
            async with member("http", first.url, "acme") as acme:
                await acme.call("post_message", room=room, text="How many?")
        assert first.popen.wait() == -signal.SIGKILL
        monkeypatch.delenv("PERDURE_FAILPOINTS")
        all_.enter_context(process(place, f"port={first.address[1]}"))
        acme = await all_.enter_async_context(member("http", first.url, "acme"))
        asked = await acme.call("post_message", room=room, text="How many?")
        assert not asked["created"]
        said = [await one.call("post_message", room=room, text="Twelve.") for one in (globex, at_home)]
        assert [one["created"] for one in said] == [True, False]
        news = await acme.call("wait_for_answer", room=room, after=asked["seq"])
        assert [one["text"] for one in news["messages"]] == ["Twelve."]
        assert len((await acme.call("read_messages", room=room))["messages"]) == 2


@each_era
async def test_the_list_says_what_each_tool_does(server: Process, door: Door) -> None:
    async with member(door, server.url, "initech") as stranger:
        listed = (await stranger.client.list_tools()).tools
    assert [one.name for one in listed] == [one.name for one in TOOLS]
    for one, tool in zip(listed, TOOLS, strict=True):
        hints = one.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (tool.reads, True, True)
        assert hints.destructive_hint == (one.name == "change_task")
        assert one.description
        assert one.input_schema["type"] == "object"
        assert all("description" in field for field in one.input_schema.get("properties", {}).values())
        assert one.output_schema is not None


async def test_what_does_not_fit_is_named_to_the_model(server: Process) -> None:
    room = await shared_room(server.url, "the bridge")
    async with member("http", server.url, "acme") as acme:
        for tool, given, named in (
            ("post_message", {}, "text"),
            ("post_message", {"text": "x", "shout": True}, "shout"),
            ("post_message", {"text": ""}, "text"),
            ("read_messages", {"limit": 0}, "limit"),
            ("change_task", {"task": "rtk_1", "verb": "complete"}, "verb"),
            ("wait_for_answer", {"seconds": 1e9}, "seconds"),
        ):
            error = await acme.refused(tool, room=room, **given)
            assert named in error["details"]["fields"], (tool, error)
        assert (await acme.refused("create_task", room=room, title="x", to="nobody"))["code"] == "no_such_member"
        assert (await acme.refused("list_tasks", room=room, state="lost"))["code"] == "invalid_input"
        assert (await acme.refused("read_messages"))["code"] == "room_unnamed"


def test_the_command_says_at_once_what_is_wrong(server: Process, tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert "error[server_unreachable]" in home.command("mcp").stderr
    home.extra["PERDURE_API_KEY"] = "pdk_" + "x" * 40
    assert "error[unauthorized]" in home.command("mcp", "--server", server.url).stderr
