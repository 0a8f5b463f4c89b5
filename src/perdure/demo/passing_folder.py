"""A temporary folder that goes with the process it was made for, however that ends.

A file in it is locked as long as the process lives. Whoever gets that lock has the proof that it is dead, and removes
the folder; one that is merely stopped, or old, keeps its own. A folder without such a file is nobody's to remove.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from perdure import file_lock

_LOCK = "owner.lock"


class PassingFolder:
    """A new folder, empty but for the lock. Its owner removes it, or else whoever comes to `clear_after_the_dead`."""

    def __init__(self, prefix: str) -> None:
        lock = None
        while lock is None:  # whoever clears may take the new file for a dead owner's, and the folder with it
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            lock = _lock(self.path / _LOCK, os.O_CREAT)
        self._lock = lock

    def remove(self) -> None:
        """Remove it with all that is in it. Call it once. What cannot be removed stays."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def clear_after_the_dead(prefix: str) -> None:
    """Remove this user's folders with this prefix whose owners are dead. What cannot be removed stays."""
    for file in Path(tempfile.gettempdir()).glob(f"{prefix}*/{_LOCK}"):
        try:
            lock = _lock(file) if _is_ours(file.parent) else None
        except OSError:  # its owner has just removed it
            continue
        if lock is not None:
            shutil.rmtree(file.parent, ignore_errors=True)
            os.close(lock)


def _lock(file: Path, flags: int = 0) -> int | None:
    """Return a lock on the file; None if somebody has it, or had it and removed the file."""
    lock = file_lock.take_at(file, os.O_RDWR | flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
    if lock is not None and not os.fstat(lock).st_nlink:
        os.close(lock)
        return None
    return lock


def _is_ours(folder: Path) -> bool:
    """Whether this user made it: where temporary files of all users lie, others may plant what they like."""
    return not hasattr(os, "geteuid") or folder.lstat().st_uid == os.geteuid()
