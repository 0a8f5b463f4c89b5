"""An operating system's lock on an open file: it ends with the process that holds it, however that ends.

Says nothing of what the file is for. The lock is `flock`, because POSIX record locks vanish when any descriptor of the
file is closed anywhere in the process. An flock is shared with forked children: whoever holds one for life closes it
in them, or a child that outlives its parent keeps it.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt

    _FAR_AWAY = 2**30
    """A byte behind any content: Windows forbids reading what is locked."""

    def take(descriptor: int) -> None:
        """Lock an open file for its descriptor's life. Raises `BlockingIOError` at once if somebody holds it."""
        os.lseek(descriptor, _FAR_AWAY, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None

else:
    import fcntl

    def take(descriptor: int) -> None:
        """Lock an open file for its descriptor's life. Raises `BlockingIOError` at once if somebody holds it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def take_at(path: str | os.PathLike[str], flags: int, mode: int) -> int | None:
    """Open a file and lock it; return the descriptor, closed on exec, or None if somebody else's holds the lock.

    Raises what `os.open` raises.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        take(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
