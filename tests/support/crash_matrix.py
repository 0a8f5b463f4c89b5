"""Kill at every failpoint: the client, the worker, the server, all three; then servers and workers of wakes in rooms,
several times in a row, on both stores. Print a table of each. `./dev crash matrix`.

Exit code 1 if a promise was broken, a point was not passed that is not on the list of those that cannot be, or fewer
processes were killed than planned; of wakes, in a whole run, fewer than 500.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import postgres_server
from crash_case import ROLES, Case, Outcome
from crash_driver import run_case
from crash_points import UNREACHED, Point, Way, points
from perdure.testing.pool import run_all
from room_found import RULES
from room_kills import LEAST_KILLS, Kills, Stores, kill_wakes
from room_orders import ORDERS
from room_plots import PLOTS

VICTIMS = {"client": ("client",), "worker": ("worker",), "server": ("server",), "all": ROLES}
TRIES = 3
"""How often a run is tried in which what was planned did not happen: how often some points are passed, and who lives at
that moment, depends on time."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of the matrix."""

    point: Point
    who: str
    nth: int
    layout: str
    again: bool = False

    def case(self, nth: int) -> Case:
        return self.point.case(VICTIMS[self.who], nth, self.layout, again=self.again)


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it."""

    planned: Planned
    outcome: Outcome
    nth: int
    missing: int
    """Kills that were planned and did not happen."""

    @property
    def ok(self) -> bool:
        return self.outcome.ok and not self.missing


def main() -> int:
    options = _parser().parse_args()
    code = 0
    told: dict[str, object] = {}
    for part, run in (("points", _points), ("rooms", _rooms)):
        if options.only in (None, part):
            failed, told[part] = run(options)
            code = max(code, failed)
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash matrix", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", choices=("points", "rooms"), help="leave the other part out")
    parser.add_argument("--point", default="", help="only points, or runs in rooms, with this in their name")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    some = parser.add_argument_group("points")
    some.add_argument("--who", choices=VICTIMS, help="kill only this one; `all` is all three at once")
    some.add_argument("--seed", type=int, default=1, help="of the choice of the third pass to kill at")
    rooms = parser.add_argument_group("rooms; each of these may be given more than once, but for the last")
    rooms.add_argument("--store", action="append", help="sqlite, postgres, or a server's address; by default both")
    rooms.add_argument(
        "--order", action="append", choices=(*RULES, *ORDERS), help="a rule for a crash, or another order"
    )
    rooms.add_argument("--wake", action="append", choices=PLOTS, help="how the agent answers; by default all ways")
    rooms.add_argument("--rounds", type=int, default=3, help="how many lives are ended in a row")
    return parser


def _points(options: argparse.Namespace) -> tuple[int, object]:
    """Kill at failpoints; return the exit code, and what is told of it as JSON."""
    began = time.monotonic()
    chosen = [point for point in points() if options.point in point.name and not point.unreached]
    if not chosen:
        sys.stderr.write(f"crash matrix: no failpoint has {options.point!r} in its name\n")
        return 2, None
    plan = list(_plan(chosen, options.who, random.Random(options.seed)))
    ran = list(_run(plan, options.jobs))
    summary = _summary(ran, time.monotonic() - began)
    if not options.json:
        sys.stdout.write(_table(ran, summary))
    return int(not all(one.ok for one in ran) or len(ran) != len(plan)), _as_json(ran, summary)


def _rooms(options: argparse.Namespace) -> tuple[int, object]:
    """Kill wakes in rooms; as above."""
    chosen = options.store or ["sqlite", "postgres"]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="perdure-rooms-")))
        stores = [_stores(one, folder, held) for one in chosen]
        orders, plots = options.order or (*RULES, *ORDERS), options.wake or PLOTS
        kills = kill_wakes(stores, orders, plots, options.point, options.rounds, options.jobs)
    if not options.json:
        sys.stdout.write(kills.table())
    return judged(kills, whole=not (options.store or options.order or options.wake or options.point)), kills.to_json()


def judged(kills: Kills, *, whole: bool) -> int:
    """Return the exit code of the rooms. `whole`: nothing was left out."""
    if not kills.rows:
        sys.stderr.write("crash matrix: no run in a room has that in its name\n")
        return 2
    if whole and kills.killed_wakes < LEAST_KILLS:
        sys.stderr.write(f"crash matrix: {kills.killed_wakes} wakes were killed, {LEAST_KILLS} are due\n")
        return 1
    return int(bool(kills.wrong))


def _stores(named: str, folder: Path, held: ExitStack) -> Stores:
    """Return where rooms are made, on a server of this run's own if it has no address."""
    if named == "sqlite":
        return Stores(named, "", folder)
    if named != "postgres":
        return Stores("postgres", named, folder)
    binaries = postgres_server.find_binaries()
    if binaries is None:
        raise SystemExit("crash matrix: no PostgreSQL binaries. Install them, or give --store sqlite")
    return Stores(named, held.enter_context(postgres_server.running(binaries)), folder)


# What is to be run.


def _plan(chosen: list[Point], who: str | None, dice: random.Random) -> Iterator[Planned]:
    """Yield each point with each victim at its first pass; with its holder alone at later ones, in two lives, and in
    other layouts."""
    counts = _Counts()
    for point in chosen:
        own = point.holder
        for name in VICTIMS:
            if who in (None, name) and point.kills(VICTIMS[name]):
                yield Planned(point, name, 1, "separate")
        if who not in (None, own):
            continue
        yield Planned(point, own, 1, "separate", again=True)
        for nth in _later(counts.of(point, "separate"), dice):
            yield Planned(point, own, nth, "separate")
        if not point.way.layout:
            yield Planned(point, own, 1, "joint")
        embedded = counts.of(point, "embedded")
        for nth in [1] * (embedded > 0) + _later(embedded, dice):
            yield Planned(point, own, nth, "embedded")


