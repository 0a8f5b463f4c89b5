"""`perdure rooms search`: find what was said, kept and put into a room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Server, ask
from perdure.cli.rooms_ledger import Room

if TYPE_CHECKING:
    from perdure.core.room_search import Hit


def search(
    room: Room,
    query: Annotated[str, typer.Argument(metavar="WORDS", help="What to look for.", show_default=False)],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only `message`, `memory` or `file`; may be repeated.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="How many.")] = 20,
    cursor: Annotated[
        str, typer.Option(metavar="CURSOR", help="Where a search before ended, to go on.", show_default=False)
    ] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Find messages, lines of memory and passages of files by their words, the best first.

    What has more of the words comes first, a word counting the more the rarer it is; of equals what is newer. A server
    with the extra `vectors` also finds what means the same in other words.
    """
    from perdure.cli.terminal import console, print_json, print_said
    from perdure.core.room_search import kinds_of

    kinds = kinds_of(",".join(kind or ()))
    found = ask(server, lambda api: api.search_room(room, query, kinds=kinds, limit=limit, cursor=cursor))
    if as_json:
        print_json(found)
        return
    for one in found.items:
        print_said(_head(one), one.snippet)
    if found.cursor:
        more = f"{found.found} in all; --cursor {found.cursor} goes on"
        console().print(more, markup=False, highlight=False)
    elif not found.items:
        console().print("nothing found", markup=False, highlight=False)


def _head(one: Hit) -> str:
    where = f"{one.file} version {one.version}, passage {one.passage}  " if one.kind == "file" else ""
    how = "  by its meaning" if one.found_by == "meaning" else ""
    return f"{one.seq} {one.kind} of {one.company}/{one.author}  {where}{one.id}{how}"
