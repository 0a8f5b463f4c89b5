"""Migrations that are interrupted, and queries against the tables they make, on both databases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import migration_kills
from perdure.database import is_address
from perdure.errors import InternalError
from perdure.store import postgres_link, sqlite
from perdure.store.migrate import Migration, Session, every_statement, load_migrations, migrate
from perdure.store.protocol import Row
from perdure.store.sql_store import load_queries
from perdure.store.sqlite_link import open_link
from perdure.store.sqlite_wall import behind
from perdure.system import SystemRandom
from perdure.upkeep.checking import check_store
from which_store import rows_of


class Interrupted(Exception):
    """The process died here."""


class DyingSession:
    """A session whose process dies at its n-th statement."""

    def __init__(self, session: Session, statements: int) -> None:
        self.dialect = session.dialect
        self.where = session.where
        self._session = session
        self._left = statements

    def exclusive(self) -> AbstractContextManager[None]:
        return self._session.exclusive()

    def execute(self, sql: str, **params: Any) -> list[Row]:
        if not self._left:
            raise Interrupted
        self._left -= 1
        return self._session.execute(sql, **params)


@pytest.fixture(params=["sqlite", "postgres"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    if request.param == "sqlite":
        path = tmp_path / "perdure.db"
        path.touch()
        with closing(open_link(path, {}, writes=True)) as link:
            yield sqlite.Session(link)
    else:
        address = postgres_link.Address(request.getfixturevalue("postgres_database"))
        with closing(postgres_link.connect(address, {}, writes=True)) as link:
            yield postgres_link.Session(link)


def steps(count: int) -> Sequence[Migration]:
    """Return this release's steps and further ones, of two statements each."""
    ours = load_migrations()
    more = [
        Migration(
            number, f"{number:04}_more", f"CREATE TABLE t{number} (a TEXT); INSERT INTO t{number} VALUES ('{number};')"
        )
        for number in range(len(ours) + 1, len(ours) + 1 + count)
    ]
    return [*ours, *more]


def test_a_migration_that_is_killed_anywhere_is_completed_by_the_next(session: Session) -> None:
    wanted = steps(3)
    kills = 0
    while True:
        try:
            meta = migrate(DyingSession(session, 3 * (kills + 1)), SystemRandom(), wanted)
        except Interrupted:
            kills += 1
        else:
            break
    assert kills > 10
    assert migrate(session, SystemRandom(), wanted) == meta
    with session.exclusive():
        rows = session.execute("SELECT number, checksum FROM migrations ORDER BY number")
        assert [(row["number"], row["checksum"]) for row in rows] == [(step.number, step.checksum) for step in wanted]
        for step in wanted[-3:]:
            assert session.execute(f"SELECT a FROM t{step.number}") == [{"a": f"{step.number};"}]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with nothing in it, as a command names it."""
    return str(tmp_path / "p.db") if request.param == "sqlite" else request.getfixturevalue("postgres_database")


def killed(store: str, *how: str) -> dict[str, Any]:
    command = [sys.executable, migration_kills.__file__, store, *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def step_numbers(store: str) -> list[int]:
    """Return the steps that are recorded, having seen that the tables are those of a store that was never killed."""
    report = check_store(store)
    assert report.problems == []
    return [number for (number,) in rows_of(store, "SELECT number FROM migrations ORDER BY number")]


@pytest.mark.timeout(300)
def test_a_process_that_is_killed_at_any_statement_of_any_step_leaves_it_to_the_next(store: str) -> None:
    """Real processes, real kills: at each statement of this release's steps, and before each commit.

    On PostgreSQL at some: that it rolls back what a client leaves is its own promise, whatever the statement was.
    """
    dialect, stride = ("postgres", 8) if is_address(store) else ("sqlite", 1)
    found = killed(store, "every", str(stride))
    assert found["kills"] > (len(list(every_statement(dialect))) + len(load_migrations())) // stride
    assert step_numbers(store) == [step.number for step in load_migrations()]
    assert killed(store, "together", "0")["meta"] == found["meta"], "nothing is made twice"


@pytest.mark.timeout(300)
def test_several_that_begin_at_once_and_die_anywhere_make_one_store(store: str) -> None:
    found = killed(store, "together", "1")
    assert found["kills"] > 0
    assert step_numbers(store) == [step.number for step in load_migrations()]


def test_a_step_that_fails_leaves_the_steps_before_it(session: Session) -> None:
    good = steps(1)
    bad = [*good, Migration(len(good) + 1, "0009_bad", "CREATE TABLE half (a TEXT); CREATE TABLE half (a TEXT)")]
    with pytest.raises(InternalError):
        migrate(session, SystemRandom(), bad)
    migrate(session, SystemRandom(), good)  # nothing of the bad step is there, and nothing of the good ones is missing
    with pytest.raises(InternalError, match="half"), session.exclusive():
        session.execute("SELECT a FROM half")


def test_every_query_is_understood(session: Session, tmp_path: Path) -> None:
    migrate(session, SystemRandom())
    with ExitStack() as at_last:
        if session.dialect == "sqlite":  # as a store sees it: the tables of rooms, and the index of their words
            link = at_last.enter_context(closing(open_link(tmp_path / "perdure.db", {}, writes=True)))
            link.raise_wall()
            session = sqlite.Session(link)
        for query in load_queries(session.dialect).values():
            with session.exclusive():
                sql = behind(query.sql) if session.dialect == "sqlite" else query.sql
                session.execute(f"EXPLAIN {sql}", **dict.fromkeys(query.params))


def test_steps_are_numbered_without_gaps(tmp_path: Path) -> None:
    (tmp_path / "0001_first.sql").touch()
    (tmp_path / "0003_third.sql").touch()
    with pytest.raises(InternalError, match="without gaps"):
        load_migrations(tmp_path)
