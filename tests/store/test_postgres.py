"""What is PostgreSQL's alone: which databases are refused, and commits whose answer is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import psycopg
import pytest

import postgres_server
from commit_cutting_proxy import CuttingProxy
from engine_bench import Bench, step
from perdure.engine.park import Finish, finish
from perdure.errors import InvalidInput, StoreFailed, Unreachable
from perdure.server.stalled import IDLE
from perdure.store.postgres import PostgresStore, open_postgres
from perdure.store.protocol import Again
from perdure.store.sql_store import names
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemRandom
from perdure.testing.clock import FakeClock
from perdure.testing.store_contract import contract_queries
from postgres_fronts import in_front
from store_operations import Put, Waiter, keys_in, put


def open_database(dsn: str) -> PostgresStore:
    return open_postgres(dsn, random=SystemRandom(), queries=contract_queries("postgres"))


def refused(dsn: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        open_postgres(dsn, random=SystemRandom())
    return caught.value


def socket_folder(dsn: str) -> Path:
    return Path(dsn.partition("host=")[2])


def test_a_role_whose_connections_are_all_taken_is_no_wrong_login(postgres_database: str) -> None:
    role = f"busy_{os.getpid()}"
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0".encode())
        try:
            with pytest.raises(Unreachable, match="too many connections for role"):
                open_database(f"{postgres_database}&user={role}")
        finally:
            admin.execute(f"DROP ROLE {role}".encode())


def test_a_commit_whose_answer_is_lost_is_run_again(postgres_database: str) -> None:
    server = socket_folder(postgres_database)
    with in_front(CuttingProxy, server) as (proxy, folder):
        store = open_database(postgres_database.replace(str(server), str(folder)))
        writer = ThreadedWriter(store)
        waiter = Waiter()
        assert writer.call(put, Put("before")) == "before of 1"
        proxy.cut_next(3)
        for number in range(50):
            writer.submit(put, Put(f"{number:02}", (str(number % 5),)), waiter)
        entries = waiter.wait(50)
        writer.stop()
        assert proxy.cuts == 3
        assert [entry.error for entry in entries] == [None] * 50
        assert keys_in(store) == [*(f"{number:02}" for number in range(50)), "before"]
        store.close()


def test_what_a_stopped_process_has_open_is_ended_by_others(postgres_database: str) -> None:
    """Right after statements in a pipeline, after which the database's own timeout does not run."""
    stopped, other = open_database(postgres_database), open_database(postgres_database)

    def stop_in_the_middle() -> None:
        with stopped.write() as link:
            link.many("contract_put_key", [{"company": "default", "start_key": "a", "execution": "exe_1"}])
            assert link.now_ms, "which sends it"
            with other.read() as reads:
                assert reads.rows("end_stalled", wanted=IDLE, idle_ms=60_000) == []
                assert [row["ended"] for row in reads.rows("end_stalled", wanted=IDLE, idle_ms=-1)] == [True]

    with pytest.raises(Again):
        stop_in_the_middle()
    assert keys_in(other) == []
    for store in (stopped, other):
        store.close()


def test_a_transaction_that_the_database_ended_as_it_lay_idle_is_run_again(postgres_database: str) -> None:
    store = open_database(postgres_database)

    def lie_idle() -> None:
        with store.write() as link, psycopg.connect(postgres_database, autocommit=True) as other:
            session = link.execute("SELECT pg_backend_pid() AS pid")[0]["pid"]
            link.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
            while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (session,)).fetchone():
                pass

    with pytest.raises(Again):
        lie_idle()
    store.close()


def test_the_tables_that_change_most_are_vacuumed_early(postgres_database: str) -> None:
    open_database(postgres_database).close()
    with psycopg.connect(postgres_database) as database:
        found = database.execute(
            "SELECT relname, reloptions FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL"
        ).fetchall()
    kept = {name: dict(option.split("=") for option in options) for name, options in found}
    churning = {name for name, options in kept.items() if options.get("autovacuum_vacuum_scale_factor") == "0"}
    assert churning == {"ready", "owned", "timers", "deadlines", "relay_replies", "relay_pieces"}
    assert kept["executions"]["fillfactor"] == "70"
    assert {"tasks", "events"} <= kept.keys()


