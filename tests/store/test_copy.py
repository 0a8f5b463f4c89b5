"""A SQLite store moves into PostgreSQL whole, whatever dies meanwhile, and nobody ever runs on both."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import upkept
from engine_bench import AGENT, Bench
from perdure.errors import Conflict, InvalidInput, PerdureError, StoreInUse, UserError
from perdure.store.ownership import Ownership, open_owned
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep import tables
from perdure.upkeep.backup import back_up
from perdure.upkeep.checking import check_store
from perdure.upkeep.copying import copy
from perdure.upkeep.restore import restore, restore_in_place


def opens(where: Path | str) -> bool:
    """Say whether a server could run on a store now."""
    try:
        if isinstance(where, str):
            open_postgres(where, random=SystemRandom()).close()
        else:
            open_owned(where, clock=SystemClock(), random=SystemRandom()).close()
    except UserError as error:
        return error.code != "store_aside"
    return True


def test_a_copy_holds_every_row_and_its_executions_go_on(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    before = check_store(kept.path)
    done = copy(kept.path, postgres_database)
    after = check_store(postgres_database)
    assert (after.problems, after.rows, after.events) == ([], before.rows | {"owned": 0, "ready": 4}, done.events)
    assert (opens(kept.path), opens(postgres_database)) == (False, True)
    store = open_postgres(postgres_database, random=SeededRandom())
    try:
        assert (store.id, store.token_key) == _identity(kept.path)
        bench = Bench(store, FakeClock())
        assert kept.owned in [one.ref.execution for one in bench.claim()]
    finally:
        store.close()


def _identity(path: Path) -> tuple[str, bytes]:
    import sqlite3

    with sqlite3.connect(path) as database:
        meta = dict(database.execute("SELECT key, value FROM meta").fetchall())
    database.close()
    return meta["store_id"], bytes.fromhex(meta["token_key"])


@pytest.mark.parametrize("point", ["copy.begun", "copy.batch=kill@2", "copy.compared", "copy.source_marked"])
def test_a_copy_that_is_killed_goes_on_and_nobody_runs_on_both(
    tmp_path: Path, postgres_database: str, point: str
) -> None:
    kept = upkept.kept_store(tmp_path)
    plan = point if "=" in point else f"{point}=kill"
    killed = upkept.db("copy", postgres_database, "--store", kept.path, plan=plan)
    assert killed.returncode < 0, killed.stderr
    assert not opens(postgres_database)
    with pytest.raises(UserError) as refused:
        restore_in_place(postgres_database)
    assert refused.value.code == "store_aside"
    done = copy(kept.path, postgres_database)
    assert done.resumed
    assert check_store(postgres_database).problems == []
    assert (opens(kept.path), opens(postgres_database)) == (False, True)


def test_a_source_that_was_run_on_meanwhile_is_copied_anew(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = upkept.kept_store(tmp_path)
    monkeypatch.setattr(tables, "BATCH_ROWS", 3)
    with upkept.dying("copy.compared"):
        copy(kept.path, postgres_database)
    assert opens(kept.path)  # its owner may change anything
    upkept.spoil(kept.path, "UPDATE tasks SET progress = '0.5'")
    assert not copy(kept.path, postgres_database).resumed
    with psycopg.connect(postgres_database) as database:
        assert database.execute("SELECT DISTINCT progress FROM tasks").fetchall() == [("0.5",)]


def test_large_and_strange_texts_arrive_as_they_are(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH_BYTES", 1_000)
    kept = upkept.kept_store(tmp_path)
    for number in range(20):
        text = ("ä\U0001f980 %s ? :x ' \\ " * (number * 50 + 1)).replace("'", "''")
        upkept.spoil(
            kept.path,
            f"INSERT INTO definitions VALUES ('cömpany', 'd{number}Z', '{AGENT}', '{text}', {2**62})",
        )
    assert copy(kept.path, postgres_database).rows["definitions"] == 21


def test_a_target_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path / "one")
    other = upkept.kept_store(tmp_path / "two")
    with psycopg.connect(postgres_database) as database:
        database.execute("CREATE TABLE albums (name TEXT)")
    assert _refused(kept.path, postgres_database) == "target_not_empty"
    with psycopg.connect(postgres_database) as database:
        assert database.execute("SELECT COUNT(*) FROM pg_tables WHERE tablename = 'meta'").fetchall() == [(0,)]
        database.execute("DROP TABLE albums")
    with upkept.dying("copy.begun"):
        copy(kept.path, postgres_database)
    upkept.spoil(other.path, "UPDATE meta SET value = 'sto_other' WHERE key = 'store_id'")
    assert _refused(other.path, postgres_database) == "target_other"
    copy(kept.path, postgres_database)
    for source in (kept.path, other.path):
        assert _refused(source, postgres_database) == "target_not_empty"
    assert opens(other.path)


def _refused(source: Path, target: str) -> str:
    with pytest.raises(PerdureError) as refused:
        copy(source, target)
    return refused.value.code


def test_a_source_in_use_is_not_copied(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    ownership = Ownership.acquire(kept.path, random=SystemRandom())
    try:
        with pytest.raises(StoreInUse):
            copy(kept.path, postgres_database)
    finally:
        ownership.release()


def test_a_backup_and_what_was_copied_are_not_copied(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    back_up(kept.path, tmp_path / "backup.db")
    assert _refused(tmp_path / "backup.db", postgres_database) == "store_aside"
    copy(kept.path, postgres_database)
    back_up(kept.path, tmp_path / "old.db")
    assert check_store(tmp_path / "old.db").aside == "copied"  # a backup of it says so, too
    restore_in_place(kept.path)  # a person's decision, and everything in it is paused
    assert opens(kept.path)


def test_a_damaged_source_is_told_at_the_end_and_stays_usable(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    upkept.spoil(kept.path, "DELETE FROM events WHERE execution = 'exe_0001' AND seq = 2")
    assert _refused(kept.path, postgres_database) == "copy_wrong"
    assert (opens(kept.path), opens(postgres_database)) == (True, False)


def test_only_a_file_is_copied_and_only_into_a_database(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    for source, target in (("postgresql://h/d", "postgresql://h/e"), (kept.path, str(tmp_path / "new.db"))):
        with pytest.raises(InvalidInput) as refused:
            copy(source, target)
        assert refused.value.code == "copy_direction"


def test_what_was_restored_can_be_copied(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    back_up(kept.path, tmp_path / "backup.db")
    restore(tmp_path / "backup.db", tmp_path / "new.db")
    assert copy(tmp_path / "new.db", postgres_database).rows["executions"] == 7
    with pytest.raises(Conflict):
        copy(kept.path, postgres_database)
