"""Schedules over a real socket and from the command line mean what they mean in-process."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from http_server import serving, spec
from perdure.core.schedules import ScheduleRequest
from perdure.errors import Conflict, InvalidInput, NotFound, PerdureError
from perdure.wire import routes
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio


def nightly(**options: str) -> ScheduleRequest:
    given = {"cron": "30 2 * * *", "zone": "Europe/Berlin", **options}
    return ScheduleRequest("nightly", spec("plain"), "go", **given)  # type: ignore[arg-type]


async def test_a_schedule_is_made_shown_begun_by_hand_and_taken_away(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        made = await api.create_schedule(nightly(), by="eve")
        assert (made.agent, made.zone, made.created_by, made.paused) == ("tester", "Europe/Berlin", "eve", False)
        assert made.next_ms is not None
        assert await api.create_schedule(nightly(), by="adam") == made
        assert await api.schedules() == [made] == await server.node.api("default").schedules()
        first = await api.trigger_schedule("nightly", nonce="a")
        assert (await api.trigger_schedule("nightly", nonce="a")).id == first.id
        await api.wait(first.id)
        assert (await api.execution(first.id)).state == "completed"
        assert (await api.schedule("nightly")).last_execution == first.id
        assert (await api.pause_schedule("nightly")).next_ms is None
        assert (await api.resume_schedule("nightly")).next_ms == made.next_ms
        await api.delete_schedule("nightly")
        assert await api.schedules() == []


WRONG: list[tuple[ScheduleRequest, str]] = [
    (nightly(cron="30 2 * * * *"), "bad_schedule"),
    (nightly(zone="Mars/Olympus"), "bad_schedule"),
    (nightly(cron="0 0 31 2 *"), "bad_schedule"),
    (nightly(missed="all"), "schedule_exists"),
    (nightly(overlap="skip"), "schedule_exists"),
    (ScheduleRequest(" x", spec("plain"), "go", "* * * * *"), "invalid_input"),
]


async def test_what_is_refused_is_refused_the_same_way_on_both(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        direct, http = server.node.api("default"), server.api()
        await http.create_schedule(nightly())
        for api, (request, code) in product((http, direct), WRONG):
            with pytest.raises(PerdureError) as refused:
                await api.create_schedule(request)
            assert refused.value.code == code


@pytest.mark.both_stores
async def test_one_that_skips_says_so_and_is_not_begun_beside_what_it_began(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        asked = ScheduleRequest("nightly", spec("tool"), "go", "30 2 * * *", overlap="skip")
        made = await api.create_schedule(asked)
        assert (made.overlap, made.skipped, made.last_skipped_ms) == ("skip", 0, None)
        first = await api.trigger_schedule("nightly", nonce="a")
        with pytest.raises(Conflict) as refused:
            await api.trigger_schedule("nightly", nonce="b")
        assert (refused.value.code, refused.value.details["execution"]) == ("schedule_busy", first.id)
        for wrong in (server.node.api("default"), api):
            with pytest.raises(InvalidInput):
                await wrong.create_schedule(nightly(overlap="forbid"))


async def test_one_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for api in (server.api(), server.node.api("default")):
            with pytest.raises(NotFound):
                await api.schedule("nobody")
            with pytest.raises(NotFound):
                await api.pause_schedule("nobody")
            with pytest.raises(NotFound):
                await api.delete_schedule("nobody")
            with pytest.raises(NotFound):
                await api.trigger_schedule("nobody")


@pytest.mark.both_stores
async def test_the_next_ticks_are_told_of_a_paused_one_too(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        made = await api.create_schedule(nightly(cron="0 12 * * *", zone="UTC"))

        async def ticks(name: str = "nightly", query: str = "") -> Reply:
            path = routes.fill(routes.SCHEDULE_TICKS, schedule=name) + query
            return await exchange(server.address, request("GET", path, server.address, key=server.key))

        day_ms = 24 * 3_600_000
        first = made.next_ms or 0
        assert (await ticks()).json["items"] == [first + day_ms * day for day in range(5)]
        assert (await ticks(query="?limit=1")).json["items"] == [first]
        await api.pause_schedule("nightly")
        assert (await ticks(query="?limit=2")).json["items"] == [first, first + day_ms]
        assert (await ticks("nobody")).code == "not_found"
