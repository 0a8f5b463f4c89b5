"""The verbs over a real socket mean what they mean in-process, with the same errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from http_server import serving, start_request
from perdure.core.events import Kind
from perdure.core.work import Answer, Begin, Held, Lane, LeaseRequest, Report

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"), Lane("tester", "pay"), Lane("tester", "fire"))


async def test_an_execution_runs_and_its_log_is_followed_to_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        started = await api.start(start_request("plain"))
        assert started.created
        events = [event async for event in api.follow(started.id)]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-1].kind is Kind.COMPLETED
        view = await api.execution(started.id)
        assert (view.state, view.output) == ("completed", events[-1].data["output"])
        assert [event async for event in api.follow(started.id, after=events[-1].seq)] == []