def test_an_event_of_an_execution_touches_no_index_but_a_change_of_state_does(postgres_database: str) -> None:
    """An index on what changes with each event would make it several times as much to write."""
    store = open_database(postgres_database)
    bench = Bench(store, FakeClock())
    for _ in range(3):
        held = bench.owned()
        bench.record(held, step())
        bench.do(finish, Finish(held.ref, held.fence, 2, 0, "complete", '{"output":{"result":1}}'))
    store.close()  # its connection tells the statistics what it did, at the latest now
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'executions'"
    with psycopg.connect(postgres_database, autocommit=True) as database:
        while (found := database.execute(query).fetchone()) is None or found[0] < 9:
            continue
    assert found == (9, 3)  # of each: its claim, an event, its end


def test_an_address_that_nobody_answers_at_is_said_without_its_password() -> None:
    with pytest.raises(Unreachable) as caught:
        open_postgres("postgresql://me:secret@/stores?host=/nowhere", random=SystemRandom())
    assert caught.value.code == "store_unreachable"
    assert "PostgreSQL stores at /nowhere" in caught.value.message
    assert "secret" not in caught.value.message


def test_an_address_that_cannot_be_read_is_refused() -> None:
    assert refused("postgresql://[broken").code == "store_address"
    assert refused("no_such_option=1").code == "store_address"


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        assert refused(postgres_dsn.replace("/postgres?", "/narrow?")).code == "store_encoding"
        admin.execute("DROP DATABASE narrow WITH (FORCE)")


def test_a_standby_is_refused() -> None:
    binaries = postgres_server.find_binaries()
    assert binaries
    with postgres_server.running(binaries, standby=True) as standby:
        error = refused(standby)
    assert (error.code, "primary" in error.message) == ("store_standby", True)


@pytest.mark.parametrize(("given", "used"), [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")])
def test_a_commit_that_could_be_lost_is_made_stronger_and_never_weaker(
    postgres_database: str, given: str, used: str
) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(
            f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = {given}', "
            "current_database()); END $$".encode()
        )
    store = open_database(postgres_database)
    with store.write() as connection:
        assert connection.execute("SHOW synchronous_commit") == [{"synchronous_commit": used}]
    store.close()


def test_a_frozen_process_does_not_keep_its_locks_for_ever(postgres_database: str) -> None:
    store = open_database(postgres_database)
    with store.write() as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout") == [
            {"idle_in_transaction_session_timeout": "5s"}
        ]
    store.close()


def test_without_psycopg_the_extra_is_named() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from perdure.store.postgres import open_postgres
from perdure.errors import InvalidInput
from perdure.system import SystemRandom
try:
    open_postgres("", random=SystemRandom())
except InvalidInput as error:
    assert "pip install 'perdure[postgres]'" in error.message, error
    print(error.code)
"""
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "missing_extra\n"


@pytest.mark.parametrize("verb", ["write", "read"])
def test_a_row_without_the_name_that_every_row_has_is_damage(verb: str, postgres_database: str) -> None:
    """As on SQLite: an index that is damaged makes such rows, and names are looked up as they were found."""
    store = open_postgres(postgres_database, random=SystemRandom())
    try:
        opened = store.write() if verb == "write" else store.read()
        with pytest.raises(StoreFailed, match="no name") as refused, opened as connection:
            connection.rows("tasks_named", wanted=names("tasks_named", {cast("str", None): 1}))
        assert refused.value.code == "store_corrupt"
        with pytest.raises(StoreFailed), store.write():
            pytest.fail("it goes on in a damaged database")
    finally:
        store.close()
