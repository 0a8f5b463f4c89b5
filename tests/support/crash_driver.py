"""Run crash cases: fork the processes, kill them where the case says, start again whoever died, judge what is left.

A program of its own: `python crash_driver.py` reads cases, one JSON object a line, and answers each with its outcome.
It imports everything, has one thread, opens no store and runs no loop; what it learns of the executions, it asks over
HTTP like anybody else.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import crash_judge
from crash_case import LAYOUTS, Case, Nudge, Outcome, Storm, Strike
from crash_judge import Ask
from crash_roles import PROGRAMS, Setup, write
from crash_storm import Weather
from perdure import failpoints
from perdure.errors import Retryable
from perdure.testing.family import Family, News

CLIENTS = {"joint": "client+worker", "embedded": "embedded"}
"""What else a client is, in some layouts."""
GAVE_UP = 75
"""The exit code of a program that could not reach whom it needs: it may be started again. Any other is a fault."""
LOOK_SECONDS = 0.02
ASK_SECONDS = 0.15
RESTART_SECONDS = 0.02
"""Doubles with each life that ended without anybody's help."""
AFTERMATH_SECONDS = 1.0
"""How long a strike may still fall after the result is there."""
ANSWER_SECONDS = 10.0
"""How long somebody may take to answer for the histories: a server that falls at that question is started again."""
ANYWHERE = frozenset({"fsync", "rename", "unlink", "read", "write", "sendto", "sendmsg", "recvfrom", "accept4"})
"""System calls that are broken wherever the server makes them: on sockets, or on files of which it has few."""
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, 2**64 - 1
"""See prctl(2): where only a parent may trace, another process may that was named."""
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP, "cont": signal.SIGCONT}


