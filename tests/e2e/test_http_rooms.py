"""Rooms over a real socket: each company with its own key, and to a stranger's key nothing is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from perdure.client.http import HttpApi
from perdure.client.room_files import download, upload
from perdure.core.budgets import Budget
from perdure.core.chain import Follower
from perdure.core.room_files import NewFile, blob_of
from perdure.core.rooms import (
    MAX_TEXT,
    ChangeTask,
    Invite,
    Join,
    Leave,
    OpenTask,
    Post,
    Remember,
    RemoveAgent,
    SetRights,
    Stop,
)
from perdure.errors import Conflict, InvalidInput, NotFound

pytestmark = pytest.mark.anyio

RULES = SetRights('{"rules": [{"name": "quiet", "then": "refuse", "acts": ["post"], "who": "globex"}]}')
AGENT: dict[str, Any] = {"name": "bot", "model": "scripted/plain", "instructions": ""}


@dataclass
class Companies:
    """A server, and a client of each of three companies. The room is the first two's."""

    server: Server
    acme: HttpApi
    globex: HttpApi
    stranger: HttpApi
    room: str


@asynccontextmanager
async def companies(path: Path) -> AsyncGenerator[Companies]:
    async with serving(path) as server:
        apis: list[HttpApi] = []
        for name in ("acme", "globex", "initech"):
            key = f"pdk_{name}{'0' * 40}"
            await server.node.add_key(name, f"{name}-ops", key)
            apis.append(server.api(key))
        acme, globex, stranger = apis
        room = (await acme.create_room("the project", key="k")).id
        await acme.write_in_room(room, Invite("globex"))
        await globex.write_in_room(room, Join())
        yield Companies(server, acme, globex, stranger, room)


