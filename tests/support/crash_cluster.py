"""Three servers and four workers on one PostgreSQL, and what befalls them at moments that a seed chooses.

Any of them is killed, stopped past its lease, or told to leave and replaced, one by one or all of a kind; the database
crashes and recovers, ends sessions, and loses its replies to commits; servers are cut off from it, or from workers and
clients; their clocks differ by hours.
"""

from __future__ import annotations

import http.client
import signal
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

from commit_cutting_proxy import CuttingProxy
from crash_case import Case, Nudge, Outcome
from crash_cuts import Cuts
from crash_driver import LOOK_SECONDS, SIGNALS, Run, kind_of
from crash_gale import OF_THE_NETWORK, TOLD, WEIGHTS, Act, Gale
from crash_net import WAYS, Net, Way
from crash_postgres import Postgres, address
from crash_roles import write
from crash_stalls import NO_STALL, Stall, longest_stall
from perdure.testing.family import News
from postgres_fronts import socket_in

LONGEST_STALL, STALLS = "longest stall, ms", "stalls longer than a lease and a second"
SERVERS = 3
MOST_CUT_SECONDS = 5.0
SLACK_MS = 1_000
"""How much longer than a lease an execution may stand still."""
PROXIED = "server"
"""The server that reaches the database through what loses replies to COMMITs."""
AWAY_SECONDS = 0.6
"""How long a crashed database stays away, at most, before it is started."""
MOST_CUTS = 3
SKEWS_MS = (0, 0, 3_600_000, -3_600_000, 86_400_000, 900, -900)
"""By how much the clocks of servers may differ from the machine's."""


