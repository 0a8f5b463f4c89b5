"""`perdure queues`: what waits for workers, and how much of it may be under way."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Server, ask
from perdure.core import states
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.queues import QueueView

app = typer.Typer(help="See what waits for workers; limit or pause a queue.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]

_RATE = re.compile(r"(\d{1,9})/(\d{0,9}(?:\.\d{1,3})?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the queues that hold tasks or that somebody set or paused: what waits, since when, under which limits."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.queues())
    print_items(found, _show, as_json=as_json)


@app.command("set")
def set_command(
    name: Name,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks that workers hold at once.", show_default=False)
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/TIME", help="Tasks given out within a time: 100/s, 10/30s, 5/m.", show_default=False),
    ] = None,
    per_key: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tasks of each limit_key that workers hold at once.", show_default=False),
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Set all limits of a queue, for all servers. One that is not given is lifted.

    What is under way goes on; a limit holds back what would come next.
    """
    from perdure.cli.terminal import whoami
    from perdure.core.queues import QueueLimits

    number, seconds = (None, None) if rate is None else rate_of(rate)
    limits = QueueLimits(concurrency, number, seconds, per_key)
    _change(server, as_json, lambda api: api.set_queue(name, limits, by=by or whoami()))


@app.command()
def pause(name: Name, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Give nothing out until it is resumed. What is under way goes on."""
    from perdure.cli.terminal import whoami

    _change(server, as_json, lambda api: api.pause_queue(name, by=by or whoami()))


@app.command()
def resume(name: Name, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Give out again, under the same limits."""
    from perdure.cli.terminal import whoami

    _change(server, as_json, lambda api: api.resume_queue(name, by=by or whoami()))


def rate_of(text: str) -> tuple[int, float]:
    """Read `N/TIME`. Raises `InvalidInput` (`bad_queue`)."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            f"--rate {text[:80]!r} cannot be read; expected a number and a time, with ms, s, m, h or d: 100/s, 10/30s, "
            "5/m.",
            code="bad_queue",
        )
    number, times, unit = match.groups()
    return int(number), float(times or 1) * _SECONDS[unit]


def _change(server: str | None, as_json: bool, change: Callable[[HttpApi], Awaitable[QueueView]]) -> None:
    from perdure.cli.terminal import print_json

    changed = ask(server, change)
    if as_json:
        print_json(changed)
    else:
        _show([changed])


def _show(found: list[QueueView]) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid, state_text

    if not found:
        console().print(Text("No queue holds anything, and none has limits.", style="dim"))
        return
    table = grid("QUEUE", "WAITING", "SINCE", "UNDER WAY", "AT ONCE", "PER KEY", "RATE", "", "CHANGED")
    now_ms = moments.now_ms()
    for one in found:
        table.add_row(
            Text(one.name),
            str(one.backlog),
            "" if one.oldest_ms is None else phrases.ago(one.oldest_ms, now_ms),
            str(one.leased),
            "" if one.concurrency is None else str(one.concurrency),
            "" if one.per_key is None else str(one.per_key),
            rate_text(one),
            state_text(states.Execution.PAUSED) if one.paused else "",
            "" if one.changed_ms is None else Text(f"{phrases.ago(one.changed_ms, now_ms)} by {one.changed_by}"),
        )
    console().print(table)


def rate_text(queue: QueueView) -> str:
    """Return a queue's rate as it is typed."""
    if queue.rate is None or queue.per_seconds is None:
        return ""
    for unit, seconds in reversed(_SECONDS.items()):
        times = queue.per_seconds / seconds
        if times >= 1 and round(times, 3) == times:
            return f"{queue.rate}/{'' if times == 1 else f'{times:g}'}{unit}"
    return f"{queue.rate}/{queue.per_seconds:g}s"
