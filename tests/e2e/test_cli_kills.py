"""Processes of the command line that are killed, stopped or sent away: what goes on, what is shown, what is said."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import cli_agents
from cli_processes import PATIENCE, Home, Running, until
from perdure import AgentRuntime
from perdure.errors import PerdureError, StoreFull
from perdure.wire import state_file

LEASE_MS, SERVER_LEASE_MS = "3000", "1500"
"""Short, because they are waited for, and long enough for a loaded machine not to lose one that is kept."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def begin(server: Running, text: str) -> str:
    with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        return runtime.start(cli_agents.agent, text).execution_id


@pytest.mark.both_stores
def test_a_watch_survives_the_death_of_worker_and_server(home: Home) -> None:
    gate = home.folder / "gate"
    home.extra["CLI_TEST_GATE"] = str(gate)
    server = home.serve("--lease-ms", SERVER_LEASE_MS)
    worker = home.work("cli_agents:agent", "--lease-ms", LEASE_MS)
    execution = begin(server, "gated")
    watch = home.watch(execution, "--server", server.url)
    until((home.folder / "started-1").exists, "the first attempt")

    worker.end(signal.SIGKILL)
    home.work("cli_agents:agent", "--lease-ms", LEASE_MS)
    until((home.folder / "started-2").exists, "the second attempt")
    server.end(signal.SIGKILL)
    assert home.command("executions", "list", "--server", server.url).returncode == 5
    home.serve("--lease-ms", SERVER_LEASE_MS, port=server.port)
    gate.touch()

    told, _ = watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 0, told
    for told_by in (told, home.command("executions", "show", execution).stdout):
        assert "attempt 1: lost: " in told_by
        assert '"through"' in told_by


@pytest.mark.both_stores
def test_leaving_in_order_ends_with_0_and_leaves_nothing(home: Home) -> None:
    server = home.serve()
    worker = home.work()
    key = server.ready["key"]
    assert worker.end() == 0
    assert worker.events()[-1] == "worker.stopped"
    assert server.end(signal.SIGINT) == 0
    assert "server.stopping" in server.events()
    state = state_file.read(Path(server.ready["state_file"]))
    assert state is not None
    assert (state.url, state.key) == ("", key), "the next server goes on with the same key"
    again = home.serve()
    assert again.ready["key"] is None
    assert home.json("executions", "list")["items"] == []


def test_a_server_serves_tools_by_itself(home: Home) -> None:
    server = home.serve("--serve", "cli_agents:agent")
    execution = begin(server, "odd")
    assert home.command("executions", "watch", execution).returncode == 0
    assert server.end() == 0


def test_a_worker_leaves_with_its_parent(home: Home) -> None:
    home.serve()
    log = home.folder / "child.log"
    command = f"{sys.executable} -m perdure worker cli_agents:agent --parent-pid $$ --json 2>{log} & wait"
    parent = subprocess.Popen(["bash", "-c", command], env=home.environ, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        assert json.loads(parent.stdout.readline())["url"]
        parent.kill()
        until(lambda: "worker.stopped" in log.read_text(), "the end of the worker")


def test_ctrl_c_ends_a_watch_with_130(home: Home) -> None:
    server = home.serve()
    execution = begin(server, "pay")
    watch = home.watch(execution)
    watch.send_signal(signal.SIGINT)
    told, _ = watch.communicate(timeout=PATIENCE)
    assert (watch.returncode, "Traceback" in told) == (130, False)


@pytest.mark.sqlite_only("a file can be moved")
def test_a_server_whose_store_fails_ends_with_1(home: Home) -> None:
    server = home.serve()
    home.store.rename(home.folder / "elsewhere.db")
    with contextlib.suppress(PerdureError):  # written into the file that was moved, if it comes before the next look
        begin(server, "hello")
    assert server.process.wait(PATIENCE) == 1
    assert server.process.stdout is not None
    assert json.loads(server.process.stdout.readline())["error"]["code"] in ("store_moved", "store_failed")


@pytest.mark.sqlite_only("what a file may be is about files")
def test_files_that_are_no_store_of_ours_are_refused_and_left_alone(home: Home) -> None:
    corrupt = home.folder / "corrupt.db"
    corrupt.write_bytes(b"not a database" * 500)
    foreign = home.folder / "music.db"
    with closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE albums (id)")
    server = home.serve()
    assert server.end() == 0
    with closing(sqlite3.connect(home.store)) as database:
        database.execute("INSERT INTO migrations SELECT max(number) + 1, 'later', 0, 0 FROM migrations")
        database.commit()
    for place, code, exit_code in (
        (corrupt, "store_corrupt", 1),
        (foreign, "store_foreign", 2),
        (home.store, "store_newer", 1),
        (home.folder, "store_path", 2),
    ):
        done = home.process("server", "--port", "0", "--store", str(place))
        assert done.returncode == exit_code, done.stderr
        assert f"error[{code}]" in done.stderr
        assert str(place) in done.stderr
        assert "Traceback" not in done.stderr
    assert corrupt.read_bytes() == b"not a database" * 500
    with closing(sqlite3.connect(foreign)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("albums",)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("a small file system could not be mounted: this needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(server: Running) -> None:
    """Start executions with large inputs until that is refused."""
    with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        for _ in range(50):
            runtime.start(cli_agents.agent, "x" * 300_000)


@pytest.mark.sqlite_only("the disk under a file is full; a database has its own")
def test_a_full_disk_refuses_requests_and_answers_questions(home: Home, small_disk: Path) -> None:
    server = home.serve("--store", str(small_disk / "perdure.db"))
    execution = begin(server, "pay")
    with pytest.raises(StoreFull):
        fill(server)
    refused = home.command("executions", "send", execution, "x" * 300_000)
    assert (refused.returncode, "error[store_full]" in refused.stderr) == (1, True)
    assert home.command("executions", "show", execution).returncode == 0
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    assert home.command("executions", "send", execution, "x" * 300_000).returncode == 0


GO = """
import socket
from perdure import Agent, tool
@tool
def go() -> int:
    'Go.'
    return 1
"""


def test_a_worker_is_told_what_is_wrong_with_its_target(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.folder)
    monkeypatch.syspath_prepend(str(home.folder))
    (home.folder / "twice.py").write_text(f"{GO}agent = Agent(name='a', model='test:', tools=[go, go])\n")
    (home.folder / "unfit.py").write_text(GO.replace("go()", "go(s: socket.socket)"))
    for target, said in (
        ("cli_agents", "module:attribute"),
        ("nothing_here:agent", "no 'nothing_here'"),
        ("cli_agents:agnet", "did you mean 'agent'?"),
        ("cli_agents:TOOLS", "not an Agent"),
        ("cli_agents:no_key", "nothing to serve"),
        ("twice:agent", "go"),
        ("unfit:go", "socket"),
    ):
        done = home.command("worker", target)
        assert done.returncode == 2, f"{target}: {done.stderr}"
        assert said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_no_server_ends_with_5_and_says_how_to_start_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (["executions", "list"], ["executions", "watch", "exe_x"], ["approvals", "approve", "apr_x"]):
        done = home.command(*command)
        assert done.returncode == 5
        assert "`perdure server`" in done.stderr
    assert home.process("worker", "cli_agents:agent").returncode == 5
    assert home.command("executions", "list", "--server", "http://127.0.0.1:9").returncode == 5
    assert home.command("executions", "list", "--server", "ftp://x").returncode == 2
    doctor = home.command("doctor")
    assert (doctor.returncode, "perdure server" in doctor.stdout) == (0, True)
