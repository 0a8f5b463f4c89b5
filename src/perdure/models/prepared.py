"""A model's port with something to see to right before each request: that it may be asked at all, or with whose key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from perdure.models.port import ModelPort, ModelReply, ModelRequest, TextDelta


@dataclass(frozen=True, slots=True)
class PreparedPort:
    """`ModelPort` that asks with what `prepare` makes of each request. What that raises is raised; nobody is asked."""

    port: ModelPort
    prepare: Callable[[ModelRequest], Awaitable[ModelRequest]]

    async def request(self, request: ModelRequest) -> ModelReply:
        return await self.port.request(await self.prepare(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        async with aclosing(cast("Any", self.port.stream(await self.prepare(request)))) as parts:
            async for part in parts:
                yield part

    def streams(self, request: ModelRequest) -> bool:
        return self.port.streams(request)
