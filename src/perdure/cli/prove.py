"""`perdure prove`: what one execution did, how sure that is, and whether anything could have been done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.cli.connect import AsJson, Execution, Server, ask

if TYPE_CHECKING:
    from perdure.client.ledger import Account
    from perdure.core.views import EffectView


def prove(execution: Execution, server: Server = None, as_json: AsJson = False) -> None:
    """Say how often each effect was begun, tried and reported done, and whether anything could have been done twice.

    The log is followed by its hashes first: one that was changed proves nothing. Exit code 0: nothing can have been
    done or paid twice. 1: something was, or may have been, or the log was changed; the last line says which.
    """
    from perdure.cli import failure
    from perdure.cli.terminal import print_json
    from perdure.client.ledger import account_of

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


def verdict_of(found: Account) -> tuple[str, bool | None]:
    """Return the closing line, and whether nothing can have been done twice: None if the log proves nothing."""
    from perdure.cli.phrases import plural

    if not found.verified.holds:
        return f"Nothing is proven: {found.verified.why}.", None
    twice = [one for one in found.effects if one.confirmed > 1]
    doubted = [one for one in found.effects if one.doubt and one.confirmed <= 1]
    paid = [one for one in found.model_calls if one.doubt]
    tried = [one for one in found.steps if one.doubt]
    parts = [
        f"{plural(len(twice), 'effect')} reported done more than once" if twice else "",
        f"{plural(len(doubted), 'effect')} possibly done more than once" if doubted else "",
        f"{plural(len(paid), 'model call')} possibly paid twice" if paid else "",
        f"{plural(len(tried), 'step')} possibly tried twice" if tried else "",
    ]
    unknown = sum(one.state == _uncertain() for one in found.effects)
    open_ends = f" Whether {plural(unknown, 'effect')} happened at all is unknown." if unknown else ""
    if said := ", ".join(part for part in parts if part):
        return f"{'Yes' if twice else 'Possibly'}: {said}, as the lines above say.{open_ends}", False
    simulated = sum(one.simulated for one in found.effects) + sum(one.simulated for one in found.steps)
    counts = f"{plural(sum(not one.simulated for one in found.effects), 'effect')}, "
    counts += f"{plural(len(found.model_calls), 'model call')}{f', {simulated} simulated' if simulated else ''}"
    return f"No: nothing was done or paid twice ({counts}; {_covered(found)}).{open_ends}", True


def _uncertain() -> str:
    from perdure.core import states

    return states.Task.UNCERTAIN


def _covered(found: Account) -> str:
    from perdure.cli.phrases import plural

    log = found.verified
    older = f"; the first {log.unhashed} are older than the chain and not covered" if log.unhashed else ""
    return f"all {plural(log.events, 'event')} hashed, up to {log.head or 'none'}{older}"


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
    if one.why:
        out.print(Text(f"  {phrases.plain(one.why)}", style="dim"), soft_wrap=True)
    if one.doubt:
        out.print(Text(f"  {one.doubt}", style="yellow"), soft_wrap=True)
