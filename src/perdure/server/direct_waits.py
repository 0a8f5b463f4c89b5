"""The verbs about waits in-process: straight to the engine through the bridge."""

from __future__ import annotations

from typing import Literal

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.credentials import hash_of
from perdure.core.ids import check_named, new_id
from perdure.core.ports import Clock, Random
from perdure.core.tokens import is_secret
from perdure.engine.mapping import MapStep, map_step
from perdure.engine.signal import Signal, signal
from perdure.engine.token import EndToken, end_token, unknown_token
from perdure.errors import InvalidInput
from perdure.server.bridge import Bridge

MAX_NAME = 200
TOKEN_ID = "tok_"


class DirectWaits:
    """`WaitsApi` of one company."""

    def __init__(self, bridge: Bridge, company: str, clock: Clock, random: Random) -> None:
        self._bridge = bridge
        self._company = company
        self._clock = clock
        self._random = random

    async def signal(
        self, execution: str, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None
    ) -> int:
        check_named(signal=name)
        if not 0 < len(name) <= MAX_NAME:
            raise InvalidInput(f"a signal's name should have 1 to {MAX_NAME} characters, found {len(name)}.")
        key = dedupe or new_id("sig", self._clock, self._random)  # the store may run it twice
        text = codec.encode(value, "the signal's value")
        row = Signal(self._company, execution, "signal", by, dedupe=key, name=name, value=text)
        return await self._bridge.ask(signal, row)

    async def map_step(self, execution: str, old: str, new: str, *, by: str = "", reason: str = "") -> int:
        check_named(old=old, new=new)
        return await self._bridge.ask(map_step, MapStep(self._company, execution, old, new, by, reason))

    async def complete_token(self, token: str, value: Json = None, *, by: str = "") -> None:
        await self._end(token, "complete", codec.encode(value, "the token's value"), "", by)

    async def fail_token(self, token: str, error: str, *, by: str = "") -> None:
        await self._end(token, "fail", "null", error, by)

    async def _end(self, token: str, decision: Literal["complete", "fail"], value: str, error: str, by: str) -> None:
        check_named(token=token)
        codec.encode(error, "the token's error")
        if is_secret(token):
            row = EndToken(decision, hash=hash_of(token), value=value, error=error, by=by)
        elif token.startswith(TOKEN_ID):
            row = EndToken(decision, id=token, company=self._company, value=value, error=error, by=by)
        else:
            raise unknown_token()
        await self._bridge.ask(end_token, row)
