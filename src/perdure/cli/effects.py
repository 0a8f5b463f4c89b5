"""`perdure effects`: what was done to the outside world under `at_most_once`, and rulings where nobody knows."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from perdure.cli.connect import AsJson, Execution, Server, ask
from perdure.core import states

if TYPE_CHECKING:
    from perdure.core.views import EffectView

app = typer.Typer(
    help="See what was done to the outside world, at most once; rule on what nobody knows.", no_args_is_help=True
)


@app.command("list")
def list_command(
    execution: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those of this execution.", show_default=False)
    ] = None,
    state: Annotated[
        states.Task | None,
        typer.Option(help="Only those in this state.", show_default=False),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List effects, the latest change first."""
    found = ask(server, lambda api: api.effects(execution=execution, state=state))
    if as_json:
        from perdure.cli.terminal import print_json

        print_json({"items": found})
    else:
        _show_list(found)


@app.command()
def rule(
    execution: Execution,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The step: 'turn 2/tool/call_1'.", show_default=False)
    ],
    ruling: Annotated[
        Literal["happened", "run", "give-up"],
        typer.Argument(
            metavar="RULING",
            help="happened: it was done. run: it was not, do it. give-up: it stays unknown and is not done again.",
            show_default=False,
        ),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="With happened: its result.", show_default=False)
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="How you know; kept in the log.", show_default=False)
    ] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Say what became of an effect that had begun and never reported. Nothing is ever guessed in its place.

    `run` starts its body again, in your name: be sure that it did not happen.
    """
    from perdure.cli import phrases
    from perdure.cli.terminal import console, print_json, state_text, whoami

    result = _value(value, ruling)
    word = "give_up" if ruling == "give-up" else ruling
    ruled = ask(server, lambda api: api.rule(execution, address, word, by=whoami(), reason=reason, value=result))
    if as_json:
        print_json(ruled)
    else:
        console().print(phrases.call(ruled.tool, ruled.args), state_text(ruled.state))


def _value(given: str | None, ruling: str) -> Any:
    if given is None:
        return None
    if ruling != "happened":
        raise typer.BadParameter("only an effect that happened has a result.", param_hint="--value")
    try:
        return json.loads(given)
    except ValueError as error:
        raise typer.BadParameter(f"{given!r} is not JSON ({error}).", param_hint="--value") from None


def _show_list(found: list[EffectView]) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid, state_text

    out = console()
    if not found:
        out.print(Text("No effects: no at_most_once tool has begun.", style="dim"))
        return
    table = grid("STATE", "CALL", "EXECUTION", "ADDRESS", "BEGUN", "RULING")
    now_ms = round(time.time() * 1000)
    for one in found:
        ruling = f"{one.ruling} by {phrases.plain(one.ruled_by or 'somebody')}" if one.ruling else ""
        table.add_row(
            state_text(one.state),
            Text(phrases.call(one.tool, one.args, 40)),
            one.execution,
            one.address,
            phrases.ago(one.claimed_ms, now_ms),
            ruling,
        )
    out.print(table)
    uncertain = next((one for one in found if one.state == states.Task.UNCERTAIN), None)
    if uncertain is not None:
        command = f"perdure effects rule {uncertain.execution} '{uncertain.address}' happened|run|give-up"
        out.print(Text(f"Nobody knows what became of some. Find out, then: {command}", style="yellow"))
