"""A database through the life of several processes: opened again, opened at once, altered, newer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from perdure.errors import StoreFailed, UserError
from perdure.store.migrate import load_migrations
from perdure.testing.store_contract.database import Contract, Database, keys_in, put_executions, put_key

OPENERS = 4


class DurabilityContract(Contract):
    """What opening and migrating promise."""

    def test_what_was_committed_is_there_after_opening_again(self, database: Database) -> None:
        store = database.open()
        with store.write() as connection:
            put_key(connection, "a")
        store.close()
        again = database.open()
        assert again.id == store.id
        assert keys_in(again) == ["a"]
        again.close()

    def test_every_database_has_an_id_of_its_own(self, database: Database) -> None:
        store = database.open()
        store.close()
        database.execute("UPDATE meta SET value = 'sto_other' WHERE key = 'store_id'")
        again = database.open()
        again.close()
        assert store.id != again.id == "sto_other"

    def test_openers_at_the_same_time_migrate_once(self, database: Database) -> None:
        start = Barrier(OPENERS)

        def open_it(_number: int) -> str:
            start.wait()
            store = database.open()
            store.close()
            return store.id

        with ThreadPoolExecutor(OPENERS) as pool:
            ids = set(pool.map(open_it, range(OPENERS)))
        assert len(ids) == 1
        store = database.open()
        put_executions(store, "exe_1")
        store.close()

    def test_an_altered_step_is_refused(self, database: Database) -> None:
        database.open().close()
        database.execute("UPDATE migrations SET checksum = 'another' WHERE number = 1")
        with pytest.raises(StoreFailed, match=r"step 1 .*altered") as caught:
            database.open()
        assert caught.value.code == "store_corrupt"

    def test_a_newer_database_is_refused_and_says_who_wrote_it(self, database: Database) -> None:
        database.open().close()
        newest = len(load_migrations()) + 1
        database.execute(f"INSERT INTO migrations VALUES ({newest}, '{newest:04}_later', 'x', '9.8.7')")
        with pytest.raises(UserError, match=r"perdure 9\.8\.7.*Upgrade") as caught:
            database.open()
        assert (caught.value.code, caught.value.details["written_by"]) == ("store_newer", "9.8.7")
        database.execute(f"DELETE FROM migrations WHERE number = {newest}")
        database.open().close()
