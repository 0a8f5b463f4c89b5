"""The real processes behind the UI's tests: a server and workers, started, killed and started again on command.

Reads commands from stdin, one JSON object a line, and answers each with one on stdout. Ends everything when stdin ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from agents import AGENTS, SCRIPTS  # noqa: E402 - it is beside this file, in no package

from perdure import AgentRuntime  # noqa: E402 - after the one above


class House:
    """One server on one store, and workers by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.server: subprocess.Popen[str] | None = None
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.keys: dict[str, str] = {}
        self.url = self.key = ""

    # -- commands ------------------------------------------------------------------------------------------------------

    def start_server(self) -> dict[str, Any]:
        """Start it, the second time where the first one was; return where a browser signs in."""
        port = self.url.rpartition(":")[2] or "0"
        scripts = [part for name, script in SCRIPTS.items() for part in ("--script", f"{name}=agents:{script}")]
        command = ["server", "--json", "--port", port, "--store", str(self.folder / "perdure.db"), "--lease-ms", "2000"]
        self.server = self._start("server", [*command, *scripts])
        ready = self._line(self.server)
        self.url, self.key = ready["url"], ready["key"] or self.key
        return {"url": self.url, "login": ready["login"]}

    def kill_server(self) -> dict[str, Any]:
        """As a power cut does."""
        assert self.server is not None
        self._kill(self.server)
        return {}

    def start_worker(self, name: str, agents: list[str]) -> dict[str, Any]:
        """Start a worker that serves some agents."""
        targets = [f"agents:{agent}" for agent in agents]
        command = ["worker", *targets, "--json", "--name", name, "--lease-ms", "1500"]
        self.workers[name] = self._start(name, command)
        self._line(self.workers[name])
        return {}

    def kill_worker(self, name: str) -> dict[str, Any]:
        """As a power cut does."""
        self._kill(self.workers.pop(name))
        return {}

    def start(self, agent: str, text: str, tags: list[str] | None = None) -> dict[str, Any]:
        """Begin an execution."""
        with AgentRuntime(self.url, api_key=self.key, serve_tools=False) as runtime:
            handle = runtime.start(AGENTS[agent], text, tags=tuple(tags or ()))
            return {"execution": handle.execution_id}

    def schedule(self, name: str, agent: str) -> dict[str, Any]:
        """Have an agent begun every night."""
        with AgentRuntime(self.url, api_key=self.key, serve_tools=False) as runtime:
            told = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "tags": ("nightly",)}
            return {"schedule": runtime.schedules.create(name, AGENTS[agent], "The night's orders", **told).name}

    def company(self, name: str) -> dict[str, Any]:
        """Let another company in, with a key of its own. There is no verb for it: the server is down meanwhile."""
        self.keys[name] = f"pdk_{name}{secrets.token_hex(20)}"
        self.kill_server()
        with closing(sqlite3.connect(self.folder / "perdure.db")) as store, store:
            store.execute("INSERT INTO companies (id, name, created_ms) VALUES (?, ?, 1)", (name, name))
            fingerprint = hashlib.sha256(self.keys[name].encode()).hexdigest()
            row = (fingerprint, name, f"{name}-ops", self.keys[name][:8])
            store.execute("INSERT INTO api_keys (hash, company, name, prefix, created_ms) VALUES (?, ?, ?, ?, 1)", row)
        return self.start_server()

    def room(self, what: str, room: str = "", company: str = "", agent: str = "", **given: Any) -> dict[str, Any]:
        """Do something in a room, in the name of a company."""
        key = self.keys.get(company, self.key)
        with AgentRuntime(self.url, api_key=key, serve_tools=False) as runtime:
            if what == "create":
                return {"id": runtime.rooms.create(given["name"], by="ann").id}
            one = runtime.rooms.get(room, by="" if company else "ann")
            if what == "invite_company":
                return {"id": one.invite(given["name"]).id}
            if what == "upload":
                return {"id": one.upload(given["name"], given["text"].encode()).id}
            done = getattr(one, what)(*([AGENTS[agent]] if agent else []), **given)
            return {"id": done.id, "woken": list(done.woken)}

    def open_gate(self, name: str) -> dict[str, Any]:
        """Let a tool go on that waits."""
        (self.gates / name).touch()
        return {}

    def begun(self, name: str, attempt: int) -> dict[str, Any]:
        """Say whether a tool that waits has begun its nth attempt."""
        return {"begun": (self.gates / f"{name}.begun-{attempt}").exists()}

    def run_test(self, agent: str, text: str) -> dict[str, Any]:
        """Run a test that the UI made of a run, over one of the agents here; return what it said if it failed."""
        folder = self.folder / f"test-{agent}"
        folder.mkdir()
        (folder / "your_module.py").write_text(f"from agents import {agent} as agent\n", encoding="utf-8")
        (folder / "copied.py").write_text(text, encoding="utf-8")
        [name] = re.findall(r"^def (test_\w+)", text, re.MULTILINE)
        code = f"import pathlib, copied; copied.{name}(pathlib.Path('.'))"
        environ = {name: value for name, value in self._environ().items() if not name.startswith("PERDURE_")}
        said = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True)
        return {"failed": said.stderr if said.returncode else ""}

    def link(self) -> dict[str, Any]:
        """Return another link."""
        said = subprocess.run(
            [sys.executable, "-m", "perdure", "ui", "--server", self.url, "--json"],
            env=self._environ(),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(said.stdout)

    # -- processes -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Leave nothing running."""
        for process in (*self.workers.values(), *([self.server] if self.server else ())):
            self._kill(process)

    def _start(self, name: str, arguments: list[str]) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "perdure", *arguments],
                env=self._environ(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        paths = [str(HERE), *filter(None, [own.get("PYTHONPATH")])]
        return own | {
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "UI_TEST_GATES": str(self.gates),
            "PERDURE_URL": self.url,
            "PERDURE_API_KEY": self.key,
        }

    def _line(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended with {process.wait()}; see the logs in {self.folder}")
        return json.loads(line)

    @staticmethod
    def _kill(process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def main() -> None:
    """Serve commands until stdin ends."""
    with tempfile.TemporaryDirectory(prefix="perdure-ui-") as folder:
        house = House(Path(folder))
        try:
            for line in sys.stdin:
                asked = json.loads(line)
                try:
                    said = getattr(house, asked.pop("do"))(**asked)
                except Exception as error:  # noqa: BLE001 - the test that asked is told
                    said = {"error": f"{type(error).__name__}: {error}"}
                sys.stdout.write(json.dumps(said) + "\n")
                sys.stdout.flush()
        finally:
            house.end()


if __name__ == "__main__":
    main()
