"""`perdure rooms ledger|export|verify`: what was done in a room, and whether the record of it is what it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Server, ask

if TYPE_CHECKING:
    from perdure.client.http import HttpApi

Room = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.", show_default=False)]
After = Annotated[int, typer.Option("--after", min=0, metavar="SEQ", help="Only what came after.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many.")]


def ledger(room: Room, after: After = 0, limit: Limit = 200, server: Server = None, as_json: AsJson = False) -> None:
    """Show a room's ledger: who did what, woken by what. Each line's hash covers all before it."""
    from perdure.cli.terminal import console, grid, print_json
    from perdure.core import codec

    page = ask(server, lambda api: api.room_ledger(room, after=after, limit=limit))
    if as_json:
        print_json(page)
        return
    table = grid("SEQ", "ACT", "BY", "ABOUT", "WOKEN BY", "HASH")
    for one in page.links:
        said = codec.decode(one.data)
        by = f"{said.get('company', '')}/{said.get('by', '')}"
        act = one.kind.removeprefix("room_").replace("_", " ")
        table.add_row(str(one.seq), act, by, one.address, said.get("woken_by", ""), one.hash[:12])
    console().print(table)


def export(room: Room, server: Server = None) -> None:
    """Write a room's whole ledger out, one record a line, for `perdure rooms verify`.

    Keep the file where the server's owner cannot write; or keep at least the head, SEQ:HASH, that stands on the error
    output at the end. With it, `perdure rooms verify` notices also that a tail was cut off, or all was written anew.
    """
    head = ask(server, lambda api: _export(api, room))
    sys.stdout.flush()
    typer.echo(f"head {head}", err=True)


async def _export(api: HttpApi, room: str) -> str:
    from perdure.client.room_export import export_ledger

    line = b""
    async for line in export_ledger(api, room):
        sys.stdout.write(line.decode())
    end = json.loads(line)
    return f"{end['last_seq']}:{end['head']}"


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `rooms export` wrote.", show_default=False)],
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="SEQ:HASH", help="One that you kept elsewhere; may be repeated.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow the hashes of an exported ledger and name the first event that is not what it was. Exit code 1 if any.

    Asks no server. `python -m perdure.rooms.verify FILE` does the same, and so does that one file copied elsewhere.
    """
    from perdure.cli import failure
    from perdure.cli.phrases import plain
    from perdure.cli.terminal import console, print_json
    from perdure.rooms.verify import check

    try:
        with file.open("rb") as lines:
            found = check(lines, head or ())
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be read: {error.strerror}.", param_hint="FILE") from None
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--head") from None
    if as_json:
        print_json({**found._asdict(), "holds": found.holds})
    else:
        said = f"{found.events} events, up to {found.head}" if found.holds else found.why
        said = f"{'✓' if found.holds else '✗'} {found.room}  {said}"
        console().print(plain(said), markup=False, highlight=False, soft_wrap=True)
    if not found.holds:
        failure.stop(failure.FAILED)
