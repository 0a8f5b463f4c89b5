"""`perdure approvals`: the calls that wait for a person, and the person's answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Reason, Server, Yes, ask
from perdure.errors import Conflict

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.views import ApprovalView, Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody says to an approval."""

    which: str
    decision: Decision
    reason: str
    by: str
    yes: bool
    as_json: bool


app = typer.Typer(help="See the calls that wait for a person; approve or reject them.", no_args_is_help=True)

Which = Annotated[
    str,
    typer.Argument(
        metavar="APPROVAL", help="Its id; or an execution's, if only one is open there.", show_default=False
    ),
]


@app.command("list")
def list_command(
    execution: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those of this execution.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that were decided, too.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a decision, oldest first."""
    from perdure.core import states

    state = None if everything else states.Waitpoint.OPEN.value
    found = ask(server, lambda api: api.approvals(execution=execution, state=state))
    if as_json:
        from perdure.cli.terminal import print_json

        print_json({"items": found})
    else:
        _show_list(found, everything)


@app.command()
def approve(
    approval: Which, reason: Reason = "", by: By = "", yes: Yes = False, server: Server = None, as_json: AsJson = False
) -> None:
    """Let one call be made, with exactly the arguments shown.

    In a terminal it asks first; answering no leaves it open and ends with exit code 4.
    """
    _decide(Answer(approval, "approve", reason, by, yes, as_json), server)


@app.command()
def reject(
    approval: Which, reason: Reason = "", by: By = "", yes: Yes = False, server: Server = None, as_json: AsJson = False
) -> None:
    """Refuse one call. The agent is told, with the reason, and goes on."""
    _decide(Answer(approval, "reject", reason, by, yes, as_json), server)


def _decide(answer: Answer, server: str | None) -> None:
    """Show the call, ask if somebody is there to ask, decide, and say so."""
    from rich.text import Text

    from perdure.cli import failure, phrases
    from perdure.cli.terminal import asks, confirmed, console, print_json, whoami

    shown = ask(server, lambda api: _shown(api, answer.which))
    asking = asks(answer.yes or answer.as_json)
    if shown is not None and not answer.as_json:
        _show_call(shown)
    if shown is not None and asking and not confirmed(f"{answer.decision.capitalize()} this call?"):
        console(stderr=True).print("Nothing was decided; it keeps waiting.")
        failure.stop(failure.NEEDS_APPROVAL)
    which = shown.id if shown else answer.which
    by = answer.by or whoami()
    decided = ask(server, lambda api: api.decide(which, answer.decision, by=by, reason=answer.reason))
    if answer.as_json:
        print_json(decided)
        return
    word, style = ("approved", "green") if decided.decision == "approve" else ("rejected", "red")
    said = f": {phrases.plain(decided.reason)}" if decided.reason else ""
    console().print(Text.assemble((word, style), f" by {phrases.plain(decided.decided_by or 'somebody')}{said}"))


async def _shown(api: HttpApi, which: str) -> ApprovalView | None:
    """Return the open approval that is meant; None if there is none of that id: then the server says what is wrong."""
    if not which.startswith("exe_"):
        return next((one for one in await api.approvals() if one.id == which), None)
    found = (await api.execution(which)).approvals
    if not found:
        raise Conflict(
            f"execution {which} waits for no decision. `perdure executions show {which}` says what it waits for.",
            code="not_waiting",
        )
    first, *others = found
    if others:
        from perdure.cli import phrases

        lines = "; ".join(f"{one.id}: {phrases.call(one.tool, one.args)}" for one in found)
        raise Conflict(f"{len(found)} decisions are open in {which}. Name one: {lines}.", code="ambiguous")
    return first


def _show_call(approval: ApprovalView) -> None:
    """Show the tool and its exact arguments, whole: what is decided on."""
    from rich.table import Table
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console

    out = console()
    since = phrases.ago(approval.opened_ms, round(time.time() * 1000))
    where = f"  agent {phrases.plain(approval.agent)}, {approval.execution}, asked {since}"
    out.print(Text.assemble((phrases.plain(approval.tool), "bold"), (where, "dim")))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in approval.args.items():
        table.add_row(Text(f"  {phrases.plain(name)}", style="cyan"), Text(phrases.exact(value)))
    out.print(table if approval.args else Text("  without arguments", style="dim"))


def _show_list(found: list[ApprovalView], everything: bool) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid

    out = console()
    if not found:
        out.print(Text("No approvals." if everything else "Nothing waits for a decision.", style="dim"))
        return
    table = grid("ID", "AGENT", "CALL", "ASKED")
    if everything:
        table.add_column("DECISION")
    now_ms = round(time.time() * 1000)
    for one in found:
        asked = Text(phrases.call(one.tool, one.args))
        row = [one.id, phrases.clip(one.agent, 24), asked, phrases.ago(one.opened_ms, now_ms)]
        if everything:
            row.append(
                f"{one.decision} by {phrases.plain(one.decided_by or 'somebody')}" if one.decision else one.state
            )
        table.add_row(*row)
    out.print(table)
