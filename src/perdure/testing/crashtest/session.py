"""A whole crash test: one run in which nobody is killed, then one for each boundary and pass."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import InvalidInput
from perdure.testing.crashtest.boundaries import MOST, Boundary, Strike, chosen, spread
from perdure.testing.crashtest.judge import Baseline, Finding, asked_again, baseline_of, called, judge, resolved
from perdure.testing.crashtest.one_run import Evidence, Plan, Run
from perdure.testing.crashtest.place import Place
from perdure.testing.crashtest.roles import load_all
from perdure.testing.crashtest.subject import Facts, Subject, inspect_subject
from perdure.testing.pool import run_all

TRIES = 3
"""How often a run is tried in which the boundary was not passed: how often some are depends on time."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to test."""

    folder: Path
    only: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    at_once: int = 1
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """One run, judged."""

    strike: str
    """As `--only` takes it."""
    boundary: str
    nth: int
    victim: str
    cause: str
    """What was done to it, as a clause."""
    call: str
    """The tools whose calls were under way, where that can be told."""
    fired: bool
    state: str
    """How the execution stood in the end."""
    seconds: float
    kills: int
    asked_again: int
    """Model requests that were made again because the first was in flight: may be paid twice."""
    findings: tuple[Finding, ...] = ()
    resolved: tuple[str, ...] = ()
    folder: str = ""
    """Where everything is that it left, if that was kept."""

    @property
    def broken(self) -> bool:
        return any(one.weight == "broken" for one in self.findings)

    @property
    def ok(self) -> bool:
        """Every promise held, and the boundary was reached."""
        return self.fired and not self.broken

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ran:
        given: dict[str, Any] = {**data, "resolved": tuple(data["resolved"])}
        given["findings"] = tuple(map(_finding, data["findings"]))
        return cls(**given)


def _finding(data: dict[str, Any]) -> Finding:
    given: dict[str, Any] = {**data, "cures": tuple(data["cures"])}
    return Finding(**given)


@dataclass(slots=True)
class Result:
    """What a crash test found."""

    facts: Facts
    baseline: Baseline
    runs: list[Ran] = field(default_factory=list[Ran])
    seconds: float = 0.0
    passed_by: tuple[str, ...] = ()
    """Boundaries that this agent's run does not come by."""

    @property
    def ok(self) -> bool:
        return all(run.ok for run in self.runs)


class Watcher:
    """Is told what happens. All of it is optional."""

    def begun(self, facts: Facts, baseline: Baseline, runs: int) -> None:
        """The undisturbed run is over; so many follow."""

    def ran(self, run: Ran) -> None:
        """One more is over."""


def crash_test(subject: Subject, options: Options, watcher: Watcher | None = None) -> Result:
    """Test an agent. Everything that was started is gone when this returns or raises.

    Raises `InvalidInput` for what is wrong with the module, the replies or the names of boundaries, and
    `baseline_broken` if the run does not complete even when nobody is killed.
    """
    began, watcher = time.monotonic(), watcher or Watcher()
    wanted = chosen(list(options.only))
    load_all()
    plan = Plan(subject, inspect_subject(subject, options.folder), options.timeout_seconds)
    baseline = _undisturbed(plan, options)
    strikes = list(_strikes(wanted, baseline))
    result = Result(plan.facts, baseline, passed_by=_not_there(wanted, strikes))
    if options.only and result.passed_by:
        raise InvalidInput(
            f"{', '.join(result.passed_by)}: this agent's run does not come by it (so often).", code="unknown_boundary"
        )
    watcher.begun(plan.facts, baseline, len(strikes))
    session = _Session(plan, options, baseline, strikes)
    with closing(session.run()) as runs:
        for ran in runs:
            result.runs.append(ran)
            watcher.ran(ran)
    result.runs.sort(key=lambda ran: [strike.name for strike in strikes].index(ran.strike))
    result.seconds = round(time.monotonic() - began, 1)
    return result


