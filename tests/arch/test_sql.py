"""One SQL text for both databases. Decisions are Python; SQL reads, guards and writes; an override says why."""

from __future__ import annotations

import re

import pytest

import source_tree
from source_tree import fail_on

MOST_OVERRIDES = 12
REASON = "-- differs because:"

FORBIDDEN: dict[str, str] = {
    r"\bnow\s*\(": "time is a parameter, read once when the transaction begins",
    r"\bCURRENT_(?!SETTING\b)\w+": "time is a parameter, read once when the transaction begins",
    r"\b(?:clock|statement|transaction)_timestamp\b": "time is a parameter, read once when the transaction begins",
    r"\b(?:strftime|julianday|unixepoch)\s*\(": "time is a parameter, read once when the transaction begins",
    r"\brandom\b|\bgen_random_uuid\b|\brandomblob\b": "chance comes from the Random port",
    r"::": "write CAST(:x AS TYPE): a colon begins a parameter",
    r"\bjsonb?\b|->>?": "payloads are opaque text: databases' own JSON refuses or rewrites what models produce",
    r"\bCASE\b": "a branch is a decision, and decisions are Python",
}


def code(text: str) -> str:
    """Return SQL without comments and without what stands in quotes."""
    return re.sub(r"--.*|'(?:[^']|'')*'", " ", text)


def test_sql_holds_no_decision_and_reads_no_clock() -> None:
    fail_on(
        f"{path}: {match[0]}: {why}"
        for path, text in source_tree.sql_files()
        for pattern, why in FORBIDDEN.items()
        for match in re.finditer(pattern, code(text), re.IGNORECASE)
    )


OUTSIDE: dict[str, str] = {
    "ledger.py": "it writes into its callers' own databases, over their own connections",
    "store/backfill.py": "what a migration did stays as it was, whatever queries are called later",
    "store/migrate.py": "it runs before there is a schema that queries could name",
    "store/postgres_link.py": "the clock, read once when a transaction begins",
    "store/sqlite_copy.py": "a copy is marked before it is a store that queries could be asked of",
    "store/sqlite_link.py": "what a file holds is looked at before it is taken for a store",
    "store/sqlite_log.py": "the marks by which a file knows its log, for which PostgreSQL has no use",
    "store/sqlite_remains.py": "what a file holds is looked at before it is taken for a store",
    "store/sqlite_schema.py": "the tables as SQLite itself describes them",
    "upkeep/tables.py": "it moves and counts every table there is, by the columns that the migrations give it",
    "store/sqlite.py": "a file's owner, epoch and clock: what PostgreSQL has of its own",
}
"""Files with statements in Python, and why."""


def test_sql_is_in_files() -> None:
    """A statement inside Python escapes these rules. The store's own few (PRAGMA, BEGIN, SET) are no queries."""
    statement = re.compile(r"^\s*(?:SELECT\b.+\bFROM|INSERT\s+INTO|UPDATE\b.+\bSET|DELETE\s+FROM)\b", re.DOTALL)
    fail_on(
        f"{module.path}:{number}: SQL in Python; move it to store/sql/*.sql: {line.strip()[:80]}"
        for module in source_tree.library()
        if module.name and module.inner not in OUTSIDE and not module.inner.startswith("testing/")
        for number, line in enumerate(module.text.splitlines(), 1)
        if (quoted := re.search(r"[\"'](.+)[\"']", line)) and statement.match(quoted[1])
    )


def test_overrides_are_few_and_say_why() -> None:
    overrides = [(path, text) for path, text in source_tree.sql_files() if "/overrides/" in path]
    heads = [
        (path, name, body)
        for path, text in overrides
        for name, body in re.findall(r"-- name: (\w+)[^\n]*\n([^\n]*)", text)
    ]
    fail_on(f"{path}: {name} has to open with `{REASON}`" for path, name, body in heads if not body.startswith(REASON))
    counts = {path: sum(1 for head in heads if head[0] == path) for path, _ in overrides}
    if max(counts.values(), default=0) > MOST_OVERRIDES:
        pytest.fail(f"at most {MOST_OVERRIDES} overrides a database: {counts}", pytrace=False)
