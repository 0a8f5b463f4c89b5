"""The command `perdure`: what its words are, and how it ends.

Each command's module imports what it needs when it runs, so that help and completion are quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from perdure.cli import approvals, effects, executions, failure
from perdure.cli.connect import AsJson
from perdure.cli.doctor import doctor
from perdure.cli.server import server
from perdure.cli.worker import worker
from perdure.errors import PerdureError

app = typer.Typer(
    name="perdure",
    help="A durable runtime for AI agents: a run lives on a server, in a store, not in a process.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(server)
app.command()(worker)
app.command()(doctor)
app.add_typer(executions.app, name="executions")
app.add_typer(approvals.app, name="approvals")
app.add_typer(effects.app, name="effects")


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    from perdure.version import VERSION

    if as_json:
        typer.echo(f'{{"version": "{VERSION}"}}')
    else:
        typer.echo(VERSION)


def _version_flag(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version_flag, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A durable runtime for AI agents: a run lives on a server, in a store, not in a process."""


def main() -> None:
    """Run the command line of this process and end it."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run a command line and return its exit code. Never raises."""
    as_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    try:
        code: Any = app(args=list(args), prog_name="perdure", standalone_mode=False)
    except PerdureError as error:
        return failure.tell(error, as_json=as_json)
    except KeyboardInterrupt:
        return failure.INTERRUPTED
    except (typer.Abort, EOFError):
        typer.echo("Nothing was done.", err=True)
        return failure.FAILED
    except Exception as error:  # noqa: BLE001 - nobody's mistake may end in a traceback
        return failure.tell_other(error, as_json=as_json)
    return code if isinstance(code, int) else failure.OK
