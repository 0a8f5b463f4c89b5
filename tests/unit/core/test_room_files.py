"""How a text is cut into passages, and what may be a file."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.room_files import (
    CHUNK_BYTES,
    MAX_FILE_BYTES,
    PASSAGE,
    NewFile,
    blob_of,
    check_chunk,
    check_file,
    chunks_of,
    passages_of,
)
from perdure.errors import InvalidInput

GOOD = NewFile("plan.pdf", blob_of(b"x"), 1, "application/pdf")


@given(st.text(alphabet=st.sampled_from("abc \n"), max_size=6_000))
def test_passages_are_short_and_leave_no_word_out(text: str) -> None:
    found = passages_of(text)
    assert all(0 < len(one) <= PASSAGE for one in found)
    assert all(any(word in one for one in found) for word in text.split() if len(word) < 100)


def test_what_stands_on_a_cut_is_in_one_passage_whole() -> None:
    words = [f"word{number}" for number in range(2_000)]
    found = passages_of(" ".join(words))
    assert all(any(f"{one} {other}" in passage for passage in found) for one, other in pairwise(words))


def test_a_file_of_twenty_megabytes_is_taken_and_one_byte_more_is_not() -> None:
    check_file(replace(GOOD, size=MAX_FILE_BYTES))
    with pytest.raises(InvalidInput) as refused:
        check_file(replace(GOOD, size=MAX_FILE_BYTES + 1))
    assert refused.value.code == "file_too_large"
    assert "20,971,521 bytes; 20,971,520 are the most" in refused.value.message


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, name=""),
        replace(GOOD, name="../etc/passwd"),
        replace(GOOD, name=".."),
        replace(GOOD, name="a\nb"),
        replace(GOOD, blob="x"),
        replace(GOOD, blob=GOOD.blob.upper()),
        replace(GOOD, size=0),
        replace(GOOD, media="text"),
        replace(GOOD, media="text/html; charset=x"),
        replace(GOOD, key="x" * 201),
    ],
)
def test_what_is_no_file_is_refused_by_its_field(bad: NewFile) -> None:
    with pytest.raises(InvalidInput):
        check_file(bad)


def test_chunks_put_together_are_the_bytes() -> None:
    content = bytes(range(256)) * 5_000
    pieces = list(chunks_of(content))
    assert b"".join(pieces) == content
    assert len(pieces) == NewFile("a", "", len(content)).chunks
    for number, data in ((-1, b"x"), (40, b"x"), (0, b""), (0, b"x" * (CHUNK_BYTES + 1))):
        with pytest.raises(InvalidInput):
            check_chunk(number, data)
