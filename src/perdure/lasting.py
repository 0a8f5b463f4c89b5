"""Folders and names that survive a power cut: a new name lasts only when the folder that it stands in was synced.

Says nothing of what files hold: whoever writes one syncs it. Nothing to be done on Windows.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Have the folder there, with all above it, and have its name last. An existing one keeps its mode.

    Raises what `Path.mkdir` raises. Killed anywhere and called again, it goes on where it was.
    """
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    # Who was killed here before may have made the lowest one that is there, and not synced its name.
    sync_names((missing[-1].parent if missing else folder).parent)
    for one in reversed(missing):
        one.mkdir(mode if one == folder else 0o777, exist_ok=True)
        sync_names(one.parent)


def sync_names(folder: Path) -> None:
    """Return when the names in a folder are on the disk. One that may be entered and not read is left to itself."""
    if os.name != "posix":
        return
    with contextlib.suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
