"""`perdure rooms rights`: what may be done in a room, and on whose word, as one's own company says it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connect import AsJson, By, Server, ask

if TYPE_CHECKING:
    from perdure.core.rooms import RightsView

Room = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Give a noun these words."""
    app.command()(rights)


def rights(
    room: Room,
    file: Annotated[
        Path | None, typer.Option("--set", metavar="FILE", help="Say what stands there, as JSON.", show_default=False)
    ] = None,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what your company says may be done in a room; or, with --set, say it, in place of what it said before."""
    from perdure.cli.rooms import write
    from perdure.cli.terminal import print_json
    from perdure.core.rooms import SetRights

    if file is not None:
        write(server, room, SetRights(_read(file)), by, as_json)
        return
    found: RightsView = ask(server, lambda api: api.room_rights(room))
    if as_json:
        print_json(found)
    else:
        _show(found)


def _read(file: Path) -> str:
    from perdure.core.rights import rights_from_text

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be read: {error}.", param_hint="--set") from None
    rights_from_text(text)
    return text


def _show(found: RightsView) -> None:
    from perdure.cli.terminal import console, grid

    console().print(f"{found.company} in {found.room}, revision {found.revision}", markup=False, highlight=False)
    table = grid("RULE", "THEN", "ACTS", "WHO", "TO", "IF", "YES OF")
    for rule in found.document.get("rules", []):
        conditions = [f"{name}={rule[name]}" for name in ("above", "steered", "private") if rule.get(name) is not None]
        acts = ", ".join(rule.get("acts", [])) or "all"
        word = _word(rule.get("by", {}), found.company) if rule["then"] == "hold" else ""
        who, to = rule.get("who", "*"), rule.get("to", "*")
        table.add_row(rule["name"], rule["then"], acts, who, to, " ".join(conditions), word)
    console().print(table)
    for role, people in found.document.get("roles", {}).items():
        console().print(f"{role}: {', '.join(people)}", markup=False, highlight=False)


def _word(by: dict[str, Any], company: str) -> str:
    of = by.get("company") or company
    role = f" ({by['role']})" if by.get("role") else ""
    return f"{by.get('quorum', 1)} of {of}{role}"
