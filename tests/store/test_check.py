"""`perdure db check` and `migrate`: what is right passes, and what is wrong is named by its row."""

from __future__ import annotations

from pathlib import Path

import pytest

import upkept
from engine_bench import Bench, file_bench_in
from perdure.errors import PerdureError, StoreInUse, UserError
from perdure.store.ownership import Ownership
from perdure.store.postgres import open_postgres
from perdure.system import SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.checking import check_store
from perdure.upkeep.migration import migrate_store

EVENT = "WHERE execution = 'exe_0001' AND seq = 2"

DAMAGE = {
    "an event is gone": (f"DELETE FROM events {EVENT}", "events", "exe_0001 2", "missing"),
    "an event was changed": (f"UPDATE events SET data = '{{}}' {EVENT}", "events", "exe_0001 2", "changed"),
    "the last event is gone": (
        "DELETE FROM events WHERE execution = 'exe_0001' AND seq = (SELECT MAX(seq) FROM events "
        "WHERE execution = 'exe_0001')",
        "events",
        "exe_0001",
        "rows and should have",
    ),
    "an execution is gone": ("DELETE FROM executions WHERE id = 'exe_0001'", "tasks", "exe_0001", "not there"),
    "a ready row is gone": ("DELETE FROM ready WHERE execution = 'exe_0009'", "executions", "exe_0009", "no row"),
    "an owned row has another fence": (
        "UPDATE owned SET fence = fence + 1 WHERE execution = 'exe_0008'",
        "executions",
        "exe_0008",
        "no row in `owned`",
    ),
    "one that waits is on the list": (
        "INSERT INTO ready (shard, execution, company, since_ms, abandoned) "
        "SELECT shard, id, company, 0, 0 FROM executions WHERE id = 'exe_0003'",
        "ready",
        "exe_0003",
        "parked",
    ),
    "one that is paused may be claimed": (
        "UPDATE executions SET state = 'paused' WHERE id = 'exe_0009'",
        "executions",
        "exe_0009",
        "do not go together",
    ),
    "a task is held by nobody": (
        "UPDATE tasks SET worker = NULL WHERE execution = 'exe_0004'",
        "tasks",
        "exe_0004 tool",
        "by whom",
    ),
    "a tag says otherwise": (
        "UPDATE tagged SET ended = 'completed' WHERE execution = 'exe_0009'",
        "tagged",
        "exe_0009 eu",
        "listed as completed",
    ),
    "an event holds no text": (
        f"UPDATE events SET data = x'00ff', kind = x'ff' {EVENT}",
        "events",
        "exe_0001",
        "writes",
    ),
    "an event's number is none": (f"UPDATE events SET seq = 'two' {EVENT}", "events", "exe_0001 2", "missing"),
    "an execution's end is no number": (
        "UPDATE executions SET next_seq = 'many' WHERE id = 'exe_0001'",
        "events",
        "exe_0001",
        "writes",
    ),
    "an index is gone": ("DROP INDEX tasks_ready", "", "", "tasks_ready is missing"),
    "a column is gone": ("ALTER TABLE votes DROP COLUMN reason", "votes", "", "reason is missing"),
    "a table is gone": ("DROP TABLE timers", "timers", "", "missing"),
}


def test_a_sound_store_passes_while_its_owner_has_it_and_after(tmp_path: Path) -> None:
    with file_bench_in(tmp_path) as bench:
        upkept.fill(bench)
        during = check_store(bench.store.place)
    after = check_store(bench.store.place)
    assert (during.problems, after.problems) == ([], [])
    assert during.rows == after.rows
    assert (during.logs, during.events) == (during.rows["executions"], during.rows["events"])
    assert sum(during.executions.values()) == during.rows["executions"] > 5


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_wrong_is_named_by_its_row(tmp_path: Path, what: str) -> None:
    statement, table, row, word = DAMAGE[what]
    kept = upkept.kept_store(tmp_path)
    upkept.spoil(kept.path, statement)
    problems = check_store(kept.path).problems
    assert any(one.table == table and one.row.startswith(row) and word in one.what for one in problems), problems


def test_what_is_wrong_in_postgres_is_named_too(postgres_database: str) -> None:
    import psycopg

    store = open_postgres(postgres_database, random=SeededRandom())
    try:
        upkept.fill(Bench(store, FakeClock()))
        assert check_store(postgres_database).problems == []
    finally:
        store.close()
    apart = ("an event was changed", "an owned row has another fence", "one that waits is on the list")
    for what in (*apart, "a tag says otherwise", "a task is held by nobody", "an index is gone", "a column is gone"):
        statement, table, row, word = DAMAGE[what]
        with psycopg.connect(postgres_database) as database:
            database.execute(statement.encode())
        problems = check_store(postgres_database).problems
        assert any(one.table == table and one.row.startswith(row) and word in one.what for one in problems), problems


