"""pdf-generate makes a document of any markdown, the same one every time; pdf-to-markdown reads it back."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

SKILLS = Path(__file__).parents[3] / "src" / "perdure" / "skills"

EVERYTHING = """# Heading

Words **bold** *italic* ***both*** ~~struck~~ `code` [link](https://example.com/?a=1&b="2")
and more on the next line.

## Second

- one
- two
  1. inner
  2. inner
     - third

> quoted **words**
>
> - in a list

| left | number | centre |
|---|---:|:-:|
| a | 1 | x |
| `b` | 22 | **y** |

```python
def f(x):
    return x < 1 and "&amp;"
```

---

Last.
"""

HOSTILE = """<script>alert(1)</script> <img src="http://192.0.2.1/x.png"> &lt;b&gt; </para><para>

![pixel](http://192.0.2.1/p.png) ![](file:///etc/passwd) [x](javascript:alert(1)) <http://ok.example/"'><b>

<div onclick="x">

**

[a]: http://192.0.2.1 "t"

| a | b |
|---|---|
| <br> | </font></b></i> |
"""


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILL_OUT_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SKILLS / "pdf-generate" / "scripts")
    return importlib.import_module("pdf_generate")


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SKILLS / "pdf-to-markdown" / "scripts")
    return importlib.import_module("pdf_to_markdown")


def make(maker: Any, markdown: str, title: str | None = None, name: str | None = None) -> dict[str, Any]:
    return maker.make(markdown, title, name, "a4")


def words(report: dict[str, Any]) -> str:
    pages = PdfReader(report["pdfFile"]).pages
    return " ".join(" ".join(page.extract_text() for page in pages).split())


def test_the_words_of_every_kind_of_block_are_in_the_document(maker: Any) -> None:
    text = words(make(maker, EVERYTHING, "The title"))
    for part in (
        "The title",
        "Heading",
        "bold italic both struck code link and more",
        "third",
        "in a list",
        "22",
        'return x < 1 and "&amp;"',
        "Last.",
        "1 / 1",
    ):
        assert part in text


def test_the_same_markdown_gives_the_same_bytes(maker: Any) -> None:
    first = make(maker, EVERYTHING, "T", "one")
    second = make(maker, EVERYTHING, "T", "two")
    assert Path(first["pdfFile"]).read_bytes() == Path(second["pdfFile"]).read_bytes()


def test_the_title_is_in_the_properties_and_the_headings_in_the_outline(maker: Any) -> None:
    document = PdfReader(make(maker, "# One\n\n### Deep\n\n## Two", "Über alles")["pdfFile"])
    assert document.metadata is not None
    assert document.metadata.title == "Über alles"
    titles = [entry["/Title"] for entry in flat(document.outline)]
    assert titles == ["Über alles", "One", "Deep", "Two"]


def flat(entries: Any) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, list):
            yield from flat(entry)
        else:
            yield entry


def test_a_heading_that_repeats_the_title_is_left_out(maker: Any) -> None:
    assert words(make(maker, "# Report\n\nText", "report")).count("eport") == 2, "the title and the footer"
    assert make(maker, "# From the heading\n\nText")["title"] == "From the heading"


def test_nothing_is_fetched_and_no_markup_is_obeyed(maker: Any) -> None:
    report = make(maker, HOSTILE)
    text = words(report)
    assert "<script>alert(1)</script>" in text
    assert "[image: pixel]" in text
    document = PdfReader(report["pdfFile"])
    targets = [str(target) for page in document.pages for target in links(page)]
    assert all(target.startswith(("http://ok.example", "http://192.0.2.1")) for target in targets)
    assert not any(page.images for page in document.pages)
    raw = Path(report["pdfFile"]).read_bytes()
    assert b"/JavaScript" not in raw
    assert b"/JS" not in raw


def links(page: Any) -> Iterator[str]:
    for annotation in page.get("/Annots") or ():
        found: Any = annotation.get_object()
        if "/A" in found:
            yield found["/A"]["/URI"]


def test_characters_without_a_glyph_are_named(maker: Any) -> None:
    report = make(maker, "ok → ≈ ✓ Ω Ж 日本 🚀 ع")
    assert report["missingGlyphs"] == "ع🚀"
    assert ":rocket:" in words(report)


@pytest.mark.parametrize(
    "markdown",
    [
        "| " + " | ".join("abcdefghijklmnopqrstuvwxyz" * 2) + " |\n|" + "---|" * 52 + "\n| x |",
        "| a | b |\n|---|---|\n| x | " + "word " * 5000 + "|",
        "x" * 20_000,
        "```\n" + "y" * 5000 + "\n" * 300 + "\n```",
        "> " * 60 + "deep",
        "\n".join("  " * n + "- item" for n in range(40)),
        "# " + "long title " * 300,
        "- \n-\n\n1.\n",
        "99999999. far",
        "|a|\n|-|",
        "***",
    ],
)
def test_shapes_that_break_layouts_are_set(maker: Any, markdown: str) -> None:
    assert make(maker, markdown)["pages"] >= 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            "# > - | ` * _ [ ] ( ) < & \\ ~ ! 1. --- ``` a ü \n \n\n | | http://x \x00 \ud800 \u202e".split(" ")
        ),
        max_size=80,
    )
)
def test_no_markdown_breaks_it(maker: Any, pieces: list[str]) -> None:
    markdown = "x" + " ".join(pieces)
    report = make(maker, markdown)
    json.dumps(report)
    assert report["pages"] >= 1


def test_what_cannot_be_set_is_said(maker: Any, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "binary.md").write_bytes(b"\xff\xfe")
    for args, said in (
        (["--content", "  \n "], "no content"),
        (["--content", "\x07"], "no content"),
        (["--file", str(out / "absent.md")], "No such file"),
        (["--file", str(out / "binary.md")], "not UTF-8"),
        (["--file", str(out)], "directory"),
    ):
        assert maker.main(args) == 1
        assert said in capsys.readouterr().err
    assert list(out.glob("*.pdf")) == []


def test_a_document_that_cannot_be_written_leaves_nothing(
    maker: Any, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILL_OUT_DIR", str(out / "absent"))
    with pytest.raises(maker.Refused, match="cannot be written"):
        make(maker, "x")


def test_names_stay_in_the_folder(maker: Any, out: Path) -> None:
    assert make(maker, "x", name="../../etc/passwd")["pdfFile"] == str(out / "etc-passwd.pdf")
    assert make(maker, "x", name="//")["pdfFile"] == str(out / "report.pdf")


def test_a_document_reads_back_as_markdown(maker: Any, reader: Any) -> None:
    made = make(maker, EVERYTHING, "The title")
    report = reader.convert(Path(made["pdfFile"]), None)
    text = report["markdown"]
    assert text.startswith("# The title\n\n## Heading\n\nWords bold italic both struck code link and more")
    assert "### Second\n\n- one\n\n- two" in text
    assert "| left | number | centre |\n|---|---|---|\n| a | 1 | x |\n| b | 22 | y |" in text
    assert report["pages"] == 1
    assert report["emptyPages"] == []
    assert Path(report["markdownFile"]).read_text() == text


def test_pages_without_text_are_named(reader: Any, out: Path) -> None:
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.write(out / "blank.pdf")
    assert reader.convert(out / "blank.pdf", None)["emptyPages"] == [1]


def test_files_that_are_no_pdf_or_are_locked_are_said(reader: Any, out: Path) -> None:
    (out / "text.pdf").write_text("not a pdf")
    (out / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<</Type /Catalog /Pages 2 0 R>>\nendobj\n")
    (out / "empty.pdf").write_bytes(b"")
    locked = PdfWriter()
    locked.add_blank_page(100, 100)
    locked.encrypt("secret", algorithm="RC4-128")
    locked.write(out / "locked.pdf")
    for name, said in (
        ("text.pdf", "not a readable PDF"),
        ("cut.pdf", "not a readable PDF"),
        ("empty.pdf", "not a readable PDF"),
        ("locked.pdf", "password"),
        ("txt.pdf", re.escape(f"Did you mean {str(out / 'text.pdf')!r}?")),
        ("absent/x.pdf", "folder does not exist"),
    ):
        with pytest.raises(reader.Refused, match=said):
            reader.convert(out / name, None)
