"""Text is read in a process that is limited: whatever a file is, it ends, and nothing but it suffers."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas

from perdure.server.extracting import LIMITS, Extracted, text_of
from perdure.system import SystemClock

pytestmark = pytest.mark.anyio


async def read(content: bytes, **limits: Any) -> Extracted:
    return await text_of(content, SystemClock(), LIMITS._replace(**limits))


def pdf(*pages: str) -> bytes:
    out = BytesIO()
    canvas = Canvas(out)
    for text in pages:
        canvas.drawString(72, 720, text)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def bomb(content: bytes) -> bytes:
    """Return a PDF of one page whose content is long when it is unpacked."""
    packed = zlib.compress(content, 9)
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream" % (len(packed), packed),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = b"%PDF-1.4\n"
    places: list[int] = []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 6\n0000000000 65535 f \n%btrailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(out),
    )


@pytest.mark.parametrize(
    ("content", "state", "text"),
    [
        (b"# Plan\n\nTwelve beams.\n", "text", "# Plan\n\nTwelve beams.\n"),
        ("\ufeffGrüße".encode(), "text", "Grüße"),
        (b"\x89PNG\r\n\x1a\n\0\0", "none", ""),
        ("Grüße".encode("latin-1"), "none", ""),
        (b"\0" * 100, "none", ""),
    ],
    ids=["markdown", "mark", "image", "latin", "zeros"],
)
async def test_a_text_is_read_and_what_is_none_has_none(content: bytes, state: str, text: str) -> None:
    assert await read(content) == Extracted(state, text)


async def test_a_pdf_is_read_page_by_page() -> None:
    found = await read(pdf("twelve beams", "of oak"))
    assert (found.state, found.text.split()) == ("text", ["twelve", "beams", "of", "oak"])


async def test_a_broken_pdf_says_so_and_no_more() -> None:
    found = await read(pdf("x")[:200])
    assert found.state.startswith("the PDF cannot be read")
    assert found.text == ""


async def test_a_file_that_unpacks_to_too_much_ends_its_own_process() -> None:
    found = await read(b"a" * 20_000_000, memory_bytes=48 * 2**20)
    assert found.text == ""
    assert "of memory" in found.state or "ended with" in found.state, found
    assert (await read(bomb(b"BT /F1 9 Tf (" + b"x" * 300_000_000 + b") Tj ET"))).text == ""


async def test_a_file_that_takes_too_long_is_ended() -> None:
    endless = bomb(b"BT /F1 9 Tf " + b"(x) Tj " * 5_000_000 + b"ET")
    assert await read(endless, wait_ms=1) == Extracted("reading it takes more than 0 s")
    assert await read(endless, cpu_seconds=1) == Extracted("reading it takes more than 1 s of processor time")


async def test_a_text_longer_than_is_kept_is_kept_up_to_there() -> None:
    found = await read(b"word " * 1_000_000)
    assert (found.state, len(found.text)) == ("text", 1_900_000)