def test_a_damaged_page_is_told(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    with kept.path.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xff" * 4096 * 8)
    report = check_store(kept.path)
    assert report.problems
    assert not report.ok


def test_a_log_that_is_gone_is_told(tmp_path: Path) -> None:
    with file_bench_in(tmp_path) as bench:
        upkept.fill(bench)
        place = bench.store.place
        Path(f"{place}.lock").touch()
        copied = tmp_path / "copied"
        copied.mkdir()
        (copied / "p.db").write_bytes(place.read_bytes())  # without its log, as a careless copy is
        (copied / "p.db.lock").touch()
        bench.store.take_over()  # arms the file
        bench.started()
        (copied / "p.db").write_bytes(place.read_bytes())
    report = check_store(copied / "p.db")
    assert "log (-wal) is gone" in report.problems[0].what


BAD_PLACES = {
    "a missing file": ("missing.db", "store_missing"),
    "a folder": ("folder", "store_path"),
    "an empty file": ("empty.db", "store_empty"),
    "another program's database": ("albums.db", "store_foreign"),
    "no database": ("words.db", "store_corrupt"),
    "a path through a file": ("words.db/p.db", "store_missing"),
    "an address that leads nowhere": ("postgresql://nobody@127.0.0.1:1/x", "store_unreachable"),
    "an address that is none": ("postgresql://[", "store_address"),
}


@pytest.mark.parametrize("what", BAD_PLACES)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    from perdure.upkeep.backup import back_up
    from perdure.upkeep.restore import restore_in_place

    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.db").touch()
    (tmp_path / "words.db").write_text("these are words" * 100)
    upkept.spoil(tmp_path / "albums.db", "CREATE TABLE albums (name TEXT)")
    name, code = BAD_PLACES[what]
    where = name if "://" in name else tmp_path / name
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for act in (check_store, migrate_store, restore_in_place, lambda one: back_up(one, tmp_path / "new.db")):
        if "://" in name and act not in (check_store, migrate_store):
            continue
        with pytest.raises(PerdureError) as refused:
            act(where)
        assert refused.value.code == code
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_another_programs_tables_in_postgres_are_refused(postgres_database: str) -> None:
    import psycopg

    with psycopg.connect(postgres_database) as database:
        database.execute("CREATE TABLE albums (name TEXT)")
        database.commit()
    for act in (check_store, migrate_store):
        with pytest.raises(UserError) as refused:
            act(postgres_database)
        assert refused.value.code == "store_foreign"


def test_a_store_is_migrated_once_and_then_nothing_is_to_be_done(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    steps = migrate_store(kept.path).after
    upkept.spoil(kept.path, f"DELETE FROM migrations WHERE number = {steps}")
    report = check_store(kept.path)
    assert report.step == steps - 1
    assert "perdure db migrate" in report.problems[0].what


def test_an_empty_postgres_database_becomes_a_store(postgres_database: str) -> None:
    first, again = migrate_store(postgres_database), migrate_store(postgres_database)
    assert (first.before, again.before) == (0, first.after)
    assert first.steps
    assert not again.steps
    assert check_store(postgres_database).problems == []


def test_an_old_store_comes_to_this_releases_tables(tmp_path: Path) -> None:
    from perdure.store import sqlite
    from perdure.store.migrate import load_migrations, migrate
    from perdure.store.sqlite_link import open_link

    path = tmp_path / "old.db"
    path.touch()
    link = open_link(path, {}, writes=True)
    migrate(sqlite.Session(link), SystemRandom(), load_migrations()[:1])
    link.close()
    ownership = Ownership.acquire(path, random=SystemRandom())
    with pytest.raises(StoreInUse):  # an old release's server runs on it
        migrate_store(path)
    ownership.release()
    done = migrate_store(path)
    assert (done.before, done.after) == (1, len(load_migrations()))
    ownership = Ownership.acquire(path, random=SystemRandom())
    assert migrate_store(path).steps == ()  # nothing to do, so it may be in use
    ownership.release()
    assert check_store(path).problems == []


def test_a_newer_store_is_refused_by_name(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    upkept.spoil(kept.path, "INSERT INTO migrations VALUES (99, '0099_later', 'x', '9.9.9')")
    for act in (check_store, migrate_store):
        with pytest.raises(UserError, match=r"9\.9\.9") as refused:
            act(kept.path)
        assert refused.value.code == "store_newer"


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    upkept.spoil(kept.path, "DELETE FROM ready WHERE execution = 'exe_0009'")
    bad = upkept.typed("check", "--store", kept.path, "--json")
    assert bad.returncode == 1
    assert upkept.told(bad)["problems"][0]["row"] == "exe_0009"
