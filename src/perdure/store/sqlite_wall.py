"""The second wall in a SQLite file: each connection of a store sees, of rooms, what the company has that it speaks for.

The names of the tables are, for every query, those of temporary views, which filter; temporary triggers judge what is
written. The rules are those of the migrations, from 0012_wall.sql on. What this stops, and what not, is told in
docs/decisions/0015-the-second-wall.md.
"""

from __future__ import annotations

import re
import sqlite3
from typing import NamedTuple

from perdure.store.protocol import EVERY_COMPANY

_ME = "perdure_company()"
_ALL = f"{_ME} = '{EVERY_COMPANY}'"


def _seat(room: str, more: str = "") -> str:
    """Return the condition that a room is there for the company."""
    return f"EXISTS (SELECT 1 FROM main.room_seats s WHERE s.room = {room} AND s.company = {_ME}{more})"


class _Rules(NamedTuple):
    """What a company may do with the rows of one table; `t` is the row. Whatever has no rule is nobody's right."""

    seen: str
    made: str
    changed: str = ""
    removed: str = ""


_SEEN = _seat("t.room")
_OWN = _seat("t.room", " AND s.company = t.company")
_HOSTS = _seat("t.room", " AND s.company IN (s.host, t.company)")
_HOST = _seat("t.room", " AND s.company = s.host")
_MINE = f"t.company = {_ME}"
_READERS = "main.room_readers r WHERE r.room = t.room AND r.line = t.id AND r.owner = t.company"

_FOUND = f"(t.reader IN ('*', {_ME}) AND {_SEEN})"

RULES = {
    "rooms": _Rules(f"(t.company = {_ME} OR {_seat('t.id')})", f"t.company = {_ME}"),
    "room_seats": _Rules(
        f"{_ME} IN (t.company, t.host)",
        f"t.host = {_ME} AND EXISTS (SELECT 1 FROM main.rooms r WHERE r.id = t.room AND r.company = t.host)",
        removed=f"{_ME} IN (t.company, t.host)",
    ),
    "room_members": _Rules(_SEEN, _HOSTS, changed=_HOSTS),
    "room_messages": _Rules(_SEEN, _OWN),
    "room_tasks": _Rules(_SEEN, _OWN, changed=_seat("t.room", " AND s.company IN (t.company, t.to_company)")),
    "room_memory": _Rules(
        f"{_SEEN} AND (t.company = {_ME} OR EXISTS (SELECT 1 FROM {_READERS} AND r.company IN ('*', {_ME})))", _OWN
    ),
    "room_readers": _Rules(_SEEN, _seat("t.room", " AND s.company = t.owner")),
    "room_wakes": _Rules(_SEEN, _SEEN),
    "room_files": _Rules(_SEEN, _OWN),
    "room_chunks": _Rules(_SEEN, _OWN, removed=f"t.company = {_ME}"),
    "room_passages": _Rules(_SEEN, _OWN),
    "room_entries": _Rules(_FOUND, _OWN, removed=f"{_MINE} AND t.kind = 'file'"),
    "room_rights": _Rules(_OWN, _OWN, changed=_OWN),
    "room_refusals": _Rules(_OWN, _OWN),
    "room_stops": _Rules(
        _SEEN,
        _seat("t.room", " AND s.company = t.by_company AND s.company IN (s.host, t.company)"),
        removed=_HOSTS,
    ),
    "room_halted": _Rules(f"({_MINE} OR {_HOST})", "", removed=f"({_MINE} OR {_HOST})"),
    "room_budgets": _Rules(_MINE, _MINE, changed=_MINE, removed=_MINE),
    "room_spending": _Rules(_MINE, _MINE, changed=_MINE, removed=_MINE),
    "room_reservations": _Rules(_MINE, _MINE, changed=_MINE, removed=_MINE),
}
"""Every table of rooms, and what a company may do with its rows."""

_WORDS = f"""CREATE TEMP VIEW room_words AS SELECT t.*, w.room_words AS terms
FROM main.room_words w CROSS JOIN main.room_entries t ON t.number = w.rowid WHERE {_ALL} OR {_FOUND}"""
"""The index of words, as entries that it leads to. It is asked with MATCH alone, and nothing writes to it by name."""

_TARGET = re.compile(rf"^(INSERT INTO|UPDATE|DELETE FROM)\s+({'|'.join(RULES)})\b", re.IGNORECASE)


def behind(sql: str) -> str:
    """Return a statement that writes such that it writes to the table behind a view. All that it reads are views."""
    return _TARGET.sub(r"\1 main.\2", sql)


class Speaker:
    """For whom a connection speaks. On its own, so that the connection's function does not hold the connection.

    It never changes while a statement runs: `SqliteLink` runs each one to its end, within one call of the thread that
    has the connection, and is told between two of them who speaks next.
    """

    __slots__ = ("company",)

    def __init__(self) -> None:
        self.company = ""


def raise_wall(database: sqlite3.Connection, speaker: Speaker) -> None:
    """Put the wall into an open connection. Its store has had all migrations."""
    # `deterministic` holds within one run of one statement: SQLite asks once in each run, and not for every row. A
    # statement that is kept and run again, for another company, asks again; so does each row that a trigger judges.
    database.create_function("perdure_company", 0, lambda: speaker.company, deterministic=True)
    for table, rules in RULES.items():
        for statement in _statements(table, rules):
            database.execute(statement)
    database.execute(_WORDS)


def _statements(table: str, rules: _Rules) -> list[str]:
    wall = f"CREATE TEMP TRIGGER wall_{table}"
    refuse, skip = "SELECT RAISE(ABORT, 'the wall between companies')", "SELECT RAISE(IGNORE)"
    made, changed, removed = _of(rules.made, "NEW"), _of(rules.changed, "OLD"), _of(rules.removed, "OLD")
    return [
        f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} t WHERE {_ALL} OR ({rules.seen})",
        f"{wall}_made BEFORE INSERT ON main.{table} WHEN NOT ({made}) BEGIN {refuse}; END",
        # As on PostgreSQL: to a statement, what one may not change is not there.
        f"{wall}_changed BEFORE UPDATE ON main.{table} WHEN NOT ({changed}) BEGIN {skip}; END",
        f"{wall}_removed BEFORE DELETE ON main.{table} WHEN NOT ({removed}) BEGIN {skip}; END",
    ]


def _of(rule: str, row: str) -> str:
    about = re.sub(r"\bt\.", f"{row}.", rule)
    return f"{_ALL} OR ({about})" if rule else _ALL
