"""One owner of a SQLite file: an operating system's lock, held for life, and a number that every commit is checked by.

The lock decides; what is written into the lock file only helps a second process to find the owner. Speaks to nobody:
whoever needs to ask an address brings the function that does.

Reading the hint opens and closes the locked file, which the lock survives (`file_lock`). Forked children close it at
once: a child that outlives the owner does not keep the store.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from perdure import file_lock
from perdure.core.ports import Clock, Random
from perdure.errors import InvalidInput, StoreFailed, StoreFull, StoreInUse
from perdure.store.place import FILE_MODE, prepare
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.sqlite_remains import refuse_damage
from perdure.store.tx import Tx

Ask = Callable[[str], str | None]
"""Ask the server at an address for its nonce; None if it does not answer in time."""

Kind = Literal["server", "runtime", "unknown"]
"""What the owner is: `perdure server`, or a program with an embedded runtime."""

MAX_HINT_BYTES = 4096
ATTEMPTS = 3
"""Owners that may follow each other while we look for one that answers."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What the owner of a store says of itself. May be stale, torn or a lie: only the lock and the nonce count."""

    nonce: str
    """The owner answers with it at `address`: proof that it is the one that wrote this."""
    pid: int
    """For people to read. Decides nothing."""
    address: str | None = None
    """Where it listens, if it does."""
    key: str | None = None
    """What opens its door there: whoever can read this can read the store too."""
    kind: Kind = "unknown"
    alone: bool = False
    """It will not listen: waiting for an address is of no use."""


class Ownership:
    """The right to open and write one SQLite file. Held until `release` or the end of the process, however it ends."""

    def __init__(self, place: Path, descriptor: int, nonce: str) -> None:
        self.place = place
        """The store's file, its links resolved."""
        self.nonce = nonce
        """Random: what the owner answers when it is asked who it is."""
        self._descriptor: int | None = descriptor
        self._hint = Hint(nonce, os.getpid())
        _held.add(self)

    @classmethod
    def acquire(
        cls,
        path: str | os.PathLike[str],
        *,
        random: Random,
        address: str | None = None,
        ask: Ask | None = None,
    ) -> Ownership:
        """Become the owner, or raise at once.

        Raises StoreInUse: `store_in_use`, with `pid` and `address` in its details as far as they are known, or, if the
        owner gave an address and does not answer there, `store_owner_not_answering`: a stopped owner keeps the store.
        Raises InvalidInput for a place where no store can be.
        """
        place = prepare(path)
        asked: Hint | None = None
        for _ in range(ATTEMPTS):
            descriptor = _lock(lock_file(place))
            if descriptor is not None:
                ownership = cls(place, descriptor, random.token(16).hex())
                try:
                    ownership.announce(address)
                except BaseException:
                    ownership.forget()
                    raise
                return ownership
            hint = read_hint(place)
            known = hint is not None and hint == asked
            if hint is None or hint.address is None or ask is None or not (known or ask(hint.address) != hint.nonce):
                raise _in_use(place, hint)
            if known:
                raise _not_answering(place, hint)
            asked = hint  # it may have been its predecessor's: look once more
        raise _in_use(place, asked)

    def announce(
        self, address: str | None, *, key: str | None = None, kind: Kind = "unknown", alone: bool = False
    ) -> None:
        """Write where this owner can be asked, for others to find. A key is only told in a file that is private.

        Raises StoreFull or StoreFailed, with the lock kept, if the disk does not take it.
        """
        if self._descriptor is None:
            return
        private = os.name != "posix" or not os.fstat(self._descriptor).st_mode & 0o077
        hint = Hint(self.nonce, os.getpid(), address, key if private else None, kind, alone)
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(asdict(hint)).encode(), 0)
        except OSError as error:
            raise _unwritten(self.place, error) from error

    def release(self) -> None:
        """Give the store up; its connections must be closed by now. Safe to call twice. The file stays."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self.forget()

    def forget(self) -> None:
        """Close the descriptor alone: in a forked child this takes nothing from the owner."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


