"""What a wake does: it reads the room as it stands, asks once, does what was declared, tells the ledger, and ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node_bench import Hold, Script, spec
from perdure.agent.spec import LimitsEntry
from perdure.core import codec
from perdure.core.rooms import OpenTask, Post, Remember, RemoveAgent, SetRights
from perdure.engine.start import Start, start
from perdure.errors import Conflict
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import say
from perdure.rooms.spec import wake_definition
from room_node import ACME, GLOBEX, answer, room_over, shown

pytestmark = pytest.mark.anyio

ALLOW = '{"rules": [{"name": "orders", "then": "allow", "acts": ["create_task"]}]}'
SET_UP = ["created", "invited", "joined", "agent_registered"]


async def test_a_message_wakes_the_agent_and_it_replies_in_the_thread(tmp_path: Path) -> None:
    script = Script([answer("42")])
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk, how many?")
        view = await room.ended(wake)
        assert (await room.output(wake))["result"] == "42"
        assert (view.agent, view.model) == ("clerk", "scripted/clerk")
        asked, replied = await room.acme.room_messages(room.room)
        assert (replied.company, replied.author, replied.kind, replied.text) == (GLOBEX, "clerk", "agent", "42")
        assert replied.thread == asked.id
        assert await room.ledger() == [*SET_UP, "posted", "posted", "wake_ended"]


async def test_it_does_all_that_it_declared_reply_first(tmp_path: Path) -> None:
    def declare(request: ModelRequest) -> ModelReply:
        task = shown(request)["woken_by"]["id"]
        return answer(
            "done",
            remember={"text": "we count beans", "readers": [GLOBEX]},
            update_task={"task": task, "verb": "complete", "result": "42"},
            create_task={"title": "check it", "to": ACME},
        )

    async with room_over(tmp_path, [declare]) as room:
        await room.globex.write_in_room(room.room, SetRights(ALLOW), by="bob")
        [wake] = (await room.write(OpenTask("count the beans", f"{GLOBEX}/clerk"))).woken
        await room.ended(wake)
        assert await room.texts() == ["done"]
        assert [one.text for one in await room.memory()] == ["we count beans"]
        assert await room.acme.room_memory(room.room) == []
        tasks = await room.acme.room_tasks(room.room)
        assert [(one.title, one.state, one.result) for one in tasks] == [
            ("count the beans", "done", "42"),
            ("check it", "open", ""),
        ]
        acts = ["posted", "remembered", "task_changed", "task_opened", "wake_ended"]
        assert await room.ledger() == [*SET_UP, "rights_set", "task_opened", *acts]


async def test_it_is_shown_the_room_that_its_company_may_see(tmp_path: Path) -> None:
    script = Script([answer("yes")])
    async with room_over(tmp_path, script) as room:
        await room.post("an older message")
        await room.write(Remember("for all", key="1"))
        await room.write(Remember("acme's own", (ACME,), key="2"))
        await room.write(OpenTask("for another", ACME))
        await room.write(OpenTask("for the company", GLOBEX))
        await room.ended(await room.post("@clerk?"))
        seen = shown(script.requests[0])
        assert [one["text"] for one in seen["messages"]] == ["an older message", "@clerk?"]
        assert [one["text"] for one in seen["memory"]] == ["for all"]
        assert [one["title"] for one in seen["tasks"]] == ["for the company"]
        assert seen["woken_by"]["text"] == "@clerk?"
        assert seen["you"] == f"{GLOBEX}/clerk"
        assert seen["room"] == {"id": room.room, "name": ""}, "acme gave it its name, and no label would say so"
        assert "agent clerk of globex" in script.requests[0].instructions


async def test_whoever_fills_a_room_up_keeps_no_wake_from_its_end(tmp_path: Path) -> None:
    """What is shown of it fits into a log, and into what a model reads; what woke the agent is whole."""
    script = Script([answer("here I am"), answer("the same")])
    async with room_over(tmp_path, script) as room:
        for number in range(50):
            await room.write(Post("\x01" * 32_000, key=f"m{number}"))  # six bytes each as JSON
            await room.write(Remember("\x02" * 32_000, key=f"l{number}"))
            await room.write(OpenTask("\x03" * 32_000, GLOBEX, key=f"t{number}"))
        assert (await room.ended(await room.post("@clerk, are you there?"))).state == "completed"
        asked = "@clerk, " + "long " * 6_000
        assert (await room.ended(await room.post(asked, key="long"))).state == "completed"
    first, second = (shown(request) for request in script.requests)
    assert first["messages"][-1]["text"] == "@clerk, are you there?"
    for texts in ([one["text"] for one in first["messages"]], [one["text"] for one in first["memory"]]):
        assert len(texts) == 50
        assert texts[0].endswith("\n[cut: it has 32,000 characters]")
        assert sum(map(len, texts)) < 100_000
    assert len(first["tasks"][0]["title"]) == 32_000, "the oldest tasks first"
    assert first["tasks"][-1]["title"].endswith("[cut: it has 32,000 characters]")
    assert second["woken_by"]["text"] == asked


async def test_what_cannot_be_done_is_refused_in_the_ledger_and_the_rest_is_done(tmp_path: Path) -> None:
    declared = answer(
        "ok",
        update_task={"task": "rtk_nowhere", "verb": "complete"},
        remember={"text": "kept"},
        create_task={"title": "x", "to": "nobody"},
    )
    async with room_over(tmp_path, [declared]) as room:
        output = await room.output(await room.post("@clerk"))
        assert [one.get("refused") for one in output["acts"]] == [None, "not_found", None, "no_such_member"]
        assert [one.text for one in await room.memory()] == ["kept"]
        assert (await room.ledger())[-5:] == ["posted", "act_refused", "remembered", "act_refused", "wake_ended"]


async def test_a_declaration_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    bad, good = answer("first", remember={"line": "?"}), answer("second", remember={"text": "kept"})
    script = Script([bad, good])
    async with room_over(tmp_path, script) as room:
        await room.ended(await room.post("@clerk"))
        assert await room.texts() == ["@clerk", "second"]
        assert [one.text for one in await room.memory()] == ["kept"]
        assert "do not fit its schema" in script.shown()[-1][1]


async def test_a_reply_that_no_store_takes_is_posted_as_far_as_it_goes(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("a\0b\ud800c" + "x" * 40_000)]) as room:
        await room.ended(await room.post("@clerk"))
        [_, said] = await room.texts()
        assert said.startswith("ab?cxxx")
        assert said.endswith("[cut: it had 40,004 characters]")
        assert len(said) == 32_000


async def test_an_agent_with_nothing_to_say_posts_nothing(tmp_path: Path) -> None:
    async with room_over(tmp_path, [say("")]) as room:
        await room.ended(await room.post("@clerk, no need to answer"))
        assert await room.texts() == ["@clerk, no need to answer"]
        assert await room.ledger() == [*SET_UP, "posted", "wake_ended"]


async def test_an_agent_that_names_itself_does_not_wake_itself(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("@clerk said so")]) as room:
        await room.ended(await room.post("@clerk"))
        assert len(await room.wakes()) == 1


async def test_two_agents_that_wake_each_other_stop_after_so_many_wakes(tmp_path: Path) -> None:
    def ping(request: ModelRequest) -> ModelReply:
        return answer("@acme/clerk" if "of globex" in request.instructions else "@globex/clerk")

    script = Script([ping])
    async with room_over(tmp_path, script) as room:
        await room.acme.put_room_agent(room.room, {"name": "clerk", "model": "scripted/clerk", "instructions": ""})
        await room.ended(await room.post("@globex/clerk"))
        for number in range(16):  # each has woken the next before it ends
            api = (room.globex, room.acme)[number % 2]
            woken = [one.execution for one in await api.room_wakes(room.room) if one.execution]
            await asyncio.gather(*map(api.wait, woken))
        assert len(await room.wakes()) == 16
        assert len(await room.texts()) == 17


async def test_a_model_that_refuses_ends_the_wake_and_the_ledger_says_so(tmp_path: Path) -> None:
    async with room_over(tmp_path, [ModelError("rejected", "no such thing")]) as room:
        view = await room.ended(await room.post("@clerk"))
        assert view.state == "failed"
        assert await room.texts() == ["@clerk"]
        assert (await room.ledger())[-1] == "wake_ended"


async def test_a_wake_that_is_active_for_too_long_is_stopped(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([answer("late")], gate=hold)
    async with room_over(tmp_path, script, limits=LimitsEntry(active_ms=50)) as room:
        view = await room.ended(await room.post("@clerk"))
        assert view.failure is not None
        assert view.failure.code == "limit_exceeded"
        hold.open()
        assert await room.texts() == ["@clerk"]


async def test_an_agent_that_was_taken_out_meanwhile_does_nothing(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with room_over(tmp_path, Script([answer("late", remember={"text": "x"})], gate=hold)) as room:
        wake = await room.post("@clerk")
        await hold.reached()
        await room.globex.write_in_room(room.room, RemoveAgent("clerk"), by="bob")
        hold.open()
        output = await room.output(wake)
        assert {one["refused"] for one in output["acts"]} == {"not_a_member"}
        assert await room.texts() == ["@clerk"]
        assert await room.memory() == []


async def test_a_cancelled_wake_does_nothing(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    async with room_over(tmp_path, Script([answer("late")], gate=hold)) as room:
        wake = await room.post("@clerk")
        await hold.reached()
        await room.globex.cancel(wake)
        assert (await room.ended(wake)).state == "cancelled"
        hold.open()
        assert await room.texts() == ["@clerk"]


async def test_what_no_message_and_no_task_began_is_no_wake(tmp_path: Path) -> None:
    """An execution with a wake's definition and input, and no claim: it would act for a cause as often as one likes."""
    script = Script([answer("as you asked")])
    async with room_over(tmp_path, script) as room:
        cause = (await room.write(Post("nobody is meant"))).id
        name, digest, text = wake_definition(spec(), "resume")
        given = {"room": room.room, "agent": name, "cause": cause, "asked_by": "acme/ann", "hops": 0}
        forged = Start("exe_forged", GLOBEX, name, digest, text, codec.encode(given), None)
        await room.bench.node.bridge.run(start, forged)
        await room.bench_state("exe_forged", "stuck")
        assert script.requests == []
        assert (await room.ledger())[-1] == "posted"


async def test_a_wake_cannot_be_forked(tmp_path: Path) -> None:
    from perdure.core.views import ForkEdits

    async with room_over(tmp_path, [answer("42")]) as room:
        wake = await room.post("@clerk")
        await room.ended(wake)
        with pytest.raises(Conflict, match="act there a second time"):
            await room.globex.fork(wake, 2, ForkEdits())


async def test_a_wake_keeps_the_definition_that_it_began_with(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([answer("42")], gate=hold)
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk")
        await hold.reached()
        await room.globex.put_room_agent(
            room.room, {"name": "clerk", "model": "scripted/other", "instructions": "New."}
        )
        hold.open()
        assert (await room.ended(wake)).model == "scripted/clerk"
