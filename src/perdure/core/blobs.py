"""Large values: what stands for one in a log, and how its content is cut. Pure.

A value that is too large for a log is JSON text like all others, kept once for each company in pieces and called by the
hash of that text. In its place stands a reference, small and a value itself: no log, list, page or hint holds more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from perdure.core.codec import Json

KEY = "$blob"
MARK = '{"$blob":{'
"""What a text that refers to one has in it, as `codec` writes it."""
CHUNK_BYTES = 768 * 1024
"""Of content in one piece: 1 MB of base64 text."""
MAX_BLOB_BYTES = 64 * 1024 * 1024
"""Largest content that a store takes, unless its server was told otherwise."""
MOST_BLOB_BYTES = 1024 * 1024 * 1024
"""What a server can be told to take at most."""

_HASH = re.compile(r"[0-9a-f]{64}")
_REFERENCE = re.compile(r'\{"\$blob":\{[^{}]*?"hash":"([0-9a-f]{64})"')


@dataclass(frozen=True, slots=True)
class BlobRef:
    """What a reference says."""

    hash: str
    """SHA-256 of the content, in hexadecimal digits."""
    bytes: int


@dataclass(frozen=True, slots=True)
class BlobState:
    """What a store has of a blob."""

    whole: bool
    """It may be referred to."""
    missing: tuple[int, ...] = ()
    """Numbers of the pieces that are still to be sent, from 0."""


def reference(content_hash: str, size: int) -> dict[str, Json]:
    """Return the value that stands for a blob."""
    return {KEY: {"hash": content_hash, "bytes": size}}


def reference_in(value: Any) -> BlobRef | None:
    """Return what a value refers to, if all of it stands for a blob."""
    if value.__class__ is not dict or KEY not in value or len(value) != 1:
        return None
    said = value[KEY]
    if not isinstance(said, dict):
        return None
    facts = cast("dict[str, Any]", said)
    found, size = facts.get("hash"), facts.get("bytes")
    if not isinstance(found, str) or not is_hash(found) or not isinstance(size, int) or size < 0:
        return None
    return BlobRef(found, size)


def is_hash(text: str) -> bool:
    """Say whether a text can be the name of a blob."""
    return _HASH.fullmatch(text) is not None


def hashes_in(text: str) -> set[str]:
    """Return the names of all blobs that JSON text refers to, wherever in it."""
    return set(_REFERENCE.findall(text))


def hash_of(content: bytes) -> str:
    """Return the name of content."""
    return hashlib.sha256(content).hexdigest()


def chunks_of(size: int) -> int:
    """Return into how many pieces content of a size is cut: at least one."""
    return max(-(-size // CHUNK_BYTES), 1)


def length_of(size: int, number: int) -> int:
    """Return how long a piece of content of a size is."""
    return min(size - number * CHUNK_BYTES, CHUNK_BYTES)


def numbers_of(size: int) -> Iterator[int]:
    """Yield the numbers of all pieces of content of a size."""
    yield from range(chunks_of(size))
