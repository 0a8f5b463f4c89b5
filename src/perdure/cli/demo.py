"""`perdure demo` and `perdure demo rooms`: crashes, on stage. What is played is in `perdure.demo`."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli import failure
from perdure.cli.connect import AsJson
from perdure.demo.plan import SCRIPTED, Kill, Plan, check_model, prepare

MODEL = "A real model, such as openai/gpt-5.5: needs its key and its extra. By default a scripted one, without a key."
KEEP = "Put everything into this new folder. By default into a temporary one, which stays too, and is named."

DATABASE = "Play it in this PostgreSQL database: postgresql://user@host/database. By default in a file."

_YES = "perdure demo --yes"
"""Who decides, when it was said beforehand."""

app = typer.Typer(invoke_without_command=True)


@app.callback()
def demo(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the call that a person is asked about.")] = False,
    kill: Annotated[
        Kill, typer.Option(help="What the server is in the middle of when it is killed.", case_sensitive=False)
    ] = Kill.AFTER_FIRST_TURN,
    model: Annotated[str, typer.Option(metavar="PROVIDER/MODEL", help=MODEL)] = SCRIPTED,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help=KEEP, show_default=False)] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove its files in the end, if all went well.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR=1 does the same.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill an agent's client, then its server, and see the same run end right.

    The model is scripted, and counts what it is asked; all else is real. Exit code 0: everything that was claimed has
    been checked. Exit code 4: a person's decision is needed, and nobody could be asked. `perdure demo rooms` plays
    another one: agents of two companies.
    """
    if context.invoked_subcommand is not None:
        _refuse_before(context)
        return
    if model != SCRIPTED:
        check_model(model)
    plan = Plan(prepare(keep), kill, model)
    _play(plan.folder, lambda: _in_json(plan, yes) if as_json else _in_the_terminal(plan, yes, clean), clean, no_color)


@app.command(short_help="Two companies, two agents, a person who decides, and a kill in the middle of a wake.")
def rooms(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Say yes in the person's place.")] = False,
    store: Annotated[str, typer.Option(metavar="URL", help=DATABASE, show_default=False)] = "",
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help=KEEP, show_default=False)] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove its files in the end, if all went well.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR=1 does the same.")] = False,
    as_json: AsJson = False,
) -> None:
    """Two companies share a room; the server is killed in the middle of a wake; a person holds what an agent offers.

    The two agents' models are scripted, and counted; all else is real. It prints the room's ledger in the end, which
    one file has followed by then while no server ran. Exit codes as of `perdure demo`.
    """
    from perdure.cli.demo_rooms import show_rooms
    from perdure.demo.rooms_story import RoomsPlan

    if store and not store.startswith(("postgresql://", "postgres://")):
        raise typer.BadParameter(f"{store!r} is no address like postgresql://user@host/database.", param_hint="--store")
    plan = RoomsPlan(prepare(keep), store)
    _play(plan.folder, lambda: show_rooms(plan, yes=yes, as_json=as_json, kept=not clean), clean, no_color)


def _play(folder: Path, played: Callable[[], bool], clean: bool, no_color: bool) -> None:
    """Play one, and end as it ended."""
    from perdure.demo.play import Undecided

    if no_color:
        os.environ["NO_COLOR"] = "1"
    for name in ("SIGTERM", "SIGHUP"):  # a polite end and a closed terminal go the way of Ctrl-C, which ends everything
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        holds = played()
    except Undecided as error:
        raise failure.NeedsApproval(error.message, **error.details) from None
    except typer.Abort:  # Ctrl-C, or the end of what is typed, at a question of the demo's
        typer.echo(err=True)
        failure.stop(failure.INTERRUPTED)
    if not holds:
        failure.stop(failure.FAILED)
    if clean:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_before(context: typer.Context) -> None:
    """Refuse options that stand before the name of another demo: they would say nothing to it."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('as_', '').replace('_', '-')}"
            raise typer.BadParameter(
                f"put it behind the name: `perdure demo {context.invoked_subcommand} {option}`.", param_hint=option
            )


def _in_the_terminal(plan: Plan, yes: bool, clean: bool) -> bool:
    """Play and show it; return whether every claim holds."""
    from perdure.cli.demo_ending import show_ending
    from perdure.cli.demo_stage import Shown
    from perdure.cli.terminal import asks, console, whoami
    from perdure.demo.evidence import judge
    from perdure.demo.play import play

    out = console()
    story = play(plan, Shown(out, yes=yes, asks=asks(yes)), _YES if yes else whoami())
    evidence = judge(story)
    show_ending(out, story, evidence, kept=not clean)
    return evidence.holds


def _in_json(plan: Plan, yes: bool) -> bool:
    """Play and print one document in the end; return whether every claim holds. Asks nobody."""
    from perdure.cli.demo_stage import Silent
    from perdure.cli.terminal import print_json
    from perdure.demo.document import document
    from perdure.demo.evidence import judge
    from perdure.demo.play import play

    story = play(plan, Silent(yes=yes), _YES)
    evidence = judge(story)
    print_json(document(story, evidence))
    return evidence.holds
