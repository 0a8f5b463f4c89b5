"""What a wake passes before it reads its room, and before each request to its model.

Nobody has stopped it, and its company's budgets hold what the request may cost.
"""

from __future__ import annotations

from asyncio import Event
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from perdure.core import codec
from perdure.core.budgets import OUTPUT_TOKENS, Need, micros_of
from perdure.core.ids import shard_of
from perdure.engine.rooms_budget import BUDGET, OverBudget, Reserve, Settle, has_budget, reserve, settle
from perdure.engine.rooms_stops import STOPPED, stop_on
from perdure.errors import LeaseLost
from perdure.flow.context import Paused
from perdure.models import prices, providers
from perdure.models.port import ModelError, ModelPort, ModelReply, ModelRequest, Models, TextDelta, Usage
from perdure.models.recorded import request_to_json
from perdure.rooms.spec import Wake
from perdure.server.bridge import Bridge
from perdure.server.leases import Leases
from perdure.store.protocol import EVERY_COMPANY, Reads, Ref


@dataclass(frozen=True, slots=True)
class Gate:
    """Of one wake, for as long as its run lives."""

    bridge: Bridge
    leases: Leases
    wake: Wake
    new_id: Callable[[str], str]

    async def open(self) -> bool:
        """Say whether its company counts what it spends. Raises `Paused` if somebody stopped it."""
        wake = self.wake

        def look(reads: Reads) -> tuple[str, bool]:
            reads.speak_for(EVERY_COMPANY)  # its company may have left the room, and a stop holds it all the same
            return stop_on(reads, wake.room, wake.company, wake.agent), has_budget(reads, wake.company)

        stopped, counted = await self.bridge.read(look)  # a view of its own: in one that is shared, all would speak
        if stopped:
            raise Paused(STOPPED, stopped)
        return counted

    async def enter(self, request: ModelRequest) -> tuple[ModelRequest, Settle | None]:
        """Return a request as it may be made, and how it is settled. Raises `Paused`."""
        if not await self.open():
            return request, None
        limit = request.settings.get("max_tokens")
        output = limit if isinstance(limit, int) else OUTPUT_TOKENS
        request = replace(request, settings={**request.settings, "max_tokens": output})
        ref, nonce = Ref(shard_of(self.wake.execution), self.wake.execution), self.new_id("rsv")
        whose = (self.wake.company, self.wake.room, self.wake.agent)
        fence = self.leases.fence(self.wake.execution)
        said = await self.bridge.run(reserve, Reserve(ref, fence, nonce, whose, _need_of(request, output)))
        if isinstance(said, OverBudget):
            raise Paused(BUDGET, said.why)
        if isinstance(said, LeaseLost):
            await Event().wait()  # for whoever ends this run: somebody else has the execution
        return request, Settle(ref, nonce, self.wake.company)


def _need_of(request: ModelRequest, output: int) -> Need:
    """Return the most that a request may cost: no token is shorter than a byte."""
    size = len(codec.encode(request_to_json(request)).encode())
    provider, _, model = (request.model.replace(":", "/", 1)).partition("/")
    if provider in providers.SCRIPTED:
        return Need(size + output, None)
    cost = prices.cost_usd(provider, model, Usage(size, output), base_url=request.base_url)
    return Need(size + output, micros_of(cost))


@dataclass(frozen=True, slots=True)
class GatedModels:
    """`Models` for one wake."""

    models: Models
    gate: Gate

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        return _GatedPort(self.models.port(model, base_url), self.gate)


@dataclass(frozen=True, slots=True)
class _GatedPort:
    port: ModelPort
    gate: Gate

    async def request(self, request: ModelRequest) -> ModelReply:
        async with self._passing(request) as (passed, replies):
            replies.append(await self.port.request(passed))
        return replies[0]

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        async with (
            self._passing(request) as (passed, replies),
            aclosing(cast("Any", self.port.stream(passed))) as parts,
        ):
            async for part in parts:
                if isinstance(part, ModelReply):
                    replies.append(part)
                else:
                    yield part
        yield replies[0]  # once it is settled: whoever has it may leave

    def streams(self, request: ModelRequest) -> bool:
        return self.port.streams(request)

    @asynccontextmanager
    async def _passing(self, request: ModelRequest) -> AsyncGenerator[tuple[ModelRequest, list[ModelReply]]]:
        """Give the request as it may be made. The block appends the reply, by which it is settled."""
        replies: list[ModelReply] = []
        request, end = await self.gate.enter(request)
        if end is None:
            yield request, replies
            return
        try:
            yield request, replies
        except ModelError as error:
            await self.gate.bridge.run(settle, end if error.maybe_billed else replace(end, micros=0, tokens=0))
            raise
        except BaseException:
            self.gate.bridge.tell(settle, end)  # whoever cut it off does not know what it came to
            raise
        [reply] = replies
        tokens = reply.usage.input_tokens + reply.usage.output_tokens
        await self.gate.bridge.run(settle, replace(end, micros=micros_of(reply.cost_usd), tokens=tokens or None))
