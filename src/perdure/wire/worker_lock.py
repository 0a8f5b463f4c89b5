"""How a server on the same machine knows that a worker is dead, and does not only suspect it.

A worker keeps one file locked for life and says which, and on which boot of which machine. Whoever gets the lock has
the proof: a worker that is stopped, slow or cut off keeps it.
"""

from __future__ import annotations

import os
import stat
from enum import Enum
from functools import cache
from pathlib import Path

from perdure import file_lock
from perdure.core.work import WorkerInfo
from perdure.wire import state_file

SUFFIX = ".outbox"


class Fate(Enum):
    """What a look at a worker's lock tells."""

    UNKNOWN = "unknown"
    """It lives, or is on another machine, or somebody reads its file at this moment."""
    DEAD = "dead"
    """Nothing more will come from it."""
    BEQUEATHED = "bequeathed"
    """It is dead, and its file holds results that its successor may deliver."""


def look(info: WorkerInfo) -> Fate:
    """Return what is certain about a worker whose connection closed. Takes its lock for an instant; never waits."""
    path = Path(info.lock)
    if not info.lock or not info.machine or info.machine != machine() or path.name != info.worker + SUFFIX:
        return Fate.UNKNOWN
    try:
        if not _is_ours(path.lstat()):
            return Fate.UNKNOWN
        descriptor = file_lock.take_at(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0), 0)
    except OSError:
        return Fate.UNKNOWN
    if descriptor is None:
        return Fate.UNKNOWN
    try:
        return Fate.BEQUEATHED if os.fstat(descriptor).st_size else Fate.DEAD
    finally:
        os.close(descriptor)


def default_folder() -> Path:
    """Return where this user's workers keep their files: `$XDG_STATE_HOME/perdure/outbox`, by default below
    `~/.local/state`."""
    return state_file.home() / "outbox"


@cache
def machine() -> str:
    """Return which boot of which machine this is, or nothing where that cannot be told: locks reach no further."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    try:
        name = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        name = ""
    return f"{name}/{boot}"


def _is_ours(found: os.stat_result) -> bool:
    """Whether it is safe to open: a worker may name any path, and opening a pipe or a device does something."""
    return stat.S_ISREG(found.st_mode) and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())
