"""Killed around the commit of a transactional tool, in both databases: it is done once, and its result is known."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import ledger_program

pytestmark = pytest.mark.sqlite_only("a program that is its own server has a file")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = str(tmp_path / "mine.db") if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    query(found, "CREATE TABLE bookings (cents INTEGER)")
    return found


def query(database: str, sql: str) -> list[Any]:
    connect: Any = psycopg.connect if database.startswith("postgresql:") else sqlite3.connect
    with closing(connect(database)) as connection:
        cursor = connection.execute(sql)
        rows = [] if cursor.description is None else cursor.fetchall()
        connection.commit()
        return rows


def play(store: Path, database: str, point: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ledger_program.__file__, str(store), database, point]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize(("point", "attempt"), [("effect", 2), ("commit", 1)])
def test_a_kill_around_the_commit_leaves_exactly_one_row(
    point: str, attempt: int, database: str, tmp_path: Path
) -> None:
    store = tmp_path / "perdure.db"
    assert play(store, database, point).returncode == -signal.SIGKILL
    assert len(query(database, "SELECT * FROM bookings")) == attempt % 2  # after the commit it is there, before it not
    done = play(store, database, "never")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"booked by attempt {attempt}"
    assert query(database, "SELECT cents FROM bookings") == [(5,)]
