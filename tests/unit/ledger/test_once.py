"""`perdure.ledger`: an effect and its record are one, in the caller's own database, over its own connection."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import pytest
import sqlalchemy
from sqlalchemy import orm

from perdure import ledger
from perdure.errors import Conflict, InvalidInput, PermanentError
from perdure.ledger import once

Open = Callable[[], Any]
KEY = "exe_1/turn 1/tool/call_1"

SQLITE = ("sqlite3", "sqlite3 autocommit", "sqlite3 rows", "sqlalchemy sqlite", "session sqlite")
POSTGRES = ("psycopg", "psycopg autocommit", "psycopg rows", "sqlalchemy postgres", "session postgres")


@pytest.fixture(params=SQLITE + POSTGRES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """What opens a further connection of one kind to one database."""
    kind: str = request.param
    where = request.getfixturevalue("postgres_database") if kind in POSTGRES else str(tmp_path / "mine.db")
    made: list[Any] = []

    def connect() -> Any:
        connection = _connect(kind, where)
        made.append(connection)
        return connection

    first = connect()
    run(first, "CREATE TABLE transfers (cents INTEGER)")
    first.commit()
    yield connect
    for one in made:
        one.close()


def _connect(kind: str, where: str) -> Any:
    match kind:
        case "sqlite3":
            return sqlite3.connect(where, check_same_thread=False)
        case "sqlite3 autocommit":
            return sqlite3.connect(where, isolation_level=None, check_same_thread=False)
        case "sqlite3 rows":
            connection = sqlite3.connect(where, check_same_thread=False)
            connection.row_factory = lambda _cursor, row: {"row": row}
            return connection
        case "psycopg":
            return psycopg.connect(where)
        case "psycopg autocommit":
            return psycopg.connect(where, autocommit=True)
        case "psycopg rows":
            rows: Any = psycopg.rows.dict_row
            return psycopg.connect(where, row_factory=rows)
        case _:
            return _through_sqlalchemy(kind, where)


def _through_sqlalchemy(kind: str, where: str) -> Any:
    if kind.endswith("sqlite"):
        address = f"sqlite:///{where}"
    else:
        address = where.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
    return orm.Session(engine) if kind.startswith("session") else engine.connect()


def run(connection: Any, sql: str) -> Any:
    if isinstance(connection, sqlite3.Connection | psycopg.Connection):
        return connection.execute(sql)  # type: ignore[arg-type]
    return connection.execute(sqlalchemy.text(sql))


def count(connection: Any, table: str = "transfers") -> int:
    rows = run(connection, f"SELECT count(*) AS n FROM {table}").fetchall()
    connection.rollback()
    row: Any = rows[0]
    found: Any = row.get("n", row.get("row")) if isinstance(row, dict) else row
    return found if isinstance(found, int) else found[0]


def transfer(connection: Any, value: Any = None, key: str = KEY) -> Any:
    """Act, as a tool would."""
    with once(connection, key) as effect:
        if effect.done:
            return effect.value
        run(connection, "INSERT INTO transfers VALUES (5)")
        return effect.record(value)


def test_a_second_attempt_reads_what_the_first_recorded(opened: Open) -> None:
    assert transfer(opened(), {"id": (1, 2)}) == {"id": [1, 2]}  # as the log would give it back
    again = opened()
    assert transfer(again, "never") == {"id": [1, 2]}
    assert transfer(again, "never") == {"id": [1, 2]}
    assert count(again) == 1


def test_each_key_is_an_effect_of_its_own_and_none_is_recorded_too(opened: Open) -> None:
    connection = opened()
    assert transfer(connection, None, "a") is None
    assert transfer(connection, "never", "a") is None
    assert transfer(connection, 2, "b") == 2
    assert count(connection) == 2


def test_what_raises_leaves_nothing(opened: Open) -> None:
    connection = opened()
    ledger.create_table(connection)

    def break_off() -> None:
        with once(connection, KEY) as effect:
            run(connection, "INSERT INTO transfers VALUES (5)")
            effect.record(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    other = opened()
    assert count(other) == count(other, "perdure_ledger") == 0
    assert transfer(connection, 2) == 2


def test_a_block_without_a_record_fails_for_good_and_leaves_nothing(opened: Open) -> None:
    connection = opened()
    with pytest.raises(PermanentError, match="rolled back") as caught, once(connection, KEY):
        run(connection, "INSERT INTO transfers VALUES (5)")
    assert caught.value.code == "no_ledger_record"
    assert count(opened()) == 0


def test_acting_again_all_the_same_is_rolled_back(opened: Open) -> None:
    connection = opened()
    transfer(connection)
    with once(connection, KEY):
        run(connection, "INSERT INTO transfers VALUES (5)")

    def act() -> None:
        with once(connection, KEY) as effect:
            run(connection, "INSERT INTO transfers VALUES (5)")
            effect.record(2)

    with pytest.raises(Conflict) as caught:
        act()
    assert caught.value.code == "already_recorded"
    assert count(opened()) == 1


def test_of_two_at_the_same_time_one_acts_and_the_other_reads_its_value(opened: Open) -> None:
    ledger.create_table(opened())
    connections = [opened() for _ in range(6)]
    start = threading.Barrier(len(connections))
    values: list[Any] = []

    def attempt(number: int) -> None:
        start.wait()
        values.append(transfer(connections[number], number))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == len(connections)
    assert len(set(values)) == 1
    assert count(opened()) == 1


def test_the_table_may_be_made_by_many_at_once(opened: Open) -> None:
    connections = [opened() for _ in range(6)]
    start = threading.Barrier(len(connections))
    values: list[Any] = []

    def attempt(number: int) -> None:
        start.wait()
        values.append(transfer(connections[number], number, f"key {number}"))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == list(range(6))
    assert count(opened(), "perdure_ledger") == 6


def test_changes_from_before_the_block_are_refused(opened: Open) -> None:
    connection = opened()
    if getattr(connection, "autocommit", None) is True or getattr(connection, "isolation_level", "") is None:
        run(connection, "BEGIN")
    run(connection, "INSERT INTO transfers VALUES (5)")
    with pytest.raises(Conflict) as caught, once(connection, KEY):
        raise AssertionError("the block began")
    assert caught.value.code == "in_transaction"
    connection.rollback()
    assert transfer(connection, 1) == 1


def test_having_read_before_is_no_harm(opened: Open) -> None:
    connection = opened()
    run(connection, "SELECT 1").fetchall()
    assert transfer(connection, 1) == 1


def test_what_a_session_adds_is_part_of_it(opened: Open) -> None:
    class Base(orm.DeclarativeBase):
        pass

    class Note(Base):
        __tablename__ = "notes"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)

    session = opened()
    if not isinstance(session, orm.Session):
        return
    Base.metadata.create_all(session.get_bind())

    def add(divisor: int) -> None:
        with once(session, KEY) as effect:
            session.add(Note(id=1))
            effect.record(1 // divisor)

    with pytest.raises(ZeroDivisionError):
        add(0)
    assert count(session, "notes") == 0
    add(1)
    assert count(opened(), "notes") == 1


def test_a_value_that_nobody_recorded_cannot_be_read(opened: Open) -> None:
    connection = opened()
    with pytest.raises(Conflict) as caught, once(connection, KEY) as effect:
        assert effect.value
    assert caught.value.code == "not_recorded"


@pytest.mark.parametrize("found", [None, object(), "postgresql://x"])
def test_a_connection_of_nobody_known_is_named(found: object) -> None:
    with pytest.raises(InvalidInput, match=type(found).__name__) as caught, once(found, KEY):
        raise AssertionError("the block began")
    assert caught.value.code == "bad_connection"


def test_a_key_is_needed() -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(InvalidInput) as caught,
        once(connection, ""),
    ):
        raise AssertionError("the block began")
    assert caught.value.code == "bad_key"


def test_no_driver_is_imported_that_the_caller_does_not_use() -> None:
    program = """
import sqlite3, sys
from perdure.ledger import once
with once(sqlite3.connect(":memory:"), "key") as effect:
    effect.record(1)
print(*[name for name in ("psycopg", "sqlalchemy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
