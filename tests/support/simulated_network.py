"""A network in memory between real HTTP clients and the real ASGI application: requests and replies are lost, late or
come twice, pairs are cut off from each other, and who dies resets its connections.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

import httpx2

from simulated_processes import Process

URL = "http://127.0.0.1:6767"
RESET_SECONDS = 0.002
"""Until one side hears that the other is gone."""
TWICE = ("/v1/worker/", "/messages", "/signals", "/decision")
"""Requests that may come twice: those that their senders, too, send again. A liveness connection is none."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each mishap is, per request."""

    request_lost: float = 0.0
    reply_lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    late_seconds: float = 4.0
    """How late at most."""


FAIR = Weather()


@dataclass(eq=False)
class Host:
    """An application that listens, in its process."""

    name: str
    process: Process
    app: Any


@dataclass(eq=False)
class Network:
    """Who is connected to whom. Its own doings bear no process's mark: they go on whoever dies."""

    dice: random.Random
    weather: Weather = FAIR
    hosts: dict[str, Host] = field(default_factory=dict)
    cut: set[tuple[str, str]] = field(default_factory=set)
    """Pairs (client, host) that no byte passes between, either way."""
    open: dict[Exchange, None] = field(default_factory=dict)
    requests: int = 0
    mishaps: int = 0

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._context: Context = copy_context()

    def later(self, seconds: float, what: Callable[..., object], *args: Any) -> None:
        """Do something that belongs to no process."""
        self.loop.call_later(seconds, what, *args, context=self._context.copy())

    def listen(self, name: str, process: Process, app: Any) -> None:
        """Open a host; it closes with its process."""
        host = self.hosts[name] = Host(name, process, app)

        def gone() -> None:
            if self.hosts.get(name) is host:
                del self.hosts[name]
            for exchange in [one for one in self.open if one.host is host]:
                self.later(RESET_SECONDS, exchange.reset)

        process.on_end.append(gone)

    def dial(self, process: Process) -> Dial:
        """Return the way of a client's process to the hosts. Each has its own."""
        dial = Dial(self, process)
        process.on_end.append(lambda: self.later(RESET_SECONDS, dial.hang_up))
        return dial

    def heal(self) -> None:
        """Let bytes pass again; what waited comes now, or finds that the other side gave up."""
        self.cut.clear()
        for exchange in list(self.open):
            exchange.flush()

    def happens(self, chance: float) -> bool:
        """Roll the dice for a mishap."""
        found = chance > 0 and self.dice.random() < chance
        self.mishaps += found
        return found


