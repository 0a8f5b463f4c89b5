"""Executions are found by a text the same way in-process, over a socket, in a program and on the command line."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home
from http_server import serving, start_request
from perdure import AgentRuntime
from perdure.core.views import ExecutionFilter
from perdure.engine import search
from perdure.errors import InvalidInput
from perdure.wire.pages import listed

ALL = ExecutionFilter()


async def refusal(asked: Awaitable[object]) -> str:
    """Return the code of the error that it raises."""
    with pytest.raises(InvalidInput) as refused:
        await asked
    return refused.value.code


@pytest.mark.anyio
async def test_a_text_is_looked_for_with_all_that_a_list_can_be_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        http, direct = server.api(), server.node.api("default")
        first = await http.start(replace(start_request("plain", "Order 1234"), tags=("eu",)))
        second = await direct.start(start_request("plain", "order 1234, again"))
        for id in (first.id, second.id):
            await http.wait(id)
        at_ms = (await http.execution(second.id)).created_ms
        wanted = {
            ALL: [second.id, first.id],
            ExecutionFilter(tag="eu", agent="tester", state="completed"): [first.id],
            ExecutionFilter(state="failed"): [],
            ExecutionFilter(since_ms=at_ms + 1): [],
            ExecutionFilter(until_ms=at_ms + 1): [second.id, first.id],
            ExecutionFilter(until_ms=0): [],
        }
        for (filter_, ids), api in product(wanted.items(), (http, direct)):
            found = await api.search_executions("ORDER 1234", filter_)
            assert sorted(one.id for one in found.items) == sorted(ids), filter_
        assert await http.search_executions("again", ALL) == await direct.search_executions("again", ALL)


@pytest.mark.anyio
async def test_what_cannot_be_looked_for_is_refused_the_same_way_on_both(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for api in (server.api(), server.node.api("default")):
            for text in ("", " ", "x" * 201):
                assert await refusal(api.search_executions(text, ALL)) == "invalid_input"
            assert await refusal(api.search_executions("a\0b", ALL)) == "unstorable"
            assert await refusal(api.search_executions("a", ExecutionFilter(tag=""))) == "bad_tags"
            assert await refusal(api.search_executions("a", ALL, cursor="b")) == "invalid_input"
            assert await refusal(api.search_executions("a", ExecutionFilter(state="gone"))) == "invalid_input"


@pytest.mark.anyio
async def test_a_list_with_a_text_looks_on_until_it_is_full_or_all_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(search, "_STRIDE", 2)
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        ids = [
            (await api.start(start_request("plain", f"number {n}, {'odd' if n % 2 else 'even'}"))).id for n in range(7)
        ]
        assert (await api.search_executions("number 0", ALL)).items == ()
        whole = await listed(api, ALL, "number 0", limit=5)
        assert ([one.id for one in whole.items], whole.cursor) == ([ids[0]], None)
        full = await listed(api, ALL, "odd", limit=2)
        rest = await listed(api, ALL, "odd", cursor=full.cursor, limit=2)
        assert (len(full.items), len(rest.items), rest.cursor) == (2, 1, None)
        assert sorted(one.id for one in (*full.items, *rest.items)) == sorted(ids[1::2])


def test_people_and_programs_find_by_a_text_and_by_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    try:
        ready = home.serve().ready
        with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
            one = runtime.start(cli_agents.agent, "half", tags=["ÖL"]).execution_id  # its call waits for a worker
            other = runtime.start(cli_agents.agent, "say milk").execution_id
            now = datetime.now(UTC)
            assert {found.id for found in runtime.executions(text="CLERK")} == {one, other}
            assert [found.id for found in runtime.executions(text="öl", since=now - timedelta(hours=1))] == [one]
            assert runtime.executions(text="öl", until=now - timedelta(hours=1)) == []
            assert runtime.executions(since=now + timedelta(hours=1)) == []
            assert len(runtime.executions(until=now + timedelta(hours=1))) == 2
            with pytest.raises(InvalidInput, match="since is 2026-01-01T00:00:00, which names no time zone"):
                runtime.executions(since=datetime(2026, 1, 1))  # noqa: DTZ001 - it is to be refused
        found = home.json("executions", "list", "--text", "MILK", "--since", "1h", "--agent", "clerk")
        assert ([one["id"] for one in found["items"]], found["cursor"]) == ([other], None)
        assert home.json("executions", "list", "--text", "milk", "--until", "1h")["items"] == []
        assert "No execution is like that" in home.command("executions", "list", "--text", "honey").stdout
        page = home.command("executions", "list", "--text", "clerk", "--limit", "1").stdout
        assert "More: the same again with --cursor exe_" in page
        assert home.json("executions", "cancel", "--all", "--text", "öl", "--yes")["done"] == [one]
        wrong = home.command("executions", "list", "--text", "x" * 201, "--json")
        assert (wrong.returncode, json.loads(wrong.stdout)["error"]["code"]) == (2, "invalid_input")
    finally:
        home.close()
