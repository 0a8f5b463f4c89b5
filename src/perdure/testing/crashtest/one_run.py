"""One run: fork the processes, start the agent, kill where the strike says, start again whoever died, see it end.

The parent has one thread, opens no store and runs no loop. What it does to a process it does by the number of its own
child. Nothing is judged here: what is left is evidence.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from perdure.core import states
from perdure.core.events import Kind
from perdure.testing.crashtest.asking import Client, NoAnswer, Refused
from perdure.testing.crashtest.bodies import START, BodyLine, read_bodies
from perdure.testing.crashtest.boundaries import Strike
from perdure.testing.crashtest.place import Place
from perdure.testing.crashtest.roles import Life, play
from perdure.testing.crashtest.subject import Facts, Subject
from perdure.testing.evidence import MODEL_REPLY, MODEL_REQUEST, Entry, read_world_log
from perdure.testing.family import Family, News

WAIT_SECONDS = 0.02
LOOK_SECONDS = 0.06
MODEL = "scripted/crashtest"
LEASE_MS = 5_000
"""Waited for by nobody, where a lock proves a death: long, so that a slow machine loses none by itself."""
STOPPED_LEASE_MS = 1_500
"""Where a lease is to run out."""
PARKED_SECONDS = 0.4
"""How long an execution has to wait for nothing but a ruling before that counts as its end here."""
OVERTAKEN_SECONDS = 1.0
"""How long a stopped worker stays so once its lease was lost: others act meanwhile."""
LATE_SECONDS = 3.0
"""How long the bodies of one that goes on may take to end."""
LEAVE_SECONDS = 5.0
RESTARTS = 5
"""How often a process that ends by itself is started again."""
_ACTIVE = frozenset({states.Task.READY, states.Task.LEASED, states.Task.BEGUN})
_LOST = frozenset({Kind.ATTEMPT_LOST, Kind.TASK_UNCERTAIN})


@dataclass(frozen=True, slots=True)
class Plan:
    """What all runs have in common."""

    subject: Subject
    facts: Facts
    timeout_seconds: float


@dataclass(slots=True)
class Evidence:
    """What one run left."""

    fired: bool = False
    """The boundary was passed, and its victim killed or stopped there."""
    kills: int = 0
    seconds: float = 0.0
    ended: bool = False
    parked: bool = False
    """It waits for somebody to rule on an unknown outcome, and for nothing else."""
    why: str = ""
    """Where it did not end: what the doctor says."""
    broken: list[str] = field(default_factory=list[str])
    """Processes that ended by themselves, with their last words."""
    view: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    bodies: list[BodyLine] = field(default_factory=list[BodyLine])
    world: list[Entry] = field(default_factory=list[Entry])
    observed: dict[str, int] = field(default_factory=dict[str, int])
    """What `observe` counts more than before the run."""
    passes: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Failpoints by role, of a run in which nobody was killed."""

    @property
    def told(self) -> list[Entry]:
        """The effects that tools told."""
        return [entry for entry in self.world if entry.name not in (MODEL_REQUEST, MODEL_REPLY)]


