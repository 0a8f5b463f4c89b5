"""Act on the world from a tool, and start, read and trouble it from a test. Synchronous; real HTTP over loopback.

Shares no code with the runtime.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from perdure.testing.evidence import Entry, read_lines

START_SECONDS = 20.0
POLL_SECONDS = 0.005


class WorldRefused(Exception):
    """The world answered with an error. Whether it acted, only its log tells."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"world: {status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class World:
    """A running world. `pid` and `log` are known only to whoever started it."""

    url: str
    log: Path | None = None
    pid: int = 0

    def act(
        self,
        name: str,
        *,
        key: str | None = None,
        execution: str | None = None,
        step: str | None = None,
        attempt: int | None = None,
        **args: object,
    ) -> dict[str, Any]:
        """Do something to the world, once per call. Returns `{"n": ..., "name": ...}`.

        Raises `WorldRefused`, or `OSError` when the connection broke: then it may or may not have happened.
        """
        headers = {"Idempotency-Key": key, "X-Execution": execution, "X-Step": step}
        headers["X-Attempt"] = None if attempt is None else str(attempt)
        return self._call("POST", f"/act/{quote(name, safe='')}", args, headers)

    def model(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the world's model. Raises as `act`."""
        return self._call("POST", "/model", request)

    def faults(self, spec: str, seed: int = 0) -> None:
        """Replace the plan of faults; counting starts anew. The empty plan ends all faults."""
        self._call("POST", "/faults", {"spec": spec, "seed": seed})

    def entries(self) -> list[Entry]:
        """Return everything that was done so far, in order."""
        return [Entry.parse(line) for line in read_lines(self._request("GET", "/log", b"", {}).decode())]

    def _call(
        self, method: str, path: str, body: dict[str, Any], headers: dict[str, str | None] | None = None
    ) -> dict[str, Any]:
        known = {name: quote(value) for name, value in (headers or {}).items() if value is not None}
        return json.loads(self._request(method, path, json.dumps(body).encode(), known))

    def _request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        address = urlsplit(self.url)
        # Neither a proxy nor a pool in between: one call is one connection.
        connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            payload = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise WorldRefused(response.status, payload.decode(errors="replace"))
        return payload


@contextmanager
def running_world(
    folder: Path, *, faults: str = "", seed: int = 0, script: str | None = None, model_delay_ms: int = 0
) -> Generator[World]:
    """Start a world with its log in `folder`, and kill it in the end. Entered again, it goes on with the same log.

    `script` is `module:function`, importable by whatever path this process imports by.
    """
    port_file, log, errors = folder / "world.port", folder / "world.log", folder / "world.err"
    port_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "perdure.testing.world", "--log", str(log), "--port-file", str(port_file)]
    command += ["--parent", str(os.getpid()), "--faults", faults, "--seed", str(seed)]
    command += ["--model-delay-ms", str(model_delay_ms), *(["--script", script] if script else [])]
    path = os.pathsep.join(filter(None, sys.path))
    with errors.open("ab") as stderr:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=stderr, env={**os.environ, "PYTHONPATH": path}
        )
    try:
        port = _await_port(child, port_file, errors)
        yield World(f"http://127.0.0.1:{port}", log, child.pid)
    finally:
        child.kill()
        child.wait()


def _await_port(child: subprocess.Popen[bytes], port_file: Path, errors: Path) -> int:
    deadline = time.monotonic() + START_SECONDS
    while not port_file.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the world did not start: {errors.read_text(errors='replace')[-2000:]}")
        time.sleep(POLL_SECONDS)
    return int(port_file.read_text())
