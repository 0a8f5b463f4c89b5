"""A standby of a PostgreSQL server of the tests' own: no commit of the primary is acknowledged before it has it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from postgres_server import SERVER_OPTIONS, USER, Server, ordinary_user, reachable, tied_to_us

SYNC_SECONDS = 60
PROMOTED = "SELECT pg_promote(true, 60)"
NAME = "second"


def folder_of(address: str) -> str:
    """Return the folder of a server's socket."""
    return address.partition("host=")[2]


def either(primary: str, standby: str) -> str:
    """Return the address that leads to whichever of the two takes writes."""
    hosts = f"{folder_of(primary)},{folder_of(standby)}"
    return f"{primary.replace(folder_of(primary), hosts)}&target_session_attrs=read-write"


@contextmanager
def synchronous_standby(binaries: Path, primary: str, under: Path = Path("/tmp")) -> Iterator[Server]:
    """Yield a standby that streams from a primary, which waits for it with every commit from here on."""
    home = Path(tempfile.mkdtemp(prefix="perdure-pg-", dir=under))
    try:
        as_user = ordinary_user(home)
        binaries = reachable(binaries, home, as_user)
        source = f"host={folder_of(primary)} user={USER} application_name={NAME}"
        copy = [binaries / "pg_basebackup", "-D", home / "data", "-R", "-d", source, "--checkpoint=fast", "--no-sync"]
        subprocess.run(copy, check=True, cwd=home, stdout=subprocess.DEVNULL, **as_user)
        options = [part for name, value in SERVER_OPTIONS.items() for part in ("-c", f"{name}={value}")]
        command = tied_to_us([binaries / "postgres", "-D", home / "data", "-k", home, *options])
        server = Server(f"postgresql://{USER}@/postgres?host={home}", command, home, as_user)
        server.start()
        try:
            _wait_for_it(primary)
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def promote(standby: Server) -> None:
    """Make it the primary; return when it takes writes."""
    with psycopg.connect(standby.address, autocommit=True) as admin:
        assert admin.execute(PROMOTED).fetchone() == (True,)


def _wait_for_it(primary: str) -> None:
    """Have the primary wait for its standby, and return when it does."""
    deadline = time.monotonic() + SYNC_SECONDS
    with psycopg.connect(primary, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        admin.execute("SELECT pg_reload_conf()")
        while admin.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
            assert time.monotonic() < deadline, "the standby did not come"
            time.sleep(0.05)
