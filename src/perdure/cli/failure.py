"""How the command line ends: exit codes, and errors told in one line to people and as JSON to programs.

No user's mistake shows a traceback. What nobody expected is written to a file, and the message names it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import typer

from perdure.errors import (
    Conflict,
    InternalError,
    InvalidInput,
    NotFound,
    PerdureError,
    Unreachable,
    UserError,
)

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
NEEDS_APPROVAL = 4
UNREACHABLE = 5
INTERRUPTED = 130

MEANINGS: Mapping[int, str] = {
    OK: "It was done. For `watch`: the execution completed.",
    FAILED: "It was refused or went wrong; the message says why. For `watch`: the execution failed or was cancelled.",
    USAGE: "The command line, a file or a value on it is not what was expected.",
    NOT_FOUND: "There is no such execution, approval or step.",
    NEEDS_APPROVAL: "It waits for a person's decision, and none was made.",
    UNREACHABLE: "No Perdure server answers.",
    INTERRUPTED: "Ctrl-C.",
}


class NeedsApproval(UserError):
    """Only a person's decision lets this go on."""

    default_code = "needs_approval"
    status = 409


def exit_code(error: PerdureError) -> int:
    """Return the code that the process ends with."""
    match error:
        case NotFound():
            return NOT_FOUND
        case Unreachable():
            return UNREACHABLE
        case NeedsApproval() | Conflict(code="ambiguous"):
            return NEEDS_APPROVAL
        case InvalidInput():
            return USAGE
        case _:
            return FAILED


def tell(error: PerdureError, *, as_json: bool) -> int:
    """Tell an error on stderr, or as JSON on stdout, and return the exit code."""
    if as_json:
        told = {"code": error.code, "message": error.message, "details": error.details}
        typer.echo(json.dumps({"error": told}, default=str))
    else:
        _say(error.code, error.message)
    return exit_code(error)


def tell_other(error: Exception, *, as_json: bool) -> int:
    """Tell of a command line that cannot be understood, or of a bug.

    The traceback of a bug goes to a file, and with PERDURE_DEBUG=1 to stderr too.
    """
    usage = _usage(error)
    if usage is not None:
        return _tell_usage(*usage, as_json=as_json)
    debug = os.environ.get("PERDURE_DEBUG") == "1"
    if debug:
        traceback.print_exception(error)
    kept = _keep(error)
    where = f"The traceback is in {kept}. " if kept else "PERDURE_DEBUG=1 shows the traceback. "
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return tell(
        InternalError(f"{what}. This is a bug in Perdure. {where}Please report it, with what you typed."),
        as_json=as_json,
    )


def _usage(error: Exception) -> tuple[str, str] | None:
    """Return message and usage of an error of the command line's parser, None for any other."""
    form = getattr(error, "format_message", None)  # the parser's classes are private to Typer
    if form is None:
        return None
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
        return "", str(form())
    usage = f"{context.get_usage()}\nTry '{context.command_path} --help'." if context else ""
    return str(form()), usage


def _tell_usage(message: str, usage: str, *, as_json: bool) -> int:
    if as_json:
        message = message or "a word is missing"
        typer.echo(json.dumps({"error": {"code": "usage", "message": message, "details": {}}}))
        return USAGE
    if message:
        _say("usage", message)
    typer.echo(usage, err=True)
    return USAGE


def _say(code: str, message: str) -> None:
    """Print an error, in whole words where a person reads it, else on one line."""
    from perdure.cli.phrases import block  # what others wrote may be in it

    text = f"error[{code}]: {block(message)}"
    if sys.stderr.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    label, colon, rest = text.partition(":")
    colour = False if os.environ.get("NO_COLOR") else None
    typer.echo(typer.style(label + colon, fg="red", bold=True) + rest, err=True, color=colour)


def stop(code: int) -> NoReturn:
    """End the command with an exit code, having said what there is to say."""
    raise typer.Exit(code)


def _keep(error: Exception) -> Path | None:
    """Write the traceback where the user's state is; None where that cannot be done."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    place = Path(home) / "perdure" / "last-error.log"
    text = f"{' '.join(sys.argv)}\n{''.join(traceback.format_exception(error))}"
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
    except OSError:
        return None
    return place