class Run:
    """One case, from the first fork to the verdict."""

    def __init__(self, case: Case, folder: Path) -> None:
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in case.setup.items()
        }
        self.case, self.setup = case, Setup(folder=folder, **given)
        self.outcome = Outcome(case.name, folder=str(folder))
        self._family = Family(folder)
        self._place = LAYOUTS[case.layout]
        self._members = list(dict.fromkeys(self._place.values()))
        self._armed, self._nudges = list(case.strikes), list(case.nudges)
        self._due: list[tuple[float, Nudge]] = []
        self._weather = Weather(case.storm)
        self._again: dict[str, float] = {}
        self._lives: dict[str, int] = {}
        self._done = False
        self._fired = self._given = 0
        self._ask = Ask(self.setup)
        self._asked = self._began = self._resumed = 0.0
        self._group = crash_judge.memory_group(case.memory_bytes) if case.memory_bytes else None

    def run(self) -> Outcome:
        """Return what came of it. Never raises for anything that the product did."""
        self._began = time.monotonic()
        try:
            self._start("world")
            self._until(lambda: (self.setup.folder / "world.port").exists())
            for member in self._members:
                self._again[member] = 0.0
            self._until(self._finished)
            if not self._done:
                self.outcome.problems.append(f"no result after {self.case.deadline_seconds:g} s")
            self.outcome.seconds = round(time.monotonic() - self._began, 2)
            self._aftermath()
            self._judge()
        finally:
            self._family.end()
            if self._group is not None:
                self.outcome.oom_kills = crash_judge.oom_kills(self._group)
                self._group.rmdir()
        return self.outcome

    # What happens while it runs.

    def _until(self, fact: Any, seconds: float = math.inf) -> None:
        end = min(self._began + self.case.deadline_seconds, time.monotonic() + seconds)
        while not fact() and time.monotonic() < end:
            for news in self._family.wait(LOOK_SECONDS):
                self._heard(news)
            now = time.monotonic()
            for member, at in list(self._again.items()):
                if at <= now and self._may_start(member):
                    del self._again[member]
                    self._start(member)
            self._look(now)

    def _finished(self) -> bool:
        return self._done and not self._due and self._ask.all_ended()

    def _aftermath(self) -> None:
        """Let what was to be killed near the end be killed, and whoever is needed to answer live again."""
        self._until(lambda: all(one.optional for one in self._armed), AFTERMATH_SECONDS)
        self.outcome.unfired = [one.point for one in self._armed if not one.optional]
        self._armed.clear()
        self._until(self._ask.answers)

    def _heard(self, news: News) -> None:
        if news.what == "stopped":
            if not news.ours:
                self._strike(news.role)
            return
        if news.role == "world":
            self.outcome.problems.append(f"the world ended: {news}")
            return
        self._died(news)
        injected = bool(self.case.inject) and news.role == "server" and self._lives["server"] == 1
        if injected and news.code not in (0, GAVE_UP):
            self.outcome.injected = True
            self.outcome.struck(counts=False)
        if news.what == "exited" and news.code not in (0, GAVE_UP) and not injected:
            self.outcome.problems.append(f"{news.role} ended with {news.code}: {self._last_words(news.role)}")
        if news.role == "client" and news.what == "exited" and news.code == 0 and self.setup.result.exists():
            self._done = True
            self.outcome.resumed_seconds = round(time.monotonic() - self._resumed, 2)
        elif news.role in self._members:
            lives = self._lives[news.role] if news.what == "exited" and news.code else 0
            self._again[news.role] = time.monotonic() + RESTART_SECONDS * 2 ** min(lives, 4) * (lives > 0)

    def _last_words(self, role: str) -> str:
        said = (self.setup.folder / f"{role}.out").read_text(encoding="utf-8", errors="replace").strip()
        return said.rpartition("\n")[2]

    def _died(self, news: News) -> None:
        at = time.monotonic() - self._began
        how = "" if news.what == "killed" else f" ({news.code})"
        self.outcome.deaths.append(f"{news.role}{how} at {at:.2f}")
        by_point = news.what == "killed" and news.code == signal.SIGKILL and not news.ours
        struck = self._passed(
            news.role, [one for one in self._armed_in(news.role) if self._kills_itself(one, news.role)]
        )
        if by_point and struck is not None:
            self._fell(struck)
            self.outcome.struck()

    def _strike(self, member: str) -> None:
        """A process stands at a point: kill whom the case says, and let it go on if it lives."""
        strike = self._passed(member, self._armed_in(member))
        if strike is None:
            self.outcome.problems.append(f"{member} stopped, and nobody asked it to")
            return
        self._fell(strike)
        victims = {self._place.get(role, role) for role in strike.victims}
        for victim in victims:
            if self._family.pid(victim):
                self.outcome.struck()
            self._family.signal(victim, signal.SIGKILL)
        if strike.victims and member not in victims:
            self._family.signal(member, signal.SIGCONT)

    def _armed_in(self, member: str) -> list[Strike]:
        """Return the strikes that the present life of a process carries."""
        return [
            one
            for one in self._armed
            if self._place.get(one.holder, one.holder) == member and one.life <= self._lives.get(member, 0)
        ]

    def _passed(self, member: str, armed: list[Strike]) -> Strike | None:
        """Return the strike at whose point a process stands, or fell: of several, the one that it passed last."""
        order = crash_judge.points_of(self.setup, member)
        return max(armed, key=lambda one: order.index(one.point) if one.point in order else -1, default=None)

    def _fell(self, strike: Strike) -> None:
        self._armed.remove(strike)
        self._fired += 1

    def _kills_itself(self, strike: Strike, member: str) -> bool:
        victims = {self._place.get(role, role) for role in strike.victims}
        return victims == {member} and self._place.get(strike.holder, strike.holder) == member

    # Looking from outside.

    def _look(self, now: float) -> None:
        if now - self._asked >= ASK_SECONDS and not self._ask.paused:
            self._asked = now
            self._ask.look()
        for nudge in [one for one in self._nudges if self._seen(one.when)]:
            self._nudges.remove(nudge)
            self._due.append((now + (0.0 if nudge.act == "skip" else nudge.after), nudge))
        for due in [one for one in self._due if one[0] <= now]:
            self._due.remove(due)
            self._nudge(due[1])
        if self.case.storm and self._in_flight() and not self._done:
            self._blow(now, self.case.storm)

    def _seen(self, when: str) -> bool:
        what, _, rest = when.partition(":")
        name, _, count = rest.partition("@")
        needed = int(count or 1)
        match what:
            case "event":
                return self._ask.kinds().count(name) >= needed
            case "world":
                return sum(entry.name == name for entry in crash_judge.world_entries(self.setup)) >= needed
            case "note":
                return (self.setup.folder / name).exists()
            case "strike":
                return self._fired >= int(name)
            case _:
                return self._given >= int(name)

    def _nudge(self, nudge: Nudge) -> None:
        self._given += 1
        if nudge.act == "skip":
            write(self.setup.skipped_ms, str(round(nudge.after * 1000)))
        elif nudge.act == "start":
            self._members.append(nudge.role)
            self._again[nudge.role] = 0.0
        else:
            member = self._place.get(nudge.role, nudge.role)
            self._family.signal(member, SIGNALS[nudge.act])
            if member == "server" and nudge.act in ("stop", "cont"):
                self._ask.paused = nudge.act == "stop"

    def _in_flight(self) -> bool:
        """Say whether the main execution was begun; whether it has ended is in `_done`."""
        return (self.setup.folder / "report.id").exists()

    def _blow(self, now: float, storm: Storm) -> None:
        """Kill or stop somebody, now and then."""
        blow = self._weather.blow(now, [member for member in self._members if self._family.pid(member)])
        for victim in blow.victims if blow else ():
            if blow and blow.act == "stop":
                self.outcome.stops += 1
                self._nudge(Nudge("", "stop", victim))
                self._due.append((now + storm.stop_seconds, Nudge("", "cont", victim)))
            else:
                self.outcome.struck()
                self._family.signal(victim, signal.SIGKILL)

    # Lives.

    def _may_start(self, member: str) -> bool:
        """A client is started when there is a server to talk to for the first time; from then on at once."""
        return kind_of(member) in ("server", "world") or "server" not in self._members or self._ask.was_ready()

    def _start(self, member: str) -> None:
        self._lives[member] = self._lives.get(member, 0) + 1
        if member == "client":
            self._resumed = time.monotonic()
        kind = CLIENTS.get(self.case.layout, "client") if member == "client" else kind_of(member)
        group = self._group if member == "client" and self._lives[member] == 1 else None
        spec = "" if member == "world" else self._spec(member)
        inject = self.case.inject if member == "server" and self._lives[member] == 1 else ""
        setup = replace(self.setup, me=member, server=self._server_of(member))
        program = partial(_broken, self.setup, inject) if inject else partial(_life, kind, member, setup, spec)
        self._family.start(member, program, group=group)

    def _server_of(self, member: str) -> str:
        """Return the server that a process speaks to in its present life."""
        return "server"

    def _spec(self, member: str) -> str:
        parts = [
            f"{one.point}={'kill' if self._kills_itself(one, member) else 'stop'}@{one.nth}"
            for one in self._armed_in(member)
        ]
        if self._lives[member] == 1 and member in self.case.faults:
            parts.append(self.case.faults[member])
        return ";".join(parts)

    # The end.

    def _judge(self) -> None:
        if self.case.layout == "embedded":
            self._family.start("export", partial(_life, "export", "export", self.setup, ""))
            self._until(lambda: not self._family.pid("export"))
        for member in self._members:  # politely, so that they say what they passed
            self._family.signal(member, signal.SIGCONT)
        self._until(self._ask.heard_out, ANSWER_SECONDS)
        crash_judge.judge(self.outcome, self.setup, self._ask, self.case.expect)
        if not any(strike.victims for strike in self.case.strikes):
            for member in self._members:
                self._family.signal(member, signal.SIGTERM)
            until = time.monotonic() + 5
            while any(map(self._family.pid, self._members)) and time.monotonic() < until:
                self._family.wait(0.05)
        crash_judge.read_passes(self.outcome, self.setup)


