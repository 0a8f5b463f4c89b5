"""The fonts of a document, and which of them can show a character.

Reads the font files beside this skill; knows nothing of markdown.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import cast

# pyright: reportUnknownMemberType=false
# The type stubs of reportlab leave arguments of the functions used here open.
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont

SANS = "Sans"
BOLD = "Sans-Bold"
MONO = "Mono"

_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "fonts"
_FILES = {
    SANS: "NotoSans-Regular.ttf",
    BOLD: "NotoSans-Bold.ttf",
    "Sans-Italic": "NotoSans-Italic.ttf",
    "Sans-BoldItalic": "NotoSans-BoldItalic.ttf",
    MONO: "NotoSansMono-Regular.ttf",
    "Math": "NotoSansMath-Regular.ttf",
    "Symbols": "NotoSansSymbols2-Regular.ttf",
}
_FALLBACKS = ("Math", "Symbols", MONO, SANS)

# Fonts that PDF readers bring along themselves, by the scripts they are for.
_ASIAN = (
    ("HeiseiKakuGo-W5", ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))),
    ("HYGothic-Medium", ((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7A3))),
    ("STSong-Light", ((0x3000, 0x303F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF01, 0xFF65))),
)

# Pictures that have a plain relative among the symbols.
_RELATIVES = str.maketrans(
    {"✅": "✔", "☑": "✔", "❌": "✘", "❎": "✘", "🔴": "●", "⭕": "○", "⭐": "★", "⬜": "□", "⬛": "■"}
)

# Joiners and selectors that only pick the look of a picture.
_INVISIBLE = dict.fromkeys([0x200D, *range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400), 0x200B, 0xFEFF, 0xAD])


class Glyphs:
    """Splits text into runs that one font can show each. Remembers what none could."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self._known = {name: _register(name, file) for name, file in _FILES.items()}
        pdfmetrics.registerFontFamily(SANS, SANS, BOLD, "Sans-Italic", "Sans-BoldItalic")
        for name in (MONO, "Math", "Symbols"):
            pdfmetrics.registerFontFamily(name, name, name, name, name)

    def runs(self, text: str, font: str = SANS) -> Iterator[tuple[str, str]]:
        """Yield (font, piece); the pieces make up the text, or what can be shown in its place."""
        run, current = "", font
        for char in text.translate(_RELATIVES).translate(_INVISIBLE):
            chosen, shown = self._choose(char, font)
            if chosen != current and run:
                yield current, run
                run = ""
            current = chosen
            run += shown
        if run:
            yield current, run

    def plain(self, text: str, font: str = SANS) -> str:
        """Return `text` as one font can show it, for places that take no other."""
        return "".join(piece if used == font else "□" * len(piece) for used, piece in self.runs(text, font))

    def _choose(self, char: str, font: str) -> tuple[str, str]:
        if char in "\n\t\xa0 " or ord(char) in self._known[font]:
            return font, char
        for name in _FALLBACKS:
            if ord(char) in self._known[name]:
                return name, char
        for name, ranges in _ASIAN:
            if any(low <= ord(char) <= high for low, high in ranges):
                return _asian(name), char
        self.missing.add(char)
        if unicodedata.category(char) == "So":
            return font, f":{unicodedata.name(char, 'symbol').lower().replace(' ', '-')}:"
        return "Symbols", "□"


def width(text: str, font: str, size: float) -> float:
    return pdfmetrics.stringWidth(text, font, size)


def _register(name: str, file: str) -> frozenset[int]:
    font = TTFont(name, str(_FOLDER / file))
    pdfmetrics.registerFont(font)
    return frozenset(cast("dict[int, int]", font.face.charToGlyph))


def _asian(name: str) -> str:
    if name not in cast("list[str]", pdfmetrics.getRegisteredFontNames()):
        pdfmetrics.registerFont(UnicodeCIDFont(name))
        pdfmetrics.registerFontFamily(name, name, name, name, name)
    return name
