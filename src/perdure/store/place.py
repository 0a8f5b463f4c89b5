"""Where a SQLite file may live. Makes the folder and the empty file, private to the user, and refuses bad places.

Opens no database: closing any descriptor of an open SQLite file drops the locks that SQLite holds on it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from perdure.errors import InvalidInput, UserError
from perdure.lasting import make_folder, sync_names

ALLOW_NETWORK = "PERDURE_ALLOW_NETWORK_STORE"
"""Set to 1 to use a network file system all the same. Locks and shared memory do not hold there: data can be lost."""

FILE_MODE = 0o600
FOLDER_MODE = 0o700

MOUNTS = Path("/proc/self/mountinfo")
"""Linux's list of what is mounted. Where there is none (macOS, Windows), network file systems are not recognised."""

_NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.cephfs", "fuse.curlftpfs", "fuse.davfs",
        "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs",
        "fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3",
        "smbfs",
    }
)  # fmt: skip


def prepare(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a store's file, made to last if it was not there (0600, in a folder made 0700).

    Raises InvalidInput: `store_path` for something that is no file, `store_unwritable` for one that this user may not
    write, `store_network` for a network file system, `store_needs_server` for the address of a database.
    """
    if re.match(r"postgres(ql)?:/", os.fspath(path)):
        raise InvalidInput(
            "a PostgreSQL address was given where a SQLite file is expected: a store in PostgreSQL is reached through "
            "its servers. Start one with `perdure server --store ADDRESS`, and give programs its URL: "
            "`AgentRuntime(URL)` or PERDURE_URL.",
            code="store_needs_server",
        )
    place = Path(os.path.realpath(path))
    try:
        fresh = not place.exists() or place.stat().st_size == 0
        if fresh:  # or its maker died before its name could last
            make_folder(place.parent, FOLDER_MODE)
        refuse_network(place)
        _make(place)
        if fresh:
            sync_names(place.parent)
    except (FileExistsError, NotADirectoryError):
        raise _refuse("store_path", place, "its folder is a file", "name another path") from None
    except OSError as error:
        hint = "make the folder writable for this user, or name another path (PERDURE_STORE)"
        raise _refuse("store_unwritable", place, (error.strerror or str(error)).lower(), hint) from None
    return place


def refuse_network(place: Path) -> None:
    """Raise InvalidInput (`store_network`) if `place` is on a network file system and the override is not set."""
    if os.environ.get(ALLOW_NETWORK) == "1" or not MOUNTS.exists():
        return
    kind = mounted_as(place, MOUNTS.read_text(encoding="utf-8", errors="replace"))
    if kind in _NETWORK:
        hint = (
            f"SQLite's locks do not hold there; use a local disk, or `perdure server` with PostgreSQL. "
            f"{ALLOW_NETWORK}=1 overrides this at your own risk"
        )
        raise _refuse("store_network", place, f"it is on a network file system ({kind})", hint)


def mounted_as(place: Path, mounts: str) -> str:
    """Return the type of the file system that holds `place`, by the text of Linux's `mountinfo`."""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        # a later mount on the same point hides the earlier one
        if len(point) >= len(best) and place.is_relative_to(point):
            best, kind = point, right.split()[0]
    return kind


def _make(place: Path) -> None:
    if place.is_dir():
        raise _refuse("store_path", place, "it is a folder", "name a file in it, such as perdure.db")
    if place.exists() and not place.is_file():
        raise _refuse("store_path", place, "it is not a regular file", "name another path")
    if not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.R_OK | os.W_OK)):
        raise PermissionError(13, "Permission denied")
    try:
        # SQLite gives the files beside it the same mode
        os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        pass  # ours from before, or made this moment by another process: never opened here


def _refuse(code: str, place: Path, found: str, hint: str) -> UserError:
    return InvalidInput(f"store {place}: {found}. A file on a local disk is expected; {hint}.", code=code)
