"""What a store's file says, read without the store: is it whole, do its logs' chains hold, is what was told in it.

Opens the file with plain SQLite, which replays its log as a first reader would; so only a copy is looked at, or what
nobody uses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perdure.core.chain import Follower, Link
from perdure.testing.evidence import Entry

AT_MOST_ONCE = frozenset({"run_premium_skill", "file_ticket"})
"""Tools of `crash_agent` whose claim is on the disk before their body starts."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the outside knows for certain by now."""

    executions: frozenset[str] = frozenset()
    """That were accepted."""
    events: frozenset[tuple[str, int, str]] = frozenset()
    """That were shown: execution, `seq`, kind."""
    begun: frozenset[tuple[str, str]] = frozenset()
    """Steps of which the world has seen the body, and which begin before it."""


def claims(entries: Iterable[Entry]) -> frozenset[tuple[str, str]]:
    """Return the steps whose claims have to be in the store, by what the world has seen."""
    seen = [one for one in entries if one.name in AT_MOST_ONCE and one.effect]
    return frozenset((one.execution or "", one.step or "") for one in seen)


def examine(file: Path, told: Told) -> list[str]:
    """Return what is wrong with the store in `file`."""
    if not file.exists():
        return ["P9: the store is gone"] if told != Told() else []
    try:
        with closing(sqlite3.connect(file)) as database:
            return _examine(database, told)
    except sqlite3.Error as error:
        return [f"I15: the store cannot be read: {error}"]


def _examine(database: sqlite3.Connection, told: Told) -> list[str]:
    problems: list[str] = []
    whole = database.execute("PRAGMA integrity_check").fetchall()
    if whole != [("ok",)]:
        problems.append(f"I15: integrity_check says {whole[:3]}")
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchall():
        return [*problems, "P9: the tables are gone"] if told != Told() else problems
    events = database.execute("SELECT execution, seq, kind, address FROM events").fetchall()
    executions = {one for (one,) in database.execute("SELECT id FROM executions")}
    problems += [f"P9: accepted execution {one} is gone" for one in told.executions - executions]
    problems += [f"P9: event {one} was shown and is gone" for one in told.events - {row[:3] for row in events}]
    begun = {(execution, address) for execution, _, kind, address in events if kind == "task_begun"}
    problems += [f"P3: the claim of {one} is gone" for one in told.begun - begun]
    return problems + [f"P8: {why}" for execution in sorted(executions) for why in _chain(database, execution)]


def _chain(database: sqlite3.Connection, execution: str) -> list[str]:
    """Follow one log, and the evidence behind it, as `perdure effects verify` does."""
    follower = Follower(execution)
    found_rows = 0
    rows = "SELECT seq, kind, address, {digest}, data, at_ms, hash FROM {table} WHERE execution = ? ORDER BY seq"
    for table, digest in (("events", "digest"), ("evidence", "''")):
        links = [Link(*row) for row in database.execute(rows.format(table=table, digest=digest), (execution,))]
        follower.take(links)
        found_rows += len(links)
    ((chain, next_seq),) = database.execute("SELECT chain, next_seq FROM executions WHERE id = ?", (execution,))
    found = follower.end(chain, found_rows)
    wrong = [f"{execution}: {found.why}"] if found.broken_at is not None else []
    if found_rows < next_seq - 1:
        wrong.append(f"{execution}: {found_rows} rows of a log that goes to {next_seq - 1}")
    return wrong