def kind_of(member: str) -> str:
    """Return what a process is: of some there are several."""
    return member.rstrip("0123456789")


def _life(kind: str, member: str, setup: Setup, spec: str) -> None:
    failpoints.arm(spec, str(crash_judge.log_of_points(setup, member)))
    os.environ["SKILL_OUT_DIR"] = str(setup.folder / "exports")
    os.environ["XDG_STATE_HOME"] = str(setup.disk / "state")
    try:
        (crash_judge.export if kind == "export" else PROGRAMS[kind])(setup)
    except Retryable as error:
        sys.stderr.write(f"gave up: {error}\n")
        sys.exit(GAVE_UP)
    finally:
        if kind != "export":
            write(setup.folder / f"passes-{member}.json", json.dumps(failpoints.passes()))


def _broken(setup: Setup, inject: str) -> None:
    """Be the server, with a system call broken: by a tracer, or by libfiu, which has to be loaded first."""
    if not inject.startswith("fiu:"):
        _be_traced(setup, inject)
        _life("server", "server", setup, "")
        return
    _, fails, how = inject.split(":")
    broken = f"enable_random name=posix/io/{fails},{how},failinfo={errno.EIO}"
    life = [sys.executable, __file__, "server", json.dumps({**asdict(setup), "folder": str(setup.folder)})]
    path = os.pathsep.join(one for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(setup.disk / "state")}
    os.execvpe("fiu-run", ["fiu-run", "-x", "-c", broken, *life], environment)


