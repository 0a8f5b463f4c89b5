"""Tags mean the same in-process, over a socket, in a program and on the command line."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home
from http_server import serving, spec, start_request
from perdure import AgentRuntime
from perdure.core.schedules import ScheduleRequest
from perdure.errors import InvalidInput

pytestmark = pytest.mark.anyio


async def refusal(asked: Awaitable[object]) -> str:
    """Return the code of the error that it raises."""
    with pytest.raises(InvalidInput) as refused:
        await asked
    return refused.value.code


async def test_they_are_given_shown_and_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        http, direct = server.api(), server.node.api("default")
        first = await http.start(replace(start_request("plain", key="k"), tags=("customer:7", "eu")))
        second = await direct.start(replace(start_request("plain"), tags=("eu", "eu")))
        again = await http.start(replace(start_request("plain", key="k"), tags=("late",)))
        assert (again.id, again.created) == (first.id, False)
        await http.wait(first.id)
        await http.wait(second.id)
        for api in (http, direct):
            assert [one.id for one in (await api.executions(tag="eu")).items] == [second.id, first.id]
            assert [one.tags for one in (await api.executions(tag="eu", state="completed")).items] == [
                ("eu",),
                ("customer:7", "eu"),
            ]
            page = await api.executions(tag="eu", agent="tester", limit=1)
            rest = await api.executions(tag="eu", agent="tester", cursor=page.cursor, limit=1)
            assert [one.id for one in (*page.items, *rest.items)] == [second.id, first.id]
            assert (await api.executions(tag="late")).items == ()
            assert (await api.execution(first.id)).tags == ("customer:7", "eu")


async def test_what_can_be_no_tag_is_refused_the_same_way_on_both(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        nightly = ScheduleRequest("nightly", spec("plain"), "go", "0 * * * *", tags=("a ",))
        for api, wrong in product((server.api(), server.node.api("default")), ("", "a\n", "x" * 101)):
            started = api.start(replace(start_request("plain"), tags=(wrong,)))
            assert await refusal(started) == await refusal(api.executions(tag=wrong)) == "bad_tags"
            assert await refusal(api.create_schedule(nightly)) == "bad_tags"


async def test_a_schedule_gives_its_tags(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        request = ScheduleRequest("nightly", spec("plain"), "go", "0 * * * *", tags=("nightly",))
        assert (await api.create_schedule(request)).tags == ("nightly",)
        begun = await api.trigger_schedule("nightly")
        assert [one.id for one in (await api.executions(tag="nightly")).items] == [begun.id]


def test_people_find_and_cancel_by_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    try:
        ready = home.serve().ready
        with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
            tagged = [runtime.start(cli_agents.agent, "half", tags=["eu", f"customer:{n}"]) for n in range(2)]
            runtime.start(cli_agents.agent, "half")
            assert [one.id for one in runtime.executions(tag="customer:1")] == [tagged[1].execution_id]
            with pytest.raises(InvalidInput, match="a list of texts"):
                runtime.start(cli_agents.agent, "half", tags="eu")
        listed = home.json("executions", "list", "--tag", "eu")["items"]
        assert [one["tags"] for one in listed] == [["eu", "customer:1"], ["eu", "customer:0"]]
        assert "customer:1" in home.command("executions", "list").stdout
        assert "tags: eu, customer:0" in home.command("executions", "show", tagged[0].execution_id).stdout
        wrong = home.command("executions", "list", "--tag", " ", "--json")
        assert (wrong.returncode, json.loads(wrong.stdout)["error"]["code"]) == (2, "bad_tags")
        outcome = home.json("executions", "cancel", "--all", "--tag", "eu", "--yes")
        assert sorted(outcome["done"]) == sorted(one.execution_id for one in tagged)
    finally:
        home.close()
