"""The scripted model, declared as such: replies from a script of this process, or from one behind an address.

Names are `scripted/NAME` or `test:NAME`; `test:` alone repeats what the user said. No provider is ever asked.
A script that is an async generator tells its reply in pieces, as providers do. One behind an address does so by
answering with `PIECES`: lines of JSON, `{"text": piece}` for each and `{"reply": reply}` as the last.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from inspect import isasyncgenfunction, isawaitable
from typing import TYPE_CHECKING, Any, cast

from perdure.core.codec import Json, decode, encode
from perdure.errors import PermanentError
from perdure.models.guarded import Guard, refused, unguarded
from perdure.models.per_loop import PerLoop
from perdure.models.port import ModelError, ModelFailure, ModelReply, ModelRequest, TextDelta, ToolCall, Usage
from perdure.models.providers import split
from perdure.models.recorded import reply_from_json, request_to_json

if TYPE_CHECKING:
    import httpx2

Step = ModelReply | Callable[[ModelRequest], ModelReply]
"""One turn of a script: the reply, or what makes it from the request."""

Spoken = Callable[[ModelRequest], AsyncIterator[str | ModelReply]]
"""An async generator function: pieces of text and, if it is more than their sum, the reply, whose text they are."""

Script = Sequence[Step] | Callable[[ModelRequest], ModelReply | Awaitable[ModelReply]] | Spoken
"""A list answers turn by turn, and a function each request; a function may raise `ModelError` to play a failure."""

PIECES = "application/x-ndjson"
"""What a script behind an address answers with that tells its reply in pieces."""

TIMEOUT_SECONDS = 120.0

_KINDS: Mapping[int, ModelFailure] = {401: "key", 402: "quota", 403: "key", 404: "unknown_model"}


def say(text: str, *, usage: Usage | None = None, cost_usd: float | None = None) -> ModelReply:
    """Return a reply that is text. Its cost is unknown unless the script names one."""
    return ModelReply(text, (), "stop", usage or Usage(), "", cost_usd)


def call(tool: str, arguments: Mapping[str, Json] | str | None = None, *, text: str = "", id: str = "") -> ModelReply:
    """Return a reply that calls a tool. `arguments` given as text are sent as they are, JSON or not.

    Without an `id` the call gets one from its place in the conversation, the same whenever it is asked again.
    """
    written = arguments if isinstance(arguments, str) else encode(arguments or {}, "arguments")
    return ModelReply(text, (ToolCall(id, tool, written),), "tool_call", Usage(), "")


def together(*calls: ModelReply) -> ModelReply:
    """Return one reply that makes all the calls, in this order."""
    text = "".join(reply.text for reply in calls)
    return ModelReply(text, tuple(one for reply in calls for one in reply.tool_calls), "tool_call", Usage(), "")


def echo(request: ModelRequest) -> ModelReply:
    """Repeat what the user said last."""
    return say(next((message.text for message in reversed(request.messages) if message.role == "user"), ""))


class ScriptedModels:
    """`ModelPort` over the scripts of this process and, where a request has a `base_url`, over the one behind it."""

    def __init__(self, scripts: Mapping[str, Script], guard: Guard | None = None) -> None:
        self._scripts: dict[str, Script] = {"": echo, **scripts}
        self._spoken: dict[str, Any] = {name: one for name, one in scripts.items() if isasyncgenfunction(one)}
        """Those that tell their replies in pieces, each of them `Spoken`."""
        self._guard = guard
        self._clients = PerLoop(_client)
        self._guarded = PerLoop(partial(_client, guard))

    async def request(self, request: ModelRequest) -> ModelReply:
        """Ask the script. Raises `ModelError`: what the script plays, `unknown_model`, or why it was not reached."""
        if not self.streams(request):
            return _completed(await self._run(request), request)
        async with aclosing(self.stream(request)) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    return part
        raise ModelError("transient", f"{request.model}: the script ended without a reply.")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        """Make one request; yield its text as the script tells it, else word by word, and, last, the whole reply."""
        if request.base_url is not None:
            parts = _ask(self._client_for(request), request.base_url, request)
        elif spoken := self._spoken.get(split(request.model)[1]):
            parts = _told(spoken, request)
        else:
            parts = _words(await self._run(request))
        async with aclosing(parts):
            async for part in parts:
                yield part if isinstance(part, TextDelta) else _completed(part, request)

    def streams(self, request: ModelRequest) -> bool:
        """Say whether the script tells its reply in pieces; of one behind an address only its answer says so."""
        return request.base_url is not None or split(request.model)[1] in self._spoken

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        for client in (self._clients.pop(), self._guarded.pop()):
            if client is not None:
                await client.aclose()

    def _client_for(self, request: ModelRequest) -> httpx2.AsyncClient:
        if not request.guarded:
            return self._clients.get()
        if self._guard is None:
            raise unguarded(request)
        return self._guarded.get()

    async def _run(self, request: ModelRequest) -> ModelReply:
        name = split(request.model)[1]
        script = self._scripts.get(name)
        if script is None:
            known = ", ".join(f"scripted/{name}" for name in self._scripts if name) or "none"
            message = f"{request.model}: this process has no script of that name. It has: {known}."
            raise ModelError("unknown_model", f"{message} A script elsewhere needs a base_url.", maybe_billed=False)
        try:
            if not callable(script):
                return _turn(script, request)
            reply = cast("Callable[[ModelRequest], ModelReply | Awaitable[ModelReply]]", script)(request)
            return await reply if isawaitable(reply) else reply
        except ModelError:
            raise
        except Exception as error:
            raise _broken(request, error) from error


async def _told(script: Spoken, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
    pieces: list[str] = []
    async with aclosing(_parts(script, request)) as parts:
        async for part in parts:
            if isinstance(part, ModelReply):
                yield part
                return
            pieces.append(part)
            yield TextDelta(part)
    yield say("".join(pieces))


async def _parts(script: Spoken, request: ModelRequest) -> AsyncGenerator[str | ModelReply]:
    """Yield what a script yields. Raises `ModelError` only."""
    async with aclosing(cast("AsyncGenerator[str | ModelReply, None]", script(request))) as parts:
        while True:
            try:
                part = await anext(parts, None)
            except ModelError:
                raise
            except Exception as error:
                raise _broken(request, error) from error
            if part is None:
                return
            yield part


async def _words(reply: ModelReply) -> AsyncGenerator[TextDelta | ModelReply]:
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", reply.text):
        yield TextDelta(word)
    yield reply


def _broken(request: ModelRequest, error: Exception) -> ModelError:
    return ModelError("rejected", f"{request.model}: the script raised {error!r}.")


def turns(request: ModelRequest) -> int:
    """Return how many replies the conversation already holds: the place in a script, the same after a crash."""
    return sum(message.role == "assistant" for message in request.messages)


def _turn(script: Sequence[Step], request: ModelRequest) -> ModelReply:
    turn = turns(request)
    if turn >= len(script):
        message = f"{request.model}: the script has {len(script)} replies and was asked for number {turn + 1}."
        raise ModelError("rejected", message)
    step = script[turn]
    return step(request) if callable(step) else step


def _completed(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """Return the reply with the ids and the name that a script may leave out."""
    if reply.model and all(one.id for one in reply.tool_calls):
        return reply
    turn = turns(request) + 1
    calls = tuple(
        one if one.id else replace(one, id=f"call_{turn}_{place}") for place, one in enumerate(reply.tool_calls, 1)
    )
    return replace(reply, tool_calls=calls, model=reply.model or f"scripted/{split(request.model)[1] or 'echo'}")


def _client(guard: Guard | None = None) -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415 - not needed by scripts of this process

    # No proxy of the environment: a script is a neighbour.
    limit = httpx2.Timeout(TIMEOUT_SECONDS, connect=10.0)
    return httpx2.AsyncClient(timeout=limit, trust_env=False, transport=guard() if guard else None)


async def _ask(
    client: httpx2.AsyncClient, base_url: str, request: ModelRequest
) -> AsyncGenerator[TextDelta | ModelReply]:
    address = f"{base_url.rstrip('/')}/model"
    content = encode(request_to_json(request), "request")
    headers = {"content-type": "application/json", "accept": f"application/json, {PIECES}"}
    with _reached(request, address):
        async with (
            client.stream("POST", address, content=content, headers=headers) as response,
            aclosing(_answer(request, address, response)) as parts,
        ):
            async for part in parts:
                yield part


async def _answer(
    request: ModelRequest, address: str, response: httpx2.Response
) -> AsyncGenerator[TextDelta | ModelReply]:
    """Yield what a script behind an address says. Raises `ValueError` for what is no reply."""
    if response.status_code != 200:
        await response.aread()
        raise _refusal(request, address, response)
    if not response.headers.get("content-type", "").startswith(PIECES):
        yield reply_from_json(decode(await response.aread()))
        return
    async for line in _lines(response):
        part = _part(line)
        yield part
        if isinstance(part, ModelReply):
            return
    raise ValueError("its pieces ended before a reply")


async def _lines(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield what stands between newlines. `aiter_lines` cuts at others too, which text in JSON may hold as it is."""
    rest: list[bytes] = []
    async for piece in response.aiter_bytes():
        *ended, last = piece.split(b"\n")
        for line in ended:
            yield b"".join((*rest, line))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)


