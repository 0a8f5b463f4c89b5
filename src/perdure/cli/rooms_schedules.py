"""`perdure rooms schedule`: have something said in a room by the calendar, which wakes whoever it is meant for."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from perdure.cli.connect import AsJson, By, Server, ask
from perdure.cli.rooms_ledger import Room


def schedule(
    room: Room,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    to: Annotated[str, typer.Option(metavar="MEMBER", help="`company/agent` or `company`.", show_default=False)],
    cron: Annotated[
        str,
        typer.Option(
            metavar="PATTERN", help="Minute, hour, day, month, day of the week: '0 7 * * 1-5'.", show_default=False
        ),
    ],
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone it is read in: Europe/Berlin.")] = "UTC",
    missed: Annotated[
        Literal["skip", "one", "all"],
        typer.Option(help="What becomes of ticks that no server was there for: none, the latest, all (up to 100)."),
    ] = "one",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Have something said to a member at each tick: an agent is woken by it. The same schedule again changes nothing.

    It is said as COMPANY/schedule. `perdure schedules` lists it with all others, pauses it and takes it away.
    """
    from perdure.cli.schedules import show
    from perdure.cli.terminal import print_json, whoami
    from perdure.core.notices import Notice, notice_to_json
    from perdure.core.schedules import ScheduleRequest

    spec = notice_to_json(Notice(room, to, text))
    request = ScheduleRequest(name, spec, None, cron, zone, missed)
    made = ask(server, lambda api: api.create_schedule(request, by=by or whoami()))
    if as_json:
        print_json(made)
    else:
        show([made])
