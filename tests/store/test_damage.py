"""A store whose files were damaged, lost or mixed up is refused with a clear error, and nothing of it is changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, cast

import pytest

from perdure.core.ids import shard_of
from perdure.errors import StoreFailed, StoreFull
from perdure.store.ownership import OwnedStore, open_owned
from perdure.store.sql_store import names
from perdure.store.sqlite import open_sqlite
from perdure.store.sqlite_link import SqliteLink
from perdure.system import SystemClock, SystemRandom
from perdure.testing.store_contract.database import put_executions
from perdure.upkeep.migration import migrate_store

pytestmark = pytest.mark.sqlite_only("it is about the file")

FRAME = 24 + 4096


def open_store(path: Path) -> OwnedStore:
    return open_owned(path, clock=SystemClock(), random=SystemRandom())


def left_by_a_kill(folder: Path, rows: int = 20) -> Path:
    """Return the file of a store as a killed owner of it leaves it, its log beside it."""
    place = folder / "live" / "perdure.db"
    owned = open_store(place)
    for number in range(rows):
        with owned.store.write() as connection:
            connection.run("insert_company", id=f"{number}", name="x" * 2000, now_ms=0)
    left = folder / "left"
    shutil.copytree(place.parent, left)
    owned.close()
    return left / place.name


@contextmanager
def closing_at_last(owned: OwnedStore) -> Iterator[OwnedStore]:
    try:
        yield owned
    finally:
        owned.close()


def copied(place: Path, to: Path) -> Path:
    """Take a store as a kill or a power cut in this moment would leave it."""
    shutil.copytree(place.parent, to)
    return to / place.name


def taken_of(place: Path) -> int:
    """Return where the part of a log ends that SQLite reads, of a store that is open: its shared memory says so."""
    shared = place.with_name(place.name + "-shm").read_bytes()
    return 32 + FRAME * int.from_bytes(shared[16:20], sys.byteorder)


def log_of(place: Path) -> Path:
    return place.with_name(place.name + "-wal")


def end_of(log: Path) -> int:
    """Return where a log ends. It may have begun anew over an older and longer one, whose frames stand behind it."""
    content = log.read_bytes()
    frames = range(32, len(content) - FRAME + 1, FRAME)
    return next((at for at in frames if content[at + 8 : at + 16] != content[16:24]), len(content))


def rows_in(place: Path) -> int:
    with closing(sqlite3.connect(place)) as database:
        return database.execute("SELECT count(*) FROM companies WHERE id <> 'default'").fetchone()[0]


def gone(place: Path) -> None:
    log_of(place).unlink()


def zeroed(place: Path) -> None:
    log_of(place).write_bytes(bytes(log_of(place).stat().st_size))


def emptied(place: Path) -> None:
    os.truncate(log_of(place), 0)


def head_flipped(place: Path) -> None:
    flip(log_of(place), 17)


def flipped_in_the_middle(place: Path) -> None:
    flip(log_of(place), 32 + 10 * FRAME + 1000)


def of_another_store(place: Path) -> None:
    shutil.copyfile(log_of(left_by_a_kill(place.parent / "other", rows=3)), log_of(place))


def without_its_file(place: Path) -> None:
    place.unlink()


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage", [gone, zeroed, emptied, head_flipped, flipped_in_the_middle, of_another_store, without_its_file]
)
def test_a_store_that_has_lost_what_was_accepted_is_refused(damage: Callable[[Path], None], tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    damage(place)
    before = log_of(place).read_bytes() if log_of(place).exists() else None
    with pytest.raises(StoreFailed, match="its log") as refused:
        open_store(place)
    assert refused.value.code == "store_corrupt"
    assert str(place) in refused.value.message
    assert "backup" in refused.value.message
    assert before == (log_of(place).read_bytes() if log_of(place).exists() else None), (
        "what can be saved is still there"
    )


def test_what_a_kill_leaves_is_taken_whole(tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    open_store(place).close()
    assert rows_in(place) == 20
    open_store(place).close()


def test_a_last_transaction_that_is_there_in_part_is_none(tmp_path: Path) -> None:
    """As a power cut leaves it: nobody was told of it."""
    place = left_by_a_kill(tmp_path)
    flip(log_of(place), end_of(log_of(place)) - 10)
    open_store(place).close()
    assert rows_in(place) == 19


def test_what_one_power_cut_leaves_does_not_look_like_damage_after_the_next(tmp_path: Path) -> None:
    """The first takes the beginning of a long transaction and leaves its end; the log then goes on before that."""
    place = left_by_a_kill(tmp_path)
    with closing_at_last(open_store(place)) as owned:
        accepted = taken_of(place)
        with owned.store.write() as connection:
            for number in range(40):
                connection.run("insert_company", id=f"lost {number}", name="x" * 2000, now_ms=0)
        place = copied(place, tmp_path / "first")
    flip(log_of(place), accepted + FRAME * 5)
    with closing(open_sqlite(place, clock=SystemClock(), random=SystemRandom())) as store:
        with store.write() as connection:
            connection.run("insert_company", id="lost", name="", now_ms=0)
        place, written = copied(place, tmp_path / "second"), taken_of(place)
    flip(log_of(place), written - 10)
    open_store(place).close()
    assert rows_in(place) == 20


def test_a_store_that_another_program_opened_after_a_kill_is_taken(tmp_path: Path) -> None:
    """SQLite's own shell puts the log into the file and removes it: nothing is missing then."""
    place = left_by_a_kill(tmp_path)
    assert rows_in(place) == 20
    assert not log_of(place).exists()
    open_store(place).close()
    assert rows_in(place) == 20


