"""Who decides is whose key it is: a body's name adds to it and stands for nobody else, except under the admin key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from http_server import Server, serving, start_request
from perdure.client.http import HttpApi
from perdure.core.views import ApprovalView
from perdure.errors import Conflict

pytestmark = pytest.mark.anyio


async def as_person(server: Server, name: str) -> HttpApi:
    """Return a client with a key of that person's own."""
    key = "pdk_" + name.ljust(43, "x")
    await server.node.add_key("default", name, key)
    return server.api(key)


async def asked(api: HttpApi, execution: str) -> ApprovalView:
    async with asyncio.timeout(60):
        while not (found := await api.approvals(execution=execution)):  # noqa: ASYNC110 - it is another loop's
            await asyncio.sleep(0.01)
    return found[0]


async def refused(api: HttpApi, approval: ApprovalView, by: str = "") -> str:
    with pytest.raises(Conflict) as caught:
        await api.decide(approval.id, "approve", by=by, digest=approval.digest)
    return caught.value.code


async def test_a_key_decides_as_itself_whatever_name_it_gives(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        ann, bob, carl, eve = [await as_person(server, name) for name in ("ann", "bob", "carl", "eve")]
        started = await ann.start(start_request("four-eyes"))
        approval = await asked(ann, started.id)
        assert await refused(ann, approval) == "self_approval"
        assert await refused(ann, approval, by="bob") == "self_approval"
        assert await refused(eve, approval, by="bob") == "not_an_approver"
        assert (await bob.decide(approval.id, "approve", digest=approval.digest)).approved == ("bob",)
        assert (await bob.decide(approval.id, "approve", by="carl", digest=approval.digest)).approved == ("bob",)
        decided = await carl.decide(approval.id, "approve", by="carl's deputy", reason="fine", digest=approval.digest)
        assert (decided.decision, decided.decided_by, decided.reason) == (
            "approve",
            "bob, carl",
            "fine (for carl's deputy)",
        )


async def test_the_admin_key_speaks_for_whom_it_names(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("four-eyes"))
        approval = await asked(api, started.id)
        assert await refused(api, approval) == "not_an_approver"
        for name in ("ann", "bob"):
            approval = await api.decide(approval.id, "approve", by=name, digest=approval.digest)
        assert (approval.decision, approval.decided_by) == ("approve", "ann, bob")
        log = await api.events(started.id)
        assert log[0].data["by"] == "admin"
