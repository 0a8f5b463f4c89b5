"""Read the text of a PDF as markdown. Prints it and where the file is, as JSON.

Reads one file, writes one, into SKILL_OUT_DIR (the current folder without it). Follows no link.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PdfReadError

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_PAGES = 2000
MAX_PRINTED = 200_000
"""Characters of text that are printed; the file always has all of them."""

_BULLET = re.compile(r"^[\u2022\u25e6\u25aa\u00b7\u2013\u2023\u2219]\s*")
_MARK = re.compile(_BULLET.pattern + r"|^\d{1,3}[.)](\s|$)")
_SAME_BLOCK = 1.65
_LINE_TOLERANCE = 0.45
"""Pieces whose baselines differ by less than this share of their size stand on one line."""


class Refused(Exception):
    """The file is not usable; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page, put together from its pieces."""

    cells: tuple[str, ...]
    """What stands apart on it: one text, or the cells of a row."""
    size: float
    gap: float
    """From the line above, in sizes of this line; large at the top of a page."""

    @property
    def text(self) -> str:
        return " ".join(self.cells)


@dataclass(frozen=True, slots=True)
class _Piece:
    x: float
    y: float
    size: float
    text: str


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="pdf-to-markdown", description="Text of a PDF as markdown.", allow_abbrev=False
    )
    parser.add_argument("file")
    parser.add_argument("--name", help="name of the markdown file; else that of the PDF")
    options = parser.parse_args(argv)
    try:
        report = convert(Path(options.file), options.name)
    except Refused as refused:
        sys.stderr.write(f"pdf-to-markdown: {refused}\n")
        return 1
    json.dump(report, sys.stdout, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0


def convert(path: Path, name: str | None) -> dict[str, Any]:
    """Write the markdown and return what is printed about it. Raises `Refused`."""
    pages = _pages(path)
    body = _body_size(pages)
    text = "\n\n".join(filter(None, (_markdown(page, body) for page in pages))) + "\n"
    stem = re.sub(r"[^\w.-]+", "-", (name or path.stem).removesuffix(".md")).strip("-.") or "document"
    target = Path(os.environ.get("SKILL_OUT_DIR", ".")).absolute() / f"{stem}.md"
    try:
        target.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}.") from None
    return {
        "markdownFile": str(target),
        "pages": len(pages),
        "emptyPages": [number for number, page in enumerate(pages, start=1) if not page],
        "characters": len(text),
        "truncated": len(text) > MAX_PRINTED,
        "markdown": text[:MAX_PRINTED].encode(errors="replace").decode(),
    }


def _pages(path: Path) -> list[list[Line]]:
    if not path.is_file():
        raise Refused(f"there is no file {str(path)!r} (looked in {Path.cwd()}).{_near(path)}")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise Refused(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; split it first.")
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused(f"{path} is protected by a password; save a copy without one.")
        if len(reader.pages) > MAX_PAGES:
            raise Refused(f"{path} has {len(reader.pages)} pages; at most {MAX_PAGES} are read. Split it first.")
        return [_lines(page) for page in reader.pages]
    except (PdfReadError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError) as error:
        # A damaged file can break a reader in any of these ways, and none of them is news to who sent it.
        raise Refused(f"{path} is not a readable PDF: {str(error) or type(error).__name__:.200}") from None


def _near(path: Path) -> str:
    try:
        names = [child.name for child in path.parent.iterdir() if child.suffix.lower() == ".pdf"]
    except OSError:
        return " Its folder does not exist either."
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


def _lines(page: PageObject) -> list[Line]:
    pieces: list[_Piece] = []

    def visit(text: str, cm: Any, tm: Any, _font: Any, size: float) -> None:
        if text:
            scale = abs(tm[3] * cm[3]) or 1.0
            x = tm[4] * cm[0] + tm[5] * cm[2] + cm[4]
            y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            pieces.append(_Piece(x, y, float(size) * scale, text))

    page.extract_text(visitor_text=visit)
    return _joined(pieces)


def _joined(pieces: list[_Piece]) -> list[Line]:
    lines: list[Line] = []
    row: list[_Piece] = []
    above: float | None = None
    for piece in [*sorted(pieces, key=lambda one: -one.y), None]:
        if piece and (not row or abs(row[0].y - piece.y) <= _LINE_TOLERANCE * max(piece.size, 1.0)):
            row.append(piece)
            continue
        line = _line(row, above)
        if line:
            lines.append(line)
            above = row[0].y
        row = [piece] if piece else []
    return lines


def _line(row: list[_Piece], above: float | None) -> Line | None:
    written = [piece for piece in row if piece.text.strip()]
    if not written:
        return None
    # What is written in one go has one origin and brings its own spaces; another origin is another cell.
    texts: dict[float, str] = {}
    for piece in sorted(row, key=lambda one: one.x):
        texts[round(piece.x, 1)] = texts.get(round(piece.x, 1), "") + piece.text
    cells = [cell for cell in (" ".join(text.split()) for text in texts.values()) if cell]
    if len(cells) > 1 and _MARK.fullmatch(cells[0]):
        cells = [f"{cells[0]} {cells[1]}", *cells[2:]]
    size = max(piece.size for piece in written)
    gap = (above - row[0].y) / size if above is not None and size else 99.0
    return Line(tuple(cells), round(size, 1), gap)


def _body_size(pages: list[list[Line]]) -> float:
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page:
            weights[line.size] += len(line.text)
    return weights.most_common(1)[0][0] if weights else 10.0


def _markdown(lines: list[Line], body: float) -> str:
    blocks: list[str] = []
    table: list[Line] = []
    open_block = False
    for line in [*lines, None]:
        if line and len(line.cells) > 1 and (not table or len(line.cells) == len(table[0].cells)):
            table.append(line)
            continue
        if table:
            blocks.append(_table(table))
            table, open_block = [], False
        if not line:
            break
        if len(line.cells) > 1:
            table = [line]
            continue
        level = _level(line.size / body) if body else 0
        if open_block and not level and line.gap < _SAME_BLOCK and not _MARK.match(line.text):
            blocks[-1] += "\n" + line.text
            continue
        blocks.append(f"{'#' * level} {line.text}" if level else _BULLET.sub("- ", line.text))
        open_block = not level
    return "\n\n".join(blocks)


def _table(rows: list[Line]) -> str:
    if len(rows) == 1:
        return rows[0].text
    written = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells) + " |" for row in rows]
    return "\n".join([written[0], "|" + "---|" * len(rows[0].cells), *written[1:]])


def _level(ratio: float) -> int:
    for level, least in enumerate((1.9, 1.5, 1.25, 1.12), start=1):
        if ratio >= least:
            return level
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