def test_a_table_that_is_not_as_it_was_made_is_named(tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    open_store(place).close()
    content = place.read_bytes()
    place.write_bytes(content.replace(b"active_ms BIGINT", b"activf_ms BIGINT"))
    owned = open_store(place)
    with pytest.raises(StoreFailed, match="executions is not what") as refused, owned.store.read() as reads:
        reads.rows("lock_executions", wanted="{}")
    assert refused.value.code == "store_corrupt"
    owned.close()


def test_text_that_nobody_can_have_stored_is_damage(tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path, rows=1)
    open_store(place).close()
    place.write_bytes(place.read_bytes().replace(b"x" * 2000, b"\xff" * 2000))
    owned = open_store(place)
    with pytest.raises(StoreFailed, match="UTF-8") as refused, owned.store.write() as connection:
        connection.execute("SELECT name FROM companies")
    assert refused.value.code == "store_corrupt"
    owned.close()


def broken_off(folder: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception) -> OwnedStore:
    """Return an open store with one row, the copy of whose log the disk has broken off at a stage."""
    owned = open_store(folder / "live" / "perdure.db")
    with owned.store.write() as connection:
        connection.run("insert_company", id="kept", name="x", now_ms=0)
    broken: list[str] = []

    def execute(link: SqliteLink, sql: str, *values: object) -> list[tuple[object, ...]]:
        found = original(link, sql, *values)
        if stage in sql and not broken:
            broken.append(sql)
            raise error
        return found

    original = SqliteLink.execute
    monkeypatch.setattr(SqliteLink, "execute", execute)
    with suppress(StoreFailed):
        owned.store._log.arm()
    assert broken
    return owned


COPY = "PRAGMA wal_checkpoint(PASSIVE)"


@pytest.mark.parametrize("stage", [COPY, "log_after"])
@pytest.mark.parametrize("error", [StoreFailed("the disk refused"), StoreFull("the disk is full")], ids=repr)
def test_a_copy_of_the_log_that_broke_off_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception
) -> None:
    """Whoever closes the store then must not take away the log that the file says it has."""
    owned = broken_off(tmp_path, monkeypatch, stage, error)
    place = owned.store.place
    owned.close()
    again = open_store(place)
    assert rows_in(place) == 1
    again.close()