@contextmanager
def _reached(request: ModelRequest, address: str) -> Generator[None]:
    """Turn what an exchange with a script behind an address raises into a `ModelError`."""
    import httpx2  # noqa: PLC0415 - not needed by scripts of this process

    try:
        yield
    except PermanentError as error:
        raise refused(request, error) from error
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        unsent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
        message = f"{request.model}: no answer from {address}: {str(error) or type(error).__name__}."
        raise ModelError("transient", message, maybe_billed=not unsent) from error
    except ValueError as error:
        raise ModelError("transient", f"{request.model}: {address} sent no reply: {error}.") from error


def _part(line: bytes) -> TextDelta | ModelReply:
    """Return what one line of an answer in pieces says. Raises `ValueError`."""
    said = decode(line)
    if isinstance(said, dict):
        fields = cast("dict[str, Json]", said)
        if isinstance(text := fields.get("text"), str):
            return TextDelta(text)
        if "reply" in fields:
            return reply_from_json(fields["reply"])
    raise ValueError(f"expected a line with text or reply, found {line[:80].decode(errors='replace')!r}")


def _refusal(request: ModelRequest, address: str, response: httpx2.Response) -> ModelError:
    status = response.status_code
    transient = status >= 500 or status in (408, 409, 425, 429)
    kind: ModelFailure = "transient" if transient else _KINDS.get(status, "rejected")
    message = f"{request.model}: {address} answered {status}: {response.text[:300]}"
    return ModelError(kind, message, retry_after=_seconds(response.headers.get("retry-after")))


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
