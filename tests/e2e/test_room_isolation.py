"""To a company that is not in a room, it and all that is in it answers as what does not exist: by every route there is,
for every id there is. The routes come from the application, so a new one is in this test, or the test fails.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foreign_rooms import BODIES, CONTROL_ROUTES, OWN_LIST, ROOM_ROUTES, as_real, pairs, world

pytestmark = pytest.mark.anyio

TIME = re.compile(rb"\b\d{13}\b")
"""When a company's own queue of that name was paused, for instance."""


async def test_every_route_of_rooms_answers_a_foreign_company_as_if_nothing_were_there(tmp_path: Path) -> None:
    assert {pair for pair in ROOM_ROUTES if "{room}" not in pair[1]} == OWN_LIST
    assert {pair for pair in ROOM_ROUTES if pair[0] in ("POST", "PUT")} - OWN_LIST == BODIES.keys()
    async with world(tmp_path / "s.db") as here:
        asked = list(pairs(here, [pair for pair in ROOM_ROUTES if pair not in OWN_LIST]))
        for number, one in enumerate(asked):
            key = here.gone if number % 2 else here.stranger
            found = await here.ask(key, one.method, one.real, one.real_body)
            nothing = await here.ask(key, one.method, one.twin, one.twin_body)
            assert (found.status, found.code) == (404, "not_found"), (one, found.body)
            assert (nothing.status, as_real(here, nothing.body)) == (404, found.body), one
        assert len(asked) > 100


async def test_lists_hold_nothing_of_a_foreign_room(tmp_path: Path) -> None:
    async with world(tmp_path / "s.db") as here:
        for key in (here.stranger, here.gone):
            found = await here.ask(key, "GET", "/v1/rooms", None)
            assert (found.status, found.json) == (200, {"items": []})
            budgets = await here.ask(key, "GET", "/v1/room-budgets", None)
            assert [one["usd"] for one in budgets.json["items"]] == ([1] if key == here.gone else []), "its own alone"
            made = await here.ask(key, "POST", "/v1/rooms", {"name": "the project", "key": "k"})
            assert made.status == 201
            assert made.json["id"] != here.room, "the same key of another company is another room"


async def test_routes_about_executions_know_neither_a_foreign_wake_nor_a_ledger(tmp_path: Path) -> None:
    """A room's ledger is a log, and a wake is an execution: by the routes of those there is nothing either."""
    async with world(tmp_path / "s.db") as here:
        for one in pairs(here, CONTROL_ROUTES):
            found = await here.ask(here.stranger, one.method, one.real, one.real_body)
            nothing = await here.ask(here.stranger, one.method, one.twin, one.twin_body)
            assert found.status >= 400 or "/executions/" not in one.real, (one, found.body)
            said = [TIME.sub(b"", body) for body in (as_real(here, nothing.body), found.body)]
            assert (nothing.status, said[0]) == (found.status, said[1]), one
