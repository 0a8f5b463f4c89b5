"""What the phases of a long crash run came to: as a table, as JSON, and whether it is enough.

Exit code and complaints are decided here and nowhere else.
"""

from __future__ import annotations

import json
import platform
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crash_phase import Phase, Tally

KILLS_PER_MINUTE = 50
"""Of random killing, each while an execution is in flight."""
KILLS_PER_HOUR = 1_000
"""Of all phases together, each while an execution is in flight."""
EFFECTS_PER_MINUTE = 200
MOST_EFFECTS_DUE = 1_000
"""A run of five minutes or more owes a thousand effects, a shorter one its part of them."""
SECONDS_PER_HOUR = 3600
RANDOM = "random kills"
COLUMNS = ("runs", "kills", "kills in flight", "stops", "steps", "effects", "uncertain")
"""What the table shows of each phase. Everything else that is counted stands below it, summed up."""
TWICE = "at_most_once bodies started twice"


@dataclass(frozen=True, slots=True)
class Points:
    """The failpoints of the code."""

    hit: int
    missed: Sequence[str]
    elsewhere: Mapping[str, str]
    """Those of which no run of these comes by, each with the test that kills there."""


@dataclass(frozen=True, slots=True)
class LongRun:
    """Everything there is to tell."""

    minutes: float
    """That were asked for."""
    seed: int
    phases: Sequence[Phase]
    tallies: Sequence[Tally]
    points: Points
    partial: bool = False
    """Only some phases: those owe their part, and all together nothing."""

    def total(self, name: str) -> int:
        return self.summed()[name]

    def summed(self) -> Counter[str]:
        return sum((one.counts for one in self.tallies), Counter[str]())

    def broken(self) -> Counter[str]:
        return sum((one.broken for one in self.tallies), Counter[str]())

    def resolved(self) -> Counter[str]:
        return sum((one.resolved for one in self.tallies), Counter[str]())

    def of(self, name: str) -> Tally:
        return next((one for one in self.tallies if one.name == name), Tally(name))


def complaints(run: LongRun) -> list[str]:
    """Return why the run failed: empty if every promise held and enough was done to say so."""
    found = [violation for tally in run.tallies for violation in tally.violations]
    if run.points.missed:
        found.append(f"failpoints never hit: {', '.join(run.points.missed)}")
    killing = run.of(RANDOM)
    if killing.seconds and (rate := _rate(killing)) < KILLS_PER_MINUTE:
        found.append(f"{rate:.0f} kills a minute of random killing, at least {KILLS_PER_MINUTE} are due")
    due = 0 if run.partial else effects_due(run.minutes)
    if (effects := run.total("effects")) < due:
        found.append(f"{effects} effects, {due} are due in {run.minutes:g} minutes")
    due = 0 if run.partial else round(KILLS_PER_HOUR * min(1.0, run.minutes / 60))
    if (kills := run.total("kills in flight")) < due:
        found.append(f"{kills} kills in flight, {due} are due in {run.minutes:g} minutes")
    for phase, tally in zip(run.phases, run.tallies, strict=True):
        for name, amount in phase.due.items():
            part = round(amount * min(1.0, run.minutes / 60))
            if tally.counts[name] < part:
                found.append(
                    f"{phase.name}: {tally.counts[name]:,} {name}, {part:,} are due in {run.minutes:g} minutes"
                )
    return found


def effects_due(minutes: float) -> int:
    """Return how many effects a run owes."""
    return min(MOST_EFFECTS_DUE, round(EFFECTS_PER_MINUTE * minutes))


def _rate(tally: Tally) -> float:
    return tally.counts["kills in flight"] * 60 / tally.seconds


def facts(run: LongRun) -> dict[str, Any]:
    """Return the summary, as data."""
    summed, broken = run.summed(), run.broken()
    killing = run.of(RANDOM)
    return {
        "minutes asked for": run.minutes,
        "seed": run.seed,
        "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "failpoints hit": run.points.hit,
        "failpoints never hit": list(run.points.missed),
        "failpoints that tests of their own kill at": len(run.points.elsewhere),
        "kills": summed["kills"],
        "kills in flight": summed["kills in flight"],
        "kills per hour of random killing": round(_rate(killing) * 60) if killing.seconds else 0,
        "steps executed": summed["steps"],
        "effects": summed["effects"],
        "violations": sum(broken.values()),
        "violations by promise": dict(broken),
        TWICE: summed[TWICE],
        "uncertain steps": summed["uncertain"],
        "how they were resolved": dict(run.resolved()),
        "recorded steps lost": summed["recorded steps lost"],
        "recorded steps run again": summed["recorded steps run again"],
        "seeds": summed["seeds"],
        "virtual hours": round(summed["virtual seconds"] / SECONDS_PER_HOUR, 1),
        "also counted": {name: value for name, value in sorted(summed.items()) if name not in _TOLD},
        "seconds": round(sum(tally.seconds for tally in run.tallies)),
        "not covered": [f"{tally.name}: {what}" for tally in run.tallies for what in tally.not_covered],
        "phases": [_phase(tally) for tally in run.tallies],
        "complaints": complaints(run),
    }


_TOLD = {*COLUMNS, TWICE, "recorded steps lost", "recorded steps run again", "seeds", "virtual seconds"}


def _phase(tally: Tally) -> dict[str, Any]:
    return {"phase": tally.name, **tally.counts, "seconds": round(tally.seconds)}


def table(run: LongRun) -> str:
    """Return the summary, for people."""
    told = facts(run)
    phases, complaints_, not_covered = told.pop("phases"), told.pop("complaints"), told.pop("not covered")
    form = "{:<16}" + "{:>16}" * len(COLUMNS) + "{:>9}"
    lines = [form.format("phase", *COLUMNS, "seconds")]
    lines += [
        form.format(one["phase"], *(f"{one.get(name, 0):,}" for name in COLUMNS), one["seconds"]) for one in phases
    ]
    lines += [f"{name}: {_shown(value)}" for name, value in told.items()]
    lines += [f"not covered: {what}" for what in not_covered]
    lines += [f"VIOLATED {complaint}" for complaint in complaints_]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def as_json(run: LongRun) -> str:
    """Return the summary, for programs: `tools/crash_tables.py` makes the tables of the documentation from it."""
    return json.dumps(facts(run), indent=1) + "\n"