@dataclass(frozen=True, slots=True)
class OwnedStore:
    """A store and the right to it."""

    store: SqliteStore
    ownership: Ownership

    def close(self) -> None:
        """Close the store, then give up the right. Safe to call twice."""
        self.store.close()
        self.ownership.release()


def open_owned(
    path: str | os.PathLike[str],
    *,
    clock: Clock,
    random: Random,
    address: str | None = None,
    ask: Ask | None = None,
    on_takeover: Callable[[Tx], None] | None = None,
) -> OwnedStore:
    """Own the file, open it, and begin a new ownership in its first transaction, with `on_takeover` in it.

    Raises what `Ownership.acquire` and `open_sqlite` raise; then nothing stays locked or open.
    """
    ownership = Ownership.acquire(path, random=random, address=address, ask=ask)
    try:
        refuse_damage(ownership.place)
        store = open_sqlite(ownership.place, clock=clock, random=random)
        try:
            store.take_over(on_takeover)
        except BaseException:
            store.close()
            raise
    except BaseException:
        ownership.release()
        raise
    return OwnedStore(store, ownership)


def _unwritten(place: Path, error: OSError) -> StoreFull | StoreFailed:
    what = f"file {lock_file(place)}: {(error.strerror or str(error)).lower()}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(f"{what}, where who opens a store says so. Free some space, and open it again.")
    return StoreFailed(
        f"{what}, where who opens a store says so: see the system's log, mend the disk, and start again."
    )


def lock_file(place: Path) -> Path:
    """Return the file that is locked for a store. It is never deleted: whoever deleted it could lock a second one."""
    return place.with_name(place.name + ".lock")


def read_hint(path: str | os.PathLike[str]) -> Hint | None:
    """Return what the owner of a store last said of itself; None if nothing, or nothing readable."""
    try:
        text = lock_file(Path(os.path.realpath(path))).read_bytes()[:MAX_HINT_BYTES]
        found = json.loads(text)
        nonce, pid, address, key = found["nonce"], found["pid"], found["address"], found.get("key")
        kind, alone = found.get("kind"), found.get("alone")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    texts = all(text is None or isinstance(text, str) for text in (address, key))
    if isinstance(nonce, str) and isinstance(pid, int) and texts:
        return Hint(nonce, pid, address, key, kind if kind in ("server", "runtime") else "unknown", alone is True)
    return None


def _lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock, or None if somebody else's does."""
    try:
        return file_lock.take_at(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise InvalidInput(
            f"store lock {path}: {(error.strerror or str(error)).lower()}. A file that this user may write is expected "
            "beside the store; mend its owner or mode.",
            code="store_unwritable",
        ) from None


def _in_use(place: Path, hint: Hint | None) -> StoreInUse:
    who = "another process"
    if hint:
        who = f"process {hint.pid}" + (f", listening at {hint.address}" if hint.address else "")
    return StoreInUse(
        f"store {place} is in use by {who}: one process at a time owns a SQLite file. Close that one, name another "
        "file, or run `perdure server` on it and let every process connect to that.",
        pid=hint.pid if hint else None,
        address=hint.address if hint else None,
        kind=hint.kind if hint else "unknown",
    )


def _not_answering(place: Path, hint: Hint) -> StoreInUse:
    return StoreInUse(
        f"store {place} is in use by process {hint.pid}, which does not answer at {hint.address}. It is stopped, or "
        f"hangs, and still owns the file, so nobody takes it over: continue it (kill -CONT {hint.pid}) or end it.",
        code="store_owner_not_answering",
        pid=hint.pid,
        address=hint.address,
    )


_held: set[Ownership] = set()
"""Keeps them alive too: an ownership nobody remembers is still held, for life."""


def _let_go_in_child() -> None:
    for ownership in list(_held):
        ownership.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