class Run:
    """One run, from the first fork to the evidence."""

    def __init__(self, plan: Plan, place: Place, strike: Strike | None) -> None:
        self._plan, self._place, self._strike = plan, place, strike
        self._family = Family(place.folder)
        self._client = Client(place)
        self._evidence = Evidence()
        self._lives: dict[str, int] = {}
        self._again: dict[str, float] = {}
        self._deadline = self._looked = self._parked_since = 0.0
        self._lost_at = self._cont_at = 0.0
        self._stopped_seq: int | None = None
        """So many events there were when the worker was stopped."""
        self._leaving = False
        place.own.mkdir(parents=True)
        place.state.mkdir()

    def go(self) -> Evidence:
        """Return the evidence. Never raises for anything that the agent or the product did."""
        began = time.monotonic()
        self._deadline = began + self._plan.timeout_seconds
        evidence = self._evidence
        try:
            self._start("world")
            self._until(lambda: bool(self._place.note("world.url")))
            self._start("server")
            if self._plan.facts.has_worker:
                self._start("worker")
            before = self._observe()  # nothing is done before the execution is started
            self._until(self._finished)
            evidence.seconds = round(time.monotonic() - began, 2)
            if not (evidence.ended or evidence.parked):
                evidence.why = self._client.why() if self._client.execution else "it could not be started"
            self._settle()
            after = self._observe()
            evidence.observed = {key: count - before.get(key, 0) for key, count in after.items()}
            if self._strike is None:
                self._ask_to_leave()
        finally:
            self._family.end()
        self._collect()
        return evidence

    # The loop.

    def _until(self, fact: Callable[[], bool]) -> None:
        while not fact() and time.monotonic() < self._deadline:
            for news in self._family.wait(WAIT_SECONDS):
                self._heard(news)
            now = time.monotonic()
            for role in [role for role, at in self._again.items() if at <= now]:
                del self._again[role]
                self._start(role)
            if now - self._looked >= LOOK_SECONDS and self._place.note("server.url"):
                self._looked = now
                self._look()

    def _finished(self) -> bool:
        evidence = self._evidence
        evidence.ended = self._client.ended
        if self._strike is not None and self._strike.boundary.stops and evidence.fired and not self._cont_at:
            return False
        evidence.parked = bool(self._parked_since) and time.monotonic() - self._parked_since > PARKED_SECONDS
        return evidence.ended or evidence.parked

    def _look(self) -> None:
        client = self._client
        try:
            if not client.execution:
                client.start(self._spec(), self._plan.subject.input)
            client.look()
            client.approve()
            self._rule()
        except NoAnswer:
            return
        except Refused as refused:
            self._evidence.broken.append(str(refused))
            self._deadline = 0.0
            return
        self._note_parked()
        self._strike_from_outside()
        self._let_go_on()

    def _spec(self) -> dict[str, Any]:
        """Return the agent with the world's model in place of its own."""
        return {**self._plan.facts.spec, "model": MODEL, "base_url": self._place.note("world.url")}

    def _note_parked(self) -> None:
        """Note since when nothing but a ruling can bring the execution on."""
        tasks, view = self._client.tasks, self._client.view
        unknown = [task for task in tasks if task["state"] == states.Task.UNCERTAIN]
        probed = any(self._tool_has_probe(task["tool"]) for task in unknown)
        active = any(task["state"] in _ACTIVE for task in tasks) or view.get("approvals")
        only_that = view.get("state") == states.Execution.WAITING and unknown and not active
        if not only_that or (probed and time.monotonic() < self._deadline - 2 * PARKED_SECONDS):
            self._parked_since = 0.0
        elif not self._parked_since:
            self._parked_since = time.monotonic()

    def _rule(self) -> None:
        """Say of unknown outcomes whose effect was told that it happened. What was not told, nobody here knows."""
        for task in self._client.tasks:
            if task["state"] != states.Task.UNCERTAIN or self._tool_has_probe(task["tool"]):
                continue
            told = [one for one in self._world() if (one.execution, one.step) == (task["execution"], task["address"])]
            if told:
                self._client.rule(task["address"], "happened", "the effect was told to the crash test")

    def _tool_has_probe(self, tool: str) -> bool:
        facts = self._plan.facts.tools.get(tool)
        return facts is not None and facts.probe

    # Strikes.

    def _strike_from_outside(self) -> None:
        """Kill the server once the model has its n-th request."""
        strike = self._strike
        if strike is None or strike.boundary.point or self._evidence.fired:
            return
        asked = sum(entry.name == MODEL_REQUEST for entry in self._world())
        if asked >= strike.nth and self._family.pid(strike.boundary.victim):
            self._family.signal(strike.boundary.victim, signal.SIGKILL)
            self._struck()

    def _struck(self) -> None:
        self._evidence.fired = True
        self._evidence.kills += 1

    def _heard(self, news: News) -> None:
        if news.what == "stopped":
            if not news.ours:
                self._evidence.fired = True
                self._stopped_seq = len(self._client.events)
                self._start("worker2")
            return
        if self._leaving or news.role == "observe":
            return
        if news.what == "killed" and news.code == signal.SIGKILL and not news.ours and self._armed(news.role):
            self._struck()
        elif news.what == "exited" or not news.ours:
            how = f"the {news.role} ended by itself ({news.what} {news.code})"
            self._evidence.broken.append(f"{how}: {self._last_words(news)}")
        if self._lives[news.role] <= RESTARTS:
            self._again[news.role] = time.monotonic() + 0.1 * (self._lives[news.role] - 1)

    def _armed(self, role: str) -> bool:
        strike = self._strike
        return (
            strike is not None
            and not self._evidence.fired
            and bool(strike.boundary.point)
            and (role, self._lives[role]) == (strike.boundary.victim, 1)
        )

    def _let_go_on(self) -> None:
        """Have a stopped worker go on once its lease is lost and others had time to act in its place."""
        if self._stopped_seq is None or self._cont_at:
            return
        new = self._client.events[self._stopped_seq :]
        lost = {event["address"]: event["kind"] for event in new if event["kind"] in _LOST}
        done = {event["address"] for event in new if event["kind"] in (Kind.TASK_COMPLETED, Kind.TASK_FAILED)}
        unknown = Kind.TASK_UNCERTAIN in lost.values()
        if lost and not self._lost_at:
            self._lost_at = time.monotonic()
        long_ago = bool(self._lost_at) and time.monotonic() > self._lost_at + OVERTAKEN_SECONDS
        if unknown or done & lost.keys() or long_ago:
            self._family.signal("worker", signal.SIGCONT)
            self._cont_at = time.monotonic()

    # Lives.

    def _start(self, role: str) -> None:
        self._lives[role] = self._lives.get(role, 0) + 1
        strike = self._strike
        points = faults = ""
        if strike is not None and self._lives[role] == 1:
            boundary = strike.boundary
            if role == boundary.victim and boundary.point:
                points = f"{boundary.point}={'stop' if boundary.stops else 'kill'}@{strike.nth}"
            if role == "world" and not boundary.point:
                faults = f"model=slow:{min(self._plan.timeout_seconds, 60)}@{strike.nth}"
        lease_ms = STOPPED_LEASE_MS if strike is not None and strike.boundary.stops else LEASE_MS
        life = Life(self._plan.subject, self._place, lease_ms, points, faults)
        self._family.start(role, partial(play, role, life))

    def _observe(self) -> dict[str, int]:
        if not self._plan.facts.observes:
            return {}
        (self._place.folder / "observed.json").unlink(missing_ok=True)
        self._start("observe")
        until = time.monotonic() + self._plan.timeout_seconds
        while self._family.pid("observe") and time.monotonic() < until:
            for news in self._family.wait(WAIT_SECONDS):
                self._heard(news)
        note = self._place.note("observed.json")
        if not note:
            said = self._place.note("observe.out").strip().rpartition("\n")[2]
            self._evidence.broken.append(f"`observe` did not count: {said}")
        return json.loads(note) if note else {}

    def _settle(self) -> None:
        """Let bodies that still run end: a worker that was stopped may act after the execution has ended."""
        until = time.monotonic() + LATE_SECONDS
        while self._running_bodies() and time.monotonic() < until:
            for news in self._family.wait(WAIT_SECONDS):
                self._heard(news)

    def _running_bodies(self) -> bool:
        if not self._cont_at:
            return False
        if time.monotonic() < self._cont_at + OVERTAKEN_SECONDS / 2:
            return True  # it may not have started yet
        lines = read_bodies(self._place.bodies)
        return sum(line.what == START for line in lines) * 2 > len(lines)

    def _ask_to_leave(self) -> None:
        """Have server and worker end in order, so that they say which failpoints they passed."""
        self._leaving = True
        roles = ("worker", "server")
        for role in roles:
            self._family.signal(role, signal.SIGTERM)
        until = time.monotonic() + LEAVE_SECONDS
        while any(map(self._family.pid, roles)) and time.monotonic() < until:
            self._family.wait(WAIT_SECONDS)

    def _world(self) -> list[Entry]:
        return read_world_log(self._place.world_log) if self._place.world_log.exists() else []

    def _last_words(self, news: News) -> str:
        return self._place.note(f"{news.role}.out").strip().rpartition("\n")[2] or "it said nothing"

    def _collect(self) -> None:
        evidence = self._evidence
        evidence.view, evidence.events = self._client.view, self._client.events
        evidence.bodies, evidence.world = read_bodies(self._place.bodies), self._world()
        for role in ("server", "worker"):
            if note := self._place.note(f"passes-{role}.json"):
                evidence.passes[role] = json.loads(note)
