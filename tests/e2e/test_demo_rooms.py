"""`perdure demo rooms`, played with real processes on each store: what it claims is so, and it leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from which_store import kind, store_at

SRC = Path(__file__).parents[2] / "src"
MOST_SECONDS = 150


def play(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = ("--store", store_at(folder)) if kind() == "postgres" else ()
    return subprocess.run(
        [sys.executable, "-m", "perdure", "demo", "rooms", "--keep", str(folder), *place, *arguments],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def left_by(folder: Path) -> list[str]:
    """Return the processes that have to do with a demo's folder and are still there."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append(process.name)
    return found


@pytest.mark.both_stores
def test_the_wake_of_a_killed_server_is_carried_on_and_the_ledger_holds(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = play(folder, "--yes", "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (0, True), [one for one in found["claims"] if not one["holds"]]
    assert [kill["role"] for kill in found["kills"]] == ["server"]
    assert found["models"] == {"scripted": True, "asked": ["scripted/planner", "scripted/supplier"]}
    assert [(one["decision"], one["by"]) for one in found["decisions"]] == [("approve", "bob")]
    assert [one["from"] for one in found["messages"]] == ["acme/ann", "acme/planner", "globex/supplier", "acme/planner"]
    assert "replied no second time, asked its model no second time" in found["in_flight"]
    assert (found["verified"]["code"], found["verified"]["servers"]) == (0, 0)
    ledger = folder / "ledger.jsonl"
    text = ledger.read_text(encoding="utf-8")
    ledger.write_text(text.replace("room_posted", "room_joined", 1), encoding="utf-8")
    again = subprocess.run([sys.executable, "-I", str(folder / "verify.py"), str(ledger)], check=False)
    assert again.returncode == 1, "what is printed stands on the file"
    assert left_by(folder) == []


@pytest.mark.sqlite_only("how it is asked and shown does not depend on the store")
def test_nothing_is_offered_where_nobody_can_be_asked(tmp_path: Path) -> None:
    done = play(tmp_path / "demo")
    assert (done.returncode, "--yes" in done.stderr) == (4, True), done
    assert "SIGKILL" in done.stdout
    assert left_by(tmp_path / "demo") == []


@pytest.mark.sqlite_only("it ends before there is a store")
def test_a_store_that_is_none_and_options_in_the_wrong_place_are_refused() -> None:
    wrong = {("rooms", "--store", "x.db"): "postgresql://", ("--yes", "rooms"): "perdure demo rooms --yes"}
    for words, told in wrong.items():
        command = [sys.executable, "-m", "perdure", "demo", *words]
        environ = {**os.environ, "PYTHONPATH": str(SRC), "COLUMNS": "200"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        assert (done.returncode, told in done.stderr) == (2, True), done
