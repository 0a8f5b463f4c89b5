"""Two versions of the library side by side, and the processes of a rolling upgrade: server, workers, clients.

The old version is unpacked from the repository's history and runs on the packages that are installed for the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from perdure.testing.world_client import World

ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).parent
BEFORE_TAGS = "2deaf34"
"""The version before, until there is a tag: the last whose store had one migration."""
LEASE_MS = "2000"
PATIENCE_SECONDS = 120.0
"""Until a wait fails the roll. No measure: a loaded machine takes its time."""


# -- versions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be run."""

    name: str
    source: Path
    """The folder that holds its package."""

    @property
    def migrations(self) -> int:
        """How many steps a store of this version has taken."""
        return len(list((self.source / "perdure" / "store" / "migrations").glob("*.sql")))


def previous(given: str | None = None) -> str | None:
    """Return the commit of the version before this one, or None if this clone's history does not reach it."""
    commit = given or _git("describe", "--tags", "--abbrev=0", "HEAD^") or BEFORE_TAGS
    return _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") or None


def unpacked(commit: str, folder: Path) -> Version:
    """Return a version of the repository's history, unpacked in `folder`."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, "src"], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return Version(f"{commit[:7]}", folder / "src")


def _git(*args: str) -> str:
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


# -- processes ---------------------------------------------------------------------------------------------------------


@dataclass
class House:
    """One user's state folder, and whatever runs there, of either version."""

    folder: Path
    world: World
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict[str, subprocess.Popen[str]])
    versions: dict[str, Version] = field(default_factory=dict[str, Version])
    struck_at_ms: list[int] = field(default_factory=list[int])
    url: str = ""
    key: str = ""

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    def environ(self, version: Version) -> dict[str, str]:
        known = {"PERDURE_API_KEY": self.key} if self.key else {}
        return {
            **os.environ,
            **known,
            "PYTHONPATH": f"{version.source}{os.pathsep}{SUPPORT}",
            "XDG_STATE_HOME": str(self.folder),
            "ROLLING_WORLD": self.world.url,
        }

    def serve(self, version: Version) -> None:
        """Have a server of this version, on the port of the first time, and return when it is ready."""
        port = self.url.rpartition(":")[2] or "0"
        options = ["--port", port, "--store", str(self.store), "--lease-ms", LEASE_MS, "--log-level", "warning"]
        ready = json.loads(self._start("server", version, "perdure", "server", *options, "--json", told=True))
        if "url" not in ready:
            raise RuntimeError(f"the server of {version.name} did not start: {ready}")
        self.url = ready["url"]
        self.key = self.key or ready["key"]  # shown at the first start of a store

    def work(self, name: str, version: Version) -> None:
        """Have a worker of this version, and return when it is connected."""
        options = ["--server", self.url, "--name", name, "--lease-ms", LEASE_MS, "--log-level", "warning"]
        self._start(name, version, "perdure", "worker", "rolling_agent:agent", *options, "--json", told=True)

    def ask(self, name: str, version: Version) -> None:
        """Have a client of this version."""
        self._start(name, version, "rolling_client", self.url, name, str(self.folder))

    def command(self, version: Version, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this version to its end."""
        return subprocess.run(
            [sys.executable, "-m", "perdure", *args],
            env=self.environ(version),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        process = self.running.pop(name)
        if number == signal.SIGKILL:
            self.struck_at_ms.append(time.time_ns() // 1_000_000)
        process.send_signal(number)
        return process.wait(PATIENCE_SECONDS)

    def strike(self, name: str) -> None:
        """Kill a process and have another of its version in its place."""
        version = self.versions[name]
        self.end(name, signal.SIGKILL)
        self.serve(version) if name == "server" else self.work(name, version)

    def fell(self) -> str:
        """Say who ended without being told to; empty if nobody did."""
        for name, process in self.running.items():
            if process.poll() is not None and not (self.folder / "stop").exists():
                return f"{name} of {self.versions[name].name} ended with {process.returncode}: {self.said(name)}"
        return ""

    def close(self) -> None:
        """End everything that still runs."""
        for process in self.running.values():
            process.kill()
            process.wait()

    def said(self, name: str) -> str:
        """Return what a process printed for people."""
        return (self.folder / f"{name}.err").read_text(encoding="utf-8", errors="replace")[-2000:]

    def _start(self, name: str, version: Version, module: str, *args: str, told: bool = False) -> str:
        out = subprocess.PIPE if told else subprocess.DEVNULL
        with (self.folder / f"{name}.err").open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *args],
                env=self.environ(version),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                text=True,
            )
        self.running[name], self.versions[name] = process, version
        if process.stdout is None:
            return ""
        with process.stdout:
            line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} of {version.name} ended with {process.wait()}: {self.said(name)}")
        return line
