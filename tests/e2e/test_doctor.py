"""The doctor on what only real processes bring about: code that waits outside of steps, builds, paused schedules."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiet_functions
from cli_processes import Home, Running, until
from perdure import AgentRuntime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def doctor(home: Home, *execution: str) -> str:
    return home.command("doctor", *execution).stdout


def begin(server: Running, port: int) -> str:
    with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        return runtime.start(quiet_functions.listen, port).execution_id


def test_code_that_waits_outside_of_a_step_is_named_with_its_line(home: Home) -> None:
    server = home.serve()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        execution = begin(server, listener.getsockname()[1])
        assert "no worker connected here serves the durable function listen" in doctor(home, execution)
        home.work("quiet_functions:listen")
        connection, _ = listener.accept()
        with connection:
            said = "its code waits for the world outside a step, at"
            until(lambda: said in doctor(home, execution), "the doctor's word")
            assert "quiet_functions.py:" in doctor(home, execution)
            connection.sendall(b"at last\n")
            until(lambda: "it has completed" in doctor(home, execution), "its end")


def test_a_paused_schedule_is_named(home: Home) -> None:
    home.serve()
    home.json("schedules", "create", "nightly", "cli_agents:agent", "--cron", "0 3 * * *")
    assert "nightly" not in doctor(home)
    home.json("schedules", "pause", "nightly")
    assert "schedule nightly (0 3 * * *, UTC) is paused and begins nothing" in doctor(home)
    assert "perdure schedules resume nightly" in doctor(home)
