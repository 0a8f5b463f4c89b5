"""What a crash test shows people: what is tested, a table of boundaries and outcomes, and in words what went wrong."""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from perdure.cli.phrases import plural
from perdure.cli.terminal import console, grid
from perdure.testing.crashtest.boundaries import BOUNDARIES
from perdure.testing.crashtest.judge import PROMISES, Finding
from perdure.testing.crashtest.report import Again, outcome_of, promises_of
from perdure.testing.crashtest.session import Ran, Result, Watcher

if TYPE_CHECKING:
    from perdure.testing.crashtest.judge import Baseline
    from perdure.testing.crashtest.subject import Facts

MARKS: dict[str, tuple[str, str, str]] = {
    "held": ("✓", "green", "every promise held"),
    "waits": ("?", "magenta", "held: the outcome is unknown, is not guessed, and waits for a person"),
    "doubt": ("~", "yellow", "nobody can say: see below"),
    "unreached": ("·", "yellow", "the boundary was not reached"),
    "broken": ("✗", "bold red", "a promise was broken"),
}
"""Mark, colour and meaning of what can come of a run."""
_COUNTED = {"turn": "turn {}", "record": "{}", "lease": "{}", "call": "{}", "run": ""}


class Screen(Watcher):
    """A crash test, as it goes and as it ended."""

    def __init__(self, again: Again) -> None:
        self._out, self._again = console(), again
        self._runs = self._done = 0
        self._live = sys.stderr.isatty()

    def begun(self, facts: Facts, baseline: Baseline, runs: int) -> None:
        """Say what is tested and what the undisturbed run was."""
        self._runs = runs
        tools = ", ".join(f"{tool.name} ({tool.delivery})" for tool in facts.tools.values()) or "no tools"
        self._print(f"Agent {facts.agent}: {tools}.")
        self._print(f"The model's replies: {facts.replies_from}. Effects: {_counted_by(facts, baseline)}.")
        for note in _notes(facts):
            self._print(note)
        calls = f"{plural(baseline.turns, 'model call')}, {plural(len(baseline.scheduled), 'tool call')}"
        self._print(
            f"Undisturbed it completes in {baseline.seconds:g} s: {calls}. {plural(runs, 'run')} with a kill follow."
        )
        self._print("")

    def ran(self, run: Ran) -> None:
        """Count it, where somebody watches."""
        self._done += 1
        if self._live:
            sys.stderr.write(
                f"\r\x1b[K{self._done} of {self._runs}  {run.strike}" + "\r\x1b[K" * (self._done == self._runs)
            )
            sys.stderr.flush()

    def tell(self, result: Result, folder: Path) -> None:
        """Show the table, what went wrong, the promises, and the last line."""
        self._table(result)
        for heading, runs in _grouped(result, "broken"):
            self._broken(heading, runs)
        for run in result.runs:
            if not run.fired and not run.broken:
                self._print(f"\n· {run.strike}: the boundary was not reached. Again:")
                self._command(run)
        for weight in ("doubt", "waits"):
            for finding, runs in _grouped(result, weight):
                mark, style, _ = MARKS[weight]
                self._out.print()
                self._out.print(Text(f"{mark} {finding.what}", style=style))
                self._print(f"At {_names(runs)}. {finding.how[:1].upper()}{finding.how[1:]}", 2)
        self._resolved(result)
        if again := sum(run.asked_again for run in result.runs):
            self._print("")
            self._print(
                f"{plural(again, 'model request')} in flight at a kill had to be made again: may be paid twice."
            )
        self._promises(result)
        self._last(result, folder)

    def _table(self, result: Result) -> None:
        table = grid("BOUNDARY", "KILLED", "OUTCOME")
        for boundary in BOUNDARIES:
            runs = [run for run in result.runs if run.boundary == boundary.name]
            if not runs:
                continue
            cells = Text(no_wrap=False)
            for run in runs:
                mark, style, _ = MARKS[outcome_of(run)]
                label = _label(run, _COUNTED[boundary.per])
                cells.append(f"{label}\u00a0" if label else "").append(mark, style=style).append("  ")
            table.add_row(boundary.name, boundary.victim + (" (stopped)" if boundary.stops else ""), cells)
        self._out.print(table)
        seen = {outcome_of(run) for run in result.runs}
        legend = [f"{mark} {meaning}" for name, (mark, _, meaning) in MARKS.items() if name in seen]
        self._out.print(Text("\n".join(legend), style="dim"))

    def _broken(self, finding: Finding, runs: list[tuple[Ran, Finding]]) -> None:
        self._out.print()
        self._out.print(Text(f"✗ {finding.what}", style="bold red"))
        if finding.how:
            self._print(finding.how, 2)
        for run, _ in runs:
            self._print(f"{run.strike}: {run.cause}. Again:", 2)
            self._command(run)
        if finding.cures:
            self._print("To change, one of:", 2)
            for cure in finding.cures:
                self._print(f"- {cure}", 4)

    def _resolved(self, result: Result) -> None:
        known: dict[str, list[str]] = defaultdict(list)
        for run in result.runs:
            for text in run.resolved:
                known[text].append(run.strike)
        for text, strikes in known.items():
            self._print(f"\n✓ {text} ({', '.join(strikes)}).")

    def _promises(self, result: Result) -> None:
        self._print("")
        counted = result.facts.observes or bool(result.baseline.acting) or bool(result.baseline.effects)
        for name, broken in promises_of(result).items():
            mark, style, more = "✓", "green", ""
            if broken:
                mark, style, more = "✗", "bold red", f": broken by {', '.join(run.strike for run in broken)}"
            elif name == "once" and not counted:
                mark, style, more = (
                    "·",
                    "dim",
                    ": not counted, for nothing tells of effects (`observe`, or tell_effect)",
                )
            self._out.print(Text(f"{mark} {PROMISES.get(name, name)}{more}", style=style))

    def _last(self, result: Result, folder: Path) -> None:
        kills = sum(run.kills for run in result.runs)
        stops = sum(run.fired for run in result.runs if run.boundary.startswith("stop."))
        did = f"{plural(len(result.runs), 'run')}, {plural(kills, 'kill')}, {plural(stops, 'stop')} past a lease"
        bad = sum(not run.ok for run in result.runs)
        unsure = any(one.weight == "doubt" for run in result.runs for one in run.findings)
        held = "every promise held, as far as was counted." if unsure else "every promise held."
        end = f"something is wrong in {plural(bad, 'run')}. Their files: {folder}" if bad else held
        self._print(f"\n{did} in {result.seconds:g} s: {end}")

    def _command(self, run: Ran) -> None:
        """Print what makes a run again, on one line however long."""
        self._out.print(Text(f"      {self._again(run.strike)}"), soft_wrap=True)

    def _print(self, text: str, indent: int = 0) -> None:
        """Print prose: in a terminal in whole words below each other, else on one line."""
        width = self._out.width - 1 if self._out.is_terminal else len(text) + indent + 1
        first = " " * indent
        later = first + "  " * text.startswith("- ")
        for line in text.split("\n"):
            folded = textwrap.fill(
                line,
                max(width, 40),
                initial_indent=first,
                subsequent_indent=later,
                break_long_words=False,
                break_on_hyphens=False,
            )
            self._out.print(Text(folded), soft_wrap=True)


