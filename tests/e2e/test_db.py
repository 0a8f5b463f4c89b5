"""`perdure db` beside a server that runs, and a restored store under a real server."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home, until
from perdure import AgentRuntime
from perdure.upkeep.checking import check_store
from perdure.upkeep.migration import migrate_store

pytestmark = pytest.mark.sqlite_only("a file is backed up and restored as a file; a database by its own means")

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1" / "perdure.db"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def test_what_was_backed_up_beside_a_server_is_restored_and_goes_on_when_resumed(home: Home) -> None:
    gate, backup = home.folder / "gate", str(home.folder / "backup.db")
    home.extra["CLI_TEST_GATE"] = str(gate)
    server, worker = home.serve(), home.work()
    with AgentRuntime(server.url, api_key=server.ready["key"], serve_tools=False) as runtime:
        execution = runtime.start(cli_agents.agent, "gated").execution_id
    until((home.folder / "started-1").exists, "the tool")

    assert sum(home.json("db", "backup", backup)["executions"].values()) == 1
    assert home.json("db", "check")["ok"]
    assert home.json("db", "migrate")["steps"] == []
    refused = home.command("db", "restore", backup, "--force")
    assert refused.returncode == 1
    assert f"process {server.process.pid}" in refused.stderr
    gate.touch()
    assert home.command("executions", "watch", execution).returncode == 0
    worker.end()
    server.end(signal.SIGKILL)

    assert home.json("db", "restore", backup, "--force", "--by", "ann")["paused"] == 1
    home.serve()
    home.work()
    [restored] = home.json("executions", "list")["items"]
    assert (restored["id"], restored["state"]) == (execution, "paused")
    assert "restored to its state of" in home.command("executions", "show", execution).stdout
    assert home.command("executions", "resume", execution).returncode == 0
    assert home.command("executions", "watch", execution).returncode == 0
    assert home.json("db", "check")["problems"] == []


def test_a_store_of_the_first_release_is_migrated_checked_and_backed_up(tmp_path: Path) -> None:
    store = tmp_path / "perdure.db"
    shutil.copy(GOLDEN, store)
    old = check_store(store)
    assert [one.table for one in old.problems] == ["migrations"]
    done = migrate_store(store)
    assert (done.before, done.after > done.before) == (old.step, True)
    report = check_store(store)
    assert report.problems == []
    assert report.logs > 0
