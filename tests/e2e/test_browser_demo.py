"""The crash demo that a server plays for a browser: a real worker is killed, and nobody else may begin any of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_processes import PATIENCE, Home, Running, until
from http_server import serving
from perdure.core.companies import new_key
from perdure.demo.parcels import MOST_WORKERS
from perdure.demo.parcels_script import STEPS
from perdure.system import SystemRandom
from perdure.wire import routes
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A user whose temporary files are here, too."""
    (tmp_path / "tmp").mkdir()
    home = Home(tmp_path, extra={"TMPDIR": str(tmp_path / "tmp")})
    yield home
    home.close()


async def ask(server: Running, method: str, path: str, key: str | None = None, **headers: str) -> Reply:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    given: str = server.ready["key"] if key is None else key
    return await exchange((host, int(port)), request(method, path, (host, int(port)), key=given, **headers))


async def demo_of(server: Running) -> dict[str, Any]:
    return (await ask(server, "GET", routes.DEMO)).json


async def when(server: Running, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the demo is as wanted, and return it."""
    async with asyncio.timeout(PATIENCE):
        while not holds(found := await demo_of(server)):  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.03)
    return found


def serves(demo: dict[str, Any]) -> bool:
    return any(one["ready_ms"] and not one["ended_ms"] for one in demo["workers"])


def folders(home: Home) -> list[Path]:
    return list((home.folder / "tmp").iterdir())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.sqlite_only("a server of a database that others share plays no demo")
async def test_a_killed_worker_is_followed_by_another_and_the_run_ends_once(home: Home) -> None:
    server = home.serve()
    assert (await demo_of(server))["available"]
    assert (await ask(server, "POST", routes.DEMO_KILL)).code == "demo_over"
    begun = await ask(server, "POST", routes.DEMO)
    assert begun.status == 201
    assert (await ask(server, "POST", routes.DEMO)).code == "demo_runs"
    execution = begun.json["execution"]
    for kills in range(1, MOST_WORKERS):
        pid = (await when(server, serves))["workers"][-1]["pid"]
        killed = await ask(server, "POST", routes.DEMO_KILL)
        assert (killed.status, alive(pid)) == (200, False)
        assert [one["killed"] for one in killed.json["workers"]] == [True] * kills
        assert (await ask(server, "POST", routes.DEMO_KILL)).code in ("no_worker", "no_kills_left")
    last = (await when(server, serves))["workers"][-1]["pid"]
    assert (await ask(server, "POST", routes.DEMO_KILL)).code == "no_kills_left"
    ended = await when(server, lambda demo: not demo["runs"])
    assert [one["killed"] for one in ended["workers"]] == [True] * (MOST_WORKERS - 1) + [False]
    assert not alive(last)
    assert server.process.poll() is None

    view = (await ask(server, "GET", f"/v1/executions/{execution}")).json
    assert view["state"] == "completed"
    assert "A scripted model" in view["output"]["result"]
    events = (await ask(server, "GET", f"/v1/executions/{execution}/events")).json["items"]
    recorded = [one["address"] for one in events if one["kind"] in ("step_recorded", "task_completed")]
    assert (len(recorded), len(set(recorded))) == (STEPS, STEPS)
    proof = (await ask(server, "GET", f"/v1/executions/{execution}/proof")).json
    assert (proof["twice"], proof["doubted_calls"]) == (False, [])
    assert (await ask(server, "POST", routes.DEMO)).status == 201  # another one, now that it has ended


@pytest.mark.sqlite_only("as above")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_worker_outlives_its_server(home: Home, number: signal.Signals) -> None:
    server = home.serve()
    await ask(server, "POST", routes.DEMO)
    [worker] = (await when(server, serves))["workers"]
    server.end(number)
    until(lambda: not alive(worker["pid"]), "the end of the worker")
    assert len(folders(home)) == (number == signal.SIGKILL)  # then nobody is there to take it away


@pytest.mark.sqlite_only("as above")
async def test_what_a_killed_server_left_goes_when_the_next_begins_a_demo(home: Home) -> None:
    killed = home.serve()
    await ask(killed, "POST", routes.DEMO)
    [worker] = (await when(killed, serves))["workers"]
    [left] = folders(home)
    killed.end(signal.SIGKILL)
    until(lambda: not alive(worker["pid"]), "the end of the worker")
    server = home.serve()
    assert folders(home) == [left]
    assert (await ask(server, "POST", routes.DEMO, killed.ready["key"])).status == 201
    [own] = folders(home)
    assert own != left


@pytest.mark.sqlite_only("as above")
async def test_only_whoever_runs_the_server_sees_and_begins_it(home: Home) -> None:
    server = home.serve()
    for company in ("default", "globex"):
        key = new_key(SystemRandom())
        made = json.dumps({"name": f"ann of {company}", "key": key})
        path = routes.fill(routes.COMPANY_KEYS, company=company)
        address = ("127.0.0.1", int(server.port))
        reply = await exchange(address, request("POST", path, address, key=server.ready["key"], body=made))
        assert reply.status == 201, reply.body
        assert (await ask(server, "GET", routes.DEMO, key)).json["available"] is False
        for path in (routes.DEMO, routes.DEMO_KILL):
            assert (await ask(server, "POST", path, key)).code == "admin_only"
    assert (await ask(server, "POST", routes.DEMO, origin="https://evil.example")).code == "origin_refused"
    assert (await demo_of(server))["execution"] is None


@pytest.mark.parametrize(
    "option", ["--no-demo", "--allow-host=perdure.example", "--public-url=https://perdure.example"]
)
@pytest.mark.sqlite_only("as above")
async def test_a_server_that_others_reach_plays_none(home: Home, option: str) -> None:
    server = home.serve(option)
    assert (await demo_of(server))["available"] is False
    assert (await ask(server, "POST", routes.DEMO)).code == "no_demo"


async def test_a_server_in_a_program_plays_none(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        reply = await exchange(server.address, request("POST", routes.DEMO, server.address, key=server.key))
        assert (reply.status, reply.code) == (409, "no_demo")