@dataclass(frozen=True, slots=True)
class _Session:
    plan: Plan
    options: Options
    baseline: Baseline
    strikes: list[Strike]

    def run(self) -> Generator[Ran]:
        if self.options.at_once == 1:
            yield from map(self._one, range(len(self.strikes)))
            return
        found = run_all(len(self.strikes), lambda number: asdict(self._one(number)), self.options.at_once)
        with closing(found):
            for _, ran in found:
                yield Ran.from_json(ran)

    def _one(self, number: int) -> Ran:
        """Make one run, again if the boundary was not passed; keep its folder if there is something to see."""
        strike = self.strikes[number]
        nth, tries = strike.nth, TRIES
        while True:
            tries -= 1
            tried = Strike(strike.boundary, nth)
            folder = self.options.folder / f"{number + 1:02}-{strike.name.replace('@', '-')}-{TRIES - tries}"
            evidence = _run(self.plan, folder, tried)
            ran = self._judged(evidence, tried, strike.name, folder)
            if ran.fired or ran.broken or not tries:
                break
            nth = max(nth - 1, 1)
            shutil.rmtree(folder)
        if ran.ok and not self.options.keep:
            shutil.rmtree(folder)
        return ran

    def _judged(self, evidence: Evidence, strike: Strike, name: str, folder: Path) -> Ran:
        found = judge(evidence, self.plan.facts, Place(folder).client_log, self.baseline, strike)
        broken = any(one.weight == "broken" for one in found)
        call = called(evidence, self.baseline, strike) if evidence.fired else ""
        return Ran(
            strike=name,
            boundary=strike.boundary.name,
            nth=strike.nth,
            victim=strike.boundary.victim,
            cause=strike.boundary.told(f"a call of {call}" if call else "a call"),
            call=call,
            fired=evidence.fired,
            state=str(evidence.view.get("state", "")),
            seconds=evidence.seconds,
            kills=evidence.kills,
            asked_again=asked_again(evidence),
            findings=tuple(found),
            resolved=tuple(resolved(evidence)),
            folder=str(folder) if broken or self.options.keep or not evidence.fired else "",
        )


def _run(plan: Plan, folder: Path, strike: Strike | None) -> Evidence:
    folder.mkdir()
    return Run(plan, Place(folder), strike).go()


def _undisturbed(plan: Plan, options: Options) -> Baseline:
    folder = options.folder / "00-undisturbed"
    evidence = _run(plan, folder, None)
    completed = evidence.ended and evidence.events[-1]["kind"] == "completed"
    if not completed or evidence.broken:
        failed = evidence.events[-1]["data"].get("error", "") if evidence.ended else evidence.why
        why = " ".join([*dict.fromkeys(evidence.broken), str(failed)]).strip()
        raise InvalidInput(
            f"the run does not complete even when nobody is killed: {why} Its files are in {folder}.",
            code="baseline_broken",
        )
    found = baseline_of(evidence)
    if not options.keep:
        shutil.rmtree(folder)
    return found


def _strikes(wanted: list[tuple[Boundary, int]], baseline: Baseline) -> Iterator[Strike]:
    for boundary, nth in wanted:
        passes = _passes(boundary, baseline)
        if nth:
            yield from [Strike(boundary, nth)] if nth <= passes else []
        else:
            yield from (Strike(boundary, one) for one in spread(passes, MOST[boundary.per]))


def _passes(boundary: Boundary, baseline: Baseline) -> int:
    if not boundary.point:
        return baseline.turns
    return baseline.passes.get(boundary.victim, {}).get(boundary.point, 0)


def _not_there(wanted: list[tuple[Boundary, int]], strikes: list[Strike]) -> tuple[str, ...]:
    met = {(strike.boundary.name, strike.nth) for strike in strikes} | {(one.boundary.name, 0) for one in strikes}
    return tuple(
        f"{boundary.name}@{nth}" if nth else boundary.name
        for boundary, nth in wanted
        if (boundary.name, nth) not in met
    )
