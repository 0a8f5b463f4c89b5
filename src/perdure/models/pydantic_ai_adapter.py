"""Every provider, over pydantic-ai's model classes: one request per call, none of their own retries.

Import it late: with the providers' packages it takes seconds. `Catalog` does, in a thread.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import quote

import httpx2
from pydantic_ai import direct
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    InstructionPart,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, create_async_httpx2_client, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from perdure.core.codec import encode
from perdure.core.redaction import Redacting, Redaction, redaction
from perdure.core.secrets import LEAST_VALUE
from perdure.models import conversation, prices, providers, settings
from perdure.models.failures import missing_key, told
from perdure.models.guarded import Guard, unguarded
from perdure.models.per_loop import PerLoop
from perdure.models.port import ModelError, ModelReply, ModelRequest, TextDelta
from perdure.models.providers import Provider

InThread = Callable[[Callable[[], Model[Any]]], Awaitable[Model[Any]]]
"""Runs what blocks elsewhere than on the event loop."""

_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)`")


class PydanticAIModels:
    """`ModelPort` over all providers of `providers.PROVIDERS`."""

    def __init__(self, environ: Mapping[str, str], in_thread: InThread, guard: Guard | None = None) -> None:
        self._environ = environ
        self._in_thread = in_thread
        self._connections = PerLoop(lambda: _Connections(environ, guard))
        self._loaded: set[str] = set()
        """Providers whose packages are imported; the event loop adds to it."""

    async def request(self, request: ModelRequest) -> ModelReply:
        """Make one request. Raises `ModelError` only."""
        provider, name = providers.find(request.model, request.base_url)
        hidden = self._hidden(provider, request)
        with told(request, provider, hidden):
            model = await self._model(provider, name, request)
            response = await direct.model_request(
                model,
                conversation.to_native(request.messages),
                model_settings=_settings(request, provider),
                model_request_parameters=_parameters(request, model),
            )
            return _without(hidden, _reply(response, request, provider))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        """Make one request; yield text as it comes and, last, the whole reply. Raises `ModelError` only."""
        provider, name = providers.find(request.model, request.base_url)
        hidden = self._hidden(provider, request)
        with told(request, provider, hidden):
            model = await self._model(provider, name, request)
        if type(model).request_stream is Model.request_stream:  # this provider's package knows only whole replies
            yield await self.request(request)
            return
        clean = Redacting(hidden)
        async with self._events(request, provider, model) as events:
            async for event in events:
                if text := clean.piece(_text(event)):
                    yield TextDelta(text)
            reply = _without(hidden, _reply(events.get(), request, provider))
        if text := clean.rest():
            yield TextDelta(text)
        yield reply

    def streams(self, request: ModelRequest) -> bool:
        """Say whether it is to be asked for pieces."""
        return providers.streams(request, self._environ)

    @asynccontextmanager
    async def _events(
        self, request: ModelRequest, provider: Provider, model: Model[Any]
    ) -> AsyncGenerator[StreamedResponse]:
        with told(request, provider, self._hidden(provider, request)):
            async with direct.model_request_stream(
                model,
                conversation.to_native(request.messages),
                model_settings=_settings(request, provider),
                model_request_parameters=_parameters(request, model),
            ) as events:
                yield events

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        connections = self._connections.pop()
        if connections is not None:
            await connections.aclose()

    async def _model(self, provider: Provider, name: str, request: ModelRequest) -> Model[Any]:
        """Return pydantic-ai's model for one request. It is light: the connections behind it are kept."""
        make = partial(self._made, provider, name, request, self._connections.get())
        if provider.name in self._loaded:
            return make()
        model = await self._in_thread(make)  # the first time it imports for a second or two
        self._loaded.add(provider.name)
        return model

    def _hidden(self, provider: Provider, request: ModelRequest) -> Redaction:
        """Return what takes the key of a request out of all that comes of it."""
        if provider.protocol == "own":
            key = provider.own_key(request.keys) or self._environ.get(provider.key or provider.secret, "")
        else:
            key = providers.key_for(provider, request.base_url, self._environ, request.keys)
        return redaction([key] if len(key) >= LEAST_VALUE else [])

    def _made(self, provider: Provider, name: str, request: ModelRequest, connections: _Connections) -> Model[Any]:
        if provider.protocol == "own":
            return _own_model(provider, name, connections, request)
        key = providers.key_for(provider, request.base_url, self._environ, request.keys)
        if not key:
            raise missing_key(request.model, provider.key)
        moved = self._environ.get(provider.address)
        ours = request.base_url is None and (bool(moved) or not provider.own_key(request.keys))
        client = connections.providers if ours else connections.owners
        if request.guarded and request.base_url is not None and not self._is_operators(provider, request.base_url):
            if connections.guarded is None:
                raise unguarded(request)
            client = connections.guarded
        base_url = request.base_url or moved or None
        make = _anthropic if provider.protocol == "anthropic" else _openai
        return make(provider, name, key, base_url, client)

    def _is_operators(self, provider: Provider, address: str) -> bool:
        """Say whether the operator's environment names an address, too."""
        own = self._environ.get(provider.address, "") if provider.address else ""
        return address.rstrip("/") == own.rstrip("/") or bool(providers.address_key(address, self._environ))


