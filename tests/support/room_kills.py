"""Kill the servers and the workers of wakes in rooms at each point they pass, several times in a row, and count what is
in the room in the end. Part of `./dev crash matrix`.

The points are those that a wake passes when nobody is killed. Each is killed at in a room of its own, in a copy of a
store that was set up once: by whoever passes it, then by the next life at its first pass, and so on.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import postgres_server
from perdure.server.node import Node
from perdure.testing.pool import run_all
from room_found import RULES, Found, look
from room_lives import Broke, House, Life, live
from room_orders import FIRST, ORDERS, POINTS, OrderedLife
from room_plots import MODEL, PLOTS, asked, noted

LEAST_KILLS = 500
"""Of wakes, in a whole run over both stores."""
MOST_PASSES = 9
"""The last passes of one point that are killed at: what looks again and again passes it more often in a longer run."""
_BY_THE_WAY = frozenset(
    {
        *("claim", "renew", "tell_time", "say_present", "say_still_present", "expire_owned", "expire_tasks"),
        *("beat", "alive", "lease", "claim_lanes", "end_session"),
    }
)
"""What servers and workers also do while nobody is woken: killed at once each, at the first pass."""
_AT_THE_START = frozenset({"migrate", "take_over"})
"""What a server does before it serves: with a wake under way, if one died in it before."""
_DIES_FIRST = "act_in_room.after_commit@1"
TRIES = 3
"""How often a run is tried in which nobody was killed: how often some points are passed depends on time."""


@dataclass(frozen=True, slots=True)
class Case:
    """One room in which somebody is killed."""

    store: str
    """`sqlite` or `postgres`."""
    order: str
    plot: str
    holder: str
    """Who is killed: `server` or `worker`."""
    point: str
    nth: int

    @property
    def name(self) -> str:
        return f"{self.store} {self.order} {self.plot} {self.holder} {self.point}@{self.nth}"

    def kills(self, rounds: int, nth: int) -> list[str]:
        """Return where lives are to end, one after the other. Later ones do only what is left: they die at once."""
        first = FIRST if self.order in ORDERS and self.point != MODEL else 1
        again = [f"{self.point}@{first}"] * (rounds - 1)
        if self.subject in _AT_THE_START:
            return [_DIES_FIRST, *(again or [f"{self.point}@1"])]
        return [f"{self.point}@{nth}", *again]

    @property
    def subject(self) -> str:
        return _subject(self.point)


def _subject(point: str) -> str:
    parts = point.split(".")
    return parts[-2] if parts[0] in ("http", "worker") else parts[0]


# -- stores ------------------------------------------------------------------------------------------------------------

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Stores:
    """Where rooms are made: in SQLite files, or in databases of a server, each a copy of one that was set up."""

    name: str
    address: str
    """Of the server; empty for SQLite."""
    folder: Path
    """Where what was set up is kept."""

    def prepared(self, order: str, plot: str) -> str:
        """Return the store that holds the room of a plot, set up if it was not."""
        kept = self.folder / f"{self.name} {order} {plot}"
        if not kept.exists():
            kept.mkdir()
            store = self._create(f"rooms_{os.getpid()}_{order}_{plot}") if self.address else str(kept)
            (kept / "at").write_text(store, encoding="utf-8")
            life = Life(store, kept, order, plot)
            live(life, life.set_up)
        return (kept / "at").read_text(encoding="utf-8")

    @contextmanager
    def copy(self, order: str, plot: str, folder: Path) -> Iterator[str]:
        """Give a copy of a store that was set up, which is gone afterwards."""
        prepared = self.prepared(order, plot)
        if not self.address:
            yield str(shutil.copytree(prepared, folder / "store"))
            return
        template = _database(prepared)
        store = self._create(f"{template}_{os.getpid()}_{next(_numbers)}", f"TEMPLATE {template}")
        try:
            yield store
        finally:
            self._do(f"DROP DATABASE {_database(store)} WITH (FORCE)")

    def _create(self, name: str, how: str = "") -> str:
        """Make a database of an ordinary role's: row security says nothing to superusers."""
        self._do(f"CREATE DATABASE {name} {how}")
        return postgres_server.as_ordinary_role(self.address.replace("/postgres?", f"/{name}?"))

    def _do(self, sql: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as admin:
            admin.execute(sql.encode())


def _database(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


# -- running it --------------------------------------------------------------------------------------------------------


def see(stores: Stores, order: str, plot: str, servers: list[str], workers: list[str]) -> tuple[int, Found, Passes]:
    """Kill, then let one finish; return how many were killed, what is there, and what was passed in the last life."""
    with tempfile.TemporaryDirectory(prefix="perdure-rooms-") as name:
        notes = Path(name)
        with stores.copy(order, plot, notes) as store:
            kind = OrderedLife if order in ORDERS else Life
            life = kind(store, notes, order, plot)

            async def last(node: Node) -> None:
                await life.work(node)
                if order == "abandon":
                    await life.again(node)
                (notes / "found").write_text(json.dumps(asdict(await look(node))), encoding="utf-8")

            house = House(life, last, takes_worker_along=bool(servers))
            house.see(servers, workers)
            found = Found(**json.loads((notes / "found").read_text(encoding="utf-8")))
        found.asked, found.bodies = asked(notes), noted(notes)
        return house.killed, found, {role: _passes(notes / role) for role in ("server", "worker")}


Passes = Mapping[str, Mapping[str, int]]
"""How often each point was passed, by who passes it."""


def _passes(path: Path) -> Mapping[str, int]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def cases(stores: Stores, order: str, plot: str) -> Iterator[Case]:
    """Yield each point of a plot, as often as a wake that nobody kills passes it."""
    if order in ORDERS:
        stores.prepared(order, plot)
        for one in POINTS:
            point, _, nth = one.partition("@")
            yield Case(stores.name, order, plot, "server", point, int(nth or 1))
        return
    killed, found, passes = see(stores, order, plot, [], [])
    if killed or (wrong := found.wrong(order, plot)):
        raise SystemExit(
            f"crash matrix: a wake that nobody disturbed went wrong: {stores.name} {order} {plot}: {wrong}"
        )
    for holder, counts in passes.items():
        for point, count in sorted(counts.items()):
            once = _subject(point) in _BY_THE_WAY | _AT_THE_START
            for nth in range(1, 1 + (1 if once else min(count, MOST_PASSES))):
                yield Case(stores.name, order, plot, holder, point, nth)


def run_one(stores: Stores, case: Case, rounds: int) -> dict[str, Any]:
    """Run one case; return how many were killed, and what was found, as JSON."""
    nth = case.nth
    for _ in range(TRIES):
        kills = case.kills(rounds, nth)
        servers, workers = (kills, []) if case.holder == "server" else ([], kills)
        try:
            killed, found, _ = see(stores, case.order, case.plot, servers, workers)
        except Broke as error:
            return {"killed": 0, "found": None, "error": str(error)}
        if killed or found.wrong(case.order, case.plot):
            break
        nth = max(1, nth - 1)
    return {"killed": killed, "found": asdict(found), "error": ""}


@dataclass
class Tally:
    """What the runs of one row of the table came to."""

    runs: int = 0
    kills: int = 0
    doubled: int = 0
    lost: int = 0
    half_done: int = 0
    asked_again: int = 0
    called_again: int = 0


@dataclass
class Kills:
    """What killing came to. `rows`: by order, plot and store."""

    rows: dict[tuple[str, str, str], Tally] = field(default_factory=dict[tuple[str, str, str], Tally])
    wrong: list[str] = field(default_factory=list[str])
    not_killed: list[str] = field(default_factory=list[str])
    """Cases in which nobody came by the point."""

    def take(self, case: Case, ran: Mapping[str, Any]) -> str:
        """Count a run; return what is to be told of it at once."""
        row = self.rows.setdefault((case.order, case.plot, case.store), Tally())
        row.runs += 1
        row.kills += ran["killed"]
        if ran["found"] is None:
            self.wrong.append(f"{case.name}: {ran['error']}")
            return self.wrong[-1]
        found = Found(**ran["found"])
        verdict = found.judge(case.order, case.plot)
        row.doubled += verdict.doubled
        row.lost += verdict.lost
        row.half_done += verdict.half
        row.asked_again += verdict.asked_again if case.order != "abandon" else 0  # there the next message asks, too
        row.called_again += verdict.called_again
        if not ran["killed"]:
            self.not_killed.append(case.name)
        if wrong := found.wrong(case.order, case.plot):
            self.wrong.append(f"{case.name}: {wrong}")
        return wrong and self.wrong[-1]

    @property
    def killed_wakes(self) -> int:
        """How many lives of wakes of ours ended by a kill: those of the other orders are none."""
        return sum(row.kills for (order, _, _), row in self.rows.items() if order in RULES)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"order": order, "wake": plot, "store": store, **asdict(row)}
            for (order, plot, store), row in sorted(self.rows.items(), key=_place)
        ]
        return {"killed_wakes": self.killed_wakes, "rows": rows, "wrong": self.wrong, "not_killed": self.not_killed}

    def table(self) -> str:
        """Return the table of the report."""
        form = "{:<9}{:<10}{:<10}{:>6}{:>7}{:>9}{:>6}{:>11}{:>13}{:>14}"
        heads = ("runs", "kills", "doubled", "lost", "half done", "asked again", "called again")
        lines = [form.format("order", "wake", "store", *heads)]
        lines += [form.format(*map(str, row.values())) for row in self.to_json()["rows"]]
        lines += [f"nobody came by: {name}" for name in self.not_killed]
        lines += [f"WRONG: {one}" for one in self.wrong]
        lines.append(f"wakes killed: {self.killed_wakes}; broken promises: {len(self.wrong)}")
        return "\n".join(lines) + "\n"


def _place(row: tuple[tuple[str, str, str], Tally]) -> tuple[int, int, str]:
    order, plot, store = row[0]
    return (*RULES, *ORDERS).index(order), list(PLOTS).index(plot), store


def kill_wakes(
    stores: Iterable[Stores], orders: Iterable[str], plots: Iterable[str], part: str, rounds: int, jobs: int
) -> Kills:
    """Kill at every point whose case has `part` in its name, in a row, and count."""
    places = {one.name: one for one in stores}
    plan = [
        case
        for one, order, plot in itertools.product(places.values(), orders, plots)
        if order in RULES or plot == "answers"
        for case in cases(one, order, plot)
        if part in case.name
    ]
    kills = Kills()
    done = run_all(len(plan), lambda at: run_one(places[plan[at].store], plan[at], rounds), jobs)
    for count, (at, ran) in enumerate(done, 1):
        if wrong := kills.take(plan[at], ran):
            sys.stderr.write(f"\n{wrong}\n")
        if sys.stderr.isatty() or count % 50 == 0:
            sys.stderr.write(f"\r{count} of {len(plan)} rooms" + "\n" * (not sys.stderr.isatty()))
            sys.stderr.flush()
    return kills
