"""`perdure rooms upload|files|download`: files that the companies of a room share."""

from __future__ import annotations

import mimetypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Server, ask
from perdure.cli.rooms_ledger import After, Limit, Room

if TYPE_CHECKING:
    from perdure.core.room_files import FileView

Key = Annotated[
    str, typer.Option("--key", metavar="TEXT", help="The same key again is the same, once.", show_default=False)
]


def upload(
    room: Room,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="At most 20 MB.", show_default=False)],
    name: Annotated[str, typer.Option(metavar="NAME", help="What it is called; else its own name.")] = "",
    key: Key = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Put a file into a room. One of a name that your company used before becomes its next version."""
    from perdure.cli.terminal import console, print_json, whoami
    from perdure.client.room_files import upload

    try:
        content = file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be read: {error.strerror}.", param_hint="FILE") from None
    called = name or file.name
    media = mimetypes.guess_type(called)[0] or ""
    done = ask(server, lambda api: upload(api, room, called, content, media=media, key=key, by=by or whoami()))
    if as_json:
        print_json(done)
    else:
        console().print(f"{done.id} (ledger {done.seq})", markup=False, highlight=False)


def files(
    room: Room,
    name: Annotated[str, typer.Option(metavar="NAME", help="Only files of this name.", show_default=False)] = "",
    versions: Annotated[bool, typer.Option("--versions", help="All versions, not the newest alone.")] = False,
    after: After = 0,
    limit: Limit = 200,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the files of a room."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_files(room, after=after, limit=limit, name=name, versions=versions))
    print_items(found, _show, as_json=as_json)


def _show(found: list[FileView]) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid

    table = grid("FILE", "NAME", "VERSION", "FROM", "BYTES", "TEXT")
    for one in found:
        by = f"{one.company}/{one.author}"
        name, state = Text(phrases.clip(one.name)), Text(phrases.clip(one.text_state))
        table.add_row(one.id, name, str(one.version), by, f"{one.size:,}", state)
    console().print(table)


def download(
    room: Room,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Its id; or its name, for the newest version.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to; - is the output.", show_default=False)
    ] = None,
    server: Server = None,
) -> None:
    """Take a file out of a room, proved by its fingerprint. Without --out it is written to the output."""
    from perdure.client.room_files import download

    content = ask(server, lambda api: download(api, room, file))
    if out is None or str(out) == "-":
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(content)
        else:  # whoever runs this inside a program of theirs took the output over, as text
            sys.stdout.write(content.decode(errors="replace"))
        sys.stdout.flush()
        return
    try:
        out.write_bytes(content)
    except OSError as error:
        raise typer.BadParameter(f"{str(out)!r} cannot be written: {error.strerror}.", param_hint="--out") from None
