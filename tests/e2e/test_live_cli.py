"""Replies as they come, from servers of the command line: over the death of one, and on a terminal that watches."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_processes import PATIENCE, Home, Running
from looking_on import until_said
from perdure import Agent, AgentRuntime
from perdure.client.stream_events import ExecutionCompleted, ExecutionTakenOver, ModelReplied, ReplyDelta
from speaking import Gates, piece, said

pytestmark = pytest.mark.anyio

SPEAKER = Agent(name="speaker", model="scripted/speaker", instructions="Speak.")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


@pytest.fixture
def gates(home: Home) -> Gates:
    gates = Gates(home.folder / "gates")
    gates.folder.mkdir()
    home.extra |= gates.environ
    return gates


def serve(home: Home, port: str = "0") -> Running:
    return home.serve("--script", "speaker=speaking:speak", "--lease-ms", "1500", port=port)


@pytest.mark.both_stores
async def test_the_next_attempt_takes_the_place_of_the_one_that_was_lost(home: Home, gates: Gates) -> None:
    server = await asyncio.to_thread(serve, home)
    async with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        handle = await runtime.start_async(SPEAKER, "go")
        stream = aiter(handle.stream())
        async with asyncio.timeout(PATIENCE):
            gates.let(1, 2)
            await until_said(stream, 1, said(1, 2))
            server.end(signal.SIGKILL)
            await asyncio.to_thread(serve, home, server.port)
            gates.let(2, 1)
            seen = await until_said(stream, 2, said(2, 1))
            gates.end(2)
            seen += [one async for one in stream]
        pieces = [one for one in seen if isinstance(one, ReplyDelta)]
        assert {one.attempt for one in pieces} == {2}
        assert pieces[0].offset == 0
        assert [type(one) for one in seen if not isinstance(one, ReplyDelta)] == [
            ExecutionTakenOver,
            ModelReplied,
            ExecutionCompleted,
        ]
        [reply] = [one async for one in handle.stream() if isinstance(one, ModelReplied)]
        assert reply.text == said(2)


def seen_until(screen: int, wanted: bytes | None) -> bytes:
    """Return what comes to a terminal until something is on it; None: until nobody writes to it any more."""
    shown, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([screen], [], [], 1.0)[0]:
            try:
                shown += os.read(screen, 65536)
            except OSError:  # the other side has closed it
                break
        if wanted is not None and wanted in shown:
            return shown
    assert wanted is None, shown
    return shown


def test_a_terminal_that_watches_shows_a_reply_as_it_comes(home: Home, gates: Gates) -> None:
    server = serve(home)
    with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        execution = runtime.start(SPEAKER, "go").execution_id
    gates.let(1, 2)
    command = [sys.executable, "-m", "perdure", "executions", "watch", execution, "--server", server.url]
    screen, end = pty.openpty()
    with subprocess.Popen(command, env=home.environ | {"TERM": "xterm"}, stdin=end, stdout=end) as watch:
        os.close(end)
        try:
            seen_until(screen, piece(1, 2).strip().encode())
            gates.end(1)
            assert b"completed" in seen_until(screen, None)
        finally:
            gates.end(1)  # the watch ends with it
            os.close(screen)
    assert watch.returncode == 0
