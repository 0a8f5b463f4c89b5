"""What workers say of running bodies over HTTP: kept, shown, given to the next attempt, and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from http_server import serving, start_request
from perdure.client.http import HttpTaskSource
from perdure.core.work import MAX_SAVED_BYTES, Answer, Failure, Held, Lane, LeasedTask, LeaseRequest, Report
from perdure.errors import InvalidInput

pytestmark = pytest.mark.anyio


async def lease(source: HttpTaskSource, nonce: str) -> LeasedTask:
    request = LeaseRequest("w1", nonce, (Lane("tester", "work"),), slots=1)
    return (await source.lease(request, wait_seconds=10))[0]


def held(task: LeasedTask, progress: str | None = None, saved: str | None = None) -> Held:
    return Held(task.execution, task.address, task.fence, progress, saved)


async def test_it_is_shown_and_the_next_attempt_goes_on_from_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, source = server.api(), server.tasks()
        started = await api.start(start_request("tool"))
        task = await lease(source, "n1")
        assert await source.beat("w1", [held(task, "0.5", '{"done":3}')]) == [Answer.ACCEPTED]
        [seen] = await api.tasks(started.id)
        assert (seen.progress, seen.saved) == (0.5, {"done": 3})
        failure = Failure("boom", "no", retry_after_ms=0)
        report = Report(task.execution, task.address, task.fence, "failed", failure=failure, saved='{"done":4}')
        assert await source.report("w1", [report]) == [Answer.ACCEPTED]
        assert (await lease(source, "n2")).saved == '{"done":4}'


@pytest.mark.parametrize("said", [{"progress": "x" * 5_000}, {"saved": "x" * (MAX_SAVED_BYTES + 1)}])
async def test_too_much_of_it_is_refused(tmp_path: Path, said: dict[str, str]) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, source = server.api(), server.tasks()
        await api.start(start_request("tool"))
        task = await lease(source, "n1")
        with pytest.raises(InvalidInput):
            await source.beat("w1", [held(task, **said)])
        assert await source.beat("w1", [held(task)]) == [Answer.ACCEPTED]
