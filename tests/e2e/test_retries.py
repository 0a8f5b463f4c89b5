"""Tries of a call across the deaths of workers and servers: real processes, killed for good."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retry_agents
from cli_processes import PATIENCE, Home, Running, until
from perdure import AgentRuntime

WORKER = ("retry_agents:agent", "--lease-ms", "3000")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    home.extra["RETRY_TEST_FOLDER"] = str(tmp_path)
    yield home
    home.close()


def serve(home: Home, port: str = "0") -> Running:
    return home.serve("--script", "retries=retry_agents:play", "--lease-ms", "1500", port=port)


def begin(server: Running, text: str, key: str | None = None) -> str:
    with AgentRuntime(server.url, api_key=server.ready["key"] or key, serve_tools=False) as runtime:
        return runtime.start(retry_agents.agent, text).execution_id


def tries(home: Home, what: str) -> list[list[str]]:
    """Return (number, key, time) of each try that a tool noted."""
    notes = home.folder / what
    return [line.split("\t") for line in notes.read_text().splitlines()] if notes.exists() else []


def task(home: Home, execution: str) -> dict[str, Any]:
    return until(lambda: home.json("tasks", "list", execution)["items"], "the first call")[0]


def ended(home: Home, execution: str) -> dict[str, Any]:
    """Wait for the end; return what the run came to."""

    def look() -> dict[str, Any] | None:
        view = home.json("executions", "show", execution)["execution"]
        return view if view["finished_ms"] else None

    return until(look, "its end")


def test_the_next_try_comes_at_its_time_though_worker_and_server_died(home: Home) -> None:
    server = serve(home)
    worker = home.work(*WORKER)
    execution = begin(server, "busy")
    until(lambda: task(home, execution)["state"] == "ready" and tries(home, "busy"), "the first try")
    due_ms = task(home, execution)["run_at_ms"]
    doctor = home.command("doctor", execution).stdout
    assert "is tried again at" in doctor
    assert "The last one: the line is busy" in doctor
    worker.end(signal.SIGKILL)
    server.end(signal.SIGKILL)
    serve(home, server.port)
    assert task(home, execution)["run_at_ms"] == due_ms
    home.work(*WORKER)
    assert ended(home, execution)["state"] == "completed"
    first, second = tries(home, "busy")
    assert (first[0], second[0], first[1] == second[1]) == ("1", "2", True)
    assert float(second[2]) - float(first[2]) >= 6


def test_a_tool_that_kills_its_worker_is_tried_as_often_as_allowed_and_then_on_somebodys_word(home: Home) -> None:
    server = serve(home)
    execution = begin(server, "deadly")
    for number in (1, 2, 3):
        home.work(*WORKER).process.wait(PATIENCE)
        assert len(tries(home, "deadly")) == number
    until(lambda: task(home, execution)["state"] == "dead", "giving up")
    spare = home.work(*WORKER)
    until(lambda: home.json("approvals", "list", "--execution", execution)["items"], "the model's next turn")
    dead = task(home, execution)
    assert (dead["attempt"], dead["failure"]["code"]) == (3, "lease_expired")
    assert "on try 3 of 3" in dead["failure"]["message"]
    assert f"perdure tasks retry {execution} '{dead['address']}'" in home.command("tasks", "list", execution).stdout

    (home.folder / "mended").touch()
    assert home.json("tasks", "retry", execution, dead["address"], "--reason", "mended")["state"] in ("ready", "leased")
    until(lambda: task(home, execution)["state"] == "done", "the fourth try")
    assert [one[0] for one in tries(home, "deadly")] == ["1", "2", "3", "4"]
    assert len({one[1] for one in tries(home, "deadly")}) == 1
    assert home.command("tasks", "retry", execution, dead["address"]).returncode == 1
    [approval] = home.json("approvals", "list", "--execution", execution)["items"]
    home.json("approvals", "approve", approval["id"])
    assert ended(home, execution)["state"] == "completed"
    assert spare.process.poll() is None


def test_a_call_goes_on_from_what_it_saved_though_its_worker_was_killed(home: Home) -> None:
    server = serve(home)
    worker = home.work(*WORKER)
    execution = begin(server, "long")
    until(lambda: task(home, execution)["saved"] == [1, 1, 1], "what it saved")
    seen = until(lambda: task(home, execution)["progress"] and task(home, execution), "how far it is")
    assert seen["progress"] == 0.6
    assert ": 60 %" in home.command("doctor", execution).stdout
    worker.end(signal.SIGKILL)
    home.work(*WORKER)
    ended(home, execution)
    assert task(home, execution)["value"] == [1, 1, 1, 2, 2]