def _be_traced(setup: Setup, inject: str) -> None:
    """Return with a tracer at this process, which does something to one of the system calls that it makes from here on.

    A call on files counts only where it meets the store's: a server reads others, too.
    """
    call, store = inject.partition(":")[0], setup.store
    files = [store, *(store.with_name(store.name + end) for end in ("-wal", "-shm", "-journal", ".lock"))]
    met = (
        []
        if call.partition(",")[0] in ANYWHERE
        else [f"--trace-path={path}" for path in (*files, store.parent, setup.state_file)]
    )
    log, me = str(setup.folder / "strace.log"), str(os.getpid())
    trace = ["strace", "-f", "-qq", "-o", log, *met, "-e", f"trace={call}", "-e", f"inject={inject}", "-p", me]
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PR_SET_PTRACER_ANY), 0, 0, 0)  # it is no parent of ours
    tracer = os.posix_spawnp("strace", trace, os.environ)
    status = os.open("/proc/self/status", os.O_RDONLY)
    while b"TracerPid:\t0" in os.pread(status, 4096, 0):  # not `read`, of which one may be broken
        if os.waitpid(tracer, os.WNOHANG)[0]:
            raise RuntimeError("strace could not attach itself to the server")
        time.sleep(0.001)
    os.close(status)


def run_case(case: Case, *, keep: bool = False, make: Callable[[Case, Path], Run] = Run) -> Outcome:
    """Run one case in a folder of its own, which is kept when something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
    (folder / "exports").mkdir()
    outcome = make(case, folder).run()
    if outcome.ok and not keep:
        shutil.rmtree(folder)
        outcome.folder = ""
    return outcome


def main() -> None:
    """Answer cases until there are none; or live the life of one role, for a tracer."""
    if len(sys.argv) == 3:
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(sys.argv[2]).items()
        }
        _life(sys.argv[1], sys.argv[1], Setup(**{**given, "folder": Path(given["folder"])}), "")
        return
    answer(run_case)


def answer(run: Callable[[Case], Outcome]) -> None:
    """Read cases, one JSON object a line, and answer each with its outcome."""
    known = {field.name for field in fields(Setup)}
    for line in sys.stdin:
        case = Case.from_json(json.loads(line))
        assert case.setup.keys() <= known, case.setup
        sys.stdout.write(json.dumps(run(case).to_json()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