def _later(count: int, dice: random.Random) -> list[int]:
    """Return the second pass and one of the rest, as far as there are that many. The last third may be a matter of
    time: what looks again and again passes by more often in a run that takes longer."""
    return [2] * (count >= 2) + ([dice.randint(3, max(3, count * 2 // 3))] if count >= 3 else [])


class _Counts:
    """How often each point is passed when nobody is killed."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {}

    def of(self, point: Point, layout: str) -> int:
        way = point.way
        if way.strikes or way.nudges or way.faults or (layout == "embedded" and way != Way()):
            return 0  # what leads there leads there once
        case = replace(point.case((), 1, layout), name="undisturbed", strikes=())
        key = json.dumps(case.to_json())
        if key not in self._known:
            outcome = run_case(case)
            if not outcome.ok:
                raise SystemExit(f"crash matrix: an undisturbed run went wrong: {outcome.problems} in {outcome.folder}")
            self._known[key] = outcome.passes
        return self._known[key].get(point.name, 0)


# Running it.


def _run(plan: list[Planned], jobs: int) -> Iterator[Ran]:
    for done, (number, found) in enumerate(run_all(len(plan), lambda at: _told(_run_one(plan[at])), jobs), 1):
        nth, missing, outcome = found
        ran = Ran(plan[number], Outcome.from_json(outcome), nth, missing)
        _progress(ran, done, len(plan))
        yield ran


def _told(ran: Ran) -> list[object]:
    return [ran.nth, ran.missing, ran.outcome.to_json()]


def _run_one(planned: Planned) -> Ran:
    nth, tries = planned.nth, TRIES
    while True:
        case = planned.case(nth)
        outcome = run_case(case)
        ran = Ran(planned, outcome, nth, max(0, case.planned_kills - outcome.kills))
        tries -= 1
        if ran.ok or outcome.problems or not tries:
            return ran
        if outcome.unfired:
            nth = max(nth - 1, 1)
        elif planned.nth == 1:
            nth += 1  # passed before all of the victims lived


def _progress(ran: Ran, done: int, of: int) -> None:
    if not ran.ok:
        outcome = ran.outcome
        why = "; ".join([*outcome.problems, *(f"never passed {point}" for point in outcome.unfired)])
        sys.stderr.write(f"\n{outcome.name}: {why or f'{ran.missing} kills missing'} (see {outcome.folder})\n")
    if sys.stderr.isatty() or done % 50 == 0:
        sys.stderr.write(f"\r{done} of {of} runs" + "\n" * (not sys.stderr.isatty()))
        sys.stderr.flush()


# What came of it.


def _summary(ran: list[Ran], seconds: float) -> dict[str, object]:
    return {
        "points": len({one.planned.point.name for one in ran}),
        "unreached": UNREACHED,
        "runs": len(ran),
        "kills": sum(one.outcome.kills for one in ran),
        "missing_kills": sum(one.missing for one in ran),
        "violations": sum(len(one.outcome.problems) for one in ran),
        "never_passed": sorted({point for one in ran for point in one.outcome.unfired}),
        "model_calls": sum(one.outcome.calls_made for one in ran),
        "model_calls_maybe_paid_twice": sum(one.outcome.calls_twice for one in ran),
        "uncertain": sum(one.outcome.uncertain for one in ran),
        "seconds": round(seconds),
    }


def _table(ran: list[Ran], summary: dict[str, object]) -> str:
    rows: dict[tuple[str, str], list[Ran]] = defaultdict(list)
    for one in ran:
        rows[one.planned.point.name, one.planned.who].append(one)
    form = "{:<28}{:<8}{:<26}{:>5}  {:<9}{:>6}{:>6}{:>10}{:>8}"
    lines = [form.format("point", "who", "passes", "kills", "result", "calls", "twice", "uncertain", "seconds")]
    for (point, who), group in sorted(rows.items()):
        lines.append(
            form.format(
                point,
                who,
                _passes(group),
                sum(one.outcome.kills for one in group),
                "ok" if all(one.ok for one in group) else "VIOLATED",
                sum(one.outcome.calls_made for one in group),
                sum(one.outcome.calls_twice for one in group),
                sum(one.outcome.uncertain for one in group),
                f"{sum(one.outcome.seconds for one in group):.1f}",
            )
        )
    lines += [f"{name} is passed by no run: {why}" for name, why in UNREACHED.items()]
    lines.append(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in summary.items() if value != {}))
    return "\n".join(lines) + "\n"


def _passes(group: list[Ran]) -> str:
    """Return the passes at which was killed: `+` in the next life too, `j` client and worker one process, `e` all."""
    marks = {"separate": "", "joint": "j", "embedded": "e"}
    return " ".join(f"{one.nth}{'+' * one.planned.again}{marks[one.planned.layout]}" for one in group)


def _as_json(ran: list[Ran], summary: dict[str, object]) -> dict[str, object]:
    runs = [
        {
            "point": one.planned.point.name,
            "who": one.planned.who,
            "pass": one.nth,
            "layout": one.planned.layout,
            "again": one.planned.again,
            "ok": one.ok,
            "missing_kills": one.missing,
            **one.outcome.to_json(),
        }
        for one in ran
    ]
    return {"summary": summary, "runs": runs}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
