"""`perdure executions`: what runs, what happened in it, and the requests that reach it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Execution, OneOf, Reason, Server, Value, Yes, ask, value_of
from perdure.cli.moments import moment_ms, now_ms
from perdure.core import states
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.events import Event
    from perdure.core.views import ExecutionFilter, ExecutionView, FoundPage, Page, TaskView

app = typer.Typer(help="See what runs and what happened; pause, resume, cancel, stop, send.", no_args_is_help=True)

PAGE = 1000
LISTED = 500
"""The most that a list gives at once."""


@app.command("list")
def list_command(
    state: Annotated[
        states.Execution | None, typer.Option(help="Only those in this state.", show_default=False)
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this agent.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Only those begun since: 2h, 3d, or 2026-05-01T12:00.", show_default=False),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only those begun before; as --since.", show_default=False)
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="Only those with this tag.", show_default=False)
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Only those with this text, whatever its case, in their id, agent, tags or input.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=LISTED, metavar="N", help="How many.")] = 20,
    cursor: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on where the page before ended.", show_default=False)
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List executions, newest first.

    With --text they are looked at one by one, until so many are found: with many say --since, too.
    """
    from perdure.core.views import ExecutionFilter
    from perdure.wire.pages import listed

    wanted = ExecutionFilter(state, agent, moment_ms(since, "--since"), moment_ms(until, "--until"), tag)
    page = ask(server, lambda api: listed(api, wanted, text, cursor=cursor, limit=limit))
    if as_json:
        from perdure.cli.terminal import print_json

        print_json(page)
    else:
        _show_page(page, narrowed=wanted != ExecutionFilter() or text is not None)


@app.command()
def show(
    execution: Execution,
    after: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEQ", help="Show what is behind this event; by default the newest.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE, metavar="N", help="How many events of the log.")] = PAGE,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show an execution and its timeline: each step, how often it was tried, what it waited for, what it cost.

    Of a long one the newest events, or with --after any part.
    """
    from perdure.cli.terminal import console, print_json
    from perdure.client.timeline import timeline_of

    part = ask(server, lambda api: _part(api, execution, after, limit))
    timeline = timeline_of(part.events, part.tasks)
    if as_json:
        shown = {"tasks": part.tasks, "events": part.events, "after": part.after}
        print_json({"execution": part.view, "timeline": timeline, **shown})
        return
    from perdure.cli.story import head, story

    out = console()
    out.print(head(part.view, now_ms()))
    out.print()
    if part.after:
        out.print(f"Not shown: events 1 to {part.after}. perdure executions show {execution} --after 0", style="dim")
    out.print(story(timeline))
    if part.last < part.view.last_seq:
        out.print(f"More: perdure executions show {execution} --after {part.last}", style="dim")


@app.command()
def watch(
    execution: Execution,
    after: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Begin after the event with this number.")] = 0,
    until_decision: Annotated[
        bool, typer.Option("--until-decision", help="Leave with exit code 4 when it waits for a person's decision.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Follow an execution until it ends, through lost connections and restarts of the server.

    Exit code 0 if it completed, 1 if it failed or was cancelled. --json prints one event a line.
    """
    from perdure.cli import failure
    from perdure.cli.watch import Watch, watch_until_end

    failure.stop(watch_until_end(server, Watch(execution, after, until_decision, as_json)))


@app.command()
def cancel(
    execution: OneOf = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that have not ended, of what the options say.")
    ] = False,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --all: only those of this agent.", show_default=False)
    ] = None,
    state: Annotated[
        states.Execution | None, typer.Option(help="With --all: only those in this state.", show_default=False)
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="With --all: only those begun since.", show_default=False)
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="With --all: only those with this tag.", show_default=False)
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --all: only those with this text, as list has it.", show_default=False),
    ] = None,
    reason: Reason = "",
    by: By = "",
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End an execution as soon as what had begun has reported. Running tools are told.

    With --all: those that are there now, counted and asked about once. Those that are being cancelled already are left
    alone: a second cancel would skip their cleanup. If it breaks off, the same command goes on.
    """
    from perdure.cli import many
    from perdure.core.views import ExecutionFilter

    given = {"--agent": agent, "--state": state, "--since": since, "--tag": tag, "--text": text}
    many.only_one("execution", execution, everything, given)
    if execution is not None:
        _tell(server, execution, as_json, lambda api: api.cancel(execution, by=by or _who(), reason=reason))
        return
    wanted = ExecutionFilter(state, agent, moment_ms(since, "--since"), None, tag)
    found = ask(server, lambda api: _live(api, wanted, text))
    if found and not many.agreed(f"Cancel {len(found)} executions?", yes=yes):
        raise typer.Abort
    said = {"by": by or _who(), "reason": reason}
    outcome = ask(server, lambda api: many.each(found, lambda one: api.cancel(one, **said)))
    many.tell(outcome, "executions are being cancelled", as_json=as_json)


async def _live(api: HttpApi, wanted: ExecutionFilter, text: str | None) -> list[str]:
    """Return the executions that a cancel would change."""
    from perdure.cli import many
    from perdure.wire.pages import listed

    live = [one for one in states.Execution if one not in states.TERMINAL and one != states.Execution.CANCELLING]
    if wanted.state is not None and wanted.state not in live:
        raise InvalidInput(
            f"--state {wanted.state}: there is nothing to cancel. It may be {', '.join(live)}.", code="bad_choice"
        )
    found: dict[str, None] = {}  # one may be met in two states
    for state in live if wanted.state is None else [wanted.state]:
        of_state = replace(wanted, state=state)
        items = await many.pages(lambda cursor, one=of_state: listed(api, one, text, cursor=cursor, limit=many.PAGE))
        found.update(dict.fromkeys(item.id for item in items))
    return list(found)


@app.command()
def pause(
    execution: Execution, reason: Reason = "", by: By = "", server: Server = None, as_json: AsJson = False
) -> None:
    """Start nothing more until it is resumed; what is in flight is recorded."""
    _tell(server, execution, as_json, lambda api: api.pause(execution, by=by or _who(), reason=reason))


@app.command()
def resume(execution: Execution, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Let a paused or stuck execution go on."""
    _tell(server, execution, as_json, lambda api: api.resume(execution, by=by or _who()))


