"""The terminal: one console, the house's marks and colours, and JSON for programs."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from perdure.core import states

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")

PIPE_WIDTH = 160
"""Columns where there is no terminal: lines are for grep, and nobody sees them wrap."""

STATES: dict[str, tuple[str, str]] = {
    states.Execution.READY: ("○", "cyan"),
    states.Execution.RUNNING: ("●", "cyan"),
    states.Execution.WAITING: ("◌", "yellow"),
    states.Execution.PAUSED: ("‖", "yellow"),
    states.Execution.STUCK: ("!", "bold red"),
    states.Execution.CANCELLING: ("◌", "magenta"),
    states.Execution.COMPLETED: ("✓", "green"),
    states.Execution.FAILED: ("✗", "red"),
    states.Execution.CANCELLED: ("✗", "magenta"),
    states.Task.LEASED: ("●", "cyan"),
    states.Task.BEGUN: ("●", "cyan"),
    states.Task.UNCERTAIN: ("?", "bold magenta"),
    states.Task.DONE: ("✓", "green"),
    states.Task.DEAD: ("✗", "red"),
}
"""Mark and colour of each state, of executions and of tasks: never the colour alone."""


def console(*, stderr: bool = False, no_color: bool = False) -> Console:
    """Return a console. Rich honours NO_COLOR, and writes no colours where there is no terminal.

    It reads no markup in text: names and reasons are other people's.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return Console(stderr=stderr, markup=False, highlight=False, width=width, no_color=no_color or None)


def state_text(state: str, reason: str | None = None) -> Text:
    """Return a state with its mark, in its colour."""
    from rich.text import Text

    mark, style = STATES.get(state, ("·", ""))
    return Text(f"{mark} {state}" + (f" ({reason})" if reason else ""), style=style)


def grid(*columns: str) -> Table:
    """Return a table of one line a row, in which what commands take is not cut."""
    from perdure.cli.table import Rows

    return Rows(*columns)


def print_json(value: Any) -> None:
    """Print one JSON document on one line: dataclasses in the form that the HTTP API gives them."""
    from perdure.wire import codec

    typer.echo(codec.dump(value).decode())


def print_items(found: list[T], show: Callable[[list[T]], None], *, as_json: bool) -> None:
    """Print a list for programs, or as `show` has it for people."""
    if as_json:
        print_json({"items": found})
    else:
        show(found)


def print_said(head: str, text: str) -> None:
    """Print who said something and, below it and indented, what: so a text that imitates a head is seen to be none."""
    from rich.padding import Padding
    from rich.text import Text

    from perdure.cli import phrases

    out = console()
    out.print(Text(phrases.plain(head), style="dim"))
    for line in phrases.block(text).split("\n"):
        out.print(Padding.indent(Text(line), 2))


def asks(no: bool) -> bool:
    """Say whether to ask before doing it: somebody is there, and did not say `--yes`."""
    return not no and sys.stdin.isatty() and sys.stdout.isatty()


def confirmed(question: str) -> bool:
    """Ask yes or no; anything but a yes is a no."""
    return typer.confirm(question, default=False)


def whoami() -> str:
    """Return `user@host`: who decides, unless --by says otherwise."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return f"{user}@{platform.node()}"


def home_short(path: str) -> str:
    """Return a path with the user's home as `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path


def path_typed(path: str) -> str:
    """Return a path as it is typed in a shell: short, and quoted where it has to be."""
    short = home_short(path)
    plain = short.removeprefix("~")
    return short if shlex.quote(plain) == plain else shlex.quote(path)
