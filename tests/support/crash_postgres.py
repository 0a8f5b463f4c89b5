"""The PostgreSQL server of one process of a long crash run: each run has a database of its own in it.

It is started at the first run and lives as long as the process; whoever started the process removes what it left.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

from postgres_server import USER, Server
from postgres_standby import folder_of

GONE_SECONDS = 20.0
CONNECT_SECONDS = 2
_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'perdure' "
    "AND datname = %s AND random() < %s"
)


class Postgres:
    """A server that its owner may crash, and have lose sessions. Owner: one thread."""

    def __init__(self, server: Server, at_its_host: Callable[[], AbstractContextManager[None]]) -> None:
        self.server = server
        self._at_its_host = at_its_host
        self._numbers = count(1)

    @property
    def folder(self) -> Path:
        """Where its socket is."""
        return Path(folder_of(self.server.address))

    def new(self) -> str:
        """Make a database and return its name."""
        name = f"run_{os.getpid()}_{next(self._numbers)}"
        self._ask(f"CREATE DATABASE {name}")
        return name

    def drop(self, name: str) -> None:
        """Take a database away, whoever is connected."""
        self._ask(f"DROP DATABASE {name} WITH (FORCE)")

    def crash(self) -> None:
        """Stop it as a failing machine would, but for the disk."""
        self.server.crash()

    def launch(self) -> None:
        """Have it start, and recover."""
        with self._at_its_host():
            self.server.launch()

    def answers(self) -> bool:
        """Say whether it takes connections."""
        try:
            self._ask("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def end_sessions(self, name: str, dice: random.Random) -> int:
        """End some of the sessions that servers have in a database; return how many."""
        try:
            with psycopg.connect(self.server.address, autocommit=True, connect_timeout=CONNECT_SECONDS) as admin:
                return len(admin.execute(_SESSIONS, (name, dice.uniform(0.2, 1.0))).fetchall())
        except psycopg.OperationalError:  # it is away
            return 0

    def _ask(self, sql: str) -> None:
        with psycopg.connect(self.server.address, autocommit=True, connect_timeout=CONNECT_SECONDS) as admin:
            admin.execute(sql.encode())


def address(name: str, host: Path | str) -> str:
    """Return the address of a database at a host, or behind a folder's socket."""
    return f"postgresql://{USER}@/{name}?host={quote(str(host))}"


@contextlib.contextmanager
def room_for_servers() -> Generator[Path]:
    """Yield a folder for the servers of processes that may be killed; take away what they left."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-pgs-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        _await_ends(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _await_ends(folder: Path) -> None:
    """Servers are told to end by the end of their processes, and take a moment."""
    until = time.monotonic() + GONE_SECONDS
    while (left := list(folder.glob("*/data/postmaster.pid"))) and time.monotonic() < until:
        time.sleep(0.05)
    for file in left:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(file.read_text(encoding="utf-8").partition("\n")[0]), signal.SIGKILL)
