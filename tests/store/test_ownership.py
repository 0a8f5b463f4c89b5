"""One owner of a SQLite file, whatever becomes of processes: never two, never none for long, nothing lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from perdure.errors import Retryable, StoreFailed, StoreFull, StoreInUse
from perdure.store.ownership import OwnedStore, Ownership, lock_file, open_owned, read_hint
from perdure.store.tx import Tx
from perdure.system import SystemClock, SystemRandom
from store_owner import Owner, ask_nonce, owners

pytestmark = pytest.mark.sqlite_only("it is about the file")

OPENERS = 10
KILLS = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perdure.db"


def own(path: Path, **options: object) -> OwnedStore:
    return open_owned(path, clock=SystemClock(), random=SystemRandom(), **options)  # type: ignore[arg-type]


def epoch_in(path: Path) -> int:
    return int(ask_file(path, "SELECT value FROM meta WHERE key = 'owner_epoch'")[0][0])


def ask_file(path: Path, sql: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def names_in(path: Path) -> set[str]:
    return {name for (name,) in ask_file(path, "SELECT id FROM companies")}


def refuse(path: Path, ask: object = ask_nonce) -> StoreInUse:
    with pytest.raises(StoreInUse) as caught:
        own(path, ask=ask)
    assert str(path) in caught.value.message
    return caught.value


def test_of_ten_processes_that_open_one_file_one_owns_it(path: Path) -> None:
    with owners(path, OPENERS) as all_of_them:
        for owner in all_of_them:
            owner.send("open")
        answers = [owner.answer() for owner in all_of_them]
        winners = [answer["pid"] for answer in answers if "pid" in answer]
        refused = [answer for answer in answers if "code" in answer]
        assert (len(winners), len(refused)) == (1, OPENERS - 1)
        assert {answer["code"] for answer in refused} == {"store_in_use"}
        # the hint is written just after the lock is taken: whoever looked in between cannot name the owner
        assert {answer["details"]["pid"] for answer in refused} <= {winners[0], None}
        late = refuse(path)
        assert (late.details["pid"], "perdure server" in late.message) == (winners[0], True)
    assert epoch_in(path) == 1


def test_after_a_kill_the_next_owner_goes_on_at_once_and_nothing_is_lost(path: Path) -> None:
    acknowledged: set[str] = set()
    last_ms = 0
    for number in range(KILLS):
        owner = Owner(path)
        opened = owner.ask("open")
        assert opened.get("pid") == owner.pid, opened
        assert opened["now_ms"] >= last_ms
        owner.send("put_many", str(number), 1_000)
        answers = [owner.answer() for _ in range(number + 1)]
        owner.kill()
        answers += owner.rest()
        owner.close()
        acknowledged |= {answer["put"] for answer in answers}
        last_ms = answers[-1]["now_ms"]
    assert acknowledged <= names_in(path)
    assert epoch_in(path) == KILLS
    assert ask_file(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_stopped_owner_keeps_the_store(path: Path) -> None:
    with owners(path) as (owner,):
        owner.ask("open", True)
        assert refuse(path).code == "store_in_use"
        os.kill(owner.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
        stopped = refuse(path, ask=partial(ask_nonce, seconds=0.2))  # however long one waits, it does not answer
        assert stopped.code == "store_owner_not_answering"
        assert (stopped.details["pid"], f"-CONT {owner.pid}" in stopped.message) == (owner.pid, True)
        os.kill(owner.pid, signal.SIGCONT)
        assert owner.ask("put", "after the stop")["put"] == "after the stop"
        assert refuse(path).code == "store_in_use"
    assert names_in(path) == {"after the stop"}


def test_an_owner_whose_address_somebody_else_answers_at_is_not_answering(path: Path) -> None:
    with owners(path) as (owner,):
        owner.ask("open", True)
        assert refuse(path, ask=lambda _address: "another nonce").code == "store_owner_not_answering"


def test_an_owner_that_dies_while_it_is_asked_is_succeeded(path: Path) -> None:
    with owners(path) as (owner,):
        owner.ask("open", True)

        def ask(_address: str) -> None:
            owner.kill()

        own(path, ask=ask).close()
    assert epoch_in(path) == 2


@pytest.mark.parametrize("closes", [True, False])
def test_a_forked_child_neither_uses_nor_keeps_the_store(path: Path, closes: bool) -> None:
    with owners(path) as (owner,):
        owner.ask("open")
        owner.ask("put", "before")
        child = owner.ask("fork", closes)
        assert child["codes"] == ["store_forked"] * 3
        # what the child did took nothing from the parent
        assert refuse(path).details["pid"] == owner.pid
        owner.ask("put", "after")
        owner.kill()
        own(path).close()
        os.kill(child["child"], signal.SIGTERM)
        owner.rest()  # returns when the child has ended too
    assert names_in(path) == {"before", "after"}
    assert ask_file(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_forked_child_that_drops_the_store_does_not_checkpoint_its_parent_s_log(path: Path) -> None:
    with owners(path) as (owner,):
        child = owner.ask("fork_and_forget")
        owner.kill()
        log = path.with_name(path.name + "-wal")
        size = log.stat().st_size
        os.kill(child["child"], signal.SIGTERM)
        owner.rest()
        assert log.stat().st_size == size > 0
    assert names_in(path) == {"row"}


def test_a_program_that_an_owner_started_does_not_keep_the_store(path: Path) -> None:
    with owners(path) as (owner,):
        owner.ask("open")
        program = owner.ask("spawn")["child"]
        try:
            owner.kill()
            own(path).close()
        finally:
            os.kill(program, signal.SIGKILL)


def test_a_process_that_owns_a_store_cannot_open_it_twice(path: Path) -> None:
    first = own(path)
    assert refuse(path).details["pid"] == os.getpid()
    first.close()
    own(path).close()


def test_a_link_leads_to_the_same_lock(path: Path, tmp_path: Path) -> None:
    first = own(path)
    (tmp_path / "link.db").symlink_to(path)
    with pytest.raises(StoreInUse):
        own(tmp_path / "link.db")
    first.close()


def test_on_a_full_disk_nobody_becomes_the_owner_and_the_lock_is_free(path: Path) -> None:
    own(path).close()
    room = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, room[1]))
    try:
        with pytest.raises(StoreFull, match=r"perdure\.db\.lock: .*Free some space"):
            Ownership.acquire(path, random=SystemRandom())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
    own(path).close()


def test_the_lock_file_stays_and_its_content_decides_nothing(path: Path) -> None:
    lock = lock_file(path)
    for content in (b"", b"{", b'{"nonce": 1}', b'{"nonce": "n", "pid": 1, "address": "127.0.0.1:1"}', b"\xff" * 9_999):
        lock.write_bytes(content)
        owned = own(path)
        hint = read_hint(path)
        assert hint is not None
        assert (hint.pid, hint.nonce) == (os.getpid(), owned.ownership.nonce)
        owned.ownership.announce("127.0.0.1:6767")
        assert json.loads(lock.read_text())["address"] == "127.0.0.1:6767"
        owned.close()
        owned.close()
        assert lock.read_bytes() == b""
    assert read_hint(path) is None
    assert read_hint(path.with_name("nothing.db")) is None


def test_a_former_owner_that_lives_after_all_cannot_commit(path: Path) -> None:
    former, new = own(path), None
    former.ownership.forget()  # as if its lock had been lost
    new = own(path)
    with pytest.raises(StoreFailed) as caught, former.store.write() as connection:
        connection.run("insert_company", id="late", name="late", now_ms=0)
    assert caught.value.code == "store_taken"
    with pytest.raises(StoreFailed), former.store.read():
        pass
    with new.store.write() as connection:
        connection.run("insert_company", id="new", name="new", now_ms=0)
    former.close()
    new.close()
    assert names_in(path) == {"new"}


def test_a_file_that_another_program_locks_is_not_taken_over_and_not_kept(path: Path) -> None:
    own(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Retryable) as caught:
            own(path)
        other.execute("ROLLBACK")
    assert caught.value.code == "store_busy"
    own(path).close()
    assert epoch_in(path) == 2


def test_what_ends_with_the_former_owner_ends_in_the_first_transaction(path: Path) -> None:
    own(path).close()

    def fail(_tx: Tx) -> None:
        raise RuntimeError("the hook failed")

    with pytest.raises(RuntimeError):
        own(path, on_takeover=fail)
    assert epoch_in(path) == 1

    def end_leases(tx: Tx) -> None:
        tx.run("insert_company", id="ended", name="ended", now_ms=tx.now_ms)

    owned = own(path, on_takeover=end_leases)
    assert (names_in(path), epoch_in(path)) == ({"ended"}, 2)
    owned.close()


def test_releasing_twice_or_in_another_order_is_safe(path: Path) -> None:
    ownership = Ownership.acquire(path, random=SystemRandom(), address="127.0.0.1:1")
    hint = read_hint(path)
    assert hint is not None
    assert hint.address == "127.0.0.1:1"
    ownership.release()
    ownership.release()
    ownership.announce("127.0.0.1:2")
    assert read_hint(path) is None
