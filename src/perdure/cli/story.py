"""Show an execution to people: a head, and its timeline. Shapes in, Rich renderables out; asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from rich.console import Group
from rich.table import Table
from rich.text import Text

from perdure.cli import phrases
from perdure.cli.terminal import STATES, state_text
from perdure.client.replies import InTheMaking
from perdure.client.timeline import Entry, Gap, ModelStep, News, Timeline
from perdure.client.tool_steps import Attempt, ToolStep
from perdure.core import states
from perdure.core.delivery import Delivery
from perdure.core.events import Kind
from perdure.core.views import ExecutionView

if TYPE_CHECKING:
    from rich.console import RenderableType

SAYING_LINES = 6
"""Of a reply in the making: its last ones."""
WORDS_ROOM = 200
"""Characters of a reply, a result or an error in the timeline."""


def head(view: ExecutionView, now_ms: int) -> RenderableType:
    """Return what there is to know at a glance: state, model, tokens, cost, times, and what it waits for."""
    title = Text.assemble((view.id, "bold"), "  ", phrases.plain(view.agent), "  ")
    title.append_text(state_text(view.state, view.reason))
    usage = view.usage
    facts = [view.model, phrases.plural(usage.model_calls, "model call")] if view.model else []
    if usage.input_tokens or usage.output_tokens:
        facts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
        facts.append(phrases.money(usage.cost_usd))
    if view.finished_ms is None:
        took = f"started {phrases.ago(view.created_ms, now_ms)}"
    else:
        took = f"took {phrases.duration(view.finished_ms - view.created_ms)}"
    facts += [took, f"active {phrases.duration(view.active_ms)}"]
    if view.priority:
        facts.append(f"priority {view.priority}")
    if view.limit_key is not None:
        facts.append(f"key {phrases.plain(view.limit_key)}")
    lines: list[RenderableType] = [title, Text(" · ".join(facts), style="dim", overflow="fold")]
    if view.tags:
        lines.append(Text(f"tags: {', '.join(map(phrases.plain, view.tags))}", style="dim", overflow="fold"))
    if view.message:
        lines.append(
            Text(phrases.plain(view.message), style="red" if view.state == states.Execution.FAILED else "yellow")
        )
    lines += waits(view, now_ms)
    lines += tree(view)
    return Group(*lines)


def waits(view: ExecutionView, now_ms: int) -> list[RenderableType]:
    """Return a line for each thing that it waits for, and the command that gives it."""
    lines: list[RenderableType] = []
    for approval in view.approvals:
        asked = phrases.call(approval.tool, approval.args, WORDS_ROOM)
        lines.append(
            Text.assemble(
                ("◌ ", "yellow"),
                "waits for a decision since ",
                phrases.ago(approval.opened_ms, now_ms),
                ": ",
                (asked, "bold"),
            )
        )
        lines.append(Text(f"  perdure approvals approve {approval.id}", style="cyan"))
    for wait in view.waits:
        if wait.kind != "approval":
            since = phrases.ago(wait.since_ms, now_ms)
            lines.append(Text.assemble(("◌ ", "yellow"), f"waits for {phrases.plain(wait.detail)}, since {since}"))
        if wait.kind == "ruling":
            command = f"  perdure effects rule {view.id} '{wait.address}' happened|run|give-up"
            lines.append(Text(command, style="cyan"))
        if wait.kind == "token":
            lines.append(Text(f"  perdure tokens complete {wait.detail.split()[1]} --value JSON", style="cyan"))
        if wait.kind == "signal":
            name = phrases.plain(wait.detail.removeprefix("signal "))
            lines.append(Text(f"  perdure executions signal {view.id} '{name}' --value JSON", style="cyan"))
    return lines


def saying(address: str, reply: InTheMaking, width: int) -> RenderableType:
    """Return the end of what a model has said so far, in lines of a terminal that is so wide."""
    attempt = f"  attempt {reply.attempt}" if reply.attempt > 1 else ""
    said = "\n".join(map(phrases.plain, reply.text[-SAYING_LINES * width :].splitlines()[-SAYING_LINES:]))
    return Text.assemble((_model_name(address), "bold"), (attempt, "yellow"), "\n", said, overflow="fold")


def tree(view: ExecutionView) -> list[RenderableType]:
    """Return a line for each execution above and below it."""
    lines: list[RenderableType] = []
    if view.parent is not None:
        lines.append(Text(f"begun by {view.parent}", style="dim"))
    for child in view.children:
        text = Text.assemble("  " * child.depth, "└ ", (child.id, "bold"), "  ", phrases.plain(child.agent), "  ")
        text.append_text(state_text(child.state, None))
        text.append(f"  {phrases.plain(child.address)}", style="dim")
        lines.append(text)
    return lines


def story(timeline: Timeline) -> RenderableType:
    """Return the timeline: one line for each entry, more where more was tried, and what it adds up to."""
    zero_ms = timeline.entries[0].started_ms if timeline.entries else 0
    lines = [line for entry in timeline.entries for line in lines_of(entry)]
    return Group(story_table(lines, zero_ms), Text(""), sums(timeline))


def story_table(lines: Sequence[Line], zero_ms: int) -> Table:
    """Return lines as a table whose columns stand still from one table to the next."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", no_wrap=True, min_width=10)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, min_width=16, max_width=24, overflow="ellipsis", style="bold")
    table.add_column(justify="right", no_wrap=True, min_width=8)
    table.add_column(overflow="fold")
    for line in lines:
        at = "" if line.at_ms is None else f"+{phrases.duration(line.at_ms - zero_ms)}"
        table.add_row(at, Text(line.mark, style=line.style), Text(line.what), line.took, line.text)
    return table


