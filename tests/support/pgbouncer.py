"""Start a PgBouncer of the tests' own, in transaction mode, before a server of the tests' own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from postgres_fronts import PORT
from postgres_server import USER, ordinary_user, tied_to_us

START_SECONDS = 30
SETTINGS = """
[databases]
* = host={server} port={port} user={user}
[pgbouncer]
unix_socket_dir = {home}
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 8
logfile = {home}/log
"""


def find_pgbouncer() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pgbouncer(binary: str, server_folder: Path) -> Iterator[Path]:
    """Yield the folder of its socket."""
    home = Path(tempfile.mkdtemp(prefix="perdure-pgb-", dir="/tmp"))
    settings = home / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=server_folder, home=home, port=PORT, user=USER), encoding="utf-8")
    process = subprocess.Popen(
        tied_to_us([binary, settings]), cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        **ordinary_user(home),
    )  # fmt: skip
    try:
        _wait(process, home)
        yield home
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _wait(process: subprocess.Popen[Any], home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(f"postgresql://{USER}@/postgres?host={home}").close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                log = home / "log"
                raise RuntimeError(
                    f"PgBouncer did not start: {error} {log.read_text() if log.exists() else ''}"
                ) from None
            time.sleep(0.05)
        else:
            return
