"""Markdown tables: how wide each column is, and how its cells are set.

A table always fits the page; what does not fit on a line is wrapped, what does not fit on a page goes on over it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import fonts
import inline
import look
from markdown_it.token import Token
from reportlab.platypus import Table

LEFT: look.Align = 0
CENTRE: look.Align = 1
RIGHT: look.Align = 2

_ALIGN: dict[str, look.Align] = {"text-align:right": RIGHT, "text-align:center": CENTRE, "text-align:left": LEFT}
_NUMBER = re.compile(r"[-+~≈<>]?[$€£]?\s?\d[\d.,:\s]*\s?(%|[a-z]{1,3})?(\s?\d[\d.,:\s]*\s?[a-z]{1,3})*")


@dataclass(frozen=True, slots=True)
class _Cell:
    children: Sequence[Token]
    align: look.Align | None
    """None: the author did not say."""

    @property
    def words(self) -> str:
        return inline.plain(self.children)


def build(tokens: Sequence[Token], glyphs: fonts.Glyphs, room: float) -> Table:
    """Return the table that `tokens` (from `table_open` on) describe, at most `room` points wide."""
    rows = _rows(tokens)
    columns = list(zip(*rows, strict=True))
    size = 9.0 if len(columns) <= 8 else 7.5 if len(columns) <= 14 else 6.0
    pad = 6.0 if len(columns) <= 8 else 3.0 if len(columns) <= 14 else 1.0
    aligns: list[look.Align] = [_alignment(column) for column in columns]
    styles = [[look.cell(head=head, align=align, size=size) for align in aligns] for head in (True, False)]
    texts = [
        [
            look.Text(inline.markup(cell.children, glyphs, size=size), style)
            for cell, style in zip(row, styles[min(n, 1)], strict=True)
        ]
        for n, row in enumerate(rows)
    ]
    return Table(
        texts,
        colWidths=_widths(columns, room, size, pad),
        repeatRows=1,
        hAlign="LEFT",
        splitInRow=1,
        spaceBefore=4,
        style=[
            ("BACKGROUND", (0, 0), (-1, 0), look.SHADE),
            ("LINEBELOW", (0, 0), (-1, 0), 0.8, look.ACCENT),
            ("LINEBELOW", (0, 1), (-1, -1), 0.4, look.RULE),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LEFTPADDING", (0, 0), (-1, -1), pad),
            ("RIGHTPADDING", (0, 0), (-1, -1), pad),
            ("TOPPADDING", (0, 0), (-1, -1), 2),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
        ],
    )


def _rows(tokens: Sequence[Token]) -> list[list[_Cell]]:
    rows: list[list[_Cell]] = []
    for token, content in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open") and content is not None:
            rows[-1].append(_Cell(content.children or [], _ALIGN.get(str(token.attrGet("style") or ""))))
    return rows


def _alignment(column: Sequence[_Cell]) -> look.Align:
    given = column[0].align
    if given is not None:
        return given
    filled = [cell.words.strip() for cell in column[1:] if cell.words.strip()]
    return RIGHT if filled and all(_NUMBER.fullmatch(words) for words in filled) else LEFT


def _widths(columns: Sequence[Sequence[_Cell]], room: float, size: float, pad: float) -> list[float]:
    """Give each column what it would like; where that is too much, take it from the widest first."""
    wanted = [_wanted(column, size) + 2 * pad + 1 for column in columns]
    if sum(wanted) <= room:
        return wanted
    # The highest ceiling under which all fit: columns below it keep what they want.
    spare, left = room, sorted(wanted)
    ceiling = room / len(wanted)
    for position, want in enumerate(left):
        ceiling = spare / (len(left) - position)
        if want > ceiling:
            break
        spare -= want
    return [min(want, ceiling) for want in wanted]


def _wanted(column: Sequence[_Cell], size: float) -> float:
    fonts_of = [fonts.BOLD, *[fonts.SANS] * (len(column) - 1)]
    return max(fonts.width(cell.words, font, size) for cell, font in zip(column, fonts_of, strict=True)) * 1.02
