"""Values come back as they went in, or are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import InvalidInput
from perdure.store.protocol import Connection, Store
from perdure.store.tx import Tx
from perdure.testing.store_contract.database import Contract, keys_in, put_executions, put_key

TEXTS = (
    "",
    " leading and trailing ",
    'it\'s "quoted" \\ and \\\\ \\n \\x00 \\u0000',
    "line\nbreak\r\n\ttab\x01\x1f\x7f\x85\u2028\ufeff",
    "%s %% %(name)s :name ? $1 -- /* ; 🦀",
    "𝕬𝖘𝖙𝖗𝖆𝖑 👩‍👩‍👧‍👦 e\u0301 é \U0010ffff \ufffe\uffff",
    "שלום مرحبا 你好 नमस्ते \u202egnirts",
    "x" * 1_000_000,
)
UNSTORABLE = ("nul \0 inside", "half \ud83d a pair", "\udc80")


class ValueContract(Contract):
    """What text and numbers promise."""

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_text_comes_back_as_it_went_in(self, store: Store, text: str) -> None:
        (row,) = put_executions(store, "exe_1")
        with store.write() as connection:
            tx = Tx(connection)
            tx.lock([row.ref])
            locked = tx.execution(row.id)
            assert locked is not None
            tx.append(locked, "message", text[:100], data=text)
            tx.flush()
        with store.read() as reads:
            event = reads.rows("contract_events", shard=row.shard, execution=row.id)[-1]
        assert (event["address"], event["data"]) == (text[:100], text)

    def test_what_models_produce_survives_as_json(self, store: Store) -> None:
        value = {"text": "nul \0, half \ud83d, 🦀", "big": 2**80, "order": {"b": 1, "a": 2}, "zero": -0.0}
        (row,) = put_executions(store, "exe_1")
        with store.write() as connection:
            tx = Tx(connection)
            tx.lock([row.ref])
            locked = tx.execution(row.id)
            assert locked is not None
            tx.append(locked, "message", data=codec.encode(value))
            tx.flush()
        with store.read() as reads:
            data = reads.rows("contract_events", shard=row.shard, execution=row.id)[-1]["data"]
        assert codec.decode(data) == value
        assert list(codec.decode(data)["order"]) == ["b", "a"]

    @pytest.mark.parametrize("text", UNSTORABLE, ids=range(len(UNSTORABLE)))
    def test_text_that_a_database_may_lose_is_refused_and_nothing_changes(self, store: Store, text: str) -> None:
        for write in _ways_to_write(text):
            with pytest.raises(InvalidInput, match=r"start_key|company") as caught, store.write() as connection:
                put_key(connection, "before")
                write(connection)
            assert caught.value.code == "unstorable"
        assert keys_in(store) == []
        with store.write() as connection:
            put_key(connection, "after")
        assert keys_in(store) == ["after"]

    def test_names_find_their_rows_whatever_they_hold(self, store: Store) -> None:
        names = ["exe_plain", 'exe "quoted"', "exe_back\\slash", "exe_\\u0061", "exe_tab\t", "exe_ä🦀", "exe'1", ""]
        rows = put_executions(store, *names)
        with store.write() as connection:
            tx = Tx(connection)
            tx.lock(row.ref for row in rows)
            assert [tx.execution(name) is not None for name in names] == [True] * len(names)
            assert tx.execution("exe_a") is None

    @pytest.mark.parametrize("text", UNSTORABLE, ids=range(len(UNSTORABLE)))
    def test_a_name_that_no_row_can_have_is_refused(self, store: Store, text: str) -> None:
        unstorable: list[dict[str, Json]] = [{text: 1}, {"exe_1": {text: 1}}]
        for wanted in unstorable:
            with pytest.raises(InvalidInput, match="a name") as caught, store.write() as connection:
                Tx(connection).named("tasks_named", wanted)
            assert caught.value.code == "unstorable"

    @pytest.mark.parametrize("number", [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
    def test_whole_numbers_have_64_bits(self, store: Store, number: int) -> None:
        (row,) = put_executions(store, "exe_1")
        with store.write() as connection:
            connection.run("contract_fenced", shard=row.shard, id=row.id, fence=1, now_ms=number)
            found = Tx(connection).named("lock_executions", {row.id: row.shard})
        assert found[0]["updated_ms"] == number

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
    def test_longer_numbers_are_refused(self, store: Store, number: int) -> None:
        with pytest.raises(InvalidInput, match="now_ms") as caught, store.write() as connection:
            connection.run("contract_fenced", shard=1, id="exe_1", fence=1, now_ms=number)
        assert caught.value.code == "unstorable"

    def test_text_sorts_by_its_bytes(self, store: Store) -> None:
        keys = ["A", "B", "Z", "_", "a", "a b", "a-b", "ab", "ä", "ß", "𝕬"]
        with store.write() as connection:
            for key in reversed(keys):
                put_key(connection, key)
        assert keys_in(store) == sorted(keys, key=str.encode)


def _ways_to_write(key: str) -> list[Callable[[Connection], object]]:
    params = {"company": "default", "start_key": key, "execution": "exe_1"}
    return [
        lambda connection: connection.run("contract_put_key", **params),
        lambda connection: connection.many("contract_put_key", [params]),
        lambda connection: connection.each("contract_put_key_returning", [params]),
        lambda connection: connection.rows("contract_keys", company=key),
    ]
