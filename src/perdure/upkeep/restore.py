"""Make a store of a backup, or go on with one that was brought back to an older state by other means.

What happened after that state is forgotten here and stays done outside, so nothing goes on by itself: see
`engine/set_back.py`. Until all of it is paused the store carries a mark, and no server runs on it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perdure import failpoints
from perdure.engine.set_back import SetBack, pause_schedules, set_back
from perdure.errors import Conflict, InvalidInput, StoreFailed
from perdure.lasting import sync_names
from perdure.store import aside, place
from perdure.store.migrate import migrate
from perdure.store.protocol import Ref, Store
from perdure.store.sql_store import load_queries
from perdure.store.sqlite import open_sqlite
from perdure.store.writer import InlineWriter
from perdure.system import SystemClock, SystemRandom
from perdure.upkeep.backup import beside, clear, copy_file
from perdure.upkeep.checking import check_store
from perdure.upkeep.place import existing_file, is_address, owned_for, postgres_link, take, view

PAGE = 200
"""Executions that are paused in one commit."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    store: str
    backup: str
    """Empty if it was done in place."""
    kept: str
    """The file that was there before, now under this name; empty if there was none."""
    paused: int
    cancelled: int
    """Executions that were being cancelled: without the rest of their cleanup."""
    uncertain: int
    """Acts at most once that may have happened since."""
    schedules: int


def restore(
    backup: str | os.PathLike[str], where: str | os.PathLike[str], *, force: bool = False, by: str = ""
) -> Restored:
    """Put a backup in a store's place, all that goes on in it paused.

    What was there is kept beside it as `NAME.replaced-N`, its log too. Killed anywhere, the old store is there, or the
    new one, or neither under its name and the next call completes it. Raises InvalidInput (`not_sqlite`, and as `view`
    for the backup), StoreInUse while anybody owns the store, Conflict (`store_exists`) without `force`, StoreFailed
    (`backup_damaged`, `restore_unfinished`).
    """
    if is_address(where):
        raise InvalidInput(
            "a PostgreSQL store is restored with PostgreSQL's own tools (pg_restore, a base backup). Do that before "
            "any server runs on it, then `perdure db restore --in-place`.",
            code="not_sqlite",
        )
    source, target = existing_file(backup, "backup"), Path(os.path.realpath(where))
    if source == target:
        raise InvalidInput(
            f"store {target}: it is the backup itself. --in-place makes a store of it.", code="same_file"
        )
    _refuse_damaged(source)
    _refuse_existing(target, force=force)
    ownership = take(target)
    try:
        if not target.stat().st_size:
            target.unlink()  # made by whoever asks for the lock
        return _replace(source, target, force=force, by=by)
    finally:
        ownership.release()


def restore_in_place(where: str | os.PathLike[str], *, by: str = "") -> Restored:
    """Pause all that goes on in a store that was brought back to an older state, or in a backup to be run on.

    Safe to kill and to repeat. Raises StoreInUse while anybody owns a file; nobody may run on a PostgreSQL database.
    Raises UserError (`store_aside`) for half a copy, and what `view` raises.
    """
    with view(where) as found:
        found.steps()
        mark, shown = found.mark(), found.where
    if mark.partition(" ")[0] == aside.COPYING:
        aside.refuse_aside(mark, shown)
    if is_address(where):
        with _database(str(where)) as store:
            return _set_back(store, shown, by=by)
    ownership = owned_for(existing_file(where))
    try:
        store = open_sqlite(ownership.place, clock=SystemClock(), random=SystemRandom(), even_aside=True)
        try:
            return _set_back(store, shown, by=by)
        finally:
            store.close()
    finally:
        ownership.release()


def _replace(source: Path, target: Path, *, force: bool, by: str) -> Restored:
    part = target.with_name(f".{target.name}.restoring")
    clear(part)  # of a call that was killed; nobody else has the lock
    try:
        return _swap(source, part, target, force=force, by=by)
    finally:
        clear(part)


