"""How a document looks: colours, sizes, paragraph styles and the frame of a page.

No markdown here: `blocks` chooses the style, this file says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# pyright: reportUnknownMemberType=false
# The type stubs of reportlab leave arguments of the functions used here open.
import fonts
from reportlab.lib.colors import HexColor
from reportlab.lib.pagesizes import A4, letter
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageTemplate, Paragraph

INK = HexColor("#1d2733")
MUTED = HexColor("#667085")
ACCENT = HexColor("#1f5f8b")
RULE = HexColor("#d5dbe3")
SHADE = HexColor("#eff3f7")
CODE_SHADE = HexColor("#f5f6f8")

PAPERS = {"a4": A4, "letter": letter}
MARGIN = 22 * mm
FOOTER_SIZE = 8.0
KEPT_HEADING = 400
"""Characters up to which a heading stays on the page of what follows it."""

INDENT = 16.0
"""One level of a list or a quote, in points."""

_HEADINGS = {1: (17, 16, 6), 2: (13.5, 14, 4), 3: (11.5, 11, 3), 4: (10.5, 9, 2), 5: (10, 8, 2), 6: (10, 8, 2)}
"""Level: size, space before, space after."""


Align = Literal[0, 1, 2]
"""Left, centre, right, as reportlab counts them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: how deep in lists and quotes."""

    indent: float = 0.0
    bars: tuple[float, ...] = ()
    """Left edges of the bars of the quotes around it."""


def body(place: Place, *, tight: bool = False) -> ParagraphStyle:
    style = _base(f"body-{place}-{tight}", place)
    style.spaceAfter = 2 if tight else 6
    if place.bars:
        style.textColor = MUTED
    return style


def heading(level: int, place: Place) -> ParagraphStyle:
    size, before, after = _HEADINGS[level]
    style = _base(f"heading-{level}-{place}", place)
    style.fontName = fonts.BOLD
    style.fontSize = size
    style.leading = size * 1.25
    style.spaceBefore, style.spaceAfter = before, after
    style.textColor = ACCENT if level == 2 else INK
    return style


def title() -> ParagraphStyle:
    style = heading(1, Place())
    style.name = "title"
    style.fontSize, style.leading = 22, 27
    style.spaceBefore, style.spaceAfter = 0, 8
    return style


def code(place: Place) -> ParagraphStyle:
    style = _base(f"code-{place}", place)
    style.fontName = fonts.MONO
    style.fontSize, style.leading = 8.5, 12
    style.backColor = CODE_SHADE
    style.borderPadding = 6
    style.leftIndent += 6
    style.rightIndent = 6
    style.spaceBefore, style.spaceAfter = 8, 12
    return style


def cell(*, head: bool, align: Align, size: float) -> ParagraphStyle:
    style = _base(f"cell-{head}-{align}-{size}", Place())
    style.fontName = fonts.BOLD if head else fonts.SANS
    style.fontSize, style.leading = size, size * 1.3
    style.alignment = align
    return style


def _base(name: str, place: Place) -> ParagraphStyle:
    style = ParagraphStyle(
        name,
        fontName=fonts.SANS,
        fontSize=10,
        leading=14.5,
        textColor=INK,
        leftIndent=place.indent,
        bulletFontName=fonts.SANS,
        bulletFontSize=10,
        bulletColor=ACCENT,
        splitLongWords=1,
        embeddedHyphenation=0,
        allowWidows=0,
        allowOrphans=0,
    )
    style.bars = place.bars
    return style


class Text(Paragraph):
    """A paragraph that draws the bars of the quotes it stands in, also when it is split over pages."""

    def draw(self) -> None:
        self.canv.saveState()
        self.canv.setStrokeColor(RULE)
        self.canv.setLineWidth(2)
        below = self.style.spaceAfter if self.style.bars else 0
        for left in self.style.bars:
            self.canv.line(left, -below, left, self.height)
        self.canv.restoreState()
        super().draw()


class Heading(Text):
    """A heading; its level and words become an entry of the outline."""

    level: int = 1
    entry: str = ""


def heading_text(markup: str, style: ParagraphStyle, level: int, words: str) -> Heading:
    # Not a constructor: reportlab makes the parts of a split paragraph through the one of Paragraph.
    text = Heading(markup, style)
    text.level, text.entry = level, words.strip()
    # One that fills pages cannot be kept together with anything: reportlab would try for ever.
    text.keepWithNext = int(len(words) < KEPT_HEADING)
    return text


class Document(BaseDocTemplate):
    """Pages with a footer, an outline, and nothing in them that changes from run to run."""

    def __init__(self, path: str, title: str, footer: str, paper: tuple[float, float]) -> None:
        super().__init__(
            path,
            pagesize=paper,
            leftMargin=MARGIN,
            rightMargin=MARGIN,
            topMargin=18 * mm,
            bottomMargin=20 * mm,
            title=title,
            creator="perdure pdf-generate",
            lang="en",
            invariant=1,
        )
        frame = Frame(self.leftMargin, self.bottomMargin, self.width, self.height, 0, 0, 0, 0)
        self.addPageTemplates(PageTemplate("page", [frame], onPageEnd=self._draw_footer))
        self._footer = footer
        self._entries = 0
        self._depth = -1

    def set(self, flowables: list[Flowable]) -> None:
        """Write the document. Raises `LayoutError` for a piece that fits on no page."""
        self.build(flowables, canvasmaker=_CountingCanvas)

    def afterFlowable(self, flowable: Flowable) -> None:
        if not isinstance(flowable, Heading) or not flowable.entry:
            return
        # An outline may not skip a level on its way down.
        self._depth = min(flowable.level - 1, self._depth + 1)
        self._entries += 1
        key = f"heading-{self._entries}"
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(flowable.entry, key, level=self._depth)

    def _draw_footer(self, canvas: Canvas, _template: object) -> None:
        right = self.leftMargin + self.width
        canvas.saveState()
        canvas.setStrokeColor(RULE)
        canvas.setLineWidth(0.5)
        canvas.line(MARGIN, 15 * mm, right, 15 * mm)
        canvas.setFont(fonts.SANS, FOOTER_SIZE)
        canvas.setFillColor(MUTED)
        canvas.drawString(MARGIN, 10.5 * mm, self._footer)
        canvas.translate(right, 10.5 * mm)
        canvas.doForm(_page_form(canvas.getPageNumber()))
        canvas.restoreState()


class _CountingCanvas(Canvas):
    """A canvas that draws the page numbers last, when it knows how many there are."""

    def save(self) -> None:
        pages = self.getPageNumber() - 1
        for number in range(1, pages + 1):
            self.beginForm(_page_form(number), -100, -10, 0, 20)
            self.setFont(fonts.SANS, FOOTER_SIZE)
            self.setFillColor(MUTED)
            self.drawRightString(0, 0, f"{number} / {pages}")
            self.endForm()
        super().save()


def _page_form(number: int) -> str:
    return f"page-number-{number}"
