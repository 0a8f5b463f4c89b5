"""Every table, row by row in the order of its key: the statements for whoever counts, copies or compares all of them.

Texts sort by their bytes on both databases, so one key means the same place in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import Query, parse
from perdure.store.sqlite_schema import Table, tables

BATCH_ROWS = 500
BATCH_BYTES = 4 * 1024 * 1024
"""Of text. A row that is larger comes alone."""
_LOWEST = -(2**63)


def table_queries() -> Mapping[str, Query]:
    """Return the queries that this module's functions run, for whoever opens a connection."""
    made = [query for table in tables() for query in _queries(table)]
    return {query.name: query for query in made}


def _queries(table: Table) -> Iterator[Query]:
    name, key = table.name, ", ".join(table.key)
    columns = ", ".join(table.columns)
    after = ", ".join(f":after_{column}" for column in table.key)
    upto = ", ".join(f":upto_{column}" for column in table.key)
    texts = [column for column, kind in zip(table.columns, table.types, strict=True) if kind == "TEXT"]
    size = " + ".join(f"COALESCE(LENGTH({column}), 0)" for column in texts) or "0"
    yield parse(f"count {name}", f"SELECT COUNT(*) AS n FROM {name}")
    yield parse(
        f"keys {name}",
        f"SELECT {key}, {size} AS size FROM {name} WHERE ({key}) > ({after}) ORDER BY {key} LIMIT :limit",
    )
    yield parse(
        f"rows {name}",
        f"SELECT {columns} FROM {name} WHERE ({key}) > ({after}) AND ({key}) <= ({upto}) ORDER BY {key}",
    )
    backward = ", ".join(f"{column} DESC" for column in table.key)
    yield parse(f"last {name}", f"SELECT {key} FROM {name} ORDER BY {backward} LIMIT 1")
    values = ", ".join(f":{column}" for column in table.columns)
    yield parse(f"insert {name}", f"INSERT INTO {name} ({columns}) VALUES ({values})")
    yield parse(f"any {name}", f"SELECT 1 AS one FROM {name} LIMIT 1")
    yield parse(f"empty {name}", f"DELETE FROM {name}")


def count_of(reads: Reads, table: Table) -> int:
    """Return how many rows a table has."""
    row = reads.row(f"count {table.name}")
    return int(row["n"]) if row else 0


def last_key(reads: Reads, table: Table) -> Row | None:
    """Return the key of a table's last row."""
    return reads.row(f"last {table.name}")


def batches(reads: Reads, table: Table, after: Row | None = None) -> Iterator[tuple[Row, Row, list[Row]]]:
    """Yield a table's rows above a key: the key before each batch, its last key, and the rows."""
    place: Row = after or _first(table)
    while True:
        keys = reads.rows(f"keys {table.name}", **_named("after", table, place), limit=BATCH_ROWS)
        if not keys:
            return
        upto = _within(keys)
        yield place, upto, between(reads, table, place, upto)
        place = upto


def between(reads: Reads, table: Table, after: Row, upto: Row) -> list[Row]:
    """Return a table's rows above one key and up to another."""
    return reads.rows(f"rows {table.name}", **_named("after", table, after), **_named("upto", table, upto))


def _within(keys: list[Row]) -> Row:
    """Return the last key of those that go into one batch."""
    total, last = 0, keys[0]
    for key in keys:
        total += key["size"]
        if total > BATCH_BYTES and key is not keys[0]:
            break
        last = key
    return last


def _first(table: Table) -> dict[str, Any]:
    kinds = dict(zip(table.columns, table.types, strict=True))
    return {column: "" if kinds[column] == "TEXT" else _LOWEST for column in table.key}


def _named(prefix: str, table: Table, key: Row) -> dict[str, Any]:
    return {f"{prefix}_{column}": key[column] for column in table.key}
