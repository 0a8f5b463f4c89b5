"""`perdure` as people and programs meet it: in processes of its own, with a state folder of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from perdure.cli.main import run
from which_store import kind, store_at

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds until a wait fails the test. No measure: a loaded machine takes its time."""

T = TypeVar("T")


def until(look: Callable[[], T | bool | None], what: str, seconds: float = PATIENCE) -> T:
    """Return what `look` finds as soon as it finds it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found  # type: ignore[return-value]
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come about in {seconds} s")


_WIDE = {"COLUMNS": "200"}
"""Where a table breaks its lines depends on how long a time is to write; here it breaks none."""


@dataclass
class Running:
    """A server or worker process, and the JSON line with which it said that it was ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]
    log: Path

    @property
    def url(self) -> str:
        return self.ready["url"]

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.send(number)
        return self.process.wait(PATIENCE)

    def events(self) -> list[str]:
        """Return the names of the events that it logged."""
        return [json.loads(line)["event"] for line in self.log.read_text().splitlines() if line.startswith("{")]


@dataclass
class Home:
    """A user with a state folder, and everything that runs for that user."""

    folder: Path
    running: list[Running] = field(default_factory=list[Running])
    extra: dict[str, str] = field(default_factory=dict[str, str])
    """More of the environment."""

    @property
    def environ(self) -> dict[str, str]:
        path = f"{ROOT / 'src'}:{ROOT / 'tests' / 'support'}"
        return {
            **os.environ,
            "XDG_STATE_HOME": str(self.folder),
            "PYTHONPATH": path,
            "NO_COLOR": "1",
            **_WIDE,
            **({} if kind() == "sqlite" else {"PERDURE_STORE": self.store_address}),
            **self.extra,
        }

    @property
    def store(self) -> Path:
        """Where its store is, if it is a file."""
        return self.folder / "perdure" / "perdure.db"

    @property
    def store_address(self) -> str:
        """How commands name its store."""
        return store_at(self.store)

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command line to its end, in this process: a hundred of them are to fit into a test run."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, self.environ), redirect_stdout(out), redirect_stderr(err):
            code = run(args)
        return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())

    def process(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command line to its end in a process of its own, as people do."""
        return subprocess.run(
            [sys.executable, "-m", "perdure", *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def json(self, *args: str) -> Any:
        """Run a command that is to succeed, and return what it prints with --json."""
        done = self.command(*args, "--json")
        assert done.returncode == 0, f"{args}: {done.returncode}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def spawn(self, *args: str) -> subprocess.Popen[str]:
        """Begin a command; its stdout is a pipe."""
        return subprocess.Popen(
            [sys.executable, "-m", "perdure", *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def watch(self, execution: str, *args: str) -> subprocess.Popen[str]:
        """Begin to watch an execution; return once that is shown. All the rest is still to be read."""
        process = self.spawn("executions", "watch", execution, *args)
        assert process.stdout is not None
        shown = b""
        while not shown.endswith(b"\n"):  # byte by byte: what would be read ahead `communicate` would not give
            shown += (byte := os.read(process.stdout.fileno(), 1))
            assert byte, f"it ended with {process.wait(PATIENCE)}"
        assert execution in shown.decode()
        return process

    def serve(self, *args: str, port: str = "0") -> Running:
        """Start a server and return when it is ready."""
        return self._start("server", "--port", port, "--script", "by-input=cli_agents:by_input", *args)

    def work(self, *args: str) -> Running:
        """Start a worker and return when it is connected."""
        return self._start("worker", *(args or ("cli_agents:agent",)))

    def server_state(self) -> dict[str, Any]:
        """Return what the state file of this home's one server says."""
        (file,) = (self.folder / "perdure" / "servers").glob("*.json")
        return json.loads(file.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End everything that still runs."""
        for one in self.running:
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait(10)
            if one.process.stdout:
                one.process.stdout.close()

    def _start(self, *args: str) -> Running:
        log = self.folder / f"{args[0]}-{len(self.running)}.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "perdure", *args, "--json"],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        started = Running(process, {}, log)
        self.running.append(started)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("{"), f"{args} was not ready: {line}{log.read_text()}"
        started.ready = json.loads(line)
        return started
