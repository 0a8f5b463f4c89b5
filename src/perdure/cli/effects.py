"""`perdure effects`: what was done to the outside world, whether that record holds, and rulings where nobody knows."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from perdure.cli.connect import AsJson, Execution, Server, ask
from perdure.cli.moments import moment_ms
from perdure.core import states

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.client.ledger import Verified
    from perdure.core.views import EffectView

app = typer.Typer(
    help="See what was done to the outside world, check that record, rule on what nobody knows.", no_args_is_help=True
)


class State(StrEnum):
    """What effects are asked for by: their tasks' states, `contradicted` and `simulated`."""

    READY = states.Task.READY.value
    LEASED = states.Task.LEASED.value
    BEGUN = states.Task.BEGUN.value
    UNCERTAIN = states.Task.UNCERTAIN.value
    DONE = states.Task.DONE.value
    DEAD = states.Task.DEAD.value
    CONTRADICTED = "contradicted"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which effects are meant."""

    execution: str | None
    state: State | None
    tool: str | None
    agent: str | None
    since_ms: int | None

    async def ask(self, api: HttpApi) -> list[EffectView]:
        """Return the first of them."""
        return await api.effects(execution=self.execution, **self._filters())

    async def addresses(self, api: HttpApi, execution: str) -> frozenset[str]:
        """Return where all those of an execution stand."""
        from perdure.wire.pages import all_effects

        return frozenset([one.address async for one in all_effects(api, execution, **self._filters())])

    def _filters(self) -> dict[str, Any]:
        return {"state": self.state, "tool": self.tool, "agent": self.agent, "since_ms": self.since_ms}


@app.command("list")
def list_command(
    execution: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those of this execution.", show_default=False)
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only those in this state.", show_default=False)] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool's.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only this agent's.", show_default=False)] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Only what changed since: 2h, 3d, or 2026-05-01T12:00.", show_default=False),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write all of them out, with their logs, for `effects verify`.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List effects, those of the newest executions first; at most 1,000, except with --jsonl.

    `--jsonl` writes one record a line as it reads: of each execution that has such an effect its whole log as it is
    stored, the effects, and the log's end. Keep the file where the store's owner cannot write, and `perdure effects
    verify FILE` will say whether it is still what it was.
    """
    from perdure.cli.terminal import print_items

    wanted = Wanted(execution, state, tool, agent, moment_ms(since, "--since"))
    if jsonl:
        ask(server, lambda api: _export(api, wanted))
        return
    found = ask(server, wanted.ask)
    print_items(found, _show_list, as_json=as_json)


async def _export(api: HttpApi, wanted: Wanted) -> None:
    from perdure.client.ledger import executions_of, export

    async def chosen() -> AsyncIterator[str]:
        if wanted.execution is not None:
            yield wanted.execution
            return
        async for one in executions_of(api, agent=wanted.agent):
            yield one

    async for execution in chosen():
        addresses = await wanted.addresses(api, execution)
        if addresses:
            async for line in export(api, execution, addresses):
                sys.stdout.write(line.decode())
    sys.stdout.flush()


@app.command()
def verify(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="EXECUTION|FILE", help="One execution, or an exported file. All, if left out.", show_default=False
        ),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Follow the hashes of logs and name the first event that is not what it was. Exit code 1 if there is one.

    Each event's hash covers the event and all before it. The chain has no key: to be safe from somebody who can rewrite
    the whole store, compare the last hash, which this prints, with one that you kept elsewhere.
    """
    from perdure.cli import failure
    from perdure.cli.terminal import print_json

    if which is not None and not which.startswith("exe_"):
        found = _verify_file(which)
    else:
        found = ask(server, lambda api: _verify(api, which))
    broken = [one for one in found if not one.holds]
    if as_json:
        print_json({"items": found, "broken": len(broken)})
    else:
        _show_verified(found)
    if broken:
        failure.stop(failure.FAILED)


async def _verify(api: HttpApi, which: str | None) -> list[Verified]:
    from perdure.client.ledger import executions_of, verify

    if which is not None:
        return [await verify(api, which)]
    return [await verify(api, one) async for one in executions_of(api)]


def _verify_file(name: str) -> list[Verified]:
    from perdure.client.ledger import verify_lines

    try:
        with open(name, "rb") as lines:
            return list(verify_lines(lines))
    except OSError as error:
        raise typer.BadParameter(f"{name!r} cannot be read: {error.strerror}.", param_hint="FILE") from None


def _show_verified(found: list[Verified]) -> None:
    from rich.text import Text

    from perdure.cli.phrases import plain, plural
    from perdure.cli.terminal import console

    out = console()
    for one in found:
        if not one.holds:
            out.print(Text.assemble(("✗ ", "red"), plain(f"{one.execution}  {one.why}")), soft_wrap=True)
            continue
        older = f", the first {one.unhashed} older than the chain and not covered" if one.unhashed else ""
        line = f"{one.execution}  {plural(one.events, 'event')}{older}, up to {one.head or 'none'}"
        out.print(Text.assemble(("✓ ", "green"), line), soft_wrap=True)
    broken = sum(not one.holds for one in found)
    said = f"{plural(broken, 'log')} of {len(found)} changed." if broken else f"{plural(len(found), 'log')} unchanged."
    out.print(Text(said, style="bold red" if broken else "bold green"))


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

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid, state_text

    out = console()
    if not found:
        out.print(Text("No effects: no tool that acts was called.", style="dim"))
        return
    table = grid("OUTCOME", "CALL", "EXECUTION", "ADDRESS", "TRIES", "COST", "SCHEDULED", "NOTE")
    now_ms = moments.now_ms()
    for one in found:
        taken = f"the result of {one.served}" if one.served else ""
        note = f"{one.ruling} by {phrases.plain(one.ruled_by or 'somebody')}" if one.ruling else taken
        table.add_row(
            state_text(one.outcome),
            Text(phrases.call(one.tool, one.args, 40)),
            one.execution,
            one.address,
            f"{one.attempts}{'!' if one.doubt else ''}",
            phrases.costs(one.cost),
            phrases.ago(one.scheduled_ms, now_ms),
            note,
        )
    out.print(table)
    uncertain = next((one for one in found if one.state == states.Task.UNCERTAIN), None)
    if uncertain is not None:
        command = f"perdure effects rule {uncertain.execution} '{uncertain.address}' happened|run|give-up"
        out.print(Text(f"Nobody knows what became of some. Find out, then: {command}", style="yellow"), soft_wrap=True)
