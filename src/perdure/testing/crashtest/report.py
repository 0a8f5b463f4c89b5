"""A crash test's result for programs: one JSON document, and JUnit XML for whoever collects test results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from perdure.testing.crashtest.judge import PROMISES, Finding
from perdure.testing.crashtest.session import Ran, Result

Again = Callable[[str], str]
"""Returns the command that makes a run again, from its strike's name."""


def outcome_of(run: Ran) -> str:
    """Return one word for what came of a run: `broken`, `unreached`, `waits`, `doubt` or `held`."""
    if run.broken:
        return "broken"
    if not run.fired:
        return "unreached"
    weights = {one.weight for one in run.findings}
    return next((weight for weight in ("waits", "doubt") if weight in weights), "held")


def promises_of(result: Result) -> dict[str, list[Ran]]:
    """Return each promise with the runs that broke it; those that this agent cannot come by are left out."""
    broken: dict[str, list[Ran]] = {name: [] for name in PROMISES}
    for run in result.runs:
        for promise in sorted({one.promise for one in run.findings if one.weight == "broken"}):
            broken.setdefault(promise, []).append(run)
    modes = {tool.delivery for tool in result.facts.tools.values()}
    absent = {"P2": "at_least_once", "P3": "at_most_once"}
    return {name: runs for name, runs in broken.items() if runs or absent.get(name, "") in ("", *modes)}


def as_json(result: Result, again: Again) -> dict[str, Any]:
    """Return the whole result."""
    return {
        "ok": result.ok,
        "agent": result.facts.agent,
        "tools": [asdict(tool) for tool in result.facts.tools.values()],
        "replies": result.facts.replies_from,
        "effects_observed": result.facts.observes or bool(result.baseline.acting),
        "undisturbed": {
            "seconds": result.baseline.seconds,
            "model_calls": result.baseline.turns,
            "calls": list(result.baseline.scheduled),
            "effects": result.baseline.effects,
        },
        "promises": [
            {"promise": PROMISES.get(name, name), "held": not runs, "broken_by": [run.strike for run in runs]}
            for name, runs in promises_of(result).items()
        ],
        "runs": [{"outcome": outcome_of(run), **asdict(run), "again": again(run.strike)} for run in result.runs],
        "not_passed": list(result.passed_by),
        "model_calls_maybe_paid_twice": sum(run.asked_again for run in result.runs),
        "kills": sum(run.kills for run in result.runs),
        "seconds": result.seconds,
    }


def write_junit(result: Result, again: Again, path: Path) -> None:
    """Write JUnit XML: a test case for each run. Raises `OSError`."""
    bad = [run for run in result.runs if not run.ok]
    suite = Xml.Element(
        "testsuite",
        name=f"perdure crashtest {result.facts.agent}",
        tests=str(len(result.runs)),
        failures=str(len(bad)),
        errors="0",
        skipped="0",
        time=str(result.seconds),
    )
    for run in result.runs:
        name = f"{run.strike} ({run.call})" if run.call else run.strike
        case = Xml.SubElement(
            suite, "testcase", classname=f"crashtest.{result.facts.agent}", name=name, time=str(run.seconds)
        )
        told = [_plain(one) for one in run.findings] + list(run.resolved)
        if not run.ok:
            what = next((one.what for one in run.findings if one.weight == "broken"), "the boundary was not reached")
            failure = Xml.SubElement(case, "failure", type=outcome_of(run), message=_printable(what))
            failure.text = _printable("\n\n".join([*told, f"Again: {again(run.strike)}"]))
        elif told:
            Xml.SubElement(case, "system-out").text = _printable("\n\n".join(told))
    whole = Xml.Element("testsuites")
    whole.append(suite)
    Xml.indent(whole)
    path.parent.mkdir(parents=True, exist_ok=True)
    Xml.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)


def _plain(one: Finding) -> str:
    return "\n".join([one.what, *([one.how] if one.how else []), *(f"- {cure}" for cure in one.cures)])


def _printable(text: str) -> str:
    """Leave out what XML cannot hold."""
    return "".join(letter for letter in text if letter in "\n\t" or letter.isprintable())
