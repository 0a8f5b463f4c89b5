"""Backups are of one moment, proved, and never run on by mistake; what is restored does nothing by itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import upkept
from engine_bench import COMPANY, Bench, file_bench_in, once
from perdure.core.work import Answer
from perdure.engine.rule import Rule, rule
from perdure.errors import Conflict, InvalidInput, StoreFailed, StoreInUse, UserError
from perdure.store.ownership import Ownership, open_owned
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.backup import back_up
from perdure.upkeep.checking import check_store
from perdure.upkeep.restore import restore, restore_in_place


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()


def states(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT id, state FROM executions").fetchall())


def tasks(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT execution, state FROM tasks").fetchall())


def test_a_backup_made_while_the_owner_writes_is_of_one_moment(tmp_path: Path) -> None:
    with file_bench_in(tmp_path) as bench:
        upkept.fill(bench)
        done = back_up(bench.store.place, tmp_path / "backup.db")
        later = bench.started()
    assert done.report.ok
    assert later not in states(tmp_path / "backup.db")
    assert len(rows(tmp_path / "backup.db", "executions")) == len(rows(bench.store.place, "executions")) - 1
    assert sorted(os.listdir(tmp_path)) == sorted(
        name for name in os.listdir(tmp_path) if name == "backup.db" or name.startswith(bench.store.place.name)
    )  # nothing beside it: no log, no part
    assert (tmp_path / "backup.db").stat().st_mode & 0o777 == 0o600


def test_nobody_runs_on_a_backup(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    back_up(kept.path, tmp_path / "backup.db")
    with pytest.raises(UserError, match="perdure db restore") as refused:
        open_owned(tmp_path / "backup.db", clock=SystemClock(), random=SystemRandom())
    assert refused.value.code == "store_aside"
    assert check_store(tmp_path / "backup.db").aside == "backup"


def test_a_backup_replaces_nothing(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    (tmp_path / "there.db").write_text("mine")
    for target in (tmp_path / "there.db", kept.path, tmp_path):
        with pytest.raises(InvalidInput) as refused:
            back_up(kept.path, target)
        assert refused.value.code == "backup_exists"
    with pytest.raises(InvalidInput) as refused:
        back_up(kept.path, tmp_path / "nowhere" / "b.db")
    assert refused.value.code == "backup_unwritable"
    assert (tmp_path / "there.db").read_text() == "mine"


def test_a_backup_that_cannot_be_written_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    before = set(os.listdir(tmp_path))
    for name in ("n" * 250, "n" * 300):  # the first could be, if there were nothing beside it meanwhile
        with pytest.raises(InvalidInput) as refused:
            back_up(kept.path, tmp_path / name)
        assert refused.value.code == "backup_unwritable"
        assert refused.value.message.startswith(f"file {tmp_path / name}: file name too long. A folder that this user")
    assert set(os.listdir(tmp_path)) == before
    back_up(kept.path, tmp_path / "b.db")
    with pytest.raises(InvalidInput) as refused:
        restore(tmp_path / "b.db", tmp_path / ("n" * 246))
    assert refused.value.message.startswith(f"file {tmp_path / ('n' * 246)}: file name too long.")


def test_a_backup_of_what_is_damaged_is_not_kept(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    upkept.spoil(kept.path, "DELETE FROM events WHERE execution = 'exe_0001' AND seq = 2")
    with pytest.raises(StoreFailed, match="exe_0001") as refused:
        back_up(kept.path, tmp_path / "backup.db")
    assert refused.value.code == "backup_wrong"
    assert not [name for name in os.listdir(tmp_path) if "backup" in name]


def test_a_killed_backup_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    killed = upkept.db("backup", tmp_path / "backup.db", "--store", kept.path, plan="backup.before_rename=kill")
    assert killed.returncode < 0
    assert not (tmp_path / "backup.db").exists()
    assert back_up(kept.path, tmp_path / "backup.db").report.ok


def test_a_backup_touches_no_part_of_one_of_the_same_pid(tmp_path: Path) -> None:
    """In containers of their own all have the same."""
    kept = upkept.kept_store(tmp_path)
    other = tmp_path / f".backup.db.{os.getpid()}.part"
    other.write_bytes(b"on its way")
    assert back_up(kept.path, tmp_path / "backup.db").report.ok
    assert other.read_bytes() == b"on its way"


def test_a_backup_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    failed = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -f 100; exec "$@"',
            "sh",
            *upkept.command("backup", tmp_path / "b.db"),
            "--store",
            kept.path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert f"file {tmp_path / 'b.db'}: " in " ".join(failed.stderr.split())
    assert ".part" not in failed.stderr
    assert not [name for name in os.listdir(tmp_path) if "b.db" in name.removeprefix(kept.path.name)]


def test_after_a_restore_nothing_goes_on_and_acts_are_in_doubt(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    back_up(kept.path, tmp_path / "backup.db")
    done = restore(tmp_path / "backup.db", tmp_path / "new.db", by="ann")
    found = states(tmp_path / "new.db")
    assert set(found.values()) == {"paused", "cancelling"}
    assert {one for one, state in found.items() if state == "cancelling"} == {kept.ended, kept.cancelling}
    assert {tasks(tmp_path / "new.db")[one] for one in (kept.waiting, kept.begun, kept.cancelling)} == {"uncertain"}
    assert (done.paused, done.cancelled, done.uncertain) == (len(found) - 2, 2, 3)
    assert check_store(tmp_path / "new.db").problems == []
    assert restore_in_place(tmp_path / "new.db").uncertain == 0  # again, and nothing more is in doubt
    assert check_store(tmp_path / "new.db").problems == []


def test_an_act_done_after_the_backup_is_not_done_again_and_its_report_is_not_taken(tmp_path: Path) -> None:
    """The point of it all: the claim after the backup is forgotten, and the act must not be given out twice."""
    with file_bench_in(tmp_path) as bench:
        held = bench.waiting(once()).ref
        back_up(bench.store.place, tmp_path / "backup.db")
        [leased] = bench.lease()
        assert bench.begin(leased) is Answer.ACCEPTED  # its body runs now
        place = bench.store.place
    restore(tmp_path / "backup.db", place, force=True)
    with _owned_bench(place) as bench:
        bench.signal(held.execution, "resume")
        assert bench.lease() == []
        assert bench.begin(leased) is not Answer.ACCEPTED
        assert bench.report(leased) is not Answer.ACCEPTED
        ruled = bench.do(rule, Rule(COMPANY, held.execution, "tool", "run", "ann", "I looked"))
        assert isinstance(ruled, Conflict), "somebody may still be at it"
        assert ruled.code == "not_settled"
        assert bench.task(held.execution)["state"] == "uncertain"


def test_a_late_report_of_what_had_begun_before_the_backup_is_still_taken(tmp_path: Path) -> None:
    with file_bench_in(tmp_path) as bench:
        leased = bench.begun()
        back_up(bench.store.place, tmp_path / "backup.db")
        place = bench.store.place
    restore(tmp_path / "backup.db", place, force=True)
    with _owned_bench(place) as bench:
        assert bench.task(leased.execution)["state"] == "uncertain"
        assert bench.report(leased) is Answer.ACCEPTED
        assert (bench.task(leased.execution)["state"], bench.state(leased.execution)[0]) == ("done", "paused")


class _owned_bench:
    def __init__(self, place: Path) -> None:
        self._owned = open_owned(place, clock=FakeClock(), random=SeededRandom())

    def __enter__(self) -> Bench:
        return Bench(self._owned.store, FakeClock())

    def __exit__(self, *_: object) -> None:
        self._owned.close()


def test_a_restore_needs_force_and_keeps_what_was_there(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    before = states(kept.path)
    back_up(kept.path, tmp_path / "backup.db")
    with pytest.raises(Conflict) as refused:
        restore(tmp_path / "backup.db", kept.path)
    assert refused.value.code == "store_exists"
    assert states(kept.path) == before
    with pytest.raises(InvalidInput) as itself:
        restore(kept.path, kept.path, force=True)
    assert itself.value.code == "same_file"
    done = restore(tmp_path / "backup.db", kept.path, force=True)
    assert states(Path(done.kept)) == before
    assert restore(tmp_path / "backup.db", kept.path, force=True).kept != done.kept


def test_a_store_in_use_is_not_replaced_nor_set_back(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    back_up(kept.path, tmp_path / "backup.db")
    ownership = Ownership.acquire(kept.path, random=SystemRandom())
    try:
        with pytest.raises(StoreInUse):
            restore(tmp_path / "backup.db", kept.path, force=True)
        with pytest.raises(StoreInUse):
            restore_in_place(kept.path)
    finally:
        ownership.release()
    assert "paused" not in states(kept.path).values()


@pytest.mark.parametrize("damage", ["gone", "words", "page"])
def test_a_damaged_backup_changes_nothing(tmp_path: Path, damage: str) -> None:
    kept = upkept.kept_store(tmp_path)
    before = states(kept.path)
    backup = tmp_path / "backup.db"
    back_up(kept.path, backup)
    if damage == "gone":
        backup.unlink()
    elif damage == "words":
        backup.write_text("words" * 1000)
    else:
        with backup.open("r+b") as file:
            file.seek(4096 * 10)
            file.write(b"\xff" * 4096 * 8)
    with pytest.raises((StoreFailed, InvalidInput)):
        restore(backup, kept.path, force=True)
    assert states(kept.path) == before
    assert not [name for name in os.listdir(tmp_path) if "replaced" in name]


@pytest.mark.parametrize("point", ["restore.page", "restore.before_swap", "restore.put_away"])
def test_a_restore_that_is_killed_anywhere_is_completed_by_the_next(tmp_path: Path, point: str) -> None:
    kept = upkept.kept_store(tmp_path)
    before = states(kept.path)
    back_up(kept.path, tmp_path / "backup.db")
    restoring = ("restore", tmp_path / "backup.db", "--store", kept.path, "--force")
    assert upkept.db(*restoring, plan=f"{point}=kill").returncode < 0
    restore(tmp_path / "backup.db", kept.path, force=True)
    assert set(states(kept.path).values()) == {"paused", "cancelling"}
    assert states(tmp_path / f"{kept.path.name}.replaced-1") == before


def test_what_did_not_get_into_the_restored_file_is_not_left_behind(tmp_path: Path) -> None:
    """As on a disk that is full just then. Here somebody reads the file, so that its log cannot be emptied."""
    kept = upkept.kept_store(tmp_path)
    before = states(kept.path)
    back_up(kept.path, tmp_path / "backup.db")
    asked = upkept.command("restore", tmp_path / "backup.db", "--store", kept.path, "--force")
    plan = {**os.environ, "PERDURE_FAILPOINTS": "restore.page=stop@1"}
    with subprocess.Popen(asked, env=plan, stderr=subprocess.PIPE, text=True) as restoring:
        os.waitid(os.P_PID, restoring.pid, os.WSTOPPED)
        with closing(sqlite3.connect(kept.path.with_name(f".{kept.path.name}.restoring"))) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM executions").fetchone()
            restoring.send_signal(signal.SIGCONT)
            said = restoring.communicate()[1]
    assert (restoring.returncode, "restore_unfinished" in said) == (1, True), said
    assert states(kept.path) == before
    restore(tmp_path / "backup.db", kept.path, force=True)
    assert set(states(kept.path).values()) == {"paused", "cancelling"}


def test_what_a_dead_restore_in_place_left_is_not_run_on(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    with upkept.dying("restore.page"):
        restore_in_place(kept.path)
    with pytest.raises(UserError) as refused:
        open_owned(kept.path, clock=SystemClock(), random=SystemRandom())
    assert refused.value.code == "store_aside"
    restore_in_place(kept.path)
    open_owned(kept.path, clock=SystemClock(), random=SystemRandom()).close()


def test_a_postgres_store_is_set_back_in_place(postgres_database: str) -> None:

    store = open_postgres(postgres_database, random=SeededRandom())
    try:
        bench = Bench(store, FakeClock())
        found = upkept.fill(bench)
        done = restore_in_place(postgres_database, by="ann")
        assert done.uncertain == 3
        assert bench.state(found["waiting"]) == ("paused", "parked")
        assert bench.ready() == [one for one in bench.ready() if bench.state(one)[0] == "cancelling"]
        assert check_store(postgres_database).problems == []
    finally:
        store.close()


def test_postgres_is_backed_up_by_its_own_tools_and_that_is_said(tmp_path: Path) -> None:
    for act in (
        lambda: back_up("postgresql://h/d", tmp_path / "b"),
        lambda: restore(tmp_path / "b", "postgresql://h/d"),
    ):
        with pytest.raises(InvalidInput, match="PostgreSQL's own tools") as refused:
            act()
        assert refused.value.code == "not_sqlite"


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    made = upkept.told(upkept.typed("backup", tmp_path / "b.db", "--store", kept.path, "--json"))
    assert made["file"] == str(tmp_path / "b.db")
    done = upkept.told(upkept.typed("restore", tmp_path / "b.db", "--store", kept.path, "--force", "--json"))
    assert done["uncertain"] == 3
    assert upkept.typed("restore", "--store", kept.path).returncode == 2
