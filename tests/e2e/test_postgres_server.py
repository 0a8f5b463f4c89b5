"""Several servers on one PostgreSQL: whatever is killed, stopped or restarted, the others carry on and nothing doubles."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home, Running
from perdure import AgentRuntime

LEASE_MS, SERVER_LEASE_MS = "3000", "2000"
"""Short, because they are waited for, and long enough for a loaded machine not to lose one that is kept."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def serve(home: Home, database: str, *more: str) -> Running:
    return home.serve("--store", database, "--lease-ms", SERVER_LEASE_MS, *more)


def begin(server: Running, key: str, text: str) -> str:
    with AgentRuntime(server.url, api_key=key, serve_tools=False) as runtime:
        return runtime.start(cli_agents.agent, text).execution_id


def test_what_one_server_began_another_carries_on(home: Home, postgres_database: str) -> None:
    first = serve(home, postgres_database)
    key = first.ready["key"]
    second = serve(home, postgres_database)
    assert second.ready["key"] is None, "servers of one user share its key"
    home.work("cli_agents:agent", "--lease-ms", LEASE_MS, "--server", second.url)
    execution = begin(first, key, "add")
    assert home.command("executions", "watch", execution, "--server", first.url).returncode == 0
    first.end(signal.SIGKILL)
    execution = begin(second, key, "add")
    assert home.command("executions", "watch", execution, "--server", second.url).returncode == 0
