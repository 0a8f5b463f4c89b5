"""Every route of rooms with the application's filter switched off: the second wall, in the store, holds alone.

The server's queries say of everybody that they are in every room, and ask for all rows.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from foreign_rooms import OWN_LIST, ROOM_ROUTES, World, pairs, world
from http_server import KEYS, SCRIPTS, serving, serving_node
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.store.sql_store import Query, load_queries, parse
from perdure.system import SystemClock, SystemRandom
from which_store import open_store

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]

EVERYBODY_IS_IN = """SELECT CAST(:room AS TEXT) AS room, CAST(:company AS TEXT) AS company, CAST(:name AS TEXT) AS name,
'joined' AS state, '' AS definition, 'resume' AS on_crash, '' AS changed_by, 0 AS changed_ms"""
ALL_ROOMS = """SELECT r.id, r.name, r.company AS host, 'joined' AS state, r.created_by, r.created_ms FROM rooms r
WHERE (:room = '' OR r.id = :room) ORDER BY r.created_ms, r.id"""
ALL_LINES = """SELECT m.id, m.seq, m.company, m.author, m.text, m.source, m.at_ms, m.steered_by FROM room_memory m
WHERE m.room = :room AND m.seq > :after ORDER BY m.seq LIMIT :limit"""
READERS = re.compile(r"\be\.reader IN \('\*', :company\) AND ")
TEXTS = ("the project", "are you there", '"count"', "a line", "plan.txt", "acme-ops", "globex-ops")
"""What is said in the room, and by whom."""


def unfiltered(dialect: str) -> Mapping[str, Query]:
    """Return the queries of an application that has lost its filter."""
    known = load_queries(dialect)
    texts = {name: READERS.sub("", query.sql) for name, query in known.items() if READERS.search(query.sql)}
    texts |= {"room_member": EVERYBODY_IS_IN, "rooms_of": ALL_ROOMS, "room_memory_after": ALL_LINES}
    return {**known, **{name: parse(name, text) for name, text in texts.items()}}


@asynccontextmanager
async def without_filter(place: Path, here: World) -> AsyncGenerator[World]:
    """Have the world's server be one whose queries have lost the filter."""
    clock, random = SystemClock(), SystemRandom()
    store = open_store(place, clock=clock, random=random, queries=unfiltered)
    node = Node(store, Parts(Catalog(scripted=SCRIPTS), clock, random, server_keys=KEYS if store.shared else ()))
    async with serving_node(node) as here.server:
        yield here


async def made(place: Path) -> World:
    async with world(place) as here:
        return here


async def as_it_is(place: Path, room: str) -> dict[str, Any]:
    """Return the room as its host sees it, at a server that filters."""
    async with serving(place) as server:
        acme = server.api(f"pdk_acme{'0' * 40}")
        return {
            "room": await acme.room(room),
            "messages": await acme.room_messages(room),
            "tasks": await acme.room_tasks(room),
            "memory": await acme.room_memory(room),
            "files": await acme.room_files(room, versions=True),
            "wakes": await acme.room_wakes(room),
            "rights": await acme.room_rights(room),
            "stops": await acme.room_stops(room),
            "ledger": await acme.room_ledger(room, limit=1_000),
        }


async def test_without_the_applications_filter_no_route_shows_or_changes_anything(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    here = await made(place)
    before = await as_it_is(place, here.room)
    async with without_filter(place, here):
        for one in pairs(here, [pair for pair in ROOM_ROUTES if pair not in OWN_LIST]):
            for key in (here.stranger, here.gone):
                reply = await here.ask(key, one.method, one.real, one.real_body)
                told, asked = reply.body.decode(), one.real + str(one.real_body)
                assert not [text for text in (*here.ids[:-1], *TEXTS) if text in told and text not in asked], (
                    one,
                    told,
                )
        for key in (here.stranger, here.gone):
            assert (await here.ask(key, "GET", "/v1/rooms", None)).json == {"items": []}
    assert await as_it_is(place, here.room) == before


async def test_the_filter_is_switched_off_in_that_test(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    here = await made(place)
    async with without_filter(place, here):
        wakes = await here.ask(here.stranger, "GET", f"/v1/rooms/{here.room}/wakes", None)
        assert (wakes.status, wakes.json) == (200, {"items": []}), "the application lets it in, and finds nothing"
