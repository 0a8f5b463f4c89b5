"""Many processes on one file, whose owners are killed one after another: never two owners, nothing lost.

    python tests/support/ownership_drill.py --processes 50 --kills 200

Every process opens the same embedded store, begins executions under keys of its own and writes down each one that was
acknowledged. The driver kills whoever owns the store, with SIGKILL, and starts another process in its place. All write
into one chronicle: a takeover is legal only after a kill of the owner before. Prints one line of figures; exit 1 if a
promise is broken.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import shared_store
from perdure.agent.agent import Agent
from perdure.models.catalog import Catalog
from perdure.models.scripted import say
from perdure.runtime import AgentRuntime
from perdure.server.node import end_former_leases
from perdure.store.ownership import read_hint
from perdure.store.tx import Tx

AGENT = Agent(name="member", model="scripted/member", instructions="x")
MODELS = Catalog(scripted={"member": [say("done")]})
PATIENCE_SECONDS = 120.0
"""Until a wait fails the drill. No measure."""


# -- one process -------------------------------------------------------------------------------------------------------


def chronicle(folder: Path, **facts: Any) -> None:
    """Add a line; whole, and after all lines that were there."""
    line = json.dumps({**facts, "pid": os.getpid(), "at": time.monotonic()}).encode() + b"\n"
    descriptor = os.open(folder / "chronicle", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def member(folder: Path, name: str, pause_seconds: float) -> None:
    """Open the store and begin executions until told to stop, or killed."""

    def take_over(tx: Tx) -> None:
        chronicle(folder, what="takes over")  # in the first transaction of an owner, which the lock alone allows
        end_former_leases(tx)

    shared_store.end_former_leases = take_over
    with AgentRuntime(store=folder / "drill.db", models=MODELS) as runtime:
        for number in itertools.count():
            if (folder / "stop").exists():
                break
            key = f"{name}/{number}"
            began = time.monotonic()
            execution = runtime.start(AGENT, key, idempotency_key=key).execution_id
            chronicle(folder, what="started", key=key, execution=execution, seconds=time.monotonic() - began)
            time.sleep(random.uniform(0, 2 * pause_seconds))


# -- the driver --------------------------------------------------------------------------------------------------------


@dataclass
class Drill:
    """One run."""

    folder: Path
    processes: int
    kills: int
    pause_seconds: float
    members: set[int] = field(default_factory=set[int])
    names: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def store(self) -> Path:
        return self.folder / "drill.db"

    def run(self) -> list[str]:
        """Kill owners, then let the rest end; return which promises were broken."""
        try:
            for _ in range(self.processes):
                self.spawn()
            for _ in range(self.kills):
                self.kill(self.owner())
                self.spawn()
            (self.folder / "stop").touch()
            ends = {pid: self.end(pid) for pid in list(self.members)}
        finally:
            for pid in list(self.members):
                self.end(pid, signal.SIGKILL)
        broken = [f"process {pid} ended with {code}" for pid, code in ends.items() if code]
        return broken + self.finish() + self.judge()

    def spawn(self) -> None:
        """Fork: this process has no threads yet, and has imported what members need."""
        name = f"m{next(self.names)}"
        pid = os.fork()
        if pid:
            self.members.add(pid)
            return
        code = 1
        try:
            with (self.folder / "errors").open("ab") as errors:
                os.dup2(errors.fileno(), 2)
            member(self.folder, name, self.pause_seconds)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it was, this process must not go on as the driver
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def end(self, pid: int, number: signal.Signals | None = None) -> int:
        """Wait for the end of a process, after a signal if one is given; return how it ended."""
        if number is not None:
            os.kill(pid, number)
        _, status = os.waitpid(pid, 0)
        self.members.discard(pid)
        return os.waitstatus_to_exitcode(status)

    def owner(self) -> int:
        """Return the owner's process, once it has served another one: its kill is to meet requests in flight."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            hint = read_hint(self.store)
            if hint is not None and hint.address is not None and hint.pid in self.members and self.serves(hint.pid):
                time.sleep(random.uniform(0, 0.3))  # anywhere in its life
                return hint.pid
            time.sleep(0.01)
        raise AssertionError(f"nobody owned the store for {PATIENCE_SECONDS} s: {(self.folder / 'errors').read_text()}")

    def serves(self, owner: int) -> bool:
        """Whether another process has begun something since this one took over."""
        lines = (self.folder / "chronicle").read_text().splitlines()
        for line in map(json.loads, reversed(lines)):
            if line["what"] == "started" and line["pid"] != owner:
                return True
            if line["what"] == "takes over":
                return False
        return False

    def kill(self, pid: int) -> None:
        chronicle(self.folder, what="killed", victim=pid)
        self.end(pid, signal.SIGKILL)

    def finish(self) -> list[str]:
        """Open the store once more and see everything to its end."""
        with AgentRuntime(store=self.store, models=MODELS) as runtime:
            acknowledged = {line["execution"] for line in self.lines("started")}
            ends = [runtime.attach(execution).result() for execution in sorted(acknowledged)]
        return [
            f"{one.execution_id} was acknowledged and ended {one.status}" for one in ends if one.status != "completed"
        ]

    def lines(self, what: str) -> list[dict[str, Any]]:
        """Return the lines of one kind, in order."""
        text = (self.folder / "chronicle").read_text().splitlines()
        return [line for line in map(json.loads, text) if line["what"] == what]

    def judge(self) -> list[str]:
        """Compare the chronicle with what the file holds."""
        broken: list[str] = []
        owner: int | None = None
        dead: set[int] = set()
        for line in map(json.loads, (self.folder / "chronicle").read_text().splitlines()):
            if line["what"] == "killed":
                dead.add(line["victim"])
            elif line["what"] == "takes over":
                if owner is not None and owner not in dead and not (self.folder / "stop").exists():
                    broken.append(f"{line['pid']} took over from {owner}, which lived")
                owner = line["pid"]
        started = self.lines("started")
        with closing(sqlite3.connect(self.store)) as database:
            keys = dict(database.execute("SELECT start_key, execution FROM start_keys").fetchall())
            (epoch,) = database.execute("SELECT value FROM meta WHERE key = 'owner_epoch'").fetchone()
            sound = database.execute("PRAGMA integrity_check").fetchone()
        broken += [
            f"{one['key']} was acknowledged and is lost" for one in started if keys.get(one["key"]) != one["execution"]
        ]
        if sound != ("ok",):
            broken.append(f"the file is damaged: {sound}")
        if int(epoch) > len(self.lines("takes over")) + 1:  # the last one was ours
            broken.append(f"{epoch} ownerships, and {len(self.lines('takes over'))} in the chronicle")
        return broken

    def figures(self) -> dict[str, Any]:
        """Return what came of it, in numbers."""
        lines = [json.loads(line) for line in (self.folder / "chronicle").read_text().splitlines()]
        gaps = [
            later["at"] - line["at"]
            for line, later in itertools.pairwise(one for one in lines if one["what"] in ("killed", "takes over"))
            if (line["what"], later["what"]) == ("killed", "takes over")
        ]
        waits = sorted(line["seconds"] for line in self.lines("started"))
        return {
            "processes": self.processes + self.kills,
            "at_once": self.processes,
            "kills": len(self.lines("killed")),
            "takeovers": len(self.lines("takes over")),
            "takeover_ms_median": round(1000 * sorted(gaps)[len(gaps) // 2]) if gaps else None,
            "takeover_ms_longest": round(1000 * max(gaps)) if gaps else None,
            "acknowledged": len(waits),
            "start_ms_median": round(1000 * waits[len(waits) // 2]) if waits else None,
            "start_ms_longest": round(1000 * waits[-1]) if waits else None,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two starts of a process, on average")
    parser.add_argument("--folder", type=Path, help="an empty one, to be kept")
    given = parser.parse_args()
    for module in ("perdure.server.serve", "httpx2"):  # once, here, and not in each process at its first use
        importlib.import_module(module)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="perdure-ownership-"))
    began = time.monotonic()
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    drill = Drill(folder, given.processes, given.kills, given.pause)
    broken = drill.run()
    sys.stdout.write(
        json.dumps({**drill.figures(), "seconds": round(time.monotonic() - began), "broken": broken}) + "\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
