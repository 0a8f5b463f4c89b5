"""Values too large for a log, as durable code meets them: it gets and gives them as all others.

What the log holds is a reference. Its content is fetched when the code gets the value, so a re-run fetches what it
asks for and no more; to the run that is waiting for the world outside, as any code may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from perdure.core import codec
from perdure.core.blobs import BlobRef, reference_in
from perdure.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from perdure.flow.context import Context


class Large(Protocol):
    """Where the holder of an execution puts large values, and fetches them from. Waits as long as a store is away."""

    async def keep(self, value: Any, what: str) -> str:
        """Put a value's content into the store; return the JSON text of its reference. Raises as `codec.encode`."""
        ...

    async def load(self, execution: str, ref: BlobRef) -> Any:
        """Return the value that an execution's log refers to. Raises `NotFound` (`no_blob`)."""
        ...


async def kept(large: Large | None, value: Any, what: str) -> str:
    """Return a value's JSON text or, if it is too large for a log, that of its reference. Raises as `codec.encode`."""
    try:
        return codec.encode(value, what)
    except LimitExceeded:
        if large is None:
            raise
        return await large.keep(value, what)


async def opened(context: Context, value: Any) -> Any:
    """Return what a value of the log holds: itself, or the content that it refers to."""
    ref = reference_in(value)
    if ref is None:
        return value
    if context.large is None:
        raise InvalidInput(
            f"the log of execution {context.execution} refers to a value of {ref.bytes:,} bytes, which cannot be "
            "fetched here.",
            code="no_blobs",
        )
    return await context.large.load(context.execution, ref)


async def fit_for_log(context: Context, output: Any) -> Any:
    """Return what a function returned or, if it is too large for a log, its reference."""
    try:
        codec.encode(output, "output")
    except LimitExceeded:
        if context.large is not None:
            return codec.decode(await context.large.keep(output, "output"))
    except InvalidInput:  # said where it is written down
        return output
    return output
