"""Inline markdown to the small markup that a paragraph understands.

Everything that came from outside is escaped here, once, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

import fonts
from markdown_it.token import Token

_SAFE_LINKS = ("http://", "https://", "mailto:")
_TAGS = {
    "strong_open": "<b>",
    "strong_close": "</b>",
    "em_open": "<i>",
    "em_close": "</i>",
    "s_open": "<strike>",
    "s_close": "</strike>",
    "softbreak": " ",
    "hardbreak": "<br/>",
}


def markup(tokens: Sequence[Token], glyphs: fonts.Glyphs, *, size: float = 10) -> str:
    """Return the tokens of one paragraph, cell or heading as markup."""
    parts: list[str] = []
    open_links: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "html_inline":
                parts.append(text(token.content, glyphs))
            case "code_inline":
                parts.append(_code(token.content, glyphs, size))
            case "image":
                parts.append(text(f"[image: {plain(token.children or ()) or 'no description'}]", glyphs))
            case "link_open":
                opening, closing = _link(str(token.attrGet("href") or ""))
                parts.append(opening)
                open_links.append(closing)
            case "link_close":
                parts.append(open_links.pop())
            case kind:
                parts.append(_TAGS.get(kind, ""))
    return "".join(parts)


def plain(tokens: Sequence[Token]) -> str:
    """Return the words alone, for the outline, the title and for measuring."""
    spaces = ("softbreak", "hardbreak")
    return "".join(" " if t.type in spaces else plain(t.children) if t.children else t.content for t in tokens)


def text(content: str, glyphs: fonts.Glyphs, font: str = fonts.SANS) -> str:
    """Return text as markup: escaped, and every run in a font that has its characters."""
    return "".join(
        escape(piece) if used == font else f'<font name="{used}">{escape(piece)}</font>'
        for used, piece in glyphs.runs(content, font)
    )


def _code(content: str, glyphs: fonts.Glyphs, size: float) -> str:
    inner = text(content, glyphs, fonts.MONO)
    return f'<font name="{fonts.MONO}" size="{size * 0.9:g}" backColor="#eff1f4">{inner}</font>'


def _link(target: str) -> tuple[str, str]:
    if not target.lower().startswith(_SAFE_LINKS):
        return "", ""
    return f'<a href={quoteattr(target)} color="#1f5f8b">', "</a>"
