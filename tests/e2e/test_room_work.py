"""What a request about a foreign room costs: as much as one about a room that is not there, however much is in it.

Counts what the database does and no time, so that nothing else that the machine does is in it. `bench/room_timing.py`
takes the time, over real sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from database_work import Work, counted
from foreign_rooms import CONTROL_ROUTES, OWN_LIST, ROOM_ROUTES, Pair, World, pairs, world
from http_server import open_node, serving, serving_node
from perdure.core.rooms import OpenTask, Post, Remember, SetRights
from which_store import kind

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]

ONE_ROW = 1
"""By which they may differ: a row that is found by its id, and is another company's, or tells that one has left."""
STEPS_OF_A_ROW = 80
"""What giving that row, which has some thirty columns, and seeing that another is behind the wall, may take of SQLite's
machine."""
SAID = 40
"""Of each kind what is added to the room: far more rows than one."""
TRIES = 3
"""How often each is asked; the least counts: a key is looked up anew after some seconds, and a clock is stored."""


@dataclass
class Cost:
    """The least that a request took."""

    asked: list[str]
    rows: int
    steps: int


async def cost(here: World, work: Work, key: str, request: tuple[str, str, object]) -> Cost:
    """Ask, a few times, and return what it cost."""
    costs: list[Cost] = []
    for _ in range(TRIES):
        work.clear()
        await here.ask(key, *request)
        costs.append(Cost(work.asked, work.rows, work.steps))
    return min(costs, key=lambda one: (len(one.asked), one.steps))


async def costs(here: World, work: Work, asked: list[Pair]) -> list[tuple[Pair, Cost, Cost]]:
    """Return what each request costs, and its twin."""
    found: list[tuple[Pair, Cost, Cost]] = []
    for number, one in enumerate(asked):
        key = here.gone if number % 2 else here.stranger
        real = await cost(here, work, key, (one.method, one.real, one.real_body))
        twin = await cost(here, work, key, (one.method, one.twin, one.twin_body))
        found.append((one, real, twin))
    return found


async def made(place: Path) -> World:
    async with world(place) as here:
        return here


async def fill(place: Path, here: World) -> None:
    """Put much of everything into the room."""
    async with serving(place) as server:
        acme = server.api(f"pdk_acme{'0' * 40}")
        for n in range(SAID):
            await acme.write_in_room(here.room, Post(f"message {n}", key=f"m{n}"))
            await acme.write_in_room(here.room, OpenTask(f"task {n}", "globex", key=f"t{n}"))
            await acme.write_in_room(here.room, Remember(f"line {n}", key=f"l{n}"))
        await acme.write_in_room(here.room, SetRights('{"rules": [{"name": "one", "then": "allow"}]}'))


async def measured(place: Path, here: World, routes: list[tuple[str, str]]) -> list[tuple[Pair, Cost, Cost]]:
    """Return what requests cost at a server that does nothing else."""
    with counted() as work:
        node = open_node(place, quiet=True)
        async with serving_node(node) as server:
            here.server = server
            return await costs(here, work, list(pairs(here, routes)))


async def test_a_foreign_room_costs_what_none_costs_by_every_route(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    here = await made(place)
    found = await measured(place, here, [pair for pair in ROOM_ROUTES if pair not in OWN_LIST])
    for one, real, twin in found:
        assert real.asked == twin.asked, one
        assert abs(real.rows - twin.rows) <= (ONE_ROW if one.method == "GET" else 0), one
        assert abs(real.steps - twin.steps) <= STEPS_OF_A_ROW, (one, real.steps, twin.steps)
    assert len(found) > 100
    assert all(real.asked and (real.steps or kind() == "postgres") for _, real, _ in found), "nothing was counted"


async def test_how_much_is_in_a_foreign_room_costs_whoever_asks_for_it_nothing(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    here = await made(place)
    routes = [pair for pair in ROOM_ROUTES if pair not in OWN_LIST]
    before = await measured(place, here, routes)
    await fill(place, here)
    after = await measured(place, here, routes)
    for (one, small, _), (_, large, _) in zip(before, after, strict=True):
        assert (small.asked, small.rows, small.steps) == (large.asked, large.rows, large.steps), one


async def test_a_foreign_wake_and_a_ledger_cost_what_none_costs_by_every_route_about_executions(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    here = await made(place)
    here.ids = [here.room, next(id for id in here.ids if id.startswith("exe"))]
    for one, real, twin in await measured(place, here, CONTROL_ROUTES):
        assert real.asked == twin.asked, one
        assert abs(real.rows - twin.rows) <= ONE_ROW, one
        assert abs(real.steps - twin.steps) <= STEPS_OF_A_ROW, (one, real.steps, twin.steps)
