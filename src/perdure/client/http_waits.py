"""The verbs about waits over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, Channel
from perdure.core.codec import Json
from perdure.wire import bodies, codec, routes


class HttpWaits:
    """`WaitsApi` over a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def signal(
        self, execution: str, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None
    ) -> int:
        path = routes.fill(routes.SIGNALS, execution=execution)
        key = dedupe or f"auto-{self._channel.random.token(16).hex()}"
        body = codec.dump(bodies.SignalBody(name, value, by, key))
        return codec.load(bodies.Sent, await self._channel.call(Ask("signal", "POST", path, body=body))).seq

    async def complete_token(self, token: str, value: Json = None, *, by: str = "") -> None:
        path = routes.fill(routes.TOKEN_COMPLETE, token=token)
        await self._channel.call(Ask("complete_token", "POST", path, body=codec.dump(bodies.CompleteBody(value, by))))

    async def fail_token(self, token: str, error: str, *, by: str = "") -> None:
        path = routes.fill(routes.TOKEN_FAIL, token=token)
        await self._channel.call(Ask("fail_token", "POST", path, body=codec.dump(bodies.FailBody(error, by))))
