"""Starts that are to happen later, or before others: agents and durable functions, over HTTP and embedded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from http_server import serving, start_request
from perdure import Agent, AgentHandle, AgentRuntime, InvalidInput, durable
from perdure.core.views import StartRequest
from perdure.errors import PerdureError
from perdure.flow import step
from perdure.models.catalog import Catalog
from perdure.models.scripted import say
from runtimes import runtime_at

MODELS = Catalog(scripted={"plain": [say("done")]})
agent = Agent(name="plain", model="scripted/plain", instructions="x")


def greet(who: str) -> str:
    return f"hello {who}"


@durable(build="b1")
async def welcome(who: str) -> str:
    """Greet somebody."""
    return await step(greet, who)


def opened(folder: Path) -> AgentRuntime:
    return runtime_at(folder / "p.db", models=MODELS)


def begun_after(runtime: AgentRuntime, handle: AgentHandle) -> tuple[int, int]:
    """Return when an execution was to begin, and when it did."""
    first, second = runtime.wait(runtime.api.events(handle.execution_id))[:2]
    return first.data["start_ms"], second.at_ms


@pytest.mark.parametrize("declared", [agent, welcome], ids=["agent", "function"])
def test_it_begins_when_its_time_has_come_and_not_before(tmp_path: Path, declared: Any) -> None:
    with opened(tmp_path) as runtime:
        runtime.serve(declared, blocking=False)
        handles = [
            runtime.start(declared, "ann", delay_seconds=0.4),
            runtime.start(declared, "ann", start_at=datetime.now(UTC) + timedelta(seconds=0.4)),
        ]
        for handle in handles:
            assert handle.result().status == "completed"
            wanted, begun = begun_after(runtime, handle)
            assert begun >= wanted


def test_a_restart_in_between_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as runtime:
        execution = runtime.start(agent, "go", delay_seconds=1.0).execution_id
        assert runtime.attach(execution).get_status().waits[0].kind == "start"
    with opened(tmp_path) as runtime:
        assert runtime.attach(execution).result().status == "completed"


@pytest.mark.parametrize("declared", [agent, welcome], ids=["agent", "function"])
def test_a_cancel_ends_it_at_once(tmp_path: Path, declared: Any) -> None:
    with opened(tmp_path) as runtime:
        handle = runtime.start(declared, "ann", delay_seconds=3_600)
        handle.cancel("not needed")
        assert handle.result().status == "cancelled"


def test_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as runtime, pytest.raises(InvalidInput, match="names no time zone") as refused:
        runtime.start(agent, "go", start_at=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake
    assert refused.value.code == "bad_start"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"delay_seconds": 1.0, "start_at_ms": 5}, "delay_seconds is 1 and start_at_ms is 5: say one of them"),
    ({"delay_seconds": -1.0}, "delay_seconds should be 0 to 315360000 (ten years); found -1."),
    ({"delay_seconds": 1e12}, "delay_seconds should be 0 to 315360000 (ten years); found 1e+12."),
    ({"priority": 10}, "should be 0, which is what starts have that give none, to 9, the most urgent; found 10."),
    ({"priority": -1}, "found -1."),
    ({"limit_key": ""}, "limit_key should be 1 to 200 printable characters, or not be there; found ''."),
    ({"limit_key": "k" * 201}, ", which has 201."),
    ({"start_at_ms": -5}, "start_at_ms should be milliseconds since 1970, at most 253402300799999; found -5."),
]


@pytest.mark.anyio
async def test_over_http_it_means_the_same_and_what_is_refused_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for api, (given, what) in product((server.api(), server.node.api("default")), WRONG):
            request: StartRequest = replace(start_request("plain"), **given)
            with pytest.raises(PerdureError) as refused:
                await api.start(request)
            assert refused.value.code == "bad_start"
            assert what in refused.value.message
        started = await server.api().start(replace(start_request("plain"), delay_seconds=0.3))
        assert (await server.api().execution(started.id)).waits[0].kind == "start"
        await server.api().wait(started.id)
        first, second = (await server.api().events(started.id))[:2]
        assert second.at_ms >= first.data["start_ms"] >= first.at_ms + 300
        urgent = await server.api().start(replace(start_request("plain"), priority=9, limit_key="ann"))
        shown = await server.api().execution(urgent.id)
        assert (shown.priority, shown.limit_key) == (9, "ann")


@pytest.mark.parametrize("declared", [agent, welcome], ids=["agent", "function"])
def test_a_start_says_how_urgent_it_is_and_whose(tmp_path: Path, declared: Any) -> None:
    with opened(tmp_path) as runtime:
        execution = runtime.start(declared, "ann", priority=3, limit_key="ann", delay_seconds=3_600).execution_id
        shown = runtime.wait(runtime.api.execution(execution))
        assert (shown.priority, shown.limit_key) == (3, "ann")