class _Connections:
    """The HTTP clients of one event loop."""

    def __init__(self, environ: Mapping[str, str], guard: Guard | None = None) -> None:
        timeout = httpx2.Timeout(settings.SILENCE_SECONDS, connect=settings.CONNECT_SECONDS)
        self.providers = create_async_httpx2_client(timeout=timeout)
        self.owners = create_async_httpx2_client(timeout=timeout)
        """For addresses that agents name, and companies' own keys: without what the operator's environment adds to the
        providers' requests, such as whose project pays."""
        self.guarded = create_async_httpx2_client(timeout=timeout, transport=guard()) if guard else None
        """As these, and to public addresses alone."""
        for client in (self.owners, self.guarded):
            if client is not None:
                hooks = client.event_hooks
                client.event_hooks = {**hooks, "request": [*hooks["request"], _without_headers(environ)]}
        self.own: dict[str, Any] = {}
        """pydantic-ai's providers that have a client of their own, by name."""

    async def aclose(self) -> None:
        await self.providers.aclose()
        await self.owners.aclose()
        if self.guarded is not None:
            await self.guarded.aclose()
        for provider in self.own.values():
            async with provider:  # leaving it closes its client
                pass


def _without_headers(environ: Mapping[str, str]) -> Any:
    """Return a hook that takes out the headers which the providers' packages read from the environment."""
    lines = [line for name in ("OPENAI", "ANTHROPIC") for line in environ.get(f"{name}_CUSTOM_HEADERS", "").split("\n")]
    names = {"openai-organization", "openai-project", *(line.partition(":")[0].strip().lower() for line in lines)}
    names -= {"", "authorization", "x-api-key", "content-type", "content-length", "host"}

    async def remove(request: httpx2.Request) -> None:
        for name in names:
            request.headers.pop(name, None)

    return remove


def _openai(provider: Provider, name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415 - needs the extra
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    kind = OpenAIResponsesModel if provider.protocol == "responses" else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(base_url=base_url, api_key=key, http_client=client))


def _anthropic(
    _provider: Provider, name: str, key: str, base_url: str | None, client: httpx2.AsyncClient
) -> Model[Any]:
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 - needs the extra
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=base_url, http_client=client))


