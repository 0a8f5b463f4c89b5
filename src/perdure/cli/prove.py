"""`perdure prove`: what one execution did, how sure that is, and whether anything could have been done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.cli.connect import AsJson, Execution, Server, ask

if TYPE_CHECKING:
    from perdure.core.views import EffectView
    from perdure.wire.account import Account


def prove(execution: Execution, server: Server = None, as_json: AsJson = False) -> None:
    """Say how often each effect was begun, tried and reported done, and whether anything could have been done twice.

    The log is followed by its hashes first: one that was changed proves nothing. Exit code 0: nothing can have been
    done or paid twice. 1: something was, or may have been, or the log was changed; the last line says which.
    """
    from perdure.cli import failure
    from perdure.cli.terminal import print_json
    from perdure.wire.account import account_of, verdict_of

    found = ask(server, lambda api: account_of(api, execution))
    verdict, sure = verdict_of(found)
    if as_json:
        print_json(
            {
                "execution": execution,
                "agent": found.agent,
                "state": found.state,
                "log": found.verified,
                "effects": found.effects,
                "model_calls": found.model_calls,
                "steps": found.steps,
                "twice": None if sure is None else not sure,
                "verdict": verdict,
            }
        )
    else:
        _show(found, verdict, sure)
    if sure is not True:
        failure.stop(failure.FAILED)


def _show(found: Account, verdict: str, sure: bool | None) -> None:
    from rich.text import Text

    from perdure.cli.terminal import console

    out = console()
    for one in found.effects:
        _show_effect(one)
    for call in (*found.model_calls, *found.steps):
        if call.doubt:
            out.print(Text.assemble((f"{call.address}  ", "bold"), (call.doubt, "yellow")))
    style = {True: "bold green", False: "bold yellow", None: "bold red"}[sure]
    out.print(Text(verdict, style=style), soft_wrap=True)


def _show_effect(one: EffectView) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, state_text

    out = console()
    out.print(state_text(one.outcome), Text(phrases.call(one.tool, one.args)), Text(one.address, style="dim"))
    begun = phrases.plural(one.claims, "claim") if one.claims else phrases.plural(one.attempts, "attempt")
    tried = f", {phrases.plural(one.attempts, 'attempt')}" if one.claims and one.attempts != one.claims else ""
    facts = f"  {one.delivery}: {begun}{tried}, {one.confirmed} confirmed"
    if one.ruling:
        facts += f"; ruled {one.ruling} by {phrases.plain(one.ruled_by or 'somebody')}"
        facts += f": {phrases.plain(one.reason)}" if one.reason else ""
    if one.cost:
        facts += f"; cost {phrases.costs(one.cost)}"
    events = ", ".join(map(str, one.seqs))
    out.print(Text(f"{facts} (events {events})"), soft_wrap=True)
    if one.simulated:
        out.print(Text("  simulated: it was not done; its author's simulate= stood in for it", style="dim"))
    if one.served:
        out.print(Text(f"  did not run: it was given the result of {one.served}", style="dim"), soft_wrap=True)
    if one.edited:
        out.print(Text("  its result was written by who forked this execution; nobody reported it", style="dim"))
    if one.why:
        out.print(Text(f"  {phrases.plain(one.why)}", style="dim"), soft_wrap=True)
    if one.doubt:
        out.print(Text(f"  {one.doubt}", style="yellow"), soft_wrap=True)
