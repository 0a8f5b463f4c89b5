"""Markdown blocks to the pieces of a page.

Walks the tokens of markdown-it once, front to back. Raw HTML stays text, images are not fetched.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import fonts
import inline
import look
import tables
from markdown_it import MarkdownIt
from markdown_it.token import Token
from reportlab.platypus import Flowable, HRFlowable, Spacer, XPreformatted

MAX_DEPTH = 8
"""Lists and quotes nested deeper are set at this depth, so that there is always room for words."""

_BULLETS = ("\N{BULLET}", "\N{EN DASH}", "\N{MIDDLE DOT}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, ready to be set."""

    flowables: list[Flowable]
    first_heading: str


@dataclass
class _List:
    number: int | None
    """The number of the next item; None in a bullet list."""
    pending: str = ""
    """The mark that the next paragraph has to carry."""


def parse(markdown: str, glyphs: fonts.Glyphs, room: float, skip_heading: str | None = None) -> Parsed:
    """Return the pieces of `markdown` for a page with `room` points of width.

    A first heading of level 1 that says the same as `skip_heading` is left out: it stands in the title already.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 40}).enable(["table", "strikethrough"])
    tokens = parser.parse(markdown)
    first = next((inline.plain(b.children or ()) for a, b in itertools.pairwise(tokens) if _is_title(a)), "")
    if tokens and _is_title(tokens[0]) and skip_heading and _same(first, skip_heading):
        tokens = tokens[3:]
    return Parsed(_Setter(glyphs, room).set(tokens), first)


def _is_title(token: Token) -> bool:
    return token.type == "heading_open"


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


class _Setter:
    """Holds where in the document we are while it is set."""

    def __init__(self, glyphs: fonts.Glyphs, room: float) -> None:
        self._glyphs = glyphs
        self._room = room
        self._out: list[Flowable] = []
        self._place = look.Place()
        self._around: list[look.Place] = []
        self._lists: list[_List] = []

    def set(self, tokens: Sequence[Token]) -> list[Flowable]:
        position = 0
        while position < len(tokens):
            position = self._block(tokens, position)
        return self._out

    def _block(self, tokens: Sequence[Token], at: int) -> int:
        """Set the block that begins at `at`; return where the next one begins."""
        token = tokens[at]
        match token.type:
            case "heading_open":
                self._heading(int(token.tag[1]), tokens[at + 1].children or [])
                return at + 3
            case "paragraph_open":
                self._paragraph(tokens[at + 1].children or [], tight=token.hidden)
                return at + 3
            case "fence" | "code_block" | "html_block":
                self._code(token.content)
            case "table_open":
                end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                self._table(tokens[at:end])
                return end + 1
            case "hr":
                self._flush_mark()
                self._out.append(HRFlowable(width="100%", thickness=0.6, color=look.RULE, spaceBefore=8, spaceAfter=10))
            case kind:
                self._container(kind, token)
        return at + 1

    def _container(self, kind: str, token: Token) -> None:
        match kind:
            case "bullet_list_open" | "ordered_list_open":
                self._flush_mark()
                start = int(token.attrGet("start") or 1) if kind == "ordered_list_open" else None
                self._lists.append(_List(start))
                self._enter(look.INDENT if start is None else look.INDENT + 4, quote=False)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._leave()
                self._close_gap()
            case "list_item_open":
                self._lists[-1].pending = self._mark()
            case "list_item_close":
                self._flush_mark()
            case "blockquote_open":
                self._flush_mark()
                self._enter(look.INDENT - 2, quote=True)
            case "blockquote_close":
                self._leave()
                self._close_gap()
            case _:
                pass

    def _enter(self, indent: float, *, quote: bool) -> None:
        self._around.append(self._place)
        if len(self._around) > MAX_DEPTH:
            return
        bars = (*self._place.bars, self._place.indent + 3) if quote else self._place.bars
        self._place = replace(self._place, indent=self._place.indent + indent, bars=bars)

    def _leave(self) -> None:
        self._place = self._around.pop()

    def _close_gap(self) -> None:
        if not self._around:
            self._out.append(Spacer(0, 4))

    def _mark(self) -> str:
        current = self._lists[-1]
        if current.number is None:
            depth = sum(one.number is None for one in self._lists)
            return _BULLETS[min(depth, len(_BULLETS)) - 1]
        current.number += 1
        return f"{current.number - 1}."

    def _take_mark(self) -> str | None:
        if not self._lists or not self._lists[-1].pending:
            return None
        mark, self._lists[-1].pending = self._lists[-1].pending, ""
        return mark

    def _flush_mark(self) -> None:
        """Give a mark that no paragraph has taken, such as that of an empty item, a line of its own."""
        if self._lists and self._lists[-1].pending:
            self._text("\xa0", tight=True)

    def _paragraph(self, children: Sequence[Token], *, tight: bool) -> None:
        self._text(inline.markup(children, self._glyphs), tight=tight)

    def _text(self, markup: str, *, tight: bool) -> None:
        style = look.body(self._place, tight=tight)
        mark = self._take_mark()
        if mark:
            # Numbers end where bullets stand, so that texts line up whatever their length.
            style.bulletIndent = self._place.indent - look.INDENT + (4 if len(mark) == 1 else -2)
        self._out.append(look.Text(markup, style, bulletText=mark))

    def _heading(self, level: int, children: Sequence[Token]) -> None:
        self._flush_mark()
        style = look.heading(level, self._place)
        markup = inline.markup(children, self._glyphs, size=style.fontSize)
        self._out.append(look.heading_text(markup, style, level, inline.plain(children)))

    def _code(self, content: str) -> None:
        self._flush_mark()
        style = look.code(self._place)
        room = self._room - style.leftIndent - style.rightIndent
        across = max(8, int(room / fonts.width("0", fonts.MONO, style.fontSize)))
        lines = [piece for line in content.expandtabs(4).rstrip("\n").split("\n") for piece in _pieces(line, across)]
        shown = "\n".join(inline.text(line, self._glyphs, fonts.MONO) or " " for line in lines)
        self._out.append(XPreformatted(shown, style))

    def _table(self, tokens: Sequence[Token]) -> None:
        self._flush_mark()
        self._out.append(tables.build(tokens, self._glyphs, self._room - self._place.indent))
        self._out.append(Spacer(0, 6))


def _pieces(line: str, across: int) -> list[str]:
    return [line[i : i + across] for i in range(0, len(line), across)] or [""]
