"""Tables for a terminal and for `grep`: each row is one line, and what a command takes is not cut."""

from __future__ import annotations

from rich.console import RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from perdure.cli import phrases

TAKEN = frozenset({"ADDRESS", "EXECUTION", "FILE", "HOOK", "ID", "KEY", "LINE", "QUEUE", "ROOM", "SECRET", "TASK"})
"""Heads of columns from which people copy into the next command."""


class Rows(Table):
    """A table without rules, its head dim. Where there is no room for all, cells end in `…`, those of `TAKEN` last.

    A cell is one line without control characters, as other people's names and texts come from `phrases`; one that is
    to wrap says so itself: `Text(no_wrap=False)`.
    """

    def __init__(self, *columns: str) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        for column in columns:
            self.add_column(
                Text(column, no_wrap=True, overflow="ellipsis"), overflow="ellipsis", no_wrap=column in TAKEN
            )

    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """Add a row, as `Table` does."""
        super().add_row(*map(_one_line, renderables), style=style, end_section=end_section)


def _one_line(cell: RenderableType | None) -> RenderableType | None:
    text = Text(cell) if isinstance(cell, str) else cell
    if not isinstance(text, Text) or text.no_wrap is not None:
        return text
    if not text.plain.isprintable():
        text = Text(phrases.plain(text.plain), style=text.style)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
