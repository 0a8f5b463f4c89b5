"""Companies and their keys over a real socket and from the command line: made by who runs the server alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from cli_processes import Home
from http_server import Server, serving
from perdure import AgentRuntime
from perdure.core.companies import new_key
from perdure.core.rooms import Invite, Join, Post
from perdure.errors import Conflict, InvalidInput, NotFound, UserError
from perdure.system import SystemRandom
from raw_http import exchange, request

KEYS = [new_key(SystemRandom()) for _ in range(4)]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving(tmp_path / "s.db") as server:
        yield server


@pytest.mark.anyio
async def test_a_key_that_the_admin_adds_speaks_for_its_company_until_it_is_revoked(server: Server) -> None:
    for api, company, key in ((server.api(), "acme", KEYS[0]), (server.node.api("default"), "globex", KEYS[1])):
        made = await api.add_company_key(company, "ann", key)
        assert made.begins == key[:8]
        assert await api.add_company_key(company, "ann", key) == made
        room = (await server.api(key).create_room("theirs", key="k")).id
        assert (await server.node.api(company).room(room)).host == company
        [found] = [one for one in await api.companies() if one.company == company]
        assert found.keys == (made,)
        assert (await api.revoke_company_key(company, made.id)).revoked_ms is not None
        assert await server.node.authenticate(key) is None
        with pytest.raises(Conflict, match="was somebody's before"):
            await api.add_company_key(company, "ann", key)
        with pytest.raises(NotFound, match="perdure companies list"):
            await api.revoke_company_key(company, "nothing")


@pytest.mark.anyio
async def test_nobody_else_makes_sees_or_revokes_keys_or_stops_another_company(server: Server) -> None:
    admin = server.api()
    theirs = await admin.add_company_key("globex", "bob", KEYS[1])
    await admin.add_company_key("acme", "ann", KEYS[0])
    await admin.add_company_key("default", "eve", KEYS[2])  # of the company that runs the server, and not its admin
    for key in (KEYS[0], KEYS[2]):
        api = server.api(key)
        for ask in (
            api.companies(),
            api.add_company_key("acme", "carl", KEYS[3]),
            api.revoke_company_key("globex", theirs.id),
            api.revoke_company_key("nobody", theirs.id),
            api.stop_company("globex"),
            api.start_company("nobody"),
        ):
            with pytest.raises(UserError) as refused:
                await ask
            assert (refused.value.code, "globex" in refused.value.message) == ("admin_only", False)
    assert (await server.node.authenticate(KEYS[1])) is not None
    # A key may be called as it likes only by who makes it: this one was not made by the verb.
    await server.node.add_key("acme", "admin", KEYS[3])
    with pytest.raises(UserError, match="Only the server's admin key"):
        await server.api(KEYS[3]).companies()


@pytest.mark.anyio
async def test_what_cannot_be_a_company_or_a_key_is_refused_and_the_key_is_not_told(server: Server) -> None:
    bad: list[tuple[str, str, str, str]] = [
        ("a/b", "ann", KEYS[0], "bad_company"),
        ("?all", "ann", KEYS[0], "bad_company"),
        ("acme", "admin", KEYS[0], "bad_key"),
        ("acme", "anonymous", KEYS[0], "bad_key"),
        ("acme", " ann", KEYS[0], "bad_key"),
        ("acme", "ann", "pdk_short-and-secret", "bad_key"),
    ]
    for api in (server.api(), server.node.api("default")):
        for company, name, key, code in bad:
            with pytest.raises(InvalidInput) as refused:
                await api.add_company_key(company, name, key)
            assert (refused.value.code, key in refused.value.message) == (code, False)
        assert [one.company for one in await api.companies()] == ["default"]


@pytest.mark.anyio
async def test_a_company_stops_itself_in_all_rooms_and_goes_on(server: Server) -> None:
    admin = server.api()
    for company, name, key in (("acme", "ann", KEYS[0]), ("globex", "bob", KEYS[1])):
        await admin.add_company_key(company, name, key)
    acme, globex = server.api(KEYS[0]), server.api(KEYS[1])
    room = (await acme.create_room("theirs", key="k")).id
    await acme.write_in_room(room, Invite("globex"))
    await globex.write_in_room(room, Join())
    done = await globex.stop_company(reason="for tonight", by="somebody else")
    assert (done.company, done.changed, done.rooms) == ("globex", True, 1)
    with pytest.raises(Conflict, match="stopped in all rooms by globex/bob: for tonight"):
        await globex.write_in_room(room, Post("hello"))
    assert [one.everywhere for one in await acme.room_stops(room)] == [True]
    assert (await admin.start_company("globex")).changed
    await globex.write_in_room(room, Post("hello"))
    asked = request("POST", "/v1/companies/stop", server.address, key=KEYS[1], body="{}")
    assert (await exchange(server.address, asked)).status == 200


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve()
    yield home
    home.close()


def test_the_command_line_makes_keys_shows_them_revokes_them_and_stops_companies(home: Home) -> None:
    done = home.command("companies", "add", "acme", "ann")
    key = done.stdout.strip()
    assert (done.returncode, key.startswith("pdk_"), key in done.stderr) == (0, True, False), done
    url = home.running[0].url
    with AgentRuntime(url, api_key=key, serve_tools=False) as runtime:
        room = runtime.rooms.create("theirs")
        assert room.view().host == "acme"
        assert home.json("companies", "stop", "acme", "--reason", "for tonight")["rooms"] == 1
        with pytest.raises(Conflict, match="for tonight"):
            room.post("hello")
        assert [one.everywhere for one in room.stops()] == [True]
        assert "goes on" in home.command("companies", "start", "acme").stdout
        room.post("hello")
    shown = home.command("companies", "list").stdout
    assert ("acme" in shown, "ann" in shown, key[:8] in shown, key in shown) == (True, True, True, False)
    [company] = [one for one in home.json("companies", "list")["items"] if one["company"] == "acme"]
    id = company["keys"][0]["id"]
    assert "is revoked" in home.command("companies", "revoke", "acme", id).stdout
    assert "revoked" in home.command("companies", "list").stdout
    for words in (("add", "a/b", "ann"), ("add", "acme", "admin"), ("revoke", "acme", "nothing")):
        failed = home.command("companies", *words)
        assert (failed.returncode in (2, 3), "Traceback" in failed.stderr) == (True, False), failed
