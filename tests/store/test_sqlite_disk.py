"""The SQLite store and a disk that is full, broken, slow to shrink, or altered behind its back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from perdure.core.ports import Clock
from perdure.errors import InvalidInput, PerdureError, Retryable, StoreFailed, StoreFull
from perdure.store import sqlite_log
from perdure.store.protocol import Again
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom
from perdure.testing.clock import FakeClock
from perdure.testing.store_contract import contract_queries
from store_operations import Put, keys_in, put
from store_owner import owners

pytestmark = pytest.mark.sqlite_only("it is about the file")

E = TypeVar("E", bound=PerdureError)

LARGE = "x" * 100_000


def open_file(path: Path, clock: Clock | None = None) -> SqliteStore:
    queries = contract_queries("sqlite")
    return open_sqlite(path, clock=clock or SystemClock(), random=SystemRandom(), queries=queries)


def fill(store: SqliteStore, prefix: str, count: int) -> None:
    """Commit rows of 100 KB one by one."""
    for number in range(count):
        with store.write() as connection:
            connection.run(
                "insert_definition", company="c", digest=f"{prefix}{number}", agent="a", spec=LARGE, now_ms=0
            )


def until(error: type[E], act: Callable[[int], object]) -> tuple[int, E]:
    """Act until it raises; return how often it did not, and what it raised."""
    for number in range(1_000):
        try:
            act(number)
        except error as raised:
            return number, raised
    raise AssertionError(f"{error.__name__} was not raised")


def rows_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return database.execute("SELECT count(*) FROM definitions").fetchone()[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB; `mount -o remount,size=` makes it larger."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system could not be mounted: this needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(small_disk: Path) -> None:
    path = small_disk / "perdure.db"
    store = open_file(path)
    accepted, error = until(StoreFull, lambda number: fill(store, f"{number}/", 1))
    assert (error.code, str(path) in error.message) == ("store_full", True)
    assert accepted > 1
    for _ in range(5):
        with pytest.raises(StoreFull):
            fill(store, "more", 1)
        with store.read() as reads:
            assert reads.row("definition", company="c", digest="0/0") == {"agent": "a", "spec": LARGE}
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    fill(store, "after", 3)
    store.close()
    assert rows_in(path) == accepted + 3


def test_the_writer_passes_a_full_disk_on_and_goes_on_after_it(small_disk: Path) -> None:
    store = open_file(small_disk / "perdure.db")
    writer = ThreadedWriter(store)
    accepted, _ = until(StoreFull, lambda number: writer.call(put, Put(f"{number:04}" + "k" * 20_000)))
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    assert writer.call(put, Put("z")) == "z of 1"
    assert len(keys_in(store)) == accepted + 1
    writer.stop()
    store.close()


def test_a_store_on_a_full_disk_can_be_opened_for_reading_again(small_disk: Path) -> None:
    path = small_disk / "perdure.db"
    store = open_file(path)
    with pytest.raises(StoreFull):
        fill(store, "", 100)
    store.close()
    (small_disk / "ballast").write_bytes(b"")
    again = open_file(path)
    with again.read() as reads:
        assert reads.row("definition", company="c", digest="0") is not None
    again.close()


def test_a_write_that_the_disk_refuses_is_the_end(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    with owners(path) as (owner,):
        owner.ask("open")
        owner.ask("put", "before")
        owner.ask("limit_files", path.with_name("perdure.db-wal").stat().st_size + 4096)
        owner.send("put_many", "row", 1_000)
        answers = [owner.answer()]
        while "put" in answers[-1]:
            answers.append(owner.answer())
        assert answers[-1]["code"] == "store_failed"
        assert str(path) in answers[-1]["message"]
        assert owner.ask("put", "later")["code"] == "store_failed"
        owner.kill()
    with closing(sqlite3.connect(path)) as database:
        found = {name for (name,) in database.execute("SELECT id FROM companies")}
    assert found >= {"before", *(answer["put"] for answer in answers[:-1])}


STRACE = shutil.which("strace")


@pytest.mark.skipif(STRACE is None, reason="no strace")
@pytest.mark.parametrize(("call", "nth"), [("fdatasync", 8), ("pwrite64", 30)])
def test_after_a_failed_sync_or_write_nothing_more_is_accepted(tmp_path: Path, call: str, nth: int) -> None:
    path = tmp_path / "perdure.db"
    open_file(path).close()
    program = """
import sys
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom
store = open_sqlite(sys.argv[1], clock=SystemClock(), random=SystemRandom())
for number in range(10):
    try:
        with store.write() as connection:
            connection.run("insert_company", id=str(number), name="", now_ms=0)
        print("accepted", flush=True)
    except Exception as error:
        print(error.code, flush=True)
store.close()
"""
    strace = [
        STRACE or "",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error=EIO:when={nth}",
    ]
    done = subprocess.run(
        [*strace, sys.executable, "-c", program, path], capture_output=True, text=True, check=True, env=_environment()
    )
    said = done.stdout.split()
    accepted = said.count("accepted")
    assert said == ["accepted"] * accepted + ["store_failed"] * (10 - accepted), done.stderr
    assert 0 < accepted < 10
    with closing(sqlite3.connect(path)) as database:
        found = {name for (name,) in database.execute("SELECT id FROM companies")}
    assert found >= {str(number) for number in range(accepted)}


@pytest.mark.skipif(STRACE is None, reason="no strace")
def test_a_commit_is_synced_before_it_is_told(tmp_path: Path) -> None:
    program = """
import os, sys
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom
store = open_sqlite(sys.argv[1], clock=SystemClock(), random=SystemRandom())
os.write(1, b"begin ")
for number in range(5):
    with store.write() as connection:
        connection.run("insert_company", id=str(number), name="", now_ms=0)
    os.write(1, b"told ")
