"""Several processes on one database: locks in one order, no deadlock, and connections that die."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from perdure.errors import Retryable
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Again, Ref, Store
from perdure.store.tx import Tx
from perdure.store.writer import ThreadedWriter
from perdure.testing.store_contract.database import Contract, Database, keys_in, put_executions, put_key

WRITERS = 8
ROUNDS = 25


@operation()
def append_to_all(tx: Tx, rows: Sequence[list[Ref]]) -> Steps[int]:
    """Append one event to each execution asked for."""
    yield [ref for refs in rows for ref in refs]
    for refs in rows:
        for ref in refs:
            execution = tx.execution(ref.execution)
            assert execution is not None
            tx.append(execution, "message")
    return [len(refs) for refs in rows]


class SharingContract(Contract):
    """What a shared database promises beyond `StoreContract`."""

    def test_writers_that_lock_in_order_never_deadlock(self, database: Database, store: Store) -> None:
        refs = [row.ref for row in put_executions(store, *(f"exe_{number}" for number in range(6)))]
        start = Barrier(WRITERS)

        def write(number: int) -> None:
            mine = database.open()
            # asked for in another order by each; locked in one
            wanted = refs[number % 6 :] + refs[: number % 6]
            start.wait()
            for _ in range(ROUNDS):
                with mine.write() as connection:  # raises Again on a deadlock
                    tx = Tx(connection)
                    steps = append_to_all.apply(tx, [wanted])
                    tx.lock(next(steps))
                    assert next(steps, None) is None
                    tx.flush()
            mine.close()

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        with store.read() as reads:
            for ref in refs:
                events = reads.rows("contract_events", shard=ref.shard, execution=ref.execution)
                assert [event["seq"] for event in events] == list(range(1, WRITERS * ROUNDS + 2))

    def test_a_lock_holds_others_back_until_the_commit(self, database: Database, store: Store) -> None:
        (row,) = put_executions(store, "exe_1")
        other = database.open()

        def read_locked() -> int:
            with other.write() as connection:
                tx = Tx(connection)
                tx.lock([row.ref])
                locked = tx.execution(row.id)
                assert locked is not None
                return locked.next_seq

        with ThreadPoolExecutor(1) as pool:
            with store.write() as connection:
                tx = Tx(connection)
                tx.lock([row.ref])
                locked = tx.execution(row.id)
                assert locked is not None
                waiting = pool.submit(read_locked)
                tx.append(locked, "message")
                tx.flush()
                assert not waiting.done()
            assert waiting.result() == 3
        other.close()

    def test_a_connection_that_dies_in_a_transaction_asks_for_it_again(self, database: Database, store: Store) -> None:
        with pytest.raises(Again), store.write() as connection:
            put_key(connection, "a")
            database.cut()
            put_key(connection, "b")
        assert keys_in(store) == []
        with store.write() as connection:
            put_key(connection, "c")
        assert keys_in(store) == ["c"]

    def test_a_connection_that_dies_before_the_commit_asks_for_it_again(self, database: Database, store: Store) -> None:
        with pytest.raises(Again), store.write() as connection:
            put_key(connection, "a")
            database.cut()
        assert keys_in(store) == []

    def test_what_goes_with_the_commit_is_asked_for_again_too(self, database: Database, store: Store) -> None:
        row = {"company": "default", "start_key": "b", "execution": "exe_1"}
        with pytest.raises(Again), store.write() as connection:
            put_key(connection, "a")
            connection.many("contract_put_key", [row])
            database.cut()
        assert keys_in(store) == []

    def test_the_writer_does_not_notice_a_connection_that_died(self, database: Database, store: Store) -> None:
        (row,) = put_executions(store, "exe_1")
        writer = ThreadedWriter(store)
        for _ in range(5):
            assert writer.call(append_to_all, [row.ref]) == 1
            database.cut()
        writer.stop()
        with store.read() as reads:
            assert len(reads.rows("contract_events", shard=row.shard, execution=row.id)) == 6

    def test_a_reader_survives_connections_that_died_idle(self, database: Database, store: Store) -> None:
        assert keys_in(store) == []
        database.cut()
        assert keys_in(store) == []

    def test_a_reader_whose_connection_dies_may_try_again(self, database: Database, store: Store) -> None:
        with pytest.raises(Retryable), store.read() as reads:
            database.cut()
            reads.rows("contract_keys", company="default")
        assert keys_in(store) == []
