"""What requests and replies about files in rooms hold. Unknown fields are refused."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.core.room_files import FileView, NewFile, PassageView
from perdure.errors import InvalidInput

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class ChunkBody:
    """`POST /v1/rooms/{room}/chunks`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    blob: str
    """SHA-256 of the whole file, in hexadecimal."""
    number: int
    """From 0."""
    data: str
    """Base64 of 512 KB; of the last chunk, of what is left."""


@dataclass(frozen=True, slots=True)
class FileBody:
    """`POST /v1/rooms/{room}/files`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    blob: str
    size: int
    media: str = "application/octet-stream"
    key: str = ""
    by: str = ""

    @property
    def file(self) -> NewFile:
        return NewFile(self.name, self.blob, self.size, self.media, self.key)


@dataclass(frozen=True, slots=True)
class FileList:
    """Files of a room, in order."""

    items: tuple[FileView, ...]


@dataclass(frozen=True, slots=True)
class PassageList:
    """What a file says, in order."""

    items: tuple[PassageView, ...]


@dataclass(frozen=True, slots=True)
class ChunkReply:
    """A piece of a file's bytes."""

    data: str
    """Base64."""


def to_text(data: bytes) -> str:
    """Return bytes as they travel."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """Return what travelled. Raises `InvalidInput` (`bad_file`)."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("data should be base64.", code="bad_file", fields=["data"]) from None