def _own_model(provider: Provider, name: str, connections: _Connections, request: ModelRequest) -> Model[Any]:
    """Return a model of a provider whose package finds its key and address in the environment, but for a key of the
    company's. What has such a key is made for the request: nothing of it is kept for another company's."""
    key, kept = provider.own_key(request.keys), connections.own
    reached = None if key else kept.get(provider.name)
    if reached is None:
        try:
            if key:
                kind = cast("Any", infer_provider_class(provider.name))
                reached = kind(api_key=key, http_client=connections.providers)
            else:
                reached = kept[provider.name] = infer_provider_class(provider.name)()
        except ValueError as error:  # older than this name
            message = f"{request.model}: {error}. Upgrade pydantic-ai."
            raise ModelError("unknown_model", message, maybe_billed=False) from error
        except UserError as error:  # it looks for its key or its address
            found = _VARIABLE.search(str(error))
            variable = provider.key or (found[1] if found else f"a key for {provider.name}")
            raise missing_key(request.model, variable) from error
    return infer_model(f"{provider.name}:{name}", lambda _name: reached)


def _settings(request: ModelRequest, provider: Provider) -> ModelSettings:
    chosen = settings.resolve(request)
    if request.call and provider.protocol != "own":
        chosen["extra_headers"] = {"x-client-request-id": quote(request.call, safe="/ ")[:500]}
    return cast("ModelSettings", cast("object", chosen))


def _parameters(request: ModelRequest, model: Model[Any]) -> ModelRequestParameters:
    instructions = request.instructions
    native = bool(model.profile.get("supports_json_schema_output"))
    output: dict[str, Any] = {}
    if request.output_schema is not None and native:
        output = {
            "output_mode": "native",
            "output_object": OutputObjectDefinition(request.output_schema, name="answer"),
        }
    elif request.output_schema is not None:
        schema = encode(request.output_schema, "output_schema")
        instructions += f"\n\nGive the final answer as JSON of this schema, without any other text:\n{schema}"
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
            for tool in request.tools
        ],
        instruction_parts=[InstructionPart(content=instructions.strip())] if instructions.strip() else [],
        **output,
    )


def _text(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""  # thinking and the making of tool calls


def _reply(response: ModelResponse, request: ModelRequest, provider: Provider) -> ModelReply:
    return ModelReply(
        text=conversation.text(response),
        tool_calls=conversation.tool_calls(response),
        finish_reason=_finish_reason(response, request, provider),
        usage=conversation.usage(response.usage),
        model=response.model_name or request.model,
        cost_usd=_cost(response, request, provider),
        native=conversation.to_json(response),
    )


def _without(hidden: Redaction, reply: ModelReply) -> ModelReply:
    """Return a reply without the key that it was asked with: an address that an operator trusts may still repeat it."""
    native = hidden.json(reply.native)
    if native is reply.native:  # it holds all the rest
        return reply
    calls = tuple(replace(call, arguments=hidden.text(call.arguments)) for call in reply.tool_calls)
    return replace(reply, text=hidden.text(reply.text), tool_calls=calls, native=native)


def _finish_reason(response: ModelResponse, request: ModelRequest, provider: Provider) -> str:
    """Return why the model stopped, from its own word: pydantic-ai takes a broken-off reply for one that stopped."""
    said = (response.provider_details or {}).get("finish_reason")
    invented = provider.module == "openai" and response.finish_reason != "content_filter" and not said
    known = bool(said) or response.finish_reason is not None
    if response.state != "complete" or response.finish_reason == "error" or invented or not known:
        message = f"{request.model}: the reply broke off before its finish reason and cannot count."
        raise ModelError("transient", message)
    if response.finish_reason in (None, "stop"):  # None: a word of the provider's own that nobody else knows
        return "tool_call" if conversation.tool_calls(response) else "stop"
    return response.finish_reason


def _cost(response: ModelResponse, request: ModelRequest, provider: Provider) -> float | None:
    if response.usage.unmeasured_requests:
        return None
    used = conversation.usage(response.usage)
    asked = providers.split(request.model)[1]
    who = provider.extra if provider.protocol != "own" else provider.name
    answered = prices.cost_usd(who, response.model_name or asked, used, base_url=request.base_url)
    return answered if answered is not None else prices.cost_usd(who, asked, used, base_url=request.base_url)
