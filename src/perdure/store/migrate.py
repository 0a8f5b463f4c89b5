"""Bring a database's tables to this release's. Forward only; each step commits together with the record of it.

Files are `migrations/NNNN_name.sql`, never changed once released: their checksums are stored. In them
`{check:column:Enum}` becomes the CHECK of a column by `core/states.py` (a state added later needs a migration that
widens it), and `{narrow}` becomes WITHOUT ROWID on SQLite. What stands between `{postgres}` or `{sqlite}` and
`{end}` is done there alone, and `{then}` is a semicolon inside a statement. On PostgreSQL text sorts by bytes, as it
does on SQLite, whatever the database's locale. What SQL cannot say of rows that are there is in backfill.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from perdure.core import states
from perdure.core.ports import Random
from perdure.errors import InternalError, StoreFailed, UserError
from perdure.store import aside, backfill
from perdure.store.protocol import Row
from perdure.store.sql_store import statements

MIGRATIONS = Path(__file__).parent / "migrations"

META_KEYS = {"owner_epoch": "0", "clock_ms": "0", "log_mark": "0", "log_after": "0"}
"""What `meta` starts with, beside `store_id` and `token_key`: see ownership.py, clock.py and sqlite_remains.py."""

_FOUNDATION = """
CREATE TABLE IF NOT EXISTS meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    perdure TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Session(Protocol):
    """What a database offers to migrations."""

    dialect: str
    where: str
    """The database, as an error names it; no password."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Open a transaction that no other process's migration can be in at the same time."""
        ...

    def execute(self, sql: str, **params: Any) -> list[Row]:
        """Run one statement with `:name` parameters and return its rows."""
        ...


@cache
def load_migrations(folder: Path = MIGRATIONS) -> tuple[Migration, ...]:
    """Return the steps of this release in order, numbered from 1 without gaps."""
    found = [
        Migration(int(path.name[:4]), path.stem, path.read_text(encoding="utf-8").replace("\r\n", "\n"))
        for path in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    ]
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise InternalError(f"{folder.name}/ must be numbered 0001, 0002, ... without gaps", code="bad_sql")
    return tuple(found)


def migrate(
    session: Session, random: Random, steps: Sequence[Migration] | None = None, *, even_aside: bool = False
) -> dict[str, str]:
    """Apply what is missing and return the contents of `meta`.

    Safe to run from several processes at once and to kill anywhere: the next run goes on where it stopped. Raises
    UserError (`store_newer`) for a database that a later release has been at, and StoreFailed (`store_corrupt`) for one
    whose steps were not these, or whose `meta` was damaged. One that is not to be run on is refused (`store_aside`, see
    aside.py) unless `even_aside`.
    """
    steps = load_migrations() if steps is None else steps
    with session.exclusive():
        for statement in _statements(_FOUNDATION, session.dialect):
            session.execute(statement)
        if not even_aside:
            _refuse_aside(session)
        done = _applied(session, steps)
        if done < len(steps):  # else it is all there, or was lost: nothing new may take its place unnoticed
            _fill_meta(session, random)
    for step in steps[done:]:
        with session.exclusive():
            if step.number > _applied(session, steps):  # else another process was faster
                _apply(session, step)
    with session.exclusive():
        meta = {row["key"]: row["value"] for row in session.execute("SELECT key, value FROM meta")}
    _check(meta, session.where)
    return meta


def _check(meta: Mapping[str, str], where: str) -> None:
    try:
        bytes.fromhex(meta["token_key"])
        for key in META_KEYS:
            int(meta[key])
        if not meta["store_id"]:
            raise ValueError("no store_id")
    except (KeyError, ValueError) as error:
        raise StoreFailed(
            f"{where}: its table meta is not what was written ({error}). It was damaged, or altered by another "
            "program: restore it from a backup.",
            code="store_corrupt",
        ) from None


def _refuse_aside(session: Session) -> None:
    for row in session.execute("SELECT value FROM meta WHERE key = :key", key=aside.KEY):
        aside.refuse_aside(row["value"], session.where)


def _fill_meta(session: Session, random: Random) -> None:
    made = {"store_id": f"sto_{random.token(16).hex()}", "token_key": random.token(32).hex()}
    for key, value in {**made, **META_KEYS}.items():
        session.execute(
            "INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING", key=key, value=value
        )


def _applied(session: Session, steps: Sequence[Migration]) -> int:
    """Return the number of the last step that was applied, having compared all of them with ours."""
    rows = session.execute("SELECT number, name, checksum, perdure FROM migrations ORDER BY number")
    check_steps(session.where, rows, steps)
    return len(rows)


def check_steps(where: str, rows: Sequence[Row], steps: Sequence[Migration]) -> None:
    """Raise what `migrate` raises if the steps that a database has had, in order, are not the first of ours."""
    for step, row in zip(steps, rows, strict=False):
        if (row["number"], row["checksum"]) != (step.number, step.checksum):
            raise StoreFailed(
                f"{where}: step {row['number']} ({row['name']}, by perdure {row['perdure']}) is not the one "
                f"that perdure {version()} knows as {step.name}. The database or this installation was altered: "
                "reinstall perdure, or restore the database from a backup.",
                code="store_corrupt",
            )
    if len(rows) > len(steps):
        newest = rows[-1]
        raise UserError(
            f"{where} was written by perdure {newest['perdure']} (step {newest['number']}, {newest['name']}); "
            f"this is perdure {version()}, which knows steps up to {len(steps)}. Upgrade perdure to "
            f"{newest['perdure']} or later; nothing was changed.",
            code="store_newer",
            written_by=newest["perdure"],
        )


def _apply(session: Session, step: Migration) -> None:
    for statement in _statements(step.text, session.dialect):
        session.execute(statement)
    if fill := backfill.AFTER.get(step.name):
        fill(session)
    session.execute(
        "INSERT INTO migrations (number, name, checksum, perdure) VALUES (:number, :name, :checksum, :perdure)",
        number=step.number,
        name=step.name,
        checksum=step.checksum,
        perdure=version(),
    )


def every_statement(dialect: str) -> Iterator[str]:
    """Yield all that this release does to a new database, in order."""
    for text in (_FOUNDATION, *(step.text for step in load_migrations())):
        yield from _statements(text, dialect)


@cache
def _statements(text: str, dialect: str) -> tuple[str, ...]:
    return tuple(one.replace("{then}", ";") for one in statements(_rendered(text, dialect)))


def _rendered(text: str, dialect: str) -> str:
    """Fill in what differs between databases and what comes from the state tables."""
    text = re.sub(r"\{check:(\w+):(\w+)\}", lambda m: states.check_clause(m[1], getattr(states, m[2])), text)
    text = text.replace("{narrow}", "WITHOUT ROWID" if dialect == "sqlite" else "")
    for one in ("postgres", "sqlite"):
        text = re.sub(rf"\{{{one}\}}(.*?)\{{end\}}", r"\1" if dialect == one else "", text, flags=re.DOTALL)
    return re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', text) if dialect == "postgres" else text


@cache
def version() -> str:
    """Return this release's version, as databases remember who wrote them."""
    try:
        return metadata.version("perdure")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unreleased"
