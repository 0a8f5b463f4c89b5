"""Requests to addresses that other companies than the operator's name: through a guard, or not at all.

A server makes them from where it stands. Without a guard, whoever may define an agent reaches what is open to the
server alone: other machines of the house, a cloud's metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.errors import PermanentError
from perdure.models.port import ModelError, ModelRequest

Guard = Callable[[], Any]
"""Makes a transport of httpx2's that connects to public addresses alone, each checked as it is connected to."""


ANSWER_BYTES = 32_000_000
"""Of one answer from such an address: more than any model says, and less than would take a server's memory."""


def refused(request: ModelRequest, error: PermanentError) -> ModelError:
    """Return what is said of an address that the guard does not connect to, or whose answer it does not take whole."""
    return ModelError("rejected", f"{request.model}: {error.message}", maybe_billed=error.code != "address_refused")


def unguarded(request: ModelRequest) -> ModelError:
    """Return what is said where there is no guard to go through."""
    message = f"{request.model}: this server asks nobody at {request.base_url}, an address that the agent names."
    return ModelError("rejected", message, maybe_billed=False)
