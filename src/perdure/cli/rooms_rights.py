"""`perdure rooms rights|stop|start|stops|budget`: what may be done in rooms, as one's own company says it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connect import AsJson, By, Reason, Server, ask

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.budgets import Budget, BudgetView
    from perdure.core.room_views import RightsView, StopView

Room = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.", show_default=False)]
Member = Annotated[
    str,
    typer.Argument(metavar="[MEMBER]", help="`company/agent` or `company`; the whole room if left out."),
]


def add_to(app: typer.Typer) -> None:
    """Give a noun these words."""
    for word in (rights, stop, start, stops, budget):
        app.command()(word)


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


def stop(
    room: Room, member: Member = "", reason: Reason = "", by: By = "", server: Server = None, as_json: AsJson = False
) -> None:
    """Have an agent, a company or the whole room do nothing for now: no act, no further request to a model."""
    from perdure.cli.rooms import write
    from perdure.core.rooms import Stop

    write(server, room, Stop(member, reason), by, as_json)


def start(room: Room, member: Member = "", by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Lift a stop: wakes that it had paused go on where they were."""
    from perdure.cli.terminal import console, print_json, whoami

    done = ask(server, lambda api: api.start_room(room, member, by=by or whoami()))
    if as_json:
        print_json(done)
    else:
        what = "lifted" if done.lifted else "there was no such stop"
        console().print(f"{what}; wakes that go on: {done.wakes}", markup=False, highlight=False)


def stops(room: Room, server: Server = None, as_json: AsJson = False) -> None:
    """List who does nothing in a room for now."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_stops(room))
    print_items(found, _show_stops, as_json=as_json)


def budget(
    usd: Annotated[
        float | None, typer.Option("--usd", metavar="N", help="US dollars on a day.", show_default=False)
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", help="Tokens on a day.", show_default=False)
    ] = None,
    room: Annotated[str, typer.Option("--room", metavar="ROOM", help="Only in this room.", show_default=False)] = "",
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Only of this agent.", show_default=False)] = "",
    unpriced_usd: Annotated[
        float | None,
        typer.Option(metavar="N", help="What a request of unknown price counts for.", show_default=False),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Have no such cap any more.")] = False,
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the caps on what your company's agents in rooms spend on their models; or set one, by the day in UTC."""
    from perdure.cli.terminal import print_items, whoami
    from perdure.core.budgets import Budget

    given = Budget(room, agent, usd, tokens, unpriced_usd)
    if not remove and usd is None and tokens is None and (room or agent or unpriced_usd is not None):
        raise typer.BadParameter("name a cap, --usd or --tokens, or --remove it.")
    found = ask(server, lambda api: _budgets(api, given, remove, by or whoami()))
    print_items(found, _show_budgets, as_json=as_json)


async def _budgets(api: HttpApi, given: Budget, remove: bool, by: str) -> list[BudgetView]:
    if remove or given.usd is not None or given.tokens is not None:
        await api.set_room_budget(given, remove=remove, by=by)
    return await api.room_budgets()


def _show_stops(found: list[StopView]) -> None:
    from rich.text import Text

    from perdure.cli.terminal import console, grid

    table = grid("STOPPED", "BY", "WHY")
    for one in found:
        table.add_row(one.member, one.by, Text(one.reason))
    console().print(table)


def _show_budgets(found: list[BudgetView]) -> None:
    from perdure.cli.terminal import console, grid

    table = grid("ROOM", "AGENT", "DOLLARS A DAY", "SPENT", "RESERVED", "TOKENS A DAY", "SPENT", "RESERVED")
    for one in found:
        usd = ("", "", "") if one.usd is None else (f"{one.usd:g}", f"{one.spent_usd:g}", f"{one.reserved_usd:g}")
        counts = (one.tokens, one.spent_tokens, one.reserved_tokens)
        tokens = ("", "", "") if one.tokens is None else tuple(f"{count:,}" for count in counts)
        table.add_row(one.room or "all", one.agent or "all", *usd, *tokens)
    console().print(table)