class Dial(httpx2.AsyncBaseTransport):
    """The transport of one client: no socket, the same errors."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process
        self._under_way: dict[Exchange, None] = {}

    def hang_up(self) -> None:
        """Have its hosts hear that it is gone."""
        for exchange in list(self._under_way):
            exchange.leave()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        net, dice = self._network, self._network.dice
        net.requests += 1
        patience: dict[str, float | None] = request.extensions["timeout"]
        body = await request.aread()
        await asyncio.sleep(self._travel())
        host = self._route()
        if host is None:
            raise httpx2.ConnectError("connection refused", request=request)
        if (self._process.name, host.name) in net.cut:
            await asyncio.sleep(patience["connect"] or 5.0)
            raise httpx2.ConnectTimeout("no route", request=request)
        if net.happens(net.weather.request_lost):
            raise httpx2.ReadError("reset before the request was whole", request=request)
        exchange = Exchange(net, self._process.name, host, request, body)
        self._under_way[exchange] = None
        exchange.on_over = lambda: self._under_way.pop(exchange, None)
        if net.happens(net.weather.twice) and _may_come_twice(request):
            net.later(dice.uniform(0, 2), Exchange(net, "", host, request, body).begin)
        exchange.begin()
        try:
            status, headers = await exchange.head(patience["read"])
            if net.happens(net.weather.reply_lost):
                raise httpx2.ReadError("reset before the reply", request=request)
            await asyncio.sleep(self._travel())
        except BaseException:
            exchange.leave()
            raise
        return httpx2.Response(status, headers=headers, stream=exchange.pieces(patience["read"]), request=request)

    async def aclose(self) -> None:
        self.hang_up()

    def _travel(self) -> float:
        net = self._network
        if net.happens(net.weather.late):
            return net.dice.uniform(0, net.weather.late_seconds)
        return net.dice.uniform(0.0001, 0.002)

    def _route(self) -> Host | None:
        """Return one of the hosts, as a balancer would."""
        hosts = sorted(self._network.hosts)
        return self._network.hosts[self._network.dice.choice(hosts)] if hosts else None


def _may_come_twice(request: httpx2.Request) -> bool:
    path = request.url.path
    return any(part in path for part in TWICE) and not path.endswith("/alive")


class Exchange:
    """One request and its reply."""

    def __init__(self, net: Network, client: str, host: Host, request: httpx2.Request, body: bytes) -> None:
        self._net, self._client, self.host = net, client, host
        self._request, self._body = request, body
        self._sent = False
        self._left = False
        self._gone = asyncio.Event()
        """The client left, as the host sees it."""
        self._came: deque[dict[str, Any] | None] = deque()
        """What the client may read; None: the connection broke."""
        self._kept: list[dict[str, Any]] = []
        """What waits until bytes pass again."""
        self._arrived = asyncio.Event()
        self.on_over: Callable[[], object] = lambda: None

    def begin(self) -> None:
        """Have the application answer, in its process."""
        if self.host.process.alive:
            self._net.open[self] = None
            self.host.process.run(self._answer())

    async def head(self, seconds: float | None) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return status and headers."""
        message = await self._next(seconds)
        return message["status"], [(bytes(name), bytes(value)) for name, value in message["headers"]]

    def pieces(self, seconds: float | None) -> Pieces:
        return Pieces(self, seconds)

    async def body(self, seconds: float | None) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        more = True
        while more:
            message = await self._next(seconds)
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]
        self.leave()

    def leave(self) -> None:
        """The client hangs up, or is done."""
        self.on_over()
        self._left = True
        if not self._cut:
            self._net.later(RESET_SECONDS, self._gone.set)

    def reset(self) -> None:
        """The host is gone."""
        self._net.open.pop(self, None)
        if not self._cut:
            self._put(None)

    def flush(self) -> None:
        """Bytes pass again: what was kept comes, and each side hears whether the other is there."""
        for message in self._kept:
            self._put(message)
        self._kept.clear()
        if self._left:
            self._gone.set()
        if not self.host.process.alive:
            self.reset()

    @property
    def _cut(self) -> bool:
        return (self._client, self.host.name) in self._net.cut

    async def _answer(self) -> None:
        request = self._request
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": "http", "path": request.url.path, "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query, "server": ("127.0.0.1", 6767), "client": ("127.0.0.1", 1),
            "root_path": "",
        }  # fmt: skip
        try:
            await self.host.app(scope, self._receive, self._send)
        finally:
            self._net.open.pop(self, None)

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._cut:
            self._kept.append(message)
        else:
            self._put(message)

    def _put(self, message: dict[str, Any] | None) -> None:
        self._came.append(message)
        self._arrived.set()

    async def _next(self, seconds: float | None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                while not self._came:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no reply in time", request=self._request) from error
        message = self._came.popleft()
        if message is None:
            raise httpx2.ReadError("connection reset", request=self._request)
        return message


class Pieces(httpx2.AsyncByteStream):
    """The body of a reply, as httpx reads it."""

    def __init__(self, exchange: Exchange, seconds: float | None) -> None:
        self._exchange = exchange
        self._seconds = seconds

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._exchange.body(self._seconds)

    async def aclose(self) -> None:
        self._exchange.leave()