@app.command()
def stop(execution: Execution, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Have it end, completed, after the turn in progress."""
    _tell(server, execution, as_json, lambda api: api.stop(execution, by=by or _who()))


@app.command()
def send(
    execution: Execution,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to the agent.", show_default=False)],
    dedupe: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key again changes nothing.", show_default=False)
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Say something to the agent; it reads it before its next turn."""
    _tell(server, execution, as_json, lambda api: api.send(execution, text, by=by or _who(), dedupe=dedupe))


@app.command()
def signal(
    execution: Execution,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What its code waits for.", show_default=False)],
    value: Value = "null",
    dedupe: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key again changes nothing.", show_default=False)
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Send a signal to its code, whether or not that waits for it yet."""
    given = value_of(value)
    _tell(server, execution, as_json, lambda api: api.signal(execution, name, given, by=by or _who(), dedupe=dedupe))


@app.command("map")
def map_step(
    execution: Execution,
    old: Annotated[str, typer.Argument(metavar="OLD", help="What the log calls it. With a / at the end: a scope.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What the code calls it now.")],
    reason: Reason = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Say that a step of a stuck execution only has another name now. Then resume it."""
    from perdure.cli.terminal import print_json

    seq = ask(server, lambda api: api.map_step(execution, old, new, by=by or _who(), reason=reason))
    if as_json:
        print_json({"seq": seq})
        return
    typer.echo(f"Noted as event {seq}. When all is mapped: perdure executions resume {execution}")


@app.command()
def fork(
    execution: Execution,
    at: Annotated[int, typer.Option("--at", min=1, metavar="SEQ", help="The last event that the fork has too.")],
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=VALUE",
            show_default=False,
            help="What is to be different: prompt=TEXT, model=NAME, input=JSON, build=NAME or result:ADDRESS=JSON. "
            "Several at once.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            show_default=False,
            help="The same key for the same execution gives the first fork back.",
        ),
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Begin an execution with a part of another's log. What the other did is not done again.

    An acting call or step that the other made with the same arguments takes its result. For any other, what its author
    gave to stand in for it (simulate=) is run; without that, the fork is paused until it is resumed. prompt and model
    are an agent's, input and build a durable function's. The reply that an agent's model gave last is edited by its
    address like a result, with a text or with {"text": …, "tool_calls": […]}.
    """
    from perdure.cli.edits import read_edits
    from perdure.cli.terminal import print_json

    edits = read_edits(edit or [])
    started = ask(server, lambda api: api.fork(execution, at, edits, by=by or _who(), idempotency_key=key))
    if as_json:
        print_json(started)
    elif started.created:
        typer.echo(f"{started.id} goes on from event {at} of {execution}.")
    else:
        typer.echo(f"{started.id} was forked from event {at} of {execution} under this key before.")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an execution's log, and the calls that were asked for in it."""

    view: ExecutionView
    after: int
    events: list[Event]
    tasks: list[TaskView]

    @property
    def last(self) -> int:
        return self.events[-1].seq if self.events else self.after


async def _part(api: HttpApi, execution: str, after: int | None, limit: int) -> _Part:
    view = await api.execution(execution)
    first = max(view.last_seq - limit, 0) if after is None else after
    events: list[Event] = []
    last = first
    while len(events) < limit and (page := await api.events(execution, after=last, limit=limit - len(events))):
        events += page
        last = page[-1].seq
    tasks = await api.tasks(execution, after=first, limit=PAGE)
    return _Part(view, first, events, [task for task in tasks if task.scheduled_seq <= last])


def _tell(server: str | None, execution: str, as_json: bool, request: Callable[[HttpApi], Awaitable[object]]) -> None:
    """Make a request and say where the execution stands then."""
    from perdure.cli.terminal import console, print_json, state_text

    async def made(api: HttpApi) -> ExecutionView:
        await request(api)
        return await api.execution(execution)

    view = ask(server, made)
    if as_json:
        print_json({"id": view.id, "state": view.state, "reason": view.reason, "last_seq": view.last_seq})
    else:
        console().print(view.id, state_text(view.state, view.reason))


def _show_page(page: Page | FoundPage, *, narrowed: bool) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid, state_text

    out = console()
    if not page.items:
        first = "No executions. An agent's first: AgentRuntime().run(agent, …)."
        out.print(Text("No execution is like that." if narrowed else first, style="dim"))
        return
    tagged = any(one.tags for one in page.items)
    table = grid("ID", "AGENT", "STATE", "STARTED", "TOOK", *(["TAGS"] if tagged else []))
    now = now_ms()
    for one in page.items:
        took = phrases.duration(one.finished_ms - one.created_ms) if one.finished_ms else ""
        started = phrases.ago(one.created_ms, now)
        tags = [phrases.clip(" ".join(one.tags), 60)] if tagged else []
        table.add_row(one.id, phrases.clip(one.agent, 40), state_text(one.state, one.reason), started, took, *tags)
    out.print(table)
    if page.cursor:
        out.print(Text(f"More: the same again with --cursor {page.cursor}", style="dim"))


def _who() -> str:
    from perdure.cli.terminal import whoami

    return whoami()
