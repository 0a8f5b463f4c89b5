"""`perdure schedules`: executions that begin by the calendar."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from perdure.cli.connect import AsJson, By, Server, Value, ask, value_of
from perdure.core import states

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.schedules import ScheduleView

app = typer.Typer(help="Begin executions by the calendar.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]


@app.command()
def create(
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="What it begins, as it is now.", show_default=False)
    ],
    cron: Annotated[
        str,
        typer.Option(
            metavar="PATTERN", help="Minute, hour, day, month, day of the week: '0 7 * * 1-5'.", show_default=False
        ),
    ],
    value: Value = '""',
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone it is read in: Europe/Berlin.")] = "UTC",
    missed: Annotated[
        Literal["skip", "one", "all"],
        typer.Option(help="What becomes of ticks that no server was there for: none, the latest, all (up to 100)."),
    ] = "one",
    overlap: Annotated[
        Literal["allow", "skip"],
        typer.Option(help="What becomes of a tick while what it began last goes on: another one begins, or nothing."),
    ] = "allow",
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG", help="What all that it begins is tagged with. Several at once.", show_default=False
        ),
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a schedule. --value is the input of what it begins. The same one again changes nothing."""
    from perdure.cli.terminal import whoami
    from perdure.core.schedules import ScheduleRequest
    from perdure.core.tags import checked_tags
    from perdure.worker.declared import start_request
    from perdure.worker.target import load_target

    declared: Any = load_target(target)
    start = start_request(declared, (value_of(value),), {}, None)
    tags = checked_tags(tag or [])
    request = ScheduleRequest(name, start.spec, start.input, cron, zone, missed, tags, overlap)
    _change(server, as_json, lambda api: api.create_schedule(request, by=by or whoami()))


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the schedules, with their next ticks."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.schedules())
    print_items(found, show, as_json=as_json)


@app.command()
def pause(name: Name, server: Server = None, as_json: AsJson = False) -> None:
    """Begin nothing until it is resumed."""
    _change(server, as_json, lambda api: api.pause_schedule(name))


@app.command()
def resume(name: Name, server: Server = None, as_json: AsJson = False) -> None:
    """Go on with the next tick from now."""
    _change(server, as_json, lambda api: api.resume_schedule(name))


@app.command()
def delete(name: Name, server: Server = None, as_json: AsJson = False) -> None:
    """Take a schedule away. What it began goes on."""
    from perdure.cli.terminal import console, print_json

    ask(server, lambda api: api.delete_schedule(name))
    if as_json:
        print_json({"deleted": name})
    else:
        console().print(f"Schedule {name} is gone.", markup=False)


@app.command()
def trigger(name: Name, server: Server = None, as_json: AsJson = False) -> None:
    """Begin now what it begins, beside its ticks, and print the execution's id."""
    from perdure.cli.terminal import console, print_json

    started = ask(server, lambda api: api.trigger_schedule(name))
    if as_json:
        print_json(started)
    else:
        console().print(started.id)


def _change(server: str | None, as_json: bool, change: Callable[[HttpApi], Awaitable[ScheduleView]]) -> None:
    from perdure.cli.terminal import print_json

    changed = ask(server, change)
    if as_json:
        print_json(changed)
    else:
        show([changed])


def show(found: list[ScheduleView]) -> None:
    """Print schedules, with their next ticks."""
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    if not found:
        console().print(
            Text("No schedules. Make one: perdure schedules create NAME MODULE:AGENT --cron …", style="dim")
        )
        return
    table = grid("NAME", "AGENT", "PATTERN", "ZONE", "NEXT", "LAST")
    now_ms = moments.now_ms()
    for one in found:
        coming = (
            str(states.Execution.PAUSED)
            if one.paused
            else "never"
            if one.next_ms is None
            else _within(one.next_ms - now_ms)
        )
        last = phrases.ago(one.last_tick_ms, now_ms) if one.last_tick_ms is not None else ""
        if one.skipped:
            last += f", {one.skipped} skipped"
        row = (one.name, one.agent, one.cron, one.zone)
        table.add_row(*(phrases.clip(text, 40) for text in row), coming, last)
    console().print(table)


def _within(left_ms: int) -> str:
    from perdure.cli import phrases

    return f"in {phrases.duration(left_ms)}" if left_ms > 0 else "now"
