"""`perdure demo`: the crash, on stage. What is played is in `perdure.demo`; here it is asked for, and shown."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli import failure
from perdure.cli.connect import AsJson
from perdure.demo.plan import SCRIPTED, Kill, Plan, check_model, prepare

MODEL = "A real model, such as openai/gpt-5.5: needs its key and its extra. By default a scripted one, without a key."
KEEP = "Put everything into this new folder. By default into a temporary one, which stays too, and is named."

_YES = "perdure demo --yes"
"""Who decides, when it was said beforehand."""


def demo(
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
    been checked. Exit code 4: a person's decision is needed, and nobody could be asked.
    """
    from perdure.demo.play import Undecided

    if model != SCRIPTED:
        check_model(model)
    if no_color:
        os.environ["NO_COLOR"] = "1"
    plan = Plan(prepare(keep), kill, model)
    for name in ("SIGTERM", "SIGHUP"):  # a polite end and a closed terminal go the way of Ctrl-C, which ends everything
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        holds = _in_json(plan, yes) if as_json else _in_the_terminal(plan, yes, clean)
    except Undecided as error:
        raise failure.NeedsApproval(error.message, **error.details) from None
    if not holds:
        failure.stop(failure.FAILED)
    if clean:
        shutil.rmtree(plan.folder, ignore_errors=True)


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
