"""One way to one server: requests, their repetition, and errors that say what to do.

A request is sent again only where that cannot do anything twice: because it is safe by itself, or because it never
left. Every send passes the failpoints `http.NAME.send` and `http.NAME.received`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from perdure import failpoints
from perdure.client.address import base_url, is_loopback
from perdure.core.ports import Clock, Random
from perdure.errors import LimitExceeded, PerdureError, Retryable, Unauthorized, Unreachable
from perdure.system import SystemClock, SystemRandom
from perdure.wire import routes, state_file
from perdure.wire.errors import NOT_SENT, load_error

if TYPE_CHECKING:
    import httpx2

TRIES = 5
"""How often a request is sent, the first included."""
FIRST_TRIES = 2
"""The same before anything ever answered at this address: it may well be a wrong one."""
PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
_GATEWAY = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    name: str
    """The verb: names its failpoints, and the request in messages."""
    method: str
    path: str
    query: Mapping[str, str | int] | None = None
    body: bytes | None = None
    safe: bool = True
    """Sending it twice does no more than sending it once."""
    reply_seconds: float = 30.0
    """How long to wait for the reply, or between two pieces of it."""
    accept: str = "application/json"
    content_type: str = "application/json"
    headers: Mapping[str, str] | None = None
    most_bytes: int = routes.MAX_BODY_BYTES
    """What a server takes of it at most."""


class ReplyLost(Unreachable):
    """The connection broke after the request had left: it may or may not have been done."""

    default_code = "reply_lost"


class Channel:
    """Requests to one address with one key. Belongs to the event loop that first uses it."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """`transport` replaces the sockets. Raises `InvalidInput` (`bad_address`)."""
        self.url = base_url(url)
        self.clock = clock or SystemClock()
        self.random = random or SystemRandom()
        self.met = False
        """Whether a server ever answered at this address."""
        self.key = key or ""
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def call(self, ask: Ask) -> bytes:
        """Return the body of the reply. Raises the error that the server sent, `Unreachable`, or `LimitExceeded`
        (`too_large`) for what no server takes: it would hang up while the request is still on its way."""
        if ask.body is not None and len(ask.body) > ask.most_bytes:
            raise LimitExceeded(
                f"the request {ask.name!r} takes {len(ask.body):,} bytes; a server takes at most {ask.most_bytes:,}. "
                "Write what is large to a file or an object store and send its address.",
                code="too_large",
                limit=ask.most_bytes,
            )
        tries = 0
        while True:
            tries += 1
            try:
                return await self._send(ask)
            except Retryable as error:
                if not (ask.safe or _never_done(error)) or tries >= (TRIES if self.met else FIRST_TRIES):
                    raise
            await self.pause(tries)

    async def pause(self, failures: int) -> None:
        """Wait before the next try: longer each time, and never in step with others."""
        seconds = min(PAUSE_SECONDS * 3 ** (failures - 1), LONGEST_PAUSE_SECONDS)
        await self.clock.sleep(seconds * self.random.uniform(0.5, 1.5))

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the reply in pieces as they come. Sent once. Leaving the block hangs up.

        A connection that breaks meanwhile raises `ReplyLost` inside the block.
        """
        with self._broken_connections(ask):
            response = await self._response(ask, stream=True)
            try:
                if response.status_code >= 400:
                    raise self._refusal(response.status_code, await response.aread())
                yield response.aiter_bytes()
            finally:
                await response.aclose()

    async def aclose(self) -> None:
        """Hang up."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _send(self, ask: Ask) -> bytes:
        with self._broken_connections(ask):
            response = await self._response(ask, stream=False)
        if response.status_code >= 400:
            raise self._refusal(response.status_code, response.content)
        return response.content

    async def _response(self, ask: Ask, *, stream: bool) -> httpx2.Response:
        client, httpx2 = self._http()
        failpoints.hit(f"http.{ask.name}.send")
        headers = {"accept": ask.accept, **(ask.headers or {})}
        if ask.body is not None:
            headers["content-type"] = ask.content_type
        timeout = httpx2.Timeout(ask.reply_seconds, connect=CONNECT_SECONDS, pool=None)
        request = client.build_request(
            ask.method, self.url + ask.path, params=ask.query, content=ask.body, headers=headers, timeout=timeout
        )
        try:
            response = await client.send(request, stream=stream)
        except AttributeError as error:  # how the sockets below say that a connection broke while it was being made
            raise httpx2.ReadError(str(error)) from error
        self.met = True
        failpoints.hit(f"http.{ask.name}.received")
        return response

    def _http(self) -> tuple[httpx2.AsyncClient, ModuleType]:
        import httpx2  # noqa: PLC0415 - 100 ms that only who speaks to a server pays

        if self._client is None:
            headers = {"accept-encoding": "identity"}
            if self.key:
                headers["authorization"] = f"Bearer {self.key}"
            self._client = httpx2.AsyncClient(
                headers=headers,
                transport=self._transport,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
                trust_env=not is_loopback(self.url),
                verify=self.url.startswith("https:"),  # reading the certificates takes 30 ms: only where they matter
            )
        return self._client, httpx2

    @contextmanager
    def _broken_connections(self, ask: Ask) -> Generator[None]:
        import httpx2  # noqa: PLC0415 - as above

        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unreachable(
                f"No Perdure server answers at {self.url} ({error or type(error).__name__}). Start one with "
                "`perdure server`, or give the address of one: AgentRuntime(url) or PERDURE_URL.",
                url=self.url,
            ) from error
        except (httpx2.TransportError, failpoints.InjectedFault) as error:
            self.met = True  # somebody took the connection
            raise ReplyLost(
                f"The connection to {self.url} broke before the reply to {ask.name!r} was there "
                f"({error or type(error).__name__}): it may or may not have been done.",
                url=self.url,
            ) from error

    def _refusal(self, status: int, body: bytes) -> PerdureError:
        error = load_error(status, body)
        if error.code == "not_perdure" and status in _GATEWAY:
            return ReplyLost(error.message, url=self.url)
        if isinstance(error, Unauthorized):
            given = "The key that was given is not one of its" if self.key else "No key was given"
            return Unauthorized(
                f"{self.url} asks for an API key. {given}. Set api_key= or PERDURE_API_KEY; for a server of this user "
                f"on this machine it stands in {state_file.folder()}.",
                url=self.url,
            )
        return error


class OverHttp:
    """What one server offers, through a channel of its own. Belongs to the event loop that first uses it."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """`url` may end in `/`, `/api` or `/v1`; `transport` replaces the sockets. Nothing is sent yet.

        Raises `InvalidInput` (`bad_address`).
        """
        self._channel = Channel(url, key, transport=transport, clock=clock, random=random)

    @property
    def url(self) -> str:
        """The server's address, as it is used."""
        return self._channel.url

    async def aclose(self) -> None:
        """Hang up."""
        await self._channel.aclose()


def _never_done(error: Retryable) -> bool:
    """Whether the request did not reach anybody who could have begun to act on it."""
    return error.code in NOT_SENT or (isinstance(error, Unreachable) and not isinstance(error, ReplyLost))
