"""A worker that is killed: what it did is not forgotten, what it held is not waited for. A stopped one is not dead."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import http_server
from http_server import Process, start_request
from outbox_program import acted, worker
from perdure.client.http import HttpApi
from perdure.core.events import Event, Kind
from perdure.core.work import ORPHAN_LEASE_MS

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    with http_server.process(tmp_path / "perdure.db") as running:
        yield running


@pytest.fixture
async def api(server: Process) -> AsyncIterator[HttpApi]:
    client = HttpApi(server.url, server.key)
    yield client
    await client.aclose()


async def log_of(api: HttpApi, execution: str) -> list[Event]:
    """Wait for the end and return all that happened."""
    await api.wait(execution)
    return await api.events(execution)


async def come(api: HttpApi, execution: str, kind: Kind) -> Event:
    """Return the first event of a kind as soon as it is there."""
    async for event in api.follow(execution):
        if event.kind is kind:
            return event
    raise AssertionError(f"{execution} ended without {kind}")


def of(events: list[Event], kind: Kind) -> list[Event]:
    return [event for event in events if event.kind is kind]


@pytest.mark.parametrize("script", ["once", "tool"])
async def test_the_next_worker_delivers_what_a_killed_one_did(
    script: str, server: Process, api: HttpApi, tmp_path: Path
) -> None:
    """Killed after the effect and before the report: the effect is done, nobody is asked, and it is not done again."""
    home = tmp_path / "home"
    execution = (await api.start(start_request(script))).id
    with worker(server.url, server.key, home, failpoints="outbox.after_sync=kill@1") as first:
        assert first.wait(60) == -signal.SIGKILL
    with worker(server.url, server.key, home):
        events = await log_of(api, execution)
    (done,) = of(events, Kind.TASK_COMPLETED)
    assert str(done.data["value"]).endswith("was done")
    assert not of(events, Kind.TASK_UNCERTAIN) + of(events, Kind.ATTEMPT_LOST)
    assert len(acted(home)) == 1
    assert [effect.state for effect in await api.effects(execution=execution)] in ([], ["done"])


async def test_an_uncertain_effect_is_cleared_by_the_late_delivery(
    server: Process, api: HttpApi, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    execution = (await api.start(start_request("once"))).id
    with worker(server.url, server.key, home, lease_ms=1_000, failpoints="outbox.after_sync=kill@1") as first:
        first.wait(60)
    await come(api, execution, Kind.TASK_UNCERTAIN)
    with worker(server.url, server.key, home):
        events = await log_of(api, execution)
    (done,) = of(events, Kind.TASK_COMPLETED)
    assert done.data["late"] is True
    assert len(acted(home)) == 1


async def test_a_killed_workers_task_is_tried_again_at_once(server: Process, api: HttpApi, tmp_path: Path) -> None:
    home = tmp_path / "home"
    execution = (await api.start(start_request("tool"))).id
    with both_of(server, home) as (holder, _other):
        holder.kill()
        killed = time.monotonic()
        until(lambda: len(acted(home)) == 2)
        took = time.monotonic() - killed
        (home / "hold").unlink()
        events = await log_of(api, execution)
    assert len(of(events, Kind.ATTEMPT_LOST)) == 1
    assert took < ORPHAN_LEASE_MS / 1000 * 0.8, "proof takes half a second, where suspicion waits for three"


async def test_a_killed_workers_claim_is_uncertain_at_once(server: Process, api: HttpApi, tmp_path: Path) -> None:
    home = tmp_path / "home"
    execution = (await api.start(start_request("once"))).id
    with both_of(server, home) as (holder, _other):
        holder.kill()
        killed = time.monotonic()
        await come(api, execution, Kind.TASK_UNCERTAIN)
        assert time.monotonic() - killed < ORPHAN_LEASE_MS / 1000 * 0.8
    assert len(acted(home)) == 1


async def test_a_stopped_worker_is_not_dead(server: Process, api: HttpApi, tmp_path: Path) -> None:
    home = tmp_path / "home"
    execution = (await api.start(start_request("tool"))).id
    with both_of(server, home) as (holder, _other):
        stop(holder)
        (home / "hold").unlink()
        stopped = time.monotonic()
        while time.monotonic() - stopped < ORPHAN_LEASE_MS / 1000 / 2:  # longer than a dead one's task waits
            assert len(acted(home)) == 1
            await api.info()
        os.kill(holder.pid, signal.SIGCONT)
        events = await log_of(api, execution)
    assert not of(events, Kind.ATTEMPT_LOST)
    assert len(acted(home)) == 1


@contextmanager
def both_of(server: Process, home: Path) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Have two workers, the first of which holds the task; its body goes on until `hold` is gone."""
    home.mkdir()
    (home / "hold").touch()
    with worker(server.url, server.key, home) as one, worker(server.url, server.key, home) as two:
        for popen in (one, two):
            assert popen.stdout is not None
            assert popen.stdout.readline(), "it is connected"
        until(lambda: acted(home))
        yield (one, two) if acted(home)[0].endswith(f":{one.pid}") else (two, one)


def stop(popen: subprocess.Popen[str]) -> None:
    os.kill(popen.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, popen.pid, os.WSTOPPED)


def until(fact: Callable[[], object]) -> None:
    while not fact():
        time.sleep(0.005)
