"""`perdure approvals`: the calls that wait for a person, and the person's answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

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
    changes: dict[str, Any] | None = None
    """With `edit`: the arguments that are to be others."""
    text: str | None = None
    """With `respond`."""


SAID: dict[str, tuple[str, str]] = {
    "approve": ("approved", "green"),
    "edit": ("approved with other arguments", "green"),
    "respond": ("answered", "yellow"),
    "reject": ("rejected", "red"),
}
"""What became of a call, and its colour."""

app = typer.Typer(help="See the calls that wait for a person; decide about them.", no_args_is_help=True)

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
    from perdure.cli.terminal import print_items
    from perdure.core import states

    state = None if everything else states.Waitpoint.OPEN.value
    found = ask(server, lambda api: api.approvals(execution=execution, state=state))
    print_items(found, partial(_show_list, everything=everything), as_json=as_json)


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


@app.command()
def edit(
    approval: Which,
    changes: Annotated[
        str,
        typer.Argument(
            metavar="JSON", help="The arguments to change: '{\"cents\": 50}'. The others stay.", show_default=False
        ),
    ],
    reason: Reason = "",
    by: By = "",
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Let one call be made with other arguments. They are checked against the tool's schema; the agent is told."""
    _decide(Answer(approval, "edit", reason, by, yes, as_json, changes=_changes(changes)), server)


@app.command()
def respond(
    approval: Which,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent reads.", show_default=False)],
    by: By = "",
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Answer the agent in the tool's place. The call is not made."""
    _decide(Answer(approval, "respond", "", by, yes, as_json, text=text), server)


def _changes(given: str) -> dict[str, Any]:
    try:
        found: object = json.loads(given)
    except ValueError as error:
        raise typer.BadParameter(f"{given!r} is not JSON ({error}).", param_hint="JSON") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f'{given!r} is no object of arguments: {{"name": value}}.', param_hint="JSON")
    return cast("dict[str, Any]", found)


def _decide(answer: Answer, server: str | None) -> None:
    """Show the call, ask if somebody is there to ask, decide, and say so."""
    from rich.text import Text

    from perdure.cli import failure, phrases
    from perdure.cli.terminal import asks, confirmed, console, print_json, whoami

    shown = ask(server, lambda api: _shown(api, answer.which))
    asking = asks(answer.yes or answer.as_json)
    args = None if answer.changes is None else {**(shown.args if shown else {}), **answer.changes}
    if shown is not None and not answer.as_json:
        _show_call(shown if args is None else replace(shown, args=args))
    if shown is not None and asking and not confirmed(f"{answer.decision.capitalize()} this call?"):
        console(stderr=True).print("Nothing was decided; it keeps waiting.")
        failure.stop(failure.NEEDS_APPROVAL)
    which = shown.id if shown else answer.which
    by = answer.by or whoami()
    digest = shown.digest if shown else None
    said = {"by": by, "reason": answer.reason}

    async def decide(api: HttpApi) -> ApprovalView:
        return await api.decide(which, answer.decision, **said, digest=digest, args=args, answer=answer.text)

    decided = ask(server, decide)
    if answer.as_json:
        print_json(decided)
        return
    if decided.decision is None:
        left = decided.quorum - len(decided.approved)
        names = phrases.plain(", ".join(decided.approved))
        console().print(
            Text(f"counted; {phrases.plural(left, 'more approval')} needed (so far: {names})", style="yellow")
        )
        return
    word, style = SAID.get(decided.decision, (decided.decision, "yellow"))
    why = f": {phrases.plain(decided.reason)}" if decided.reason else ""
    console().print(Text.assemble((word, style), f" by {phrases.plain(decided.decided_by or 'somebody')}{why}"))


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

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console

    out = console()
    since = phrases.ago(approval.opened_ms, moments.now_ms())
    where = f"  agent {phrases.plain(approval.agent)}, {approval.execution}, asked {since}"
    out.print(Text.assemble((phrases.plain(approval.tool), "bold"), (where, "dim")))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in approval.args.items():
        table.add_row(Text(f"  {phrases.plain(name)}", style="cyan"), Text(phrases.exact(value)))
    out.print(table if approval.args else Text("  without arguments", style="dim"))


def _needs(one: ApprovalView, now_ms: int) -> str:
    """Say who must agree, and how long there is time."""
    from perdure.cli import phrases
    from perdure.core import states

    if one.state != states.Waitpoint.OPEN:
        return ""
    escalated = one.escalates_ms is not None and now_ms >= one.escalates_ms
    who = (*one.approvers, *(one.escalate_to if escalated else ())) if one.approvers else ()
    parts = [f"{len(one.approved)} of {one.quorum}"] if one.quorum > 1 else []
    parts += [phrases.plain(", ".join(who))] if who else []
    if one.expires_ms is not None:
        parts.append(f"within {phrases.duration(one.expires_ms - now_ms)}" if one.expires_ms > now_ms else "expired")
    return "; ".join(parts)


def _show_list(found: list[ApprovalView], everything: bool) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    out = console()
    if not found:
        out.print(Text("No approvals." if everything else "Nothing waits for a decision.", style="dim"))
        return
    table = grid("ID", "AGENT", "CALL", "ASKED", "NEEDS")
    if everything:
        table.add_column("DECISION")
    now_ms = moments.now_ms()
    for one in found:
        asked = Text(phrases.call(one.tool, one.args))
        row = [one.id, phrases.clip(one.agent, 24), asked, phrases.ago(one.opened_ms, now_ms), _needs(one, now_ms)]
        if everything:
            row.append(
                f"{one.decision} by {phrases.plain(one.decided_by or 'somebody')}" if one.decision else one.state
            )
        table.add_row(*row)
    out.print(table)
