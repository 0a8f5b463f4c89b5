"""A room that a company is not in, with something of everything in it, and all that can be asked about it over HTTP.

Each request has a twin: the same for ids that nothing has.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_server import Server, serving
from perdure.client.http import HttpApi
from perdure.core.budgets import Budget
from perdure.core.room_files import NewFile
from perdure.core.rooms import Invite, Join, Leave, OpenTask, Post, Remember, SetRights, Stop
from perdure.server.app import control_app
from perdure.wire import routes
from raw_http import Reply, exchange, request

AGENT: dict[str, Any] = {"name": "helper", "model": "scripted/plain", "instructions": ""}
BLOB = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
"""SHA-256 of "x"."""
OWN_LIST = {("GET", "/v1/rooms"), ("POST", "/v1/rooms")}
"""Routes of rooms that name no room."""
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/v1/rooms/{room}/invite"): {"company": "initech"},
    ("POST", "/v1/rooms/{room}/join"): {},
    ("POST", "/v1/rooms/{room}/leave"): {},
    ("PUT", "/v1/rooms/{room}/agents"): {"spec": AGENT},
    ("POST", "/v1/rooms/{room}/messages"): {"text": "@helper, hi", "thread": "ID", "to": ["globex/helper"]},
    ("POST", "/v1/rooms/{room}/tasks"): {"title": "do it", "to": "globex/helper", "thread": "ID", "key": "task"},
    ("POST", "/v1/rooms/{room}/tasks/{task}"): {"verb": "complete", "result": "ha"},
    ("POST", "/v1/rooms/{room}/chunks"): {"blob": BLOB, "number": 0, "data": "eA=="},
    ("POST", "/v1/rooms/{room}/files"): {"name": "plan.txt", "blob": BLOB, "size": 1, "key": "file"},
    ("POST", "/v1/rooms/{room}/hooks"): {"name": "h", "to": "globex/helper", "secret": f"pdh_{'0' * 43}"},
    ("PUT", "/v1/rooms/{room}/rights"): {"document": {"rules": []}},
    ("POST", "/v1/rooms/{room}/stop"): {"member": "globex/ID"},
    ("POST", "/v1/rooms/{room}/start"): {"member": "globex/ID"},
    ("POST", "/v1/rooms/{room}/memory"): {"text": "a line", "readers": ["globex"], "source": "ID", "key": "line"},
}
"""What each route takes; `ID` is an id of the room's. A route that is not here takes none."""
QUERIES: Mapping[tuple[str, str], str] = {
    ("GET", "/v1/rooms/{room}/messages"): "?thread=ID&after=0&limit=1",
    ("GET", "/v1/rooms/{room}/search"): "?query=ID&kinds=message,file&limit=1",
    ("GET", "/v1/rooms/{room}/tasks"): "?to=globex%2Fhelper&state=open",
}


ROUTES = sorted(
    (method.upper(), path) for path, methods in control_app("test").openapi()["paths"].items() for method in methods
)
ROOM_ROUTES = [pair for pair in ROUTES if pair[1].startswith(routes.ROOMS)]
CONTROL_ROUTES = [pair for pair in ROUTES if pair not in ROOM_ROUTES and "{" in pair[1]]


@dataclass
class World:
    """A room of two companies with something of everything in it, and who asks for it."""

    server: Server
    room: str
    ids: list[str]
    """Of the room, and of all that is in it."""
    stranger: str
    gone: str
    """Keys: of a company that never was in the room, and of one that left."""

    async def ask(self, key: str, method: str, path: str, body: Any) -> Reply:
        text = None if body is None else json.dumps(body)
        return await exchange(self.server.address, request(method, path, self.server.address, key=key, body=text))


@asynccontextmanager
async def world(path: Path) -> AsyncGenerator[World]:
    async with serving(path) as server:
        apis: dict[str, HttpApi] = {}
        for name in ("acme", "globex", "initech", "leaver"):
            await server.node.add_key(name, f"{name}-ops", f"pdk_{name}{'0' * 40}")
            apis[name] = server.api(f"pdk_{name}{'0' * 40}")
        acme, globex, leaver = apis["acme"], apis["globex"], apis["leaver"]
        room = (await acme.create_room("the project", key="k")).id
        for name in ("globex", "leaver"):
            await acme.write_in_room(room, Invite(name))
            await apis[name].write_in_room(room, Join())
        await globex.put_room_agent(room, AGENT)
        asked = await acme.write_in_room(room, Post("@helper, are you there?", key="1"))
        await globex.wait(asked.woken[0])
        task = await acme.write_in_room(room, OpenTask("count", "globex/helper", key="task"))
        await globex.wait(task.woken[0])
        line = await leaver.write_in_room(room, Remember("a line", key="line"))
        await leaver.put_room_chunk(room, BLOB, 0, b"x")
        file = await leaver.put_room_file(room, NewFile("plan.txt", BLOB, 1, key="file"))
        for api in (acme, leaver):
            await api.write_in_room(room, SetRights('{"rules": []}'))
            await api.set_room_budget(Budget(room, usd=1))
        await acme.write_in_room(room, Stop("globex/helper"))
        await leaver.write_in_room(room, Leave())
        ids = [room, asked.id, task.id, line.id, file.id, asked.woken[0], "helper"]
        yield World(server, room, ids, f"pdk_initech{'0' * 40}", f"pdk_leaver{'0' * 40}")


def twin(id: str) -> str:
    """Return an id like this one that nothing has."""
    return f"{id[:-6]}zzzzzz" if "_" in id else "nobody"


def filled(path: str, ids: Mapping[str, str]) -> str:
    return re.sub(r"{(\w+)}", lambda part: ids.get(part[1], ids[""]), path)


@dataclass
class Pair:
    """A request for an id, and the same for the id's twin."""

    method: str
    real: str
    real_body: Any
    twin: str
    twin_body: Any


def pairs(world: World, routes: Sequence[tuple[str, str]]) -> Iterator[Pair]:
    """Yield what is to be asked of each route: each id in each place where the route, or what it takes, has one."""
    for method, path in routes:
        body, query = BODIES.get((method, path)), QUERIES.get((method, path), "")
        if body is None and method in ("POST", "PUT"):
            body = {}
        text = json.dumps(body)
        more = "ID" in query + text or path.count("{") > 1
        rooms = [(id, id) for id in world.ids] + [(id, world.room) for id in world.ids if more]
        for id, room in dict.fromkeys(rooms):
            real = filled(path + query.replace("ID", id), {"": id, "room": room, "number": "0"})
            twins = {"": twin(id), "room": twin(room), "number": "0"}
            other = filled(path + query.replace("ID", twin(id)), twins)
            bodies = [json.loads(text.replace("ID", name)) for name in (id, twin(id))]
            yield Pair(method, real, bodies[0], other, bodies[1])


def as_real(world: World, body: bytes) -> bytes:
    """Return what was said of the twins, with the ids in their places."""
    for id in world.ids:
        body = body.replace(twin(id).encode(), id.encode())
    return body
