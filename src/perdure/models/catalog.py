"""Find who answers for a model's name, once, and load it only when it is first asked.

Importing this imports no provider: their packages take seconds, and load in a thread at the first request.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, cast

import anyio.to_thread

from perdure.models import providers
from perdure.models.guarded import Guard
from perdure.models.port import ModelPort, ModelReply, ModelRequest, TextDelta
from perdure.models.scripted import Script, ScriptedModels

if TYPE_CHECKING:
    from perdure.models.pydantic_ai_adapter import PydanticAIModels


class Catalog:
    """All models of this process: `Models`, and a `ModelPort` itself that sends each request where it belongs.

    `scripted` names scripts of this process: `{"demo": function}` answers for `scripted/demo` and `test:demo`.
    Keys and addresses come from `environ` at each request, so a key that was set meanwhile is used at once.
    One catalog serves any number of event loops; `aclose` on each one it was used on.
    """

    def __init__(
        self,
        *,
        scripted: Mapping[str, Script] | None = None,
        environ: Mapping[str, str] = os.environ,
        guard: Guard | None = None,
    ) -> None:
        """`guard` makes what guarded requests go through; without it none is made to an address that an agent names."""
        self._scripted = ScriptedModels(scripted or {}, guard)
        self._others = _Adapter(environ, guard)

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        """Return who answers for `provider/model`, or `provider:model`, at `base_url` if the agent names one.

        Raises `ModelError`: `unknown_model` with the nearest name, `missing_extra` with the command to run,
        `rejected` for a base_url that is none. A missing key is told by the request.
        """
        if providers.split(model)[0] in providers.SCRIPTED:
            return self._scripted
        providers.find(model, base_url)
        return self._others

    async def request(self, request: ModelRequest) -> ModelReply:
        """Make one request. Raises `ModelError` only."""
        return await self.port(request.model, request.base_url).request(request)

    def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        """Make one request; yield text as it comes and, last, the whole reply. Close it if you leave early."""
        return self.port(request.model, request.base_url).stream(request)

    def streams(self, request: ModelRequest) -> bool:
        """Say whether who answers for it tells text before its whole reply is there."""
        return self.port(request.model, request.base_url).streams(request)

    async def aclose(self) -> None:
        """Close the connections that requests on this event loop opened."""
        await self._scripted.aclose()
        await self._others.aclose()


class _Adapter:
    """The provider adapter, imported at its first request, away from the event loop."""

    def __init__(self, environ: Mapping[str, str], guard: Guard | None) -> None:
        self._environ, self._guard = environ, guard
        self._loaded: PydanticAIModels | None = None

    async def request(self, request: ModelRequest) -> ModelReply:
        return await (await self._load()).request(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        async with aclosing((await self._load()).stream(request)) as pieces:
            async for piece in pieces:
                yield piece

    def streams(self, request: ModelRequest) -> bool:
        return providers.streams(request, self._environ)

    async def aclose(self) -> None:
        if self._loaded is not None:
            await self._loaded.aclose()

    async def _load(self) -> PydanticAIModels:
        if self._loaded is None:
            module = await anyio.to_thread.run_sync(import_module, "perdure.models.pydantic_ai_adapter")
            # Another task may have been faster: connections are kept in one place only.
            self._loaded = self._loaded or cast(
                "PydanticAIModels", module.PydanticAIModels(self._environ, anyio.to_thread.run_sync, self._guard)
            )
        return self._loaded
