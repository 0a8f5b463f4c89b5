"""Messages between a worker and the process of an isolated call: four bytes of length, then JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import IO, Any, assert_never, cast

from perdure.core import codec
from perdure.core.blobs import MAX_BLOB_BYTES
from perdure.core.codec import MAX_VALUE_BYTES
from perdure.worker.body import Ended, Returned
from perdure.worker.judge import Raised, Stopped


class Word(StrEnum):
    """What a message says."""

    READY = "ready"
    """The body could start; or it cannot, and why."""
    GO = "go"
    BEAT = "beat"
    NOTE = "note"
    SAVE = "save"
    COST = "cost"
    ENDED = "ended"


MAX_FRAME_BYTES = 4 * MAX_VALUE_BYTES + MAX_BLOB_BYTES
"""A value travels as text within text, where each of its quotes takes two bytes; a large argument as it is."""
_HEAD = 4


def write_frame(pipe: IO[bytes], frame: dict[str, Any]) -> None:
    """Send one message. Blocks while the pipe is full. Raises `BrokenPipeError` when nobody reads."""
    data = codec.encode(frame, "message", MAX_FRAME_BYTES).encode()
    pipe.write(len(data).to_bytes(_HEAD, "big") + data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> dict[str, Any] | None:
    """Return the next message; None at the end of the pipe, or where the other side broke off. Blocks."""
    head = pipe.read(_HEAD)
    if len(head) < _HEAD:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size) if size <= MAX_FRAME_BYTES else b""
    if len(data) < size:
        return None
    try:
        frame = codec.decode(data)
    except ValueError:
        return None
    return cast("dict[str, Any]", frame) if isinstance(frame, dict) else None


def show_ended(ended: Ended) -> dict[str, Any]:
    """Return how a body ended as JSON."""
    match ended:
        case Returned(value, size):
            return {"returned": codec.encode_json(value), "size": size}
        case Raised(code, message, permanent, retry_after_ms):
            return {"raised": [code, message, permanent, retry_after_ms]}
        case Stopped(message):
            return {"stopped": message}
        case _:
            assert_never(ended)


def read_ended(shown: dict[str, Any]) -> Ended:
    """Return what `show_ended` showed."""
    if "returned" in shown:
        return Returned(codec.decode(shown["returned"]), shown["size"])
    return Raised(*shown["raised"]) if "raised" in shown else Stopped(shown["stopped"])
