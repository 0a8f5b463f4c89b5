"""Transactions: all or nothing, locks, unique facts, views, and a clock that goes one way."""

from __future__ import annotations

import pytest

from perdure.core import states
from perdure.errors import InternalError, InvalidInput, StoreFailed
from perdure.store.protocol import Ref, Store
from perdure.store.tx import Tx
from perdure.testing.store_contract.database import Contract, Database, keys_in, put_executions, put_key


class Changed(Exception):
    """The caller's mind."""


class TransactionContract(Contract):
    """What `write` and `read` promise."""

    def test_an_exception_leaves_nothing(self, store: Store) -> None:
        with pytest.raises(Changed), store.write() as connection:
            put_key(connection, "a")
            raise Changed
        assert keys_in(store) == []

    def test_a_failed_statement_ends_the_transaction_even_if_swallowed(self, store: Store) -> None:
        with pytest.raises(InternalError), store.write() as connection:
            put_key(connection, "a")
            with pytest.raises(InternalError):
                connection.run("contract_insert_key", company="default", start_key="a", execution="exe_1")
        assert keys_in(store) == []
        with store.write() as connection:
            put_key(connection, "b")
        assert keys_in(store) == ["b"]

    def test_a_taken_key_is_a_constraint(self, store: Store) -> None:
        with store.write() as connection:
            put_key(connection, "a")
        with pytest.raises(InternalError) as caught, store.write() as connection:
            connection.many(
                "contract_insert_key",
                [{"company": "default", "start_key": key, "execution": "exe_2"} for key in ("b", "a")],
            )
        assert caught.value.code == "constraint"
        assert keys_in(store) == ["a"]

    @pytest.mark.parametrize("asked", [False, True])
    def test_what_cannot_be_written_leaves_nothing(self, store: Store, asked: bool) -> None:
        """Whether it goes with a question or with the commit."""
        with store.write() as connection:
            put_key(connection, "a")
        for taken, code in (("a", "constraint"), ("nul\0", "unstorable")):
            rows = [{"company": "default", "start_key": key, "execution": "exe_2"} for key in ("b", taken, "c")]
            with pytest.raises((InternalError, InvalidInput)) as caught, store.write() as connection:
                put_key(connection, "before")
                connection.many("contract_insert_key", rows)
                connection.many("contract_put_key", rows)
                if asked:
                    connection.rows("contract_keys", company="default")
            assert caught.value.code == code
            assert keys_in(store) == ["a"]

    def test_a_number_in_a_log_is_given_once(self, store: Store) -> None:
        (row,) = put_executions(store, "exe_1")
        with pytest.raises(InternalError) as caught, store.write() as connection:
            tx = Tx(connection)
            tx.lock([row.ref])
            locked = tx.execution(row.id)
            assert locked is not None
            locked.next_seq = 1
            tx.append(locked, "message")
            tx.flush()
        assert caught.value.code == "constraint"

    def test_a_locked_execution_is_read_changed_and_written_back(self, store: Store) -> None:
        rows = put_executions(store, "exe_2", "exe_1", "exe_3")
        with store.write() as connection:
            tx = Tx(connection)
            tx.lock([*(row.ref for row in rows), Ref(7, "exe_unknown")])
            assert tx.execution("exe_unknown") is None
            for row in rows:
                locked = tx.execution(row.id)
                assert locked is not None
                assert (locked.next_seq, locked.fence, locked.state) == (2, 1, states.Execution.RUNNING)
                assert tx.append(locked, "message") == 2
                locked.fence = 9
                locked.agent = "somebody else"
            tx.flush()
        with store.write() as connection:
            tx = Tx(connection)
            tx.lock([rows[0].ref])
            found = tx.execution(rows[0].id)
        assert found is not None
        assert (found.next_seq, found.fence, found.agent) == (3, 9, "tester")

    def test_readers_see_only_what_is_committed(self, store: Store) -> None:
        with store.write() as connection:
            put_key(connection, "a")
            assert keys_in(store) == []
        assert keys_in(store) == ["a"]

    def test_a_view_does_not_change_while_it_is_open(self, store: Store) -> None:
        with store.read() as reads:
            assert reads.rows("contract_keys", company="default") == []
            with store.write() as connection:
                put_key(connection, "a")
            assert reads.rows("contract_keys", company="default") == []
        assert keys_in(store) == ["a"]

    def test_a_reader_cannot_write(self, store: Store) -> None:
        with pytest.raises(InternalError, match="run by a reader"), store.read() as reads:
            reads.rows("contract_put_key_returning", company="default", start_key="a", execution="exe_1")
        assert keys_in(store) == []

    def test_a_read_that_raises_gives_its_connection_back(self, store: Store) -> None:
        for _ in range(20):
            with pytest.raises(Changed), store.read():
                raise Changed
        assert keys_in(store) == []

    def test_time_stands_still_in_a_transaction_and_never_goes_back(self, store: Store, database: Database) -> None:
        seen = [_time(store) for _ in range(50)]
        store.close()
        again = database.open()
        seen.append(_time(again))
        again.close()
        assert seen == sorted(seen)
        assert seen[0] > 1_600_000_000_000

    def test_a_closed_store_says_so(self, database: Database) -> None:
        store = database.open()
        assert keys_in(store) == []
        store.close()
        store.close()
        for use in (_time, keys_in):
            with pytest.raises(StoreFailed) as caught:
                use(store)
            assert caught.value.code == "store_closed"


def _time(store: Store) -> int:
    with store.write() as connection:
        now_ms = connection.now_ms
        put_key(connection, f"at {now_ms}")
        assert connection.now_ms == now_ms
    return now_ms