def sums(timeline: Timeline) -> Text:
    """Return where the time went."""
    parts = [
        f"{what} {phrases.duration(ms)}"
        for what, ms in (
            ("model", timeline.model_ms),
            ("tools ran", timeline.ran_ms),
            ("queued", timeline.queued_ms),
            ("paused before retries", timeline.paused_ms),
            ("waited for people", timeline.decided_ms),
            ("held by a dead server up to", timeline.dead_ms),
        )
        if ms
    ]
    if timeline.repeated:
        parts.append(f"{phrases.plural(timeline.repeated, 'model call')} possibly paid twice")
    return Text(" · ".join(parts), style="dim")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a timeline. `at_ms` is None for what belongs to the line above."""

    at_ms: int | None
    mark: str
    style: str
    what: str
    took: str
    text: Text


def lines_of(entry: Entry) -> Iterator[Line]:
    """Yield the lines that an entry takes."""
    match entry:
        case ModelStep():
            yield from _model_lines(entry)
        case ToolStep():
            yield from _tool_lines(entry)
        case Gap():
            took = f"≤ {phrases.duration(entry.ended_ms - entry.started_ms)}"
            text = Text("its server died; nothing moved it until another took over", style="red")
            yield Line(entry.started_ms, "✗", "red", "nobody alive", took, text)
        case News():
            yield _news_line(entry)
        case _:
            assert_never(entry)


def _model_lines(step: ModelStep) -> Iterator[Line]:
    mark, style = STATES[states.Task.DONE if step.outcome == "replied" else states.Task.DEAD]
    if step.error is not None:
        text = Text(phrases.clip(step.error, WORDS_ROOM), style="red")
    elif step.calls:
        called = ", ".join(phrases.written_call(name, args) for name, args in step.calls)
        text = Text(f"→ {called}")
    else:
        text = Text(phrases.clip(step.text, WORDS_ROOM))
    notes: list[str] = []
    if step.input_tokens or step.output_tokens:
        notes = [f"{step.input_tokens:,} in, {step.output_tokens:,} out", phrases.money(step.cost_usd)]
    if (own := step.requests - step.repeated) > 1:
        notes.append(f"{own} requests")
    if notes:
        text.append("  " + " · ".join(notes), style="dim")
    took = phrases.duration(step.ended_ms - step.started_ms)
    yield Line(step.started_ms, mark, style, _model_name(step.address), took, text)
    if step.repeated:
        warning = f"asked {phrases.plural(step.repeated, 'more time')} by a server that died: possibly paid twice"
        yield Line(None, "", "", "", "", Text(warning, style="yellow"))


def _model_name(address: str) -> str:
    turn, _, rest = address.partition("/")
    return f"model · {turn}" if rest == "model" else address


def _tool_lines(step: ToolStep) -> Iterator[Line]:
    mark, style = STATES.get(step.state, ("○", "cyan"))
    pending = step.approval is not None and step.approval.decision is None
    if pending:
        mark, style = STATES[states.Execution.WAITING]
    took = phrases.duration(step.ran_ms) if step.ran_ms or step.ended_ms else ""
    yield Line(step.started_ms, mark, style, step.tool, took, _outcome(step))
    if step.approval is not None:
        yield Line(None, "", "", "", "", _approved(step))
    if len(step.attempts) > 1 or any(one.error for one in step.attempts):
        for attempt in step.attempts:
            yield _attempt_line(attempt)
    if step.ruling is not None:
        said = f"ruled {step.ruling.ruling} by {step.ruling.by or 'somebody'}"
        why = f": {phrases.clip(step.ruling.reason, WORDS_ROOM)}" if step.ruling.reason else ""
        yield Line(None, "", "", "", "", Text(said + why, style="magenta"))


def _outcome(step: ToolStep) -> Text:
    text = Text(phrases.call(step.tool, step.args).removeprefix(phrases.plain(step.tool)))
    match step.state:
        case states.Task.DONE:
            text.append(f" → {phrases.value(step.value, WORDS_ROOM)}")
        case states.Task.DEAD:
            text.append(f" {phrases.clip(step.error or 'given up', WORDS_ROOM)}", style="red")
        case states.Task.UNCERTAIN:
            text.append(" outcome unknown: it had begun", style="bold magenta")
        case states.Task.READY if step.scheduled_ms is not None:
            text.append(" waits for a worker", style="yellow")
        case states.Task.READY:
            pass
        case states.Task.LEASED | states.Task.BEGUN:
            text.append(" runs now", style="cyan")
    notes = [f"queued {phrases.duration(step.queued_ms)}"] if step.queued_ms else []
    if step.simulated:
        notes.append("simulated: nothing was done")
    elif step.delivery == Delivery.AT_MOST_ONCE:
        notes.append("at most once")
    if notes:
        text.append("  " + " · ".join(notes), style="dim")
    return text


_DECIDED = {
    "approve": ("approved", "green"),
    "edit": ("approved with other arguments", "green"),
    "respond": ("answered", "yellow"),
    "reject": ("rejected", "red"),
}
"""How a decision is said, and its colour."""


def _approved(step: ToolStep) -> Text:
    approval = step.approval
    assert approval is not None
    if approval.decision is None:
        return Text("waits for a decision", style="yellow")
    waited = phrases.duration((approval.decided_ms or approval.opened_ms) - approval.opened_ms)
    word, style = _DECIDED.get(approval.decision, (approval.decision, "yellow"))
    why = f": {phrases.clip(approval.reason, WORDS_ROOM)}" if approval.reason else ""
    return Text.assemble((word, style), f" by {phrases.plain(approval.by) or 'somebody'} after {waited}{why}")


def _attempt_line(attempt: Attempt) -> Line:
    took = ""
    if attempt.started_ms is not None and attempt.ended_ms is not None:
        took = phrases.duration(attempt.ended_ms - attempt.started_ms)
    if attempt.error is None:
        what = "runs" if attempt.ended_ms is None else "ok"
    else:
        what = ("lost: " if attempt.lost else "") + phrases.clip(attempt.error, WORDS_ROOM)
    text = Text(f"attempt {attempt.number}: {what}", style="dim" if attempt.error is None else "yellow")
    if took:
        text.append(f" after {took}", style="dim")
    if attempt.pause_ms:
        text.append(f", next in {phrases.duration(attempt.pause_ms)}", style="dim")
    if attempt.worker:
        text.append(f" on {phrases.short_id(attempt.worker)}", style="dim")
    return Line(None, "", "", "", "", text)


_NEWS: dict[Kind, tuple[str, str, str]] = {
    Kind.STARTED: ("▸", "bold", "started"),
    Kind.MESSAGE: ("✉", "cyan", "message"),
    Kind.PAUSED: ("‖", "yellow", states.Execution.PAUSED),
    Kind.RESUMED: ("▸", "cyan", "resumed"),
    Kind.STOP_REQUESTED: ("■", "yellow", "stop after this turn"),
    Kind.CANCEL_REQUESTED: ("■", "magenta", "cancel"),
    Kind.TIMER_SET: ("◷", "dim", "timer"),
    Kind.WAIT_OPENED: ("◷", "dim", "waits"),
    Kind.WAIT_RESOLVED: ("▸", "cyan", "token"),
    Kind.APPROVAL_ESCALATED: ("▸", "yellow", "approval escalated"),
    Kind.SIGNAL: ("✉", "cyan", "signal"),
    Kind.CHILD_STARTED: ("▸", "dim", "child"),
    Kind.CHILD_ENDED: ("■", "dim", "child ended"),
    Kind.STUCK: ("!", "bold red", states.Execution.STUCK),
    Kind.COMPLETED: ("✓", "green", states.Execution.COMPLETED),
    Kind.FAILED: ("✗", "red", states.Execution.FAILED),
    Kind.CANCELLED: ("✗", "magenta", states.Execution.CANCELLED),
}


def _news_line(news: News) -> Line:
    mark, style, word = _NEWS.get(news.kind, ("·", "", str(news.kind)))
    text = Text(phrases.clip(news.text, WORDS_ROOM))
    if news.by:
        text.append(f"  by {phrases.plain(news.by)}", style="dim")
    return Line(news.started_ms, mark, style, word, "", text)
