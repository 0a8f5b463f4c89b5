"""Named queries: parameters in, rows out, the same on every database."""

from __future__ import annotations

import pytest

from perdure.core import states
from perdure.errors import InternalError
from perdure.store.protocol import Store
from perdure.store.rows import params_of
from perdure.store.tx import Tx
from perdure.testing.store_contract.database import Contract, keys_in, new_execution, put_executions, put_key


class QueryContract(Contract):
    """What `rows`, `row`, `run`, `many` and `each` promise."""

    def test_rows_are_mappings_from_column_names(self, store: Store) -> None:
        with store.write() as connection:
            put_key(connection, "b", "exe_2")
            put_key(connection, "a", "exe_1")
            rows = connection.rows("contract_keys", company="default")
        assert rows == [{"start_key": "a", "execution": "exe_1"}, {"start_key": "b", "execution": "exe_2"}]
        assert "start_key" in rows[0]
        assert rows[0].get("nothing") is None

    def test_row_is_the_first_or_none(self, store: Store) -> None:
        with store.write() as connection:
            assert connection.row("contract_keys", company="default") is None
            put_key(connection, "b")
            put_key(connection, "a")
            first = connection.row("contract_keys", company="default")
        assert first is not None
        assert first["start_key"] == "a"

    def test_run_says_how_many_rows_it_touched(self, store: Store) -> None:
        with store.write() as connection:
            assert [put_key(connection, key) for key in ("a", "b", "c", "a")] == [1, 1, 1, 0]
            moved = connection.run("contract_move_keys", from_execution="exe_1", to_execution="exe_2", limit=2)
            assert moved == 2
            put = {"company": "default", "execution": "exe_1"}
            assert connection.run("contract_put_key_returning", start_key="d", **put) == 1
            assert connection.run("contract_put_key_returning", start_key="d", **put) == 0
            assert connection.run("contract_delete_key", company="default", start_key="a") == 1
            assert connection.run("contract_delete_key", company="default", start_key="a") == 0

    def test_many_runs_once_for_each_in_order(self, store: Store) -> None:
        puts = [{"company": "default", "start_key": key, "execution": f"exe_{key}"} for key in ("b", "a", "b")]
        with store.write() as connection:
            connection.many("contract_put_key", puts)
            connection.many("contract_put_key_returning", [{**puts[0], "start_key": "c"}])
            moves = [("exe_b", "exe_x"), ("exe_x", "exe_y")]
            connection.many(
                "contract_move_keys", [{"from_execution": old, "to_execution": new, "limit": 9} for old, new in moves]
            )
            connection.many("contract_put_key", [])
            rows = connection.rows("contract_keys", company="default")
        assert [(row["start_key"], row["execution"]) for row in rows] == [
            ("a", "exe_a"),
            ("b", "exe_y"),
            ("c", "exe_y"),
        ]

    def test_what_is_written_is_there_for_what_comes_next(self, store: Store) -> None:
        def put(key: str) -> list[dict[str, str]]:
            return [{"company": "default", "start_key": key, "execution": "exe_1"}]

        with store.write() as connection:
            connection.many("contract_put_key", put("a"))
            connection.many("contract_put_key", put("b"))
            assert len(connection.rows("contract_keys", company="default")) == 2
            connection.many("contract_put_key", put("c"))
            assert connection.run("contract_delete_key", company="default", start_key="c") == 1
            connection.many("contract_put_key", put("d"))
            assert connection.each("contract_put_key_returning", put("d")) == [[]]
            connection.many("contract_put_key", put("e"))
        assert keys_in(store) == ["a", "b", "d", "e"]

    def test_each_returns_the_rows_of_every_run_in_order(self, store: Store) -> None:
        puts = [{"company": "default", "start_key": key, "execution": "exe_1"} for key in ("b", "a", "b")]
        with store.write() as connection:
            put = connection.each("contract_put_key_returning", puts)
            assert [[row["start_key"] for row in rows] for rows in put] == [["b"], ["a"], []]
            assert connection.each("contract_put_key", puts) == [[], [], []]
            assert connection.each("contract_keys", []) == []
            found = connection.each("contract_filtered", [{"execution": e, "limit": 5} for e in ("exe_1", "exe_9")])
        assert [[row["start_key"] for row in rows] for rows in found] == [["a", "b"], []]

    def test_an_empty_filter_matches_all(self, store: Store) -> None:
        with store.write() as connection:
            put_key(connection, "a", "exe_1")
            put_key(connection, "b", "exe_2")
            assert len(connection.rows("contract_filtered", execution=None, limit=10)) == 2
            assert len(connection.rows("contract_filtered", execution="exe_2", limit=10)) == 1
            assert len(connection.rows("contract_filtered", execution=None, limit=1)) == 1

    def test_what_looks_like_a_parameter_in_a_literal_is_text(self, store: Store) -> None:
        with store.read() as reads:
            assert reads.rows("contract_literals") == [{"a :column": ":name; -- 100% it's /* text */", "rest": 3}]

    def test_counts_and_sums_are_whole_numbers(self, store: Store) -> None:
        with store.write() as connection:
            put_key(connection, "a")
            row = connection.row("contract_count")
        assert row == {"found": 1, "total": 0}
        assert row is not None
        assert [type(number) for number in row.values()] == [int, int]

    def test_states_are_stored_as_their_words(self, store: Store) -> None:
        row = new_execution("exe_1", state=states.Execution.WAITING, ownership=states.Ownership.PARKED)
        with store.write() as connection:
            connection.many("insert_execution", [params_of(row)])
            found = Tx(connection).named("lock_executions", {row.id: row.shard})
        assert repr(found[0]["state"]) == repr(states.Execution.WAITING.value)

    def test_a_word_that_is_no_state_is_refused(self, store: Store) -> None:
        with pytest.raises(InternalError) as caught, store.write() as connection:
            connection.many("insert_execution", [params_of(new_execution("exe_1", state="asleep"))])
        assert caught.value.code == "constraint"

    def test_an_unknown_query_is_our_bug(self, store: Store) -> None:
        with pytest.raises(InternalError, match="no_such_query"), store.read() as reads:
            reads.rows("no_such_query")

    def test_a_missing_parameter_is_our_bug_and_a_further_one_is_not(self, store: Store) -> None:
        with store.read() as reads:
            assert reads.rows("contract_keys", company="default", more=1) == []
        with pytest.raises(InternalError, match="company"), store.read() as reads:
            reads.rows("contract_keys")
        with pytest.raises(InternalError, match="start_key"), store.write() as connection:
            connection.many("contract_put_key", [{"company": "default", "execution": "exe_1"}])
        assert keys_in(store) == []

    def test_an_update_touches_nothing_once_the_fence_moved_on(self, store: Store) -> None:
        (row,) = put_executions(store, "exe_1")
        key = {"shard": row.shard, "id": row.id, "now_ms": 5}
        with store.write() as connection:
            assert connection.run("contract_fenced", **key, fence=1) == 1
            assert connection.run("contract_fenced", **key, fence=2) == 0
