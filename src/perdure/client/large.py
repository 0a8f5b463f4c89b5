"""Values that are too large for a log: send their content, and fetch it. A piece at a time, never all of it twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perdure.core import codec
from perdure.core.blobs import (
    CHUNK_BYTES,
    MOST_BLOB_BYTES,
    BlobRef,
    hash_of,
    length_of,
    numbers_of,
    reference,
    reference_in,
)
from perdure.core.codec import MAX_VALUE_BYTES
from perdure.core.views import Started, StartRequest
from perdure.errors import InternalError, LimitExceeded
from perdure.wire.api import Api
from perdure.wire.api_blobs import BlobsApi

T = TypeVar("T")

_ROUNDS = 3
"""How often content is offered: a store may forget it, or another sender's be wrong, in between."""


class Content(Protocol):
    """Where the content of a value comes from."""

    def read(self, start: int, length: int) -> bytes:
        """Return a part of it. Raises `OSError`."""
        ...


class InMemory:
    """Content that is there."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def read(self, start: int, length: int) -> bytes:
        return self._text[start : start + length]


async def upload(blobs: BlobsApi, ref: BlobRef, content: Content) -> None:
    """Return once the store has the content, whole and proven. Safe to say again; sends what is missing."""
    for _ in range(_ROUNDS):
        state = await blobs.offer_blob(ref.hash, ref.bytes)
        if state.whole:
            return
        for number in state.missing:
            piece = content.read(number * CHUNK_BYTES, length_of(ref.bytes, number))
            await blobs.put_chunk(ref.hash, number, piece)
    raise InternalError(f"value {ref.hash[:16]}… was sent {_ROUNDS} times and is not there; see the server's log.")


async def sent_whole(
    blobs: BlobsApi, value: Any, what: str, send: Callable[[Any], Awaitable[T]], most: int = MAX_VALUE_BYTES
) -> T:
    """Return what `send` returns for a value or, where it is too large to stand in a request, for its reference.

    Only then its content is sent before, so that small ones pay nothing. `most`: bytes of a value that such a request
    has room for. Raises as `send`, and `LimitExceeded` (`too_large`) for what the server does not take even so.
    """
    try:
        return await send(value)
    except LimitExceeded as error:
        if error.code != "too_large":
            raise
        content = codec.encode(value, what, MOST_BLOB_BYTES).encode()
        if len(content) <= most:
            raise  # something else is too large
    ref = BlobRef(hash_of(content), len(content))
    await upload(blobs, ref, InMemory(content))
    return await send(reference(ref.hash, ref.bytes))


async def start_whole(api: Api, request: StartRequest) -> Started:
    """Begin an execution, whatever the size of its input. Raises as `Api.start`."""

    async def send(given: Any) -> Started:
        return await api.start(replace(request, input=given))

    return await sent_whole(api, request.input, "the input", send)


async def pieces(blobs: BlobsApi, execution: str, ref: BlobRef) -> AsyncGenerator[bytes]:
    """Yield the JSON text of what a log refers to, in order. Raises `NotFound` (`no_blob`).

    At the end it was found to be what its hash says, or `InternalError` is raised.
    """
    found = hashlib.sha256()
    for number in numbers_of(ref.bytes):
        piece = await blobs.blob_chunk(execution, ref.hash, number)
        found.update(piece)
        yield piece
    if found.hexdigest() != ref.hash:
        raise InternalError(
            f"value {ref.hash[:16]}… came with another content; `perdure db check` looks at all of them.",
            code="blob_damaged",
        )


async def load(blobs: BlobsApi, execution: str, ref: BlobRef) -> Any:
    """Return the value that a log refers to. Raises as `pieces`."""
    text = bytearray()
    async for piece in pieces(blobs, execution, ref):
        text += piece
    return codec.decode(bytes(text))


async def save(blobs: BlobsApi, execution: str, value: Any, path: str | os.PathLike[str]) -> int:
    """Write the JSON text of a value of a log into a file; return its bytes. Raises as `pieces`, and `OSError`."""
    ref = reference_in(value)
    with Path(path).open("wb") as file:  # noqa: ASYNC230 - a file of the caller's, a piece at a time
        if ref is None:
            return file.write(codec.encode(value).encode())
        async for piece in pieces(blobs, execution, ref):
            file.write(piece)
    return ref.bytes
