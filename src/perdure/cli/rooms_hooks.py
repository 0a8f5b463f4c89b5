"""`perdure rooms hook|hooks|unhook`: addresses at which programs outside wake an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Server, ask
from perdure.cli.rooms_ledger import Room

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.hooks import HookView

Name = Annotated[str, typer.Argument(metavar="NAME", help="The hook's name.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Give a noun these words."""
    for word in (hook, hooks, unhook):
        app.command()(word)


def hook(
    room: Room,
    name: Name,
    to: Annotated[str, typer.Option(metavar="MEMBER", help="`company/agent` or `company`.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make an address at which whoever has it says something to a member, by POST with JSON: an agent is woken by it.

    The address is printed once: whoever has it needs no key. What comes is marked as the hook's, and is data to an
    agent like another company's text.
    """
    from perdure.cli.terminal import print_json

    made, url = ask(server, lambda api: _add(api, room, name, to))
    if as_json:
        print_json({"name": made.name, "room": made.room, "to": made.to, "url": url})
        return
    typer.echo(url)
    typer.echo(f"This is the address of hook {made.name}, for {made.to}. It is shown only now.", err=True)


async def _add(api: HttpApi, room: str, name: str, to: str) -> tuple[HookView, str]:
    from perdure.core.hooks import PATH, new_secret
    from perdure.system import SystemRandom

    secret = new_secret(SystemRandom())
    return await api.add_room_hook(room, name, to, secret), f"{api.url}{PATH}{secret}"


def hooks(server: Server = None, as_json: AsJson = False) -> None:
    """List your company's hooks, without their addresses."""
    from perdure.cli.terminal import print_items

    print_items(ask(server, lambda api: api.room_hooks()), _show, as_json=as_json)


def _show(found: list[HookView]) -> None:
    from perdure.cli.terminal import console, grid

    table = grid("HOOK", "ROOM", "FOR")
    for one in found:
        table.add_row(one.name, one.room, one.to)
    console().print(table)


def unhook(name: Name, server: Server = None, as_json: AsJson = False) -> None:
    """Take a hook away: its address takes nothing any more."""
    from perdure.cli.terminal import console, print_json

    ask(server, lambda api: api.remove_room_hook(name))
    if as_json:
        print_json({"removed": name})
    else:
        console().print(f"Hook {name} is gone.", markup=False, highlight=False)