def _swap(source: Path, part: Path, target: Path, *, force: bool, by: str) -> Restored:
    with view(source) as found:
        mark = _restoring(found.mark())
    copy_file(source, part, mark=mark, shown=target)
    store = open_sqlite(part, clock=SystemClock(), random=SystemRandom(), even_aside=True)
    try:
        done = _set_back(store, f"store {target}", by=by)
    finally:
        store.close()
    report = check_store(part)
    if not report.ok:
        raise StoreFailed(f"backup {source}: {report.problems[0].what}; nothing was changed.", code="backup_damaged")
    _refuse_unfinished(part, target)
    _refuse_existing(target, force=force)
    failpoints.hit("restore.before_swap")
    kept = _put_away(target)
    failpoints.hit("restore.put_away")
    for left in beside(part):
        left.unlink(missing_ok=True)  # closed and emptied
    os.rename(part, target)
    sync_names(target.parent)
    return Restored(done.store, str(source), kept, done.paused, done.cancelled, done.uncertain, done.schedules)


def _refuse_unfinished(part: Path, target: Path) -> None:
    """Raise StoreFailed if part of what was restored is still in the log beside its file, which goes."""
    log, *_ = beside(part)
    if log.exists() and log.stat().st_size:
        raise StoreFailed(
            f"store {target}: not all that was restored got into its file: the disk is full, or another program has "
            f"{part.name} open. Nothing was changed; mend that, and restore again.",
            code="restore_unfinished",
        )


def _set_back(store: Store, shown: str, *, by: str) -> Restored:
    writer = InlineWriter(store)
    with store.write() as connection:
        row = connection.row("meta_value", key=aside.KEY)
        mark = _restoring(row["value"] if row else "")
        connection.run("set_meta", key=aside.KEY, value=mark)
    why = _why(mark)
    schedules = writer.call(pause_schedules, None)
    paused = cancelled = uncertain = 0
    after: Ref | None = Ref(-1, "")
    while after is not None:
        failpoints.hit("restore.page")
        page = writer.call(set_back, SetBack(after, PAGE, by, why))
        paused, cancelled, uncertain = paused + page.paused, cancelled + page.cancelled, uncertain + page.uncertain
        after = page.last
    with store.write() as connection:
        connection.run("delete_meta", key=aside.KEY)
    return Restored(shown, "", "", paused, cancelled, uncertain, schedules)


def _restoring(mark: str) -> str:
    """Return the mark of a store that is being restored; it goes on telling when the backup was made."""
    kind, _, made = mark.partition(" ")
    known = kind in (aside.BACKUP, aside.RESTORING) and made.isdecimal()
    return f"{aside.RESTORING} {made}" if known else aside.RESTORING


def _why(mark: str) -> str:
    made = mark.partition(" ")[2]
    when = f" of {datetime.fromtimestamp(int(made) / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if made else ""
    return (
        f"the store was restored to its state{when}: what happened since is forgotten here, and what was done outside "
        "stays done. Look there before you resume it."
    )


def _refuse_damaged(source: Path) -> None:
    report = check_store(source, logs=False)
    old = [one for one in report.problems if one.table != "migrations"]  # an older release's is brought up to date
    if old:
        raise StoreFailed(
            f"backup {source}: {old[0].table} {old[0].row} {old[0].what}. Nothing was changed; use another backup.",
            code="backup_damaged",
        )


def _refuse_existing(target: Path, *, force: bool) -> None:
    place.refuse_network(target)
    if target.exists() and target.stat().st_size and not force:
        raise Conflict(
            f"store {target}: there is one already. --force puts it aside, under another name, and the backup in its "
            "place.",
            code="store_exists",
        )


def _put_away(target: Path) -> str:
    """Give the store that was there, and its log, another name. Its shared memory goes: it is made anew.

    The log goes first: should we be killed in between, a file without its log is refused by whoever opens the store,
    and the next call brings the two together again.
    """
    there = [one for one in (*beside(target), target) if one.exists()]
    if not there:
        return ""
    number = 1
    while (kept := target.with_name(f"{target.name}.replaced-{number}")).exists():
        number += 1
    for one in there:
        if one.name.endswith("-shm"):
            one.unlink()
        else:
            os.rename(one, kept.with_name(kept.name + one.name.removeprefix(target.name)))
    sync_names(target.parent)
    return str(kept)


@contextmanager
def _database(address: str) -> Generator[Store]:
    with postgres_link(address, {}, writes=True) as link:
        from perdure.store import postgres  # noqa: PLC0415 - psycopg is an extra
        from perdure.store import postgres_link as links  # noqa: PLC0415 - likewise

        meta = migrate(links.Session(link), SystemRandom(), even_aside=True)
        texts = links.prepare(load_queries("postgres"))
        store = postgres.PostgresStore(links.Address(address), texts, link, meta)
        try:
            yield store
        finally:
            store.close()
