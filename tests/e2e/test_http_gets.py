"""No GET changes anything: not one that a browser, a crawler or a chat's link preview sends to any address there is."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import httpx2
import pytest

from http_server import Server, serving, start_request
from perdure.core.work import Begin, Failure, Lane, LeaseRequest, Report
from perdure.store.sqlite_schema import tables
from perdure.wire import routes
from which_store import all_bytes, kind

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"), Lane("tester", "pay"), Lane("tester", "fire"))


def content(path: Path) -> list[str]:
    """Return all that a store holds, but for what servers write down of themselves: how far a file's clock is known,
    and who is connected."""
    if kind() == "postgres":
        return all_bytes(path, but=("workers",)).decode().splitlines()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = [(one.name, row) for one in tables() for row in database.execute(f"SELECT * FROM {one.name}")]
        return [repr(one) for one in rows if "clock_ms" not in one[1]]


async def prepared(server: Server) -> dict[str, str]:
    """Make one of everything: a decision that is waited for, an unknown outcome, an end. Return names for parts."""
    api, tasks = server.api(), server.tasks()
    ended = await api.start(start_request("plain"))
    await api.wait(ended.id)
    lost = await api.start(start_request("once"))
    (task,) = await tasks.lease(LeaseRequest("w1", "n1", LANES, 1), wait_seconds=60)
    await tasks.begin(Begin(task.execution, task.address, task.fence, "b"))
    failure = Failure("boom", "half way")
    await tasks.report("w1", [Report(task.execution, task.address, task.fence, "failed", failure=failure)])
    asking = await api.start(start_request("approval"))
    async with asyncio.timeout(60):
        while not (found := await api.approvals(execution=asking.id)):  # noqa: ASYNC110 - it is another loop's
            await asyncio.sleep(0.01)
        for execution in (asking.id, lost.id):  # from now on nobody does anything by himself
            while (await api.execution(execution)).state != "waiting":  # noqa: ASYNC110 - to park leaves no event
                await asyncio.sleep(0.01)
    return {"execution": asking.id, "approval": found[0].id, "lost": lost.id}


async def everywhere(client: httpx2.AsyncClient, names: dict[str, str]) -> dict[str, int]:
    """Ask for every address there is, also those that take no GET; return the last status of each."""
    known = (await client.get(routes.OPENAPI)).json()["paths"]
    query = {"decision": "approve", "ruling": "run", "by": "x", "approve": "1", "limit": "1"}
    answers: dict[str, int] = {}
    for path, execution in product(sorted({*known, routes.OPENAPI}), (names["execution"], names["lost"])):
        parts = {"{execution}": execution, "{approval}": names["approval"]}
        address = re.sub(r"{\w+}", lambda match: parts.get(match[0], "x"), path)  # noqa: B023 - used at once
        answers[path] = (await client.get(address, params=query)).status_code
        await client.head(address)
    return answers


async def test_no_get_changes_anything(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        names = await prepared(server)
        before = content(tmp_path / "s.db")
        head = {"Authorization": f"Bearer {server.key}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=head, timeout=60) as client:
            answers = await everywhere(client, names)
            assert {answers[routes.EXECUTION], answers[routes.EFFECTS], answers[routes.LOG]} == {200}
            assert {answers[routes.DECISION], answers[routes.RULING], answers[routes.CANCEL]} == {405}
            stream = routes.fill(routes.EVENTS, execution=names["execution"])
            async with client.stream("GET", stream, headers={"Accept": "text/event-stream"}) as events:
                await anext(events.aiter_bytes())
        assert content(tmp_path / "s.db") == before