def _label(run: Ran, counted: str) -> str:
    return run.call if run.call and counted == "{}" else counted.format(run.nth)


def _grouped(result: Result, weight: str) -> Iterable[tuple[Finding, list[tuple[Ran, Finding]]]]:
    """Return findings that say the same, each with the runs it is about."""
    groups: dict[str, list[tuple[Ran, Finding]]] = defaultdict(list)
    for run in result.runs:
        for one in run.findings:
            if one.weight == weight:
                groups[one.what].append((run, one))
    return [(same[0][1], same) for same in groups.values()]


def _names(runs: list[tuple[Ran, Finding]]) -> str:
    return ", ".join(run.strike for run, _ in runs)


def _counted_by(facts: Facts, baseline: Baseline) -> str:
    ways = ["`observe` counts them"] * facts.observes
    if baseline.acting:
        ways.append(f"{', '.join(sorted(baseline.acting))} tell theirs")
    return " and ".join(ways) or "nobody counts them, only how often bodies start"


def _notes(facts: Facts) -> list[str]:
    served = [tool.name for tool in facts.tools.values() if not tool.by_worker]
    apart = [tool.name for tool in facts.tools.values() if tool.isolated]
    notes = [f"The server itself calls {', '.join(served)}: how often, only `observe` can tell."] * bool(served)
    return notes + [f"Isolated tools run in the worker's own process here: {', '.join(apart)}."] * bool(apart)
