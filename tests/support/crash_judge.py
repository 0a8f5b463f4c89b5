"""What a crash run is judged by: the public API, the world's log, the client's log, the report itself."""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from crash_case import Outcome
from crash_counts import count, resolved
from crash_roles import Setup, write
from crash_side import BOOK
from perdure import AgentRuntime
from perdure.client.timeline import timeline_of
from perdure.core.events import Event as LoggedEvent
from perdure.core.events import Kind
from perdure.testing.checker import ClientLog, Expect, History, check
from perdure.testing.evidence import Entry, Event, read_world_log
from perdure.wire import codec

TOLD = ("attempt", "worker", "late", "ruling", "why", "tool", "decision", "reason", "fence")
ENDED = frozenset({"completed", "failed", "cancelled"})
ASK_SECONDS = 2.0


class Ask:
    """Somebody who looks at the executions from outside, over HTTP."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.servers: Sequence[str] = ("server",)
        """Whom to ask: one after the other, until one answers."""
        self.away: frozenset[str] = frozenset()
        """Of these, whom to leave alone: dead, stopped or cut off."""
        self.paused = False
        """The server was stopped on purpose: asking it would only take time."""
        self._main: list[dict[str, Any]] = []
        """The main execution's events as they were first seen."""
        self._states: dict[str, str] = {}
        self._told: tuple[list[History], list[History]] | None = None

    def was_ready(self) -> bool:
        """Say whether a server was ever ready."""
        return any((self._setup.folder / f"{name}.ready").exists() for name in self.servers)

    def look(self) -> None:
        """Take in what is new. A server that does not answer is no news."""
        if not self.was_ready():
            return
        try:
            self._states = {one["id"]: one["state"] for one in self._get("/v1/executions")["items"]}
            if (main := self._main_id()) is not None:
                self._main += self._events(main, len(self._main))
        except (OSError, http.client.HTTPException, ValueError):
            return

    def answers(self) -> bool:
        """Say whether there is somebody to ask; trivially so if everything ran in one process."""
        if not any((self._setup.folder / f"{name}.url").exists() for name in self.servers):
            return True
        try:
            self._get("/v1/info")
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return True

    def kinds(self) -> list[str]:
        """Return the kinds of the main execution's events so far."""
        return [event["kind"] for event in self._main]

    def shown(self) -> frozenset[tuple[str, int, str]]:
        """Return the main execution's events so far: execution, `seq`, kind."""
        main = self._main_id() or ""
        return frozenset((main, event["seq"], event["kind"]) for event in self._main)

    def all_ended(self) -> bool:
        """Say whether every execution has ended, as far as anybody knows."""
        return all(state in ENDED for state in self._states.values())

    def heard_out(self) -> bool:
        """Ask for the histories, once there is somebody who answers: who is to fall may fall at that very question."""
        try:
            self._told = self.histories()
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return True

    def histories(self) -> tuple[list[History], list[History]]:
        """Return the histories of all executions, and the main one's as it was seen on the way."""
        if self._told is not None:
            return self._told
        exported = self._setup.folder / "export.json"
        if exported.exists():
            found = json.loads(exported.read_text(encoding="utf-8"))
        else:
            views = self._get("/v1/executions")["items"]
            found = [(view, self._events(view["id"], 0)) for view in views]
        earlier = [History.parse({"id": self._main_id(), "state": "?"}, self._main)] if self._main else []
        return [History.parse(view, events) for view, events in found], earlier

    def _main_id(self) -> str | None:
        note = self._setup.folder / "report.id"
        return note.read_text(encoding="utf-8") if note.exists() else None

    def _events(self, execution: str, after: int) -> list[dict[str, Any]]:
        return self._get(f"/v1/executions/{quote(execution)}/events?after={after}&limit=1000")["items"]

    def _get(self, path: str) -> Any:
        failed: Exception = ConnectionError("no server lives")
        for name in [one for one in self.servers if one not in self.away]:
            try:
                return self._get_from(name, path)
            except (OSError, http.client.HTTPException, ValueError) as error:
                failed = error
        raise failed

    def _get_from(self, server: str, path: str) -> Any:
        address = urlsplit(self._setup.address(server))
        key = (self._setup.folder / f"{server}.key").read_text(encoding="utf-8")
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ASK_SECONDS)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"{path}: {response.status} {body[:200]!r}")
        return json.loads(body)


def export(setup: Setup) -> None:
    """Write down all histories of a store that no server serves."""
    with AgentRuntime(store=setup.store, serve_tools=False) as runtime:
        views = runtime.executions()
        found = [(view, runtime.wait(runtime.api.events(view.id))) for view in views]
    write(setup.folder / "export.json", codec.dump(found).decode())


def world_entries(setup: Setup) -> list[Entry]:
    """Return what was done to the world so far."""
    return read_world_log(setup.world_log) if setup.world_log.exists() else []


