"""Show how a demo ended: who lived when, each step with its attempts, what was checked, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.text import Text

from perdure.cli import phrases
from perdure.cli.demo_stage import COLOURS, hang
from perdure.cli.terminal import home_short, path_typed
from perdure.client.timeline import ModelStep, timeline_of
from perdure.client.tool_steps import ToolStep

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.client.tool_steps import Attempt
    from perdure.demo.evidence import Evidence
    from perdure.demo.processes import Life
    from perdure.demo.report_file import Report
    from perdure.demo.story import Story

LABEL = 13
WIDEST = 84
"""Columns of the picture of time."""


def show_ending(out: Console, story: Story, evidence: Evidence, *, kept: bool) -> None:
    """Print it. `kept`: the files stay, so that one can look at them."""
    _title(out, f"Timeline of {story.execution}")
    _show_picture(out, story)
    out.print()
    _show_steps(out, story, evidence)
    _title(out, "Evidence")
    _show_figures(out, evidence)
    for claim in evidence.claims:
        mark = ("✓", "green") if claim.holds else ("✗", "bold red")
        hang(out, Text.assemble("  ", mark, " "), Text.assemble(claim.says, (f"  {claim.found}", "dim")))
    if evidence.report is not None:
        _title(out, "The report")
        _show_report(out, evidence.report)
    _show_verdict(out, story, evidence)
    if kept:
        _show_next(out, story)


def _title(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


# -- the picture of time -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted, in one lane."""

    from_ms: int
    to_ms: int
    char: str
    style: str
    end: str = ""
    """What stands at its end, instead."""