async def test_two_companies_talk_and_an_agent_answers(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.globex.put_room_agent(all_.room, AGENT)
        asked = await all_.acme.write_in_room(all_.room, Post("@bot, are you there?", key="1"))
        again = await all_.acme.write_in_room(all_.room, Post("@bot, are you there?", key="1"))
        assert (asked.created, again.created, again.woken) == (True, False, ())
        await all_.globex.wait(asked.woken[0])
        said = await all_.acme.room_messages(all_.room)
        assert [(one.company, one.author, one.text) for one in said] == [
            ("acme", "acme-ops", "@bot, are you there?"),
            ("globex", "bot", "done"),
        ]
        assert [one.text for one in await all_.globex.room_messages(all_.room, thread=asked.id)] == [
            "@bot, are you there?",
            "done",
        ]
        [wake] = await all_.globex.room_wakes(all_.room)
        assert (wake.execution, wake.state) == (asked.woken[0], "completed")
        page = await all_.globex.room_ledger(all_.room)
        follower = Follower(all_.room)
        follower.take(page.links)
        assert follower.end(page.head, page.last_seq).broken_at is None


async def test_a_file_is_sent_and_what_it_says_is_read(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        content = b"# Plan\n\nTwelve beams of oak.\n" * 20_000  # more than one chunk
        done = await upload(all_.acme, all_.room, "plan.md", content, media="text/markdown", key="1")
        assert (await upload(all_.acme, all_.room, "plan.md", content, media="text/markdown", key="1")).created is False
        [shown] = await all_.globex.room_files(all_.room)
        assert (shown.id, shown.version, shown.size, shown.text_state) == (done.id, 1, len(content), "text")
        assert await download(all_.globex, all_.room, "plan.md") == content
        [passage] = await all_.globex.room_file_text(all_.room, done.id, first=3, limit=1)
        assert "Twelve beams of oak." in passage.text
        with pytest.raises(NotFound, match="there is no file plan"):
            await download(all_.globex, all_.room, "plan.txt")
        await upload(all_.globex, all_.room, "plan.md", b"another")
        with pytest.raises(InvalidInput, match="acme, globex"):
            await download(all_.globex, all_.room, "plan.md")


async def test_a_search_goes_over_the_wire_whatever_it_says(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        for number in range(3):
            await all_.acme.write_in_room(all_.room, Post(f"beam {number} of the bridge", key=str(number)))
        await all_.acme.write_in_room(all_.room, Remember("a beam of ours", ("acme",)))
        page = await all_.globex.search_room(all_.room, "bridge, beam", limit=2)
        assert ([one.snippet[:6] for one in page.items], page.found) == (["beam 2", "beam 1"], 3)
        rest = await all_.globex.search_room(all_.room, "bridge, beam", limit=2, cursor=page.cursor or "")
        assert ([one.snippet[:6] for one in rest.items], rest.cursor) == (["beam 0"], None)
        only = await all_.acme.search_room(all_.room, "beam", kinds=("memory", "file"))
        assert [one.snippet for one in only.items] == ["a beam of ours"]
        for query in ('"', "beam' OR 1=1 --", "\0\ud800", "🎉", "the " * 250_000 + "beam", "%00&limit=9"):
            assert (await all_.globex.search_room(all_.room, query)).found in (0, 3), query[:20]
        wrong: list[dict[str, Any]] = [{"kinds": ("task",)}, {"cursor": "1.2.3"}, {"limit": 101}]
        for given in wrong:
            with pytest.raises(InvalidInput):
                await all_.globex.search_room(all_.room, "beam", **given)


async def test_a_file_that_is_not_what_was_named_is_refused(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        for sent, code in ((b"other", "file_differs"), (None, "file_incomplete")):
            file = NewFile(f"{code}.txt", blob_of(code.encode()), 5)
            if sent is not None:
                await all_.acme.put_room_chunk(all_.room, file.blob, 0, sent)
            with pytest.raises(InvalidInput) as refused:
                await all_.acme.put_room_file(all_.room, file)
            assert refused.value.code == code
        with pytest.raises(InvalidInput, match="20,971,520 are the most"):
            await upload(all_.acme, all_.room, "big.bin", bytes(20 * 2**20 + 1))
        assert await all_.acme.room_files(all_.room) == []


async def test_tasks_and_memory_go_over_the_wire(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        task = (await all_.acme.write_in_room(all_.room, OpenTask("count", "globex"))).id
        await all_.globex.write_in_room(all_.room, ChangeTask(task, "complete", "42"))
        assert (await all_.acme.room_task(all_.room, task)).result == "42"
        assert [one.id for one in await all_.acme.room_tasks(all_.room, state="done", to="globex")] == [task]
        await all_.globex.write_in_room(all_.room, Remember("ours", ("globex",)))
        assert [one.text for one in await all_.globex.room_memory(all_.room)] == ["ours"]
        assert await all_.acme.room_memory(all_.room) == []
        shown = await all_.globex.room(all_.room)
        assert (shown.name, shown.host, [one.company for one in shown.members]) == (
            "the project",
            "acme",
            ["acme", "globex"],
        )


async def test_who_writes_is_whose_key_it_is(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.acme.write_in_room(all_.room, Post("hello"), by="the president")
        [said] = await all_.globex.room_messages(all_.room)
        assert (said.company, said.author) == ("acme", "acme-ops")


async def test_a_strangers_key_finds_nothing_whatever_it_asks(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.globex.put_room_agent(all_.room, AGENT)
        task = (await all_.acme.write_in_room(all_.room, OpenTask("count", "globex"))).id
        api = all_.stranger

        def asks(room: str) -> list[Callable[[], Awaitable[object]]]:
            acts = [Post("x"), OpenTask("x", "globex"), ChangeTask(task, "claim"), Remember("x"), Invite("y"), Join()]
            return [
                *(
                    lambda act=act: api.write_in_room(room, act)
                    for act in (*acts, Leave(), RemoveAgent("bot"), RULES, Stop())
                ),
                lambda: api.put_room_agent(room, AGENT),
                lambda: api.room(room),
                lambda: api.room(room, wait_seconds=50),
                lambda: api.room_messages(room),
                lambda: api.room_tasks(room),
                lambda: api.room_task(room, task),
                lambda: api.room_memory(room),
                lambda: api.room_wakes(room),
                lambda: api.room_rights(room),
                lambda: api.room_stops(room),
                lambda: api.start_room(room),
                lambda: api.room_ledger(room),
            ]

        nowhere = "room_nowhere"
        for here, there in zip(asks(all_.room), asks(nowhere), strict=True):
            said = [await refusal(one) for one in (here, there)]
            assert said[0].replace(all_.room, nowhere) == said[1]
        assert await api.rooms() == []


async def test_who_waits_for_a_room_hears_of_it(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        seen = (await all_.acme.room(all_.room)).last_seq
        for api in (all_.acme, all_.server.node.api("acme")):
            assert (await api.room(all_.room, after=seen, wait_seconds=0.01)).last_seq == seen
            waiting = asyncio.create_task(api.room(all_.room, after=seen, wait_seconds=50))
            done = await all_.globex.write_in_room(all_.room, Post("hello"))
            assert (await waiting).last_seq == done.seq
            seen = done.seq
            with pytest.raises(InvalidInput, match="wait_seconds"):
                await api.room(all_.room, wait_seconds=61)


async def test_who_is_only_invited_learns_nothing_by_waiting(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.acme.write_in_room(all_.room, Invite("initech"))
        waiting = asyncio.create_task(all_.stranger.room(all_.room, wait_seconds=0.5))
        await all_.acme.write_in_room(all_.room, Post("hello"))
        assert (await waiting).last_seq == 0


async def test_the_longest_text_goes_through_in_any_script(tmp_path: Path) -> None:
    text = "𝄞" * MAX_TEXT
    async with companies(tmp_path / "s.db") as all_:
        for api in (all_.globex, all_.server.node.api("globex")):
            task = (await api.write_in_room(all_.room, OpenTask(text, "globex"))).id
            for act in (Post(text), ChangeTask(task, "complete", text), Remember(text)):
                assert (await api.write_in_room(all_.room, act)).created


async def test_rights_go_over_the_wire_and_bind_whoever_they_name(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        assert (await all_.acme.room_rights(all_.room)).revision == 0
        await all_.acme.write_in_room(all_.room, RULES)
        said = await all_.acme.room_rights(all_.room)
        assert (said.revision, said.changed_by, said.document["rules"][0]["name"]) == (1, "acme-ops", "quiet")
        with pytest.raises(Conflict, match="refused by acme:quiet"):
            await all_.globex.write_in_room(all_.room, Post("hello"))
        with pytest.raises(InvalidInput, match="acts has 'fly'"):
            await all_.acme.write_in_room(
                all_.room, SetRights('{"rules": [{"name": "a", "then": "allow", "acts": ["fly"]}]}')
            )


async def test_a_held_act_is_approved_by_the_company_whose_yes_it_is(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.globex.put_room_agent(all_.room, AGENT)
        hold = '{"rules": [{"name": "look", "then": "hold", "acts": ["post"], "who": "globex/bot"}]}'
        await all_.acme.write_in_room(all_.room, SetRights(hold))
        [wake] = (await all_.acme.write_in_room(all_.room, Post("@bot?", key="1"))).woken
        async with asyncio.timeout(60):
            while not (found := await all_.acme.approvals()):  # noqa: ASYNC110 - it is another loop's
                await asyncio.sleep(0.01)
        assert await all_.globex.approvals() == []
        with pytest.raises(NotFound):
            await all_.globex.decide(found[0].id, "approve")
        with pytest.raises(Conflict, match="as it was declared or not at all"):
            await all_.acme.decide(found[0].id, "edit", args={"text": "x"})
        await all_.acme.decide(found[0].id, "approve", digest=found[0].digest)
        await all_.globex.wait(wake)
        assert [one.author for one in await all_.acme.room_messages(all_.room)] == ["acme-ops", "bot"]


async def test_stops_and_budgets_go_over_the_wire(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        await all_.acme.write_in_room(all_.room, Stop("globex", "too loud"))
        [stop] = await all_.globex.room_stops(all_.room)
        assert (stop.member, stop.by, stop.reason) == ("globex", "acme/acme-ops", "too loud")
        with pytest.raises(Conflict, match="globex was stopped by acme/acme-ops: too loud"):
            await all_.globex.write_in_room(all_.room, Post("hello"))
        assert (await all_.acme.start_room(all_.room, "globex")).lifted
        await all_.globex.write_in_room(all_.room, Post("hello"))
        await all_.globex.set_room_budget(Budget(all_.room, "bot", usd=2.5, tokens=1_000))
        [cap] = await all_.globex.room_budgets()
        assert (cap.room, cap.agent, cap.usd, cap.tokens) == (all_.room, "bot", 2.5, 1_000)
        assert await all_.acme.room_budgets() == []
        await all_.globex.set_room_budget(Budget(all_.room, "bot"), remove=True)
        assert await all_.globex.room_budgets() == []


async def test_an_execution_cannot_be_reached_by_a_rooms_id(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        for ask in (all_.acme.execution, all_.acme.events, all_.acme.cancel, all_.acme.pause):
            with pytest.raises(NotFound):
                await ask(all_.room)
        assert (await all_.acme.executions()).items == ()


async def test_an_act_that_cannot_be_is_named(tmp_path: Path) -> None:
    async with companies(tmp_path / "s.db") as all_:
        for act, said in (
            (Post(""), "text should have 1 to 32,000 characters"),
            (Post("x", key="\n"), "key should have at most 200 printable characters"),
            (OpenTask("x", ""), "to should have 1 to 200 printable characters"),
        ):
            with pytest.raises(InvalidInput, match=said):
                await all_.acme.write_in_room(all_.room, act)


async def refusal(ask: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(NotFound) as refused:
        await ask()
    return refused.value.message
