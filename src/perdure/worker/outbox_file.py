"""A file of results that are not answered yet: its lines, its lock, its end. Decides nothing and speaks to nobody.

One per worker, private to the user, locked for the worker's life: the lock's end proves its death. Beside the files of
all workers lies one with the results that were refused.

A record is one line: checksum, length, JSON. So a torn tail, and a hole after a full disk, are recognised and skipped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import orjson

from perdure import failpoints, file_lock
from perdure.core.work import Answer, Report
from perdure.errors import PerdureError
from perdure.lasting import make_folder, sync_names
from perdure.wire import codec, strict
from perdure.wire.worker_lock import SUFFIX

EVIDENCE = "refused.jsonl"
DAMAGED = ".damaged"
"""Ends the name of a file in which something could not be read, and all else was told."""
EVIDENCE_BYTES = 16 * 1024 * 1024
"""Of refused results that are kept; then the file is put aside once, in place of the one before."""

Key = tuple[str, str, int]
"""Execution, address and fence: one attempt."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A result as it lies on the disk."""

    queues: str
    """Whose it is: the store and the company, by their ids. Nobody else is told."""
    worker: str
    report: Report
    nonce: str = ""
    """Of the `begin` that made the claim, if there was one."""

    @property
    def key(self) -> Key:
        """Which attempt it is about. A second record on the same one replaces the first."""
        return self.report.execution, self.report.address, self.report.fence


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds."""

    open: tuple[Kept, ...]
    """Not answered yet, in order."""
    torn: int
    """Lines that are no whole record: writes that a crash or a full disk cut off. None of them was ever relied on. Or
    what was whole once was altered."""
    strange: int
    """Whole records that this version does not understand: another one wrote them."""


class OutboxFile:
    """One file, locked until `close`. Safe from any thread; writes are whole or not there."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._lock = threading.Lock()
        """Guards the descriptor: a write under way must not meet another file under its number."""
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def create(cls, folder: Path, worker: str) -> Self:
        """Make a worker's own file, in a folder made private. Raises `OSError`."""
        make_folder(folder)
        path = folder / (worker + SUFFIX)
        descriptor = file_lock.take_at(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if descriptor is None:
            raise BlockingIOError(f"{path} is locked by another process")
        sync_names(folder)
        return cls(path, descriptor)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Take the file of a dead worker, or None if its worker lives, it is being read, or it is gone."""
        try:
            descriptor = file_lock.take_at(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0)
        except OSError:
            return None
        if descriptor is None:
            return None
        if not _is_at(path, descriptor):  # its heir removed it between our opening and our locking
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def append(self, records: Iterable[bytes], *, sync: bool) -> None:
        """Add records, all or none. With `sync` they survive a power cut when this returns. Raises `OSError`."""
        data = b"".join(records)
        with self._lock:
            if self._descriptor is None:
                return
            end = os.fstat(self._descriptor).st_size
            try:
                _write_all(self._descriptor, data, end)
                if sync:
                    failpoints.hit("outbox.before_sync")
                    os.fsync(self._descriptor)
                    failpoints.hit("outbox.after_sync")
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, end)
                raise

    def read(self) -> Content:
        """Return what is not answered yet. Raises `OSError`."""
        return parse(self.path.read_bytes())

    def clear(self) -> None:
        """Forget everything: all of it was answered. Not synced: what comes back after a power cut is said again."""
        with self._lock:
            if self._descriptor is not None:
                os.ftruncate(self._descriptor, 0)

    def close(self, *, remove: bool) -> None:
        """Let go of it, and remove it if nothing is left to say. Safe to call twice."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        if descriptor is not None:
            if remove:  # before the lock goes: whoever waits for it sees that the file is gone
                self.path.unlink(missing_ok=True)
            os.close(descriptor)

    def put_aside(self) -> Path:
        """Give it another name, under which no worker looks at it again, and return that. Raises `OSError`."""
        aside = self.path.with_suffix(DAMAGED)
        self.path.replace(aside)
        return aside

    def forget(self) -> None:
        """In a forked child: close the descriptor alone, which takes nothing from the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def record_of(kept: Kept) -> bytes:
    """Return a result as a line."""
    return _line(codec.dump(_facts(kept)))


def mark_of(key: Key, answer: Answer) -> bytes:
    """Return the line that says that a result was answered."""
    return _line(codec.dump({"key": list(key), "answer": str(answer)}))


def parse(data: bytes) -> Content:
    """Return what a file's bytes hold. Never fails: what is not whole is counted and skipped."""
    kept: dict[Key, Kept] = {}
    torn = strange = 0
    for line in data.split(b"\n"):
        body = _body(line)
        if body is None:
            torn += bool(line)
            continue
        try:
            _take(kept, strict.parse(body, most=None))
        except (PerdureError, KeyError, TypeError, ValueError):
            strange += 1
    return Content(tuple(kept.values()), torn, strange)


def _take(kept: dict[Key, Kept], found: Any) -> None:
    if "key" in found:
        execution, address, fence = found["key"]
        kept.pop((execution, address, fence), None)
        return
    one = Kept(str(found["queues"]), str(found["worker"]), codec.read(Report, found["report"]), str(found["nonce"]))
    kept.pop(one.key, None)  # the later one counts, in its own place
    kept[one.key] = one


def keep_evidence(folder: Path, kept: Kept, answer: str, at_ms: int) -> None:
    """Write down a result that was refused, to last: its effect may have happened. Raises `OSError`."""
    path = folder / EVIDENCE
    fresh = not path.exists()
    line = codec.dump({"at_ms": at_ms, "answer": answer, **_facts(kept)}) + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # behind one that a crash or a full disk cut off
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if fresh:
        sync_names(folder)
    if size + len(line) > EVIDENCE_BYTES:
        path.replace(path.with_name("refused.old.jsonl"))


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that no store took, as it was written down."""

    at_ms: int
    answer: str
    execution: str
    address: str
    outcome: str
    worker: str


def refused(folder: Path, execution: str | None = None) -> list[Refused]:
    """Return the results that were refused, oldest first. Lines that cannot be read are left out."""
    found: list[Refused] = []
    try:
        lines = (folder / EVIDENCE).read_bytes().split(b"\n")
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            one = cast("dict[str, Any]", orjson.loads(line))
            report = cast("dict[str, Any]", one["report"])
            if execution in (None, report["execution"]):
                names = (report["execution"], report["address"], report["outcome"])
                found.append(Refused(one["at_ms"], one["answer"], *names, one["worker"]))
    return found


def _facts(kept: Kept) -> dict[str, Any]:
    return {"queues": kept.queues, "worker": kept.worker, "nonce": kept.nonce, "report": kept.report}


def _line(body: bytes) -> bytes:
    return b"%08x %d %s\n" % (zlib.crc32(body), len(body), body)


def _body(line: bytes) -> bytes | None:
    """Return the JSON of a whole line, or None for anything else."""
    check, _, rest = line.partition(b" ")
    length, _, body = rest.partition(b" ")
    if len(check) != 8 or length != b"%d" % len(body) or check != b"%08x" % zlib.crc32(body):
        return None
    return body


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, at)
        view, at = view[done:], at + done


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        there, ours = path.lstat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def paths_of(folder: Path) -> Sequence[Path]:
    """Return the files of all workers, dead or alive, oldest first: their names begin with the time."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError:
        return []


_held: set[OutboxFile] = set()


def _let_go_in_child() -> None:
    for file in list(_held):
        file.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