def _show_picture(out: Console, story: Story) -> None:
    """Print a lane for each kind of thing, over the seconds of the demo."""
    columns = min(WIDEST, out.width - LABEL - 1)
    span = max(1, story.ended_ms - story.began_ms)

    def place(ms: int) -> int:
        return min(columns - 1, max(0, (ms - story.began_ms) * columns // span))

    out.print(Text.assemble(" " * LABEL, _scale(columns, span)))
    for name, bars in _lanes(story):
        cells = [(" ", "")] * columns
        for bar in bars:
            first, last = place(bar.from_ms), place(bar.to_ms)
            cells[first : last + 1] = [(bar.char, bar.style)] * (last + 1 - first)
            if bar.end:
                cells[last] = (bar.end, "bold red")
        runs = [("".join(char for char, _ in run), style) for style, run in groupby(cells, key=itemgetter(1))]
        lane = Text.assemble((f"{name:<{LABEL}}", "dim"), *runs)
        lane.rstrip()
        out.print(lane)


def _scale(columns: int, span_ms: int) -> Text:
    every = next(every for every in (1, 2, 5, 10, 30, 60, 300, 3600) if span_ms / 1000 / every <= columns / 8)
    marks = [" "] * columns
    for second in range(0, span_ms // 1000 + 1, every):
        at = second * 1000 * columns // span_ms
        label = f"{second} s"
        if at + len(label) <= columns:
            marks[at : at + len(label)] = label
    return Text("".join(marks).rstrip(), style="dim")


def _lanes(story: Story) -> Iterator[tuple[str, list[Bar]]]:
    for role in ("client", "server"):
        yield role, [_life_bar(story, life) for life in story.lives if life.role == role]
    entries = timeline_of(story.events).entries
    tools = [one for one in entries if isinstance(one, ToolStep)]
    models = [one for one in entries if isinstance(one, ModelStep)]
    yield "model calls", [Bar(one.started_ms, one.ended_ms, "▄", COLOURS["model"]) for one in models]
    yield "tool calls", [_attempt_bar(story, attempt) for tool in tools for attempt in tool.attempts]
    asked = [tool.approval for tool in tools if tool.approval is not None]
    yield "a person", [Bar(one.opened_ms, one.decided_ms or one.opened_ms, "▄", COLOURS["person"]) for one in asked]


def _life_bar(story: Story, life: Life) -> Bar:
    from_ms, to_ms = life.ready_ms or life.started_ms, life.ended_ms or story.ended_ms
    return Bar(from_ms, to_ms, "━", COLOURS[life.role], "✗" if life.killed else "")


def _attempt_bar(story: Story, attempt: Attempt) -> Bar:
    """A lost attempt ends with the client that made it, though the server knew only later."""
    died_ms = story.life("client", 0).ended_ms
    ended_ms = (died_ms if attempt.lost else attempt.ended_ms) or story.ended_ms
    lost = attempt.lost or attempt.error is not None
    return Bar(attempt.started_ms or 0, ended_ms, "▄", COLOURS["tool"], "✗" if lost else "")


# -- steps and figures -------------------------------------------------------------------------------------------------


def _show_steps(out: Console, story: Story, evidence: Evidence) -> None:
    times = {event.address: event.at_ms for event in reversed(story.events)}
    widest = max(len(what) for _, what, _ in evidence.attempts)
    out.print(Text(f"{'step':<9}{'what':<{widest}}       at  attempts", style="dim"))
    for address, what, attempts in evidence.attempts:
        at = f"{(times[address] - story.began_ms) / 1000:.1f} s"
        again = attempts > 1
        line = Text.assemble(
            f"{address.partition('/')[0]:<9}{what:<{widest}}",
            (f"{at:>9}", "dim"),
            (f"{attempts:>10}", "bold yellow" if again else ""),
            f"  {_why_again(what)}" if again else "",
        )
        out.print(line, soft_wrap=True)


def _why_again(what: str) -> str:
    return "its reply was lost with the server" if what == "model call" else "the first was lost with the client"


def _show_figures(out: Console, evidence: Evidence) -> None:
    calls = evidence.calls
    twice = (f"{calls.paid_twice} paid twice", "bold green" if calls.paid_twice == 0 else "bold yellow")
    words = f"{calls.made} made, {calls.recorded} recorded, {calls.reused} reused by the second server, "
    dark = [f"{phrases.duration(one.to_ms - one.from_ms)} without a {one.role}" for one in evidence.dark]
    told = f"{phrases.duration(evidence.dark_ms)} to carry the run on: {_listed(dark)}"
    rows = (
        ("model calls", Text.assemble(words, twice)),
        ("", Text(f"counted by {calls.counted_by}", style="dim")),
        ("nothing alive", Text(told)),
    )
    for label, text in rows:
        hang(out, Text(f"  {label:<15}", style="dim"), text)


def _listed(parts: Iterable[str]) -> str:
    *most, last = list(parts) or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def _show_report(out: Console, report: Report) -> None:
    size = f"{report.bytes:,} bytes, {phrases.plural(report.pages, 'page')}, sha256 {report.sha256[:12]}…"
    out.print(Text(f"  {home_short(report.path)}", style="cyan"), soft_wrap=True)
    out.print(Text(f"  {size}", style="dim"))
    for line in report.first_lines:
        out.print(Text(f"  │ {phrases.clip(line, out.width - 6)}", style="italic"))


def _show_verdict(out: Console, story: Story, evidence: Evidence) -> None:
    out.print()
    took = phrases.duration(story.ended_ms - story.began_ms)
    if evidence.holds:
        out.print(Text.assemble(("✓ ", "bold green"), f"All of this happened, and was checked, in {took}."))
    else:
        out.print(Text("✗ Not all of this holds: see the evidence, and please report it.", style="bold red"))


def _show_next(out: Console, story: Story) -> None:
    rows = (
        ("look again", f"perdure server --store {path_typed(str(story.plan.store))}"),
        ("", f"perdure executions show {story.execution}"),
        ("try it", f"{home_short(str(story.plan.example))} holds the programs, yours to change"),
    )
    for label, text in rows:
        out.print(Text.assemble((f"  {label:<12}", "dim"), text), soft_wrap=True)