class ClusterRun(Run):
    """A run whose store is a database."""

    def __init__(self, case: Case, folder: Path, postgres: Postgres, net: Net | None) -> None:
        super().__init__(case, folder)
        self._postgres = postgres
        self._net = net
        self._cuts = Cuts(net)
        self._servers = [one for one in self._members if kind_of(one) == "server"]
        self._ask.servers = self._servers
        self._gale = Gale(case.storm, self._acts())
        self._made: Counter[str] = Counter()
        self._befell_ms: list[int] = []
        """When something befell the system, or was over."""
        self._stopped: set[str] = set()
        self._rolling: list[str] = []
        self._told_to_leave = 0
        """The process that is to be replaced now."""
        self._launch_at = 0.0
        self._recovering = False

    def run(self) -> Outcome:
        name = self._postgres.new()
        self.setup.disk.mkdir()
        (self.setup.folder / "front").mkdir()
        for server in self._servers:
            write(self.setup.folder / f"{server}.database", self._address(server, name))
            ahead_ms = self._gale.dice.choice(SKEWS_MS) if self.case.storm else 0
            write(self.setup.folder / f"{server}.ahead_ms", str(ahead_ms))
        self._name = name
        try:
            if PROXIED in self._fronted():
                self._start_front()
            return super().run()
        finally:
            self._cuts.heal(*self._servers)
            while not self._database_back():
                time.sleep(LOOK_SECONDS)
            self._postgres.drop(name)

    # What the servers stand on.

    def _acts(self) -> Sequence[Act]:
        return [act for act in WEIGHTS if self._net or act not in OF_THE_NETWORK]

    def _fronted(self) -> Sequence[str]:
        return [PROXIED] if self.case.storm else []

    def _address(self, server: str, name: str) -> str:
        if server in self._fronted():
            return address(name, self.setup.folder / "front")
        if self._net and self.case.layout == "cluster":
            return address(name, self._net.address(self._number(server)))
        return address(name, self._postgres.folder)

    def _number(self, server: str) -> int:
        return self._servers.index(server) + 1

    def _start_front(self) -> None:
        behind, folder = socket_in(self._postgres.folder), self.setup.folder
        self._family.start("front", partial(_lose_replies, behind, folder / "front", folder / "cuts"))
        while not socket_in(folder / "front").exists():
            self._family.wait(0.01)

    # Who speaks to whom.

    def _server_of(self, member: str) -> str:
        """Workers are spread over the servers; the client goes to the next one in each life."""
        kind = kind_of(member)
        number = self._lives[member] if kind == "client" else int(member.removeprefix(kind) or 1)
        return self._servers[(number - 1) % len(self._servers)]

    def _may_start(self, member: str) -> bool:
        kind = kind_of(member)
        if kind in ("server", "world"):
            return True
        life = self._lives.get(member, 0) + 1
        number = life if kind == "client" else int(member.removeprefix(kind) or 1)
        return (self.setup.folder / f"{self._servers[(number - 1) % len(self._servers)]}.ready").exists()

    def _heard(self, news: News) -> None:
        if news.role == "front":
            self.outcome.problems.append(f"the proxy ended: {news}")
            return
        if news.what != "stopped":
            self._stopped.discard(news.role)
        super()._heard(news)

    # What befalls them.

    def _look(self, now: float) -> None:
        self._database_back()
        self._roll_on()
        self._cuts.heal_due(now)
        dead = frozenset(one for one in self._servers if not self._family.pid(one))
        self._ask.away = dead | self._stopped | self._cuts.servers
        super()._look(now)

    def _blow(self, now: float, storm: object) -> None:
        if self._recovering or self._rolling:
            return  # one at a time: what is measured then has one cause
        alive = [one for one in self._members if self._family.pid(one)]
        blow = self._gale.blow(now, alive)
        if blow is None:
            return
        self._befell()
        if told := TOLD.get(blow.act):
            self._made[told] += 1
        match blow.act:
            case "kill" | "kill all":
                self._kill(blow.victims)
            case "stop":
                self._stop(blow.victims[0], now)
            case "roll":
                self._rolling = [one for one in self._members if kind_of(one) != "client"]
            case "crash":
                self._crash(now)
            case "end sessions":
                self._made["sessions ended"] += self._postgres.end_sessions(self._name, self._gale.dice)
            case "cut commits":
                for _ in range(self._gale.dice.randint(1, MOST_CUTS)):
                    self._family.signal("front", signal.SIGUSR1)
            case "cut off":
                self._cut_off(self._gale.dice.choice([one for one in self._servers if one != PROXIED]), now)
            case "hide":
                self._hide(self._gale.dice.choice(self._servers), now)

    def _befell(self) -> None:
        self._befell_ms.append(time.time_ns() // 1_000_000)

    def _kill(self, victims: Sequence[str]) -> None:
        for victim in victims:
            self.outcome.struck()
            self._family.signal(victim, signal.SIGKILL)

    def _stop(self, victim: str, now: float) -> None:
        assert self.case.storm is not None
        self.outcome.stops += 1
        self._stopped.add(victim)
        self._family.signal(victim, signal.SIGSTOP)
        self._due.append((now + self.case.storm.stop_seconds, Nudge("", "cont", victim)))

    def _strike(self, member: str) -> None:
        self._befell()
        super()._strike(member)

    def _cut_off(self, server: str, now: float) -> None:
        way, until = self._gale.dice.choice(WAYS), now + self._gale.dice.uniform(0, MOST_CUT_SECONDS)
        self._cuts.from_database(server, self._number(server), way, until)

    def _hide(self, server: str, now: float) -> None:
        way, until = self._gale.dice.choice(WAYS), now + self._gale.dice.uniform(0, MOST_CUT_SECONDS)
        if (self.setup.folder / f"{server}.url").exists():
            self._cuts.from_everybody(server, self._port(server), way, until)

    def _port(self, server: str) -> int:
        return int(self.setup.address(server).rpartition(":")[2])

    def _nudge(self, nudge: Nudge) -> None:
        if nudge.act not in ("cont", "heal"):
            self._befell()
        match nudge.act.split():
            case ["cut", way]:
                self._given += 1
                self._cuts.from_database(nudge.role, self._number(nudge.role), cast("Way", way), float("inf"))
            case ["hide", way]:
                self._given += 1
                self._cuts.from_everybody(nudge.role, self._port(nudge.role), cast("Way", way), float("inf"))
            case ["heal"]:
                self._given += 1
                self._cuts.heal(nudge.role)
            case [act]:
                if act == "cont":
                    self._stopped.discard(nudge.role)
                super()._nudge(nudge)
            case _:
                raise ValueError(nudge.act)

    def _crash(self, now: float) -> None:
        self._postgres.crash()
        self._recovering = True
        self._launch_at = now + self._gale.dice.uniform(0, AWAY_SECONDS)

    def _database_back(self) -> bool:
        """See to it that a crashed database comes back, and say whether it is there."""
        if not self._recovering:
            return True
        if self._launch_at and self._launch_at <= time.monotonic():
            self._launch_at = 0.0
            self._postgres.launch()
        if not self._launch_at and self._postgres.answers():
            self._recovering = False
            self._befell()
        return not self._recovering

    def _roll_on(self) -> None:
        """Replace the next one when the one before has been."""
        if not self._rolling:
            return
        member, pid = self._rolling[0], self._family.pid(self._rolling[0])
        if self._told_to_leave:
            ready = self.setup.folder / f"{member}.ready"
            serves = kind_of(member) != "server" or ready.read_text(encoding="utf-8") == str(pid)
            if pid not in (0, self._told_to_leave) and serves:
                self._told_to_leave = 0
                self._rolling.pop(0)
                self._befell()
        elif pid and member not in self._stopped:
            self._told_to_leave = pid
            self._befell()
            self._family.signal(member, SIGNALS["term"])

    # The end.

    def _finished(self) -> bool:
        return not (self._rolling or self._recovering or self._cuts.servers) and super()._finished()

    def _judge(self) -> None:
        stall = self._longest_stall()
        super()._judge()
        cuts = self.setup.folder / "cuts"
        self._made["replies to COMMIT lost"] = int(cuts.read_text(encoding="utf-8")) if cuts.exists() else 0
        self.outcome.counts.update(self._made)
        self.outcome.counts[LONGEST_STALL] = stall.ms
        if stall.ms > self.setup.lease_ms + SLACK_MS:
            self.outcome.counts[STALLS] = 1
            self.outcome.slow = str(stall)

    def _longest_stall(self) -> Stall:
        try:
            return longest_stall(self._ask.histories()[0], self._befell_ms)
        except (OSError, http.client.HTTPException, ValueError):
            return NO_STALL  # whoever judges asks once more, and says so


def _lose_replies(behind: Path, folder: Path, told: Path) -> None:
    """Stand before the database. With each SIGUSR1 one more reply to a COMMIT is lost; it is told how many were."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    proxy = CuttingProxy(behind, folder)
    while True:
        if signal.sigtimedwait({signal.SIGUSR1}, 0.1) is not None:
            proxy.cut_next(1)
        write(told, str(proxy.cuts))
