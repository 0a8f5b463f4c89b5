"""The command `perdure`: what its words are, and how it ends.

Each command's module imports what it needs when it runs, so that help and completion are quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from perdure.cli import (
    a2a,
    approvals,
    companies,
    db,
    demo,
    effects,
    executions,
    failure,
    queues,
    rooms,
    schedules,
    secrets,
    tasks,
    tokens,
)
from perdure.cli.check import check
from perdure.cli.connect import AsJson
from perdure.cli.crashtest import crashtest
from perdure.cli.doctor import doctor
from perdure.cli.mcp import mcp
from perdure.cli.prove import prove
from perdure.cli.server import server
from perdure.cli.ui import ui
from perdure.cli.worker import worker
from perdure.errors import PerdureError

ABOUT = "A durable runtime for AI agents: a run lives on a server, in a store, not in a process."
SKILLS = "Show the skills that are there, and run one."


def main() -> None:
    """Run the command line of this process and end it."""
    _open_what_is_closed()
    sys.exit(run(sys.argv[1:]))


def _open_what_is_closed() -> None:
    """Give a process that was started without stdin, stdout or stderr an empty one: nobody is asked, nothing is shown.

    Else its files would get their numbers, and what is printed would land in them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open for life


def run(args: Sequence[str]) -> int:
    """Run a command line and return its exit code. Never raises."""
    own = list(args[: args.index("--")]) if "--" in args else list(args)
    as_json = "--json" in own
    app = build_app(with_skills=own[:1] == ["skills"] or "_PERDURE_COMPLETE" in os.environ)
    try:
        code: Any = app(args=list(args), prog_name="perdure", standalone_mode=False)
    except PerdureError as error:
        return failure.tell(error, as_json=as_json)
    except KeyboardInterrupt:
        return failure.INTERRUPTED
    except typer.Abort as error:
        cut = error.__context__  # Ctrl-C, or the end of what is typed, at a question, whose line is not over
        typer.echo("Nothing was done." if cut is None else "\nNothing was done.", err=True)
        return failure.INTERRUPTED if isinstance(cut, KeyboardInterrupt) else failure.FAILED
    except Exception as error:  # noqa: BLE001 - nobody's mistake may end in a traceback
        return failure.tell_other(error, as_json=as_json)
    return code if isinstance(code, int) else failure.OK


def build_app(*, with_skills: bool = True) -> typer.Typer:
    """Return the whole command line; `with_skills=False` leaves that noun's own words out, and is quicker."""
    app = typer.Typer(
        name="perdure",
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.add_typer(demo.app, name="demo", short_help="Kill a client and a server, and see the run end right.")
    app.command(short_help="Run a server.")(server)
    app.command(short_help="Run the tools of agents.")(worker)
    app.command(short_help="Print a link that signs a browser in to the web UI.")(ui)
    app.add_typer(executions.app, name="executions", short_help="See what runs and what happened; steer it.")
    app.add_typer(approvals.app, name="approvals", short_help="Decide about the calls that wait for a person.")
    app.add_typer(schedules.app, name="schedules", short_help="Begin executions by the calendar.")
    app.add_typer(tokens.app, name="tokens", short_help="End waits that code handed out tokens for.")
    app.add_typer(effects.app, name="effects", short_help="Effects on the outside world: list, check, rule.")
    app.add_typer(tasks.app, name="tasks", short_help="See an execution's tool calls; retry one that failed.")
    app.add_typer(queues.app, name="queues", short_help="See what waits for workers; limit or pause a queue.")
    app.add_typer(rooms.app, name="rooms", short_help="Rooms that companies share: write, read, ask, remember.")
    app.command(short_help="Rooms for a program that speaks MCP.")(mcp)
    app.add_typer(companies.app, name="companies", short_help="Keys for the companies that share a server.")
    app.add_typer(a2a.app, name="a2a", short_help="Let agents be reached by A2A, the protocol between agents.")
    app.add_typer(secrets.app, name="secrets", short_help="Keep keys of models and tools, sealed in the store.")
    app.add_typer(db.app, name="db", short_help="Migrate, check, back up, restore and copy a store.")
    app.command(short_help="Say whether anything could have been done twice.")(prove)
    app.add_typer(_skills() if with_skills else typer.Typer(), name="skills", help=SKILLS)
    app.command(short_help="Kill an agent's processes everywhere, and count what it did.")(crashtest)
    app.command(short_help="Check durable code, and whether it goes with what lives.")(check)
    app.command(short_help="Check the installation, or why one does not move.")(doctor)
    app.command(short_help="Print the version.")(version)
    return app


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    from perdure.version import VERSION

    if as_json:
        from perdure.cli.terminal import print_json

        print_json({"version": VERSION})
    else:
        typer.echo(VERSION)


def _skills() -> typer.Typer:
    from perdure.cli import skills

    return skills.app


def _version_flag(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version_flag, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...
