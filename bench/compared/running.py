"""Run one workload of one row in a process of its own, in a fresh folder or database, and read what it found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from compared.rows import Row

BENCH = Path(__file__).parents[1]
SUPPORT = BENCH.parent / "tests" / "support"
GIVE_UP_SECONDS = 200
SERVER_OPTIONS = {"listen_addresses": "", "max_connections": "200"}
"""Everything else is as PostgreSQL comes: fsync and synchronous_commit are on."""
NOT_A_DISK = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class NotRun(Exception):
    """A workload could not be run, or gave nothing; says why."""


@dataclass
class Place:
    """Where all rows write: one disk, and one PostgreSQL server."""

    folder: Path
    database_address: str = ""
    """Of a database from which others can be made; empty if there is no PostgreSQL here."""
    database_pid: int = 0
    pythons: dict[str, Path] = field(default_factory=dict[str, Path])
    """By peer."""
    made: int = 0

    def run(self, row: Row, workload: str, patient: bool = False, /, **options: float) -> dict[str, Any]:
        """Run it; return its figures. Raises `NotRun`; unless `patient`, also for one that takes too long."""
        runner = BENCH / "peers" / f"on_{row.peer}.py"
        python = self.pythons.get(row.peer, Path(sys.executable))
        with self._folder() as folder, self._database(row) as database:
            command = [str(python), str(runner), workload, "--mode", row.mode, "--folder", str(folder), *database]
            command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
            return _run(command, None if patient else GIVE_UP_SECONDS)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    @contextmanager
    def _database(self, row: Row) -> Iterator[list[str]]:
        """Give the options that name an empty database, and drop it in the end."""
        if not row.database:
            yield []
            return
        if not self.database_address:
            raise NotRun("there are no PostgreSQL binaries")
        self.made += 1
        name = f"bench_{self.made}"
        with psycopg.connect(self.database_address, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
            admin.execute("CHECKPOINT")  # nobody pays for what the one before wrote
            try:
                address = self.database_address.replace("/postgres?", f"/{name}?")
                yield ["--database", address, "--database-pid", str(self.database_pid)]
            finally:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _run(command: list[str], give_up_seconds: float | None) -> dict[str, Any]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, complaints = process.communicate(timeout=give_up_seconds)
    except BaseException as error:
        end(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise NotRun(f"gave up after {give_up_seconds} s") from None
        raise
    lines = said.splitlines()
    if process.returncode != 0 or not lines:
        last = (complaints.strip() or "it said nothing").splitlines()[-1]
        raise NotRun(f"exit code {process.returncode}: {last[:300]}")
    return json.loads(lines[-1])


def end(process: subprocess.Popen[str]) -> None:
    """Ask a runner to end, so that it ends what it started; insist after a while."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def place(parent: Path, pythons: dict[str, Path]) -> Iterator[Place]:
    """Give a place below `parent`, with a PostgreSQL server of this run's own if there are binaries for one.

    Raises `NotRun` if it would write to memory and not to a disk.
    """
    sys.path.insert(0, str(SUPPORT))
    import postgres_server  # noqa: PLC0415 - the tests', and only here

    refuse_memory(parent)
    binaries = postgres_server.find_binaries()
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
        if binaries is None:
            yield Place(Path(folder), pythons=pythons)
            return
        refuse_memory(Path(tempfile.gettempdir()))
        with postgres_server.running_server(binaries, options=SERVER_OPTIONS) as server:
            assert server.process is not None
            yield Place(Path(folder), server.address, server.process.pid, pythons)


def refuse_memory(folder: Path) -> None:
    """Raise `NotRun` if a folder is kept in memory: nothing there is durable, and every figure would be wrong."""
    kind = kind_of(folder.resolve(), Path("/proc/mounts").read_text(encoding="utf-8"))
    if kind in NOT_A_DISK:
        raise NotRun(f"{folder} is kept in memory ({kind}); name a folder on a disk: --folder DIR.")


def kind_of(folder: Path, mounts: str) -> str:
    """Return the kind of file system that a folder is in, by the text of /proc/mounts."""
    found = [line.split()[1:3] for line in mounts.splitlines()]
    above = [(len(where), kind) for where, kind in found if folder.is_relative_to(where.replace("\\040", " "))]
    return max(above, default=(0, ""))[1]