def judge(outcome: Outcome, setup: Setup, ask: Ask, expect: dict[str, Any]) -> None:
    """Add what is wrong, and the counts."""
    outcome.problems += report_problems(setup)
    try:
        histories, earlier = ask.histories()
    except (OSError, http.client.HTTPException, ValueError) as error:
        outcome.problems.append(f"nobody could be asked for the histories: {error!r}")
        return
    given: dict[str, Any] = {
        name: frozenset(value) if isinstance(value, list) else value for name, value in expect.items()
    }
    entries = world_entries(setup)
    report = check(entries, ClientLog(setup.client_log), histories, Expect(earlier=tuple(earlier), **given))
    outcome.problems += map(str, report.violations)
    outcome.problems += book_problems(setup, histories)
    counts = report.summary()
    outcome.calls_made, outcome.calls_twice = counts.model_calls_made, counts.model_calls_maybe_paid_twice
    outcome.uncertain = counts.uncertain
    outcome.counts = dict(count(histories, entries, outcome.struck_at_ms))
    outcome.resolved = dict(resolved(histories))
    shown = sum(timeline_of(map(_logged, history.events)).repeated for history in histories)
    if shown < outcome.calls_twice:
        outcome.problems.append(
            f"P1: {outcome.calls_twice} model calls may be paid twice, and people are told of {shown}"
        )
    main = (setup.folder / "report.id").read_text(encoding="utf-8") if (setup.folder / "report.id").exists() else ""
    outcome.facts = [_fact(event) for history in histories if history.id == main for event in history.events]


def _logged(event: Event) -> LoggedEvent:
    return LoggedEvent(event.seq, Kind(event.kind), event.address, "", dict(event.data), event.at_ms)


def _fact(event: Event) -> dict[str, Any]:
    told = {name: event.data[name] for name in TOLD if name in event.data}
    return {"kind": event.kind, "address": event.address, "seq": event.seq, "at_ms": event.at_ms, **told}


def report_problems(setup: Setup) -> list[str]:
    """Say what is wrong with the report: it has to be there, and the agent's last words have to name it."""
    if not setup.result.exists():
        return ["there is no result"]
    result = json.loads(setup.result.read_text(encoding="utf-8"))
    if result["status"] != "completed":
        return [f"the report ended as {result['status']}"]
    text = str(result["output"]["result"])
    pdf = Path(text.partition("ready: ")[2].partition("\n")[0] or "/none")
    if not pdf.is_file():
        return [f"the output names no file: {text!r}"]
    content = pdf.read_bytes()
    whole = content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")
    return [] if whole else [f"{pdf} is no whole PDF"]


def book_problems(setup: Setup, histories: Sequence[History]) -> list[str]:
    """Say what is wrong with the book that a transactional tool writes: one line for each call that was done."""
    book = setup.folder / BOOK
    if not book.exists():
        return []
    with closing(sqlite3.connect(book)) as connection:
        lines = Counter(row[0] for row in connection.execute("SELECT execution FROM lines"))
    done = {one.id for one in histories for event in one.events if event.data.get("value") == "booked"}
    twice = [f"P4: {execution} has {often} lines in its book" for execution, often in lines.items() if often > 1]
    return twice + [f"P4: {execution} has no line in its book" for execution in sorted(done - lines.keys())]


def read_passes(outcome: Outcome, setup: Setup) -> None:
    """Add which points were passed, and how often."""
    logs = setup.folder.glob(log_of_points(setup, "*").name)
    outcome.seen = sorted({point for log in logs for point in log.read_text(encoding="utf-8").split()})
    for file in setup.folder.glob("passes-*.json"):
        for point, often in json.loads(file.read_text(encoding="utf-8")).items():
            outcome.passes[point] = outcome.passes.get(point, 0) + often


def log_of_points(setup: Setup, member: str) -> Path:
    """Return where a process writes down the first time that it passes a point."""
    return setup.folder / f"points-{member}"


def points_of(setup: Setup, member: str) -> list[str]:
    """Return the points that the lives of one process passed, in the order of the latest first times."""
    log = log_of_points(setup, member)
    passed = log.read_text(encoding="utf-8").split() if log.exists() else []
    return list(reversed(dict.fromkeys(reversed(passed))))


def memory_group(limit_bytes: int) -> Path:
    """Make a control group with a memory limit, version 1 or 2. Raises `OSError` where that is not allowed."""
    one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    first = one.is_dir()
    group = (one if first else two) / f"perdure-crash-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit_bytes), encoding="ascii")
    except OSError:
        group.rmdir()
        raise
    return group


def oom_kills(group: Path) -> int:
    """Return how many processes of a control group the kernel killed."""
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            lines = dict(line.split() for line in (group / name).read_text(encoding="ascii").splitlines())
            return int(lines.get("oom_kill", 0))
    return 0
