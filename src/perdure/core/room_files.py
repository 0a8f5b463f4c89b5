"""Files in rooms: what one is, what is asked of it, and how its text is cut into passages. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.core.rooms import MAX_NAME, check_name
from perdure.errors import InvalidInput

MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_ROOM_BYTES = 200 * 1024 * 1024
"""Of all files of a room, each version counted."""
CHUNK_BYTES = 512 * 1024
"""Of one chunk; the last one of a file has what is left."""
PASSAGE = 800
"""Characters of a passage, at most."""
OVERLAP = 100
"""So many of its last ones begin the next passage, so that what stands on the cut is found too."""

_BLOB = re.compile(r"[0-9a-f]{64}")
_MEDIA = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A version of a file whose chunks are there."""

    name: str
    blob: str
    """SHA-256 of its bytes, in hexadecimal."""
    size: int
    media: str = "application/octet-stream"
    """What its sender says that it is. What it says is told from its bytes."""
    key: str = ""
    """The same key of the same author is the same version."""

    @property
    def chunks(self) -> int:
        """How many chunks its bytes have."""
        return -(-self.size // CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class FileView:
    """A version of a file in a room."""

    id: str
    seq: int
    company: str
    author: str
    name: str
    version: int
    """Within its company and name, from 1."""
    media: str
    size: int
    blob: str
    """SHA-256 of its bytes, in hexadecimal."""
    text_state: str
    """`text` if it can be searched; `none` if it holds no text; else why it could not be read."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class PassageView:
    """A piece of what a file says. The end of one and the beginning of the next are the same few words."""

    number: int
    """From 0."""
    text: str


def blob_of(content: bytes) -> str:
    """Return by what a file's bytes are known."""
    return hashlib.sha256(content).hexdigest()


def chunks_of(content: bytes) -> Iterator[bytes]:
    """Yield the pieces that bytes are sent and kept in."""
    for at in range(0, len(content), CHUNK_BYTES):
        yield content[at : at + CHUNK_BYTES]


def check_file(file: NewFile) -> None:
    """Raise `InvalidInput` (`bad_file`, `file_too_large`) naming the field, what was expected and what was found."""
    check_name(file.name)
    if "/" in file.name or "\\" in file.name or file.name in (".", ".."):
        raise _bad("name", "a name without folders", file.name)
    if len(file.key) > MAX_NAME or not (file.key.isprintable() or not file.key):
        raise _bad("key", f"at most {MAX_NAME} printable characters", file.key)
    check_blob(file.blob)
    if not _MEDIA.fullmatch(file.media):
        raise _bad("media", "a media type as `application/pdf`", file.media)
    if file.size < 1:
        raise _bad("size", "at least 1 byte", str(file.size))
    if file.size > MAX_FILE_BYTES:
        raise InvalidInput(
            f"file {file.name[:80]!r} has {file.size:,} bytes; {MAX_FILE_BYTES:,} are the most that a room takes. "
            "Split it, or keep it elsewhere and post where it is.",
            code="file_too_large",
            fields=["size"],
        )


def check_blob(blob: str) -> None:
    """Raise `InvalidInput` (`bad_file`) for what is no SHA-256."""
    if not _BLOB.fullmatch(blob):
        raise _bad("blob", "SHA-256 as 64 hexadecimal digits", blob)


def check_chunk(number: int, data: bytes) -> None:
    """Raise `InvalidInput` (`bad_file`) for what can be no chunk of a file."""
    if not 0 <= number < -(-MAX_FILE_BYTES // CHUNK_BYTES):
        raise _bad("number", f"0 to {-(-MAX_FILE_BYTES // CHUNK_BYTES) - 1}: a file has 20 MB at most", str(number))
    if not 1 <= len(data) <= CHUNK_BYTES:
        raise _bad("data", f"1 to {CHUNK_BYTES:,} bytes", f"{len(data):,} bytes")


def _bad(field: str, expected: str, found: str) -> InvalidInput:
    return InvalidInput(f"{field} should have {expected}; found {found[:80]!r}.", code="bad_file", fields=[field])


def passages_of(text: str) -> list[str]:
    """Cut a text into passages, at spaces where there are any."""
    found: list[str] = []
    at = 0
    while at < len(text):
        end = _cut(text, at)
        if passage := text[at:end].strip():
            found.append(passage)
        if end >= len(text):
            break
        at = max(_cut_before(text, end - OVERLAP, end), at + 1)
    return found


def _cut(text: str, at: int) -> int:
    """Return where a passage that begins at a place ends: behind a paragraph, a line, a word, else anywhere."""
    end = at + PASSAGE
    if end >= len(text):
        return len(text)
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, at + PASSAGE // 2, end)
        if place > 0:
            return place + len(mark)
    return end


def _cut_before(text: str, at: int, end: int) -> int:
    place = text.find(" ", at, end)
    return place + 1 if place >= 0 else at
