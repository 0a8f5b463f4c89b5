"""The terminal: one console with the house's colours, and how long things are shown short."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console. Rich itself honours NO_COLOR, and writes plain text where there is no terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def home_short(path: str) -> str:
    """Return a path with the user's home as `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path
