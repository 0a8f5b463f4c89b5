"""Bring a store to this release's tables, and say from where to where. Starts nothing on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InvalidInput, StoreInUse
from perdure.store import sqlite
from perdure.store.migrate import load_migrations, migrate
from perdure.store.sqlite_link import open_link
from perdure.store.sqlite_log import begin_anew
from perdure.system import SystemRandom
from perdure.upkeep.place import existing_file, is_address, owned_for, postgres_link, view


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did."""

    store: str
    before: int
    """The last step that it had had; 0 for a database with nothing of ours."""
    after: int
    steps: tuple[str, ...]
    """The names of those that were applied now."""


def migrate_store(where: str | os.PathLike[str]) -> Migrated:
    """Apply the steps that are missing. Safe to run twice, to kill, and from several processes at once.

    A SQLite file has to be nobody's: raises StoreInUse, which names its owner, unless there is nothing to do. An empty
    PostgreSQL database becomes a store, and servers may run on it. Raises what `view` and `migrate` raise.
    """
    return _in_database(str(where)) if is_address(where) else _in_file(existing_file(where))


def _in_file(file: Path) -> Migrated:
    before = _steps_of(file)
    try:
        ownership = owned_for(file)
    except StoreInUse:
        if before == len(load_migrations()):
            return Migrated(f"store {file}", before, before, ())
        raise
    try:
        before = _steps_of(file)
        link = open_link(ownership.place, {}, writes=True)
        try:
            begin_anew(link)  # else closing it could take away a log that the file needs
            migrate(sqlite.Session(link), SystemRandom(), even_aside=True)
        finally:
            link.close()
    finally:
        ownership.release()
    return _migrated(f"store {file}", before)


def _in_database(address: str) -> Migrated:
    from perdure.store.postgres_link import Session  # noqa: PLC0415 - psycopg is an extra

    before = _steps_of(address)
    with postgres_link(address, {}, writes=True) as link:
        migrate(Session(link), SystemRandom(), even_aside=True)
        return _migrated(link.address.shown, before)


def _migrated(shown: str, before: int) -> Migrated:
    steps = load_migrations()
    return Migrated(shown, before, len(steps), tuple(step.name for step in steps[before:]))


def _steps_of(where: str | Path) -> int:
    try:
        with view(where) as found:
            return len(found.steps())
    except InvalidInput as error:
        if error.code == "store_empty" and is_address(where):
            return 0
        raise