def test_a_store_left_so_by_a_kill_can_be_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says that a log is behind it, and the log does not say so yet: closing the file would take it away."""
    with closing_at_last(broken_off(tmp_path, monkeypatch, COPY, StoreFailed("the disk refused"))) as owned:
        place = copied(owned.store.place, tmp_path / "left")
    assert log_of(place).stat().st_size
    migrate_store(place)
    assert not log_of(place).exists()
    open_store(place).close()
    assert rows_in(place) == 1


def test_a_column_that_is_missed_only_once_a_row_is_read_is_named(tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    with closing_at_last(open_store(place)) as owned:
        put_executions(owned.store, "exe_1")
        with owned.store.write() as connection:
            known = {"company": "default", "agent": "clerk", "digest": "d0", "spec": "{}"}
            connection.run("insert_definition", **known, now_ms=0)
    content = place.read_bytes()
    place.write_bytes(content.replace(b"active_ms BIGINT", b"activf_ms BIGINT"))
    with closing_at_last(open_store(place)) as owned, owned.store.read() as reads:
        row = reads.row("execution_view", shard=shard_of("exe_1"), id="exe_1", company="default")
        assert row is not None
        with pytest.raises(StoreFailed, match="no column active_ms") as refused:
            row["active_ms"]
    assert (refused.value.code, str(place) in refused.value.message) == ("store_corrupt", True)


@pytest.mark.parametrize("key", ["store_id", "token_key", "clock_ms", "owner_epoch"])
def test_a_store_that_lost_what_it_knows_of_itself_is_refused(key: str, tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    open_store(place).close()
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("UPDATE meta SET key = 'kez' WHERE key = ?", (key,))
    with pytest.raises(StoreFailed, match="meta is not what was written") as refused:
        open_store(place)
    assert (refused.value.code, str(place) in refused.value.message) == ("store_corrupt", True)


def test_a_number_of_ownership_that_reads_otherwise_is_damage_and_no_new_owner(tmp_path: Path) -> None:
    """A letter of the column's type is enough: SQLite then keeps a number where a text was given."""
    place = left_by_a_kill(tmp_path)
    open_store(place).close()
    content = place.read_bytes()
    assert content.count(b"value TEXT NOT NULL") == 1
    place.write_bytes(content.replace(b"value TEXT NOT NULL", b"value DEXT NOT NULL"))
    said = "number of ownership"
    with (
        pytest.raises(StoreFailed, match=said) as refused,
        closing_at_last(open_store(place)) as owned,
        owned.store.write(),
    ):
        pytest.fail("it goes on in a damaged file")
    assert (refused.value.code, str(place) in refused.value.message) == ("store_corrupt", True)


def test_an_index_that_lost_its_entry_for_the_number_of_ownership_is_damage(tmp_path: Path) -> None:
    place = left_by_a_kill(tmp_path)
    open_store(place).close()
    content = place.read_bytes()
    row, entry = content.find(b"owner_epoch"), content.rfind(b"owner_epoch")
    assert 0 < row != entry, "once in the table and once in its index"
    for damaged in (row, entry):
        place.write_bytes(content[:damaged] + b"owner_epocH" + content[damaged + 11 :])
        with pytest.raises(StoreFailed) as refused:
            open_store(place)
        assert (refused.value.code, str(place) in refused.value.message) == ("store_corrupt", True)


@pytest.mark.parametrize("verb", ["write", "read"])
def test_a_row_without_the_name_that_every_row_has_is_damage(verb: Literal["write", "read"], tmp_path: Path) -> None:
    """A bit that flips in an index makes such rows: names are looked up as they were found."""
    with closing_at_last(open_store(tmp_path / "perdure.db")) as owned:
        opened = owned.store.write() if verb == "write" else owned.store.read()
        with pytest.raises(StoreFailed, match="no name") as refused, opened as connection:
            connection.rows("tasks_named", wanted=names("tasks_named", {cast("str", None): 1}))
        assert (refused.value.code, "perdure.db" in refused.value.message) == ("store_corrupt", True)
        with pytest.raises(StoreFailed), owned.store.write():
            pytest.fail("it goes on in a damaged file")
