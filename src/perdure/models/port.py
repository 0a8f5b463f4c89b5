"""What Perdure asks of a model, in its own words. Adapters translate; nothing above them knows a provider.

An adapter makes exactly one request per call: every retry is the runtime's, where it is counted and stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from perdure.core.codec import Json


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: dict[str, Json]
    """JSON schema of the arguments, an object."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to use a tool. `arguments` is what it wrote: text that may not even be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply. Zero means the provider did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    details: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation.

    `user`: `text`. `assistant`: `text`, `tool_calls`, and `native`, the adapter's own form, sent back unchanged.
    `tool`: the answer to `call_id`, in `text`; `failed` when it is an error.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool_name: str = ""
    failed: bool = False
    native: Json = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one request needs."""

    model: str
    """`provider/model` or `provider:model`."""
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    base_url: str | None = None
    """The agent owner's address, in place of the provider's."""
    settings: dict[str, Json] = field(default_factory=dict[str, Json])
    """`temperature`, `max_tokens`, `timeout` (seconds); what an adapter does not know it refuses by name."""
    output_schema: dict[str, Json] | None = None
    """When set, the final answer must be JSON of this schema."""
    call: str = ""
    """`execution/address`, for the provider's logs and the scripted model's; never part of the conversation."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """The company's own secrets, by the variable of the environment that each takes the place of. Never recorded: the
    JSON form of a request is without them."""
    guarded: bool = field(default=False, compare=False)
    """Whether `base_url` may lead to public addresses alone: another company than the operator's named it."""
    attempt: int = field(default=1, compare=False)
    """Which request of its step this is, those of earlier holders included. Says who shows text that comes; a provider
    is not told."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole reply. One that broke off before its finish reason is no reply but a `ModelError`."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    """`stop`, `tool_call`, `length` or `content_filter`."""
    usage: Usage
    model: str
    """The model that answered, as the provider names it."""
    cost_usd: float | None = None
    """None is unknown, which is not zero."""
    native: Json = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text of a reply in the making. Ephemeral: only the whole reply is recorded."""

    text: str


ModelFailure = Literal["transient", "key", "quota", "rejected", "unknown_model", "context_window", "missing_extra"]
"""Who acts next: `transient` us; `key` and `quota` whoever pays, the execution is paused; the others the author."""


class ModelError(Exception):
    """A request that brought no reply.

    `kind` says who acts next. `retry_after` is the provider's wish in seconds. `maybe_billed` is False only when the
    request surely never reached the provider. The message names the provider, what it said, and the fix.
    """

    def __init__(
        self, kind: ModelFailure, message: str, *, retry_after: float | None = None, maybe_billed: bool = True
    ) -> None:
        super().__init__(message)
        self.kind: ModelFailure = kind
        self.message = message
        self.retry_after = retry_after
        self.maybe_billed = maybe_billed


class ModelPort(Protocol):
    """One provider, or one script."""

    async def request(self, request: ModelRequest) -> ModelReply:
        """Make one request and return its whole reply. Raises `ModelError`, never a provider's own exception."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        """Make one request; yield text as it comes and, last, the whole reply, equal to that of `request`.

        Raises `ModelError` if it breaks off: what came is no reply. Close it if you leave early.
        """
        ...

    def streams(self, request: ModelRequest) -> bool:
        """Say whether `stream` may tell text before the whole reply is there. If not, `request` is the cheaper way."""
        ...


class Models(Protocol):
    """Finds the port for a model name."""

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        """Return the port of `provider/model`, or of any name at an agent's `base_url`.

        Raises `ModelError` (`unknown_model`, `missing_extra`, `rejected`).
        """
        ...
