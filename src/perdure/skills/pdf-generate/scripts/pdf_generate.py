"""Make a PDF from markdown: `--content MARKDOWN` or `--file PATH`. Prints where it is, as JSON.

Writes one file, into SKILL_OUT_DIR (the current folder without it). Fetches nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import blocks
import fonts
import inline
import look
from pypdf import PdfReader
from reportlab.platypus import Flowable, HRFlowable
from reportlab.platypus.doctemplate import LayoutError

MAX_CONTENT_BYTES = 2 * 1024 * 1024


class Refused(Exception):
    """The input is not usable; the message says why and what to do."""


def main(argv: list[str]) -> int:
    options = _parser().parse_args(_joined(argv))
    try:
        markdown = options.content if options.content is not None else _read(Path(options.file))
        report = make(markdown, options.title, options.name, options.paper)
    except Refused as refused:
        sys.stderr.write(f"pdf-generate: {refused}\n")
        return 1
    json.dump(report, sys.stdout, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0


def make(markdown: str, title: str | None, name: str | None, paper: str) -> dict[str, Any]:
    """Write the PDF and return what is printed about it. Raises `Refused`."""
    markdown = _clean(markdown)
    if not markdown.strip():
        raise Refused("there is no content; give markdown with --content or --file.")
    if len(markdown.encode()) > MAX_CONTENT_BYTES:
        raise Refused(f"the content is larger than {MAX_CONTENT_BYTES:,} bytes; make several documents of it.")
    title = " ".join(_clean(title or "").split())
    glyphs = fonts.Glyphs()
    size = look.PAPERS[paper]
    room = size[0] - 2 * look.MARGIN
    parsed = blocks.parse(markdown, glyphs, room, skip_heading=title)
    shown = title or " ".join(parsed.first_heading.split()) or "Report"
    target = _target(name or shown)
    draft = target.with_name(f".{target.name}.part")
    try:
        look.Document(str(draft), shown, _cut(glyphs.plain(shown), room - 60), size).set(
            [*_title(title, glyphs), *parsed.flowables]
        )
        # A whole file or none: nobody finds half a document under the final name.
        draft.replace(target)
    except LayoutError as error:
        raise Refused(f"this content cannot be set on a page: {error!s:.300}") from None
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
    return {
        "pdfFile": str(target),
        "pages": len(PdfReader(target).pages),
        "bytes": target.stat().st_size,
        "title": shown,
        "missingGlyphs": "".join(sorted(glyphs.missing)),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pdf-generate", description="Make a PDF from markdown.", allow_abbrev=False)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--content", help="the markdown itself")
    source.add_argument("--file", help="a markdown file")
    parser.add_argument("--title", help="large on the first page and in the footer; else the first heading")
    parser.add_argument("--name", help="name of the file; else made from the title")
    parser.add_argument("--paper", choices=sorted(look.PAPERS), default="a4")
    return parser


def _joined(argv: list[str]) -> list[str]:
    """Bind each text option to its value: markdown that begins with `-` is content and not an option."""
    joined: list[str] = []
    words = iter(argv)
    for word in words:
        value = next(words, None) if word in ("--content", "--title") else None
        joined.append(word if value is None else f"{word}={value}")
    return joined


def _read(path: Path) -> str:
    try:
        with path.open("rb") as source:
            return source.read(MAX_CONTENT_BYTES + 1).decode()
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be read (looked in {Path.cwd()}): {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text; markdown is expected.") from None


def _clean(text: str) -> str:
    whole = text.encode("utf-8", errors="replace").decode()
    return "".join(char for char in whole if char in "\n\t" or (char.isprintable() or ord(char) > 0x9F))


def _title(title: str, glyphs: fonts.Glyphs) -> list[Flowable]:
    if not title:
        return []
    heading = look.heading_text(inline.text(title, glyphs), look.title(), 1, title)
    return [heading, HRFlowable(width="100%", thickness=1.4, color=look.ACCENT, spaceBefore=0, spaceAfter=12)]


def _target(name: str) -> Path:
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower().removesuffix(".pdf")).strip("-")[:80] or "report"
    return Path(os.environ.get("SKILL_OUT_DIR", ".")).absolute() / f"{stem}.pdf"


def _cut(text: str, room: float) -> str:
    while fonts.width(text, fonts.SANS, look.FOOTER_SIZE) > room:
        text = text[:-5].rstrip() + "…"
    return text


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
