"""What stands before PostgreSQL on a socket of its own: proxies and poolers of the tests' own."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

PORT = 5432


class Front(Protocol):
    """Accepts connections in a folder from when it is made."""

    def close(self) -> None:
        """Accept no more."""
        ...


F = TypeVar("F", bound=Front)


def socket_in(folder: Path) -> Path:
    """Return where PostgreSQL, or what stands before it, listens in a folder."""
    return folder / f".s.PGSQL.{PORT}"


def listen_in(folder: Path) -> socket.socket:
    """Listen in a folder as PostgreSQL does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_in(folder)))
    listener.listen()
    return listener


@contextmanager
def in_front(make: Callable[[Path, Path], F], server_folder: Path) -> Iterator[tuple[F, Path]]:
    """Yield what `make` makes of the server's socket and a new folder, and that folder, which leads to it."""
    with tempfile.TemporaryDirectory(prefix="perdure-front-", dir="/tmp") as folder:
        front = make(socket_in(server_folder), Path(folder))
        try:
            yield front, Path(folder)
        finally:
            front.close()
