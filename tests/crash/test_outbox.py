"""A worker that is killed: what it did is not forgotten, what it held is not waited for. A stopped one is not dead."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import http_server
from http_server import Process, start_request
from outbox_program import acted, worker
from perdure.client.http import HttpApi
from perdure.core.events import Event, Kind
from perdure.core.work import ORPHAN_LEASE_MS
from which_store import kind

pytestmark = pytest.mark.anyio

OF_A_MINUTE = 20.0
"""Seconds, where the lease is a minute. How short proof makes it is `tests/unit/server/test_silence.py`'s to say: a
loaded machine takes its time."""
OF_A_DEAD_SERVER = 30.0
"""Seconds that a database keeps what a dead server held. A file's next owner ends it at once."""


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
    assert took < OF_A_MINUTE


async def test_a_killed_workers_claim_is_uncertain_at_once(server: Process, api: HttpApi, tmp_path: Path) -> None:
    home = tmp_path / "home"
    execution = (await api.start(start_request("once"))).id
    with both_of(server, home) as (holder, _other):
        holder.kill()
        killed = time.monotonic()
        await come(api, execution, Kind.TASK_UNCERTAIN)
        assert time.monotonic() - killed < OF_A_MINUTE
    assert len(acted(home)) == 1


async def test_a_server_that_begins_knows_which_workers_died_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are killed; the lease that the worker held for a minute ends when the next server begins."""
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    with http_server.process(tmp_path / "perdure.db") as former, at_work(former, home, 1) as (holder,):
        api = HttpApi(former.url, former.key)
        execution = (await api.start(start_request("tool"))).id
        until(lambda: acted(home))
        former.popen.kill()
        holder.kill()
        await api.aclose()
    (home / "hold").unlink()
    with http_server.process(tmp_path / "perdure.db") as server, worker(server.url, server.key, home):
        api = HttpApi(server.url, server.key)
        began = time.monotonic()
        events = await log_of(api, execution)
        assert time.monotonic() - began < OF_A_MINUTE + (OF_A_DEAD_SERVER if kind() == "postgres" else 0)
        await api.aclose()
    assert len(of(events, Kind.ATTEMPT_LOST)) == 1
    assert len(acted(home)) == 2


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
def at_work(server: Process, home: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Have connected workers, whose bodies go on until `hold` is gone."""
    home.mkdir(exist_ok=True)
    (home / "hold").touch()
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(server.url, server.key, home)) for _ in range(count)]
        for popen in workers:
            assert popen.stdout is not None
            assert popen.stdout.readline(), "it is connected"
        yield workers


@contextmanager
def both_of(server: Process, home: Path) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Have two workers, the first of which holds the task."""
    with at_work(server, home, 2) as (one, two):
        until(lambda: acted(home))
        yield (one, two) if acted(home)[0].endswith(f":{one.pid}") else (two, one)


def stop(popen: subprocess.Popen[str]) -> None:
    os.kill(popen.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, popen.pid, os.WSTOPPED)


def until(fact: Callable[[], object]) -> None:
    while not fact():
        time.sleep(0.005)