os.write(1, b"end")
"""
    trace = tmp_path / "trace"
    strace = [STRACE or "", "-f", "-qq", "-y", "-o", trace, "-e", "trace=write,pwrite64,fdatasync,fsync"]
    subprocess.run(
        [*strace, sys.executable, "-c", program, tmp_path / "perdure.db"],
        check=True,
        env=_environment(),
        stdout=subprocess.DEVNULL,
    )
    calls = [
        "told" if "told" in line else "sync"
        for line in trace.read_text().partition("begin")[2].partition('"end"')[0].splitlines()
        if "told" in line or ("sync(" in line and "perdure.db-wal" in line)
    ]
    assert calls == ["sync", "told"] * 5


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be looked at " * 50, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "perdure.db"
    path.write_bytes(content)
    with pytest.raises(StoreFailed, match="backup") as caught:
        open_file(path)
    assert (caught.value.code, str(path) in caught.value.message) == ("store_corrupt", True)
    assert path.read_bytes() == content


def test_damage_that_is_met_later_is_the_end(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    store = open_file(path)
    fill(store, "", 20)
    store.close()
    content = bytearray(path.read_bytes())
    kept = len(content) // 2
    content[kept:] = b"\xee" * (len(content) - kept)
    path.write_bytes(content)
    store = open_file(path)
    with store.read() as reads:
        _, error = until(StoreFailed, lambda number: reads.row("definition", company="c", digest=str(number)))
    assert error.code == "store_corrupt"
    with pytest.raises(StoreFailed), store.write():
        pass
    store.close()


def test_another_program_s_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE albums (id)")
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="albums") as caught:
        open_file(path)
    assert caught.value.code == "store_foreign"
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("albums",)]


def test_a_file_that_is_gone_is_noticed_before_more_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    clock = FakeClock()
    store = open_file(path, clock)
    fill(store, "a", 1)
    path.rename(tmp_path / "elsewhere.db")
    clock.advance(1)
    with pytest.raises(StoreFailed) as caught:
        fill(store, "b", 1)
    assert caught.value.code == "store_moved"
    store.close()


@pytest.mark.parametrize("then", ["gone", "another store"])
def test_nothing_is_read_from_what_came_in_the_place_of_the_file(tmp_path: Path, then: str) -> None:
    path, other = tmp_path / "perdure.db", tmp_path / "other.db"
    open_file(other).close()
    store = open_file(path)
    path.rename(tmp_path / "elsewhere.db")
    if then == "another store":
        other.rename(path)
    with pytest.raises(StoreFailed) as caught, store.read() as reads:
        reads.row("definition", company="c", digest="d")
    assert caught.value.code == "store_moved"
    store.close()


def test_a_lock_held_by_another_program_is_waited_for_then_asked_again(store: SqliteStore) -> None:
    with closing(sqlite3.connect(store.place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Again), store.write():
            pass
        assert keys_in(store) == []
        with pytest.raises(Retryable) as caught:
            open_file(store.place)
        assert caught.value.code == "store_busy"
        other.execute("ROLLBACK")
    with store.write() as connection:
        connection.run("insert_company", id="a", name="", now_ms=0)


def test_the_log_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    store = open_file(path)
    log = path.with_name("perdure.db-wal")
    largest = 0
    for number in range(1_000):  # 100 MB
        fill(store, f"{number}/", 1)
        largest = max(largest, log.stat().st_size)
    assert largest < 2.1 * sqlite_log.CHECKPOINT_BYTES
    store.close()
    assert not log.exists()


def test_an_old_read_that_keeps_the_log_from_shrinking_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    log = path.with_name("perdure.db-wal")
    clock = FakeClock()
    store = open_file(path, clock)
    fill(store, "first", 1)
    with store.read() as old:
        assert old.row("definition", company="c", digest="first0") is not None
        fill(store, "a", sqlite_log.LIMIT_BYTES // len(LARGE) + 100)
        assert log.stat().st_size > sqlite_log.LIMIT_BYTES  # it is not yet old
        assert old.row("definition", company="c", digest="a0") is None
        clock.advance(sqlite_log.READ_MS / 1000)
        fill(store, "b", 200)
        assert log.stat().st_size < sqlite_log.LIMIT_BYTES
        with pytest.raises(Retryable) as caught:
            old.row("definition", company="c", digest="first0")
    assert caught.value.code == "read_too_long"
    with store.read() as reads:
        assert reads.row("definition", company="c", digest="b0") is not None
    store.close()


def test_the_clock_goes_on_where_it_was_after_the_wall_clock_went_back(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    clock = FakeClock()
    start_ms = clock.wall_ms()
    store = open_file(path, clock)
    clock.advance(10)
    assert _time(store) == start_ms + 10_000
    clock.step_wall(-3_600)
    clock.advance(1)
    assert _time(store) == start_ms + 11_000
    store.close()  # in order: the next owner need not start ahead
    again = open_file(path, clock)
    assert _time(again) == start_ms + 11_000
    clock.advance(2)
    assert _time(again) == start_ms + 13_000
    after_a_crash = open_file(path, clock)
    assert start_ms + 13_000 < _time(after_a_crash) <= start_ms + 13_100
    after_a_crash.close()
    again.close()


def test_a_time_that_was_rolled_back_is_not_taken_for_stored(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    clock = FakeClock()
    store = open_file(path, clock)
    clock.advance(10)
    with pytest.raises(RuntimeError), store.write():
        raise RuntimeError
    last = _time(store)
    clock.step_wall(-3_600)
    after_a_crash = open_file(path, clock)
    assert _time(after_a_crash) >= last
    after_a_crash.close()
    store.close()


def _time(store: SqliteStore) -> int:
    with store.write() as connection:
        return connection.now_ms
