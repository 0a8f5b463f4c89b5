"""Make the run of an execution that this server has none of: what its definition says, over this server's models.

Whatever it is, its models are asked only while the execution is surely held, and what they say is told as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from perdure.agent.loop import agent_loop
from perdure.agent.spec import AgentSpec
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.notices import Notice
from perdure.core.ports import Clock, Embedder
from perdure.engine.claim import Claimed
from perdure.engine.query import asks_no_more
from perdure.flow.driver import Function, Run
from perdure.flow.runs import Live
from perdure.models.port import Models
from perdure.rooms.notice import notice_loop
from perdure.rooms.spec import WakeSpec
from perdure.server.bridge import Bridge
from perdure.server.definitions import Definitions
from perdure.server.journal import patiently
from perdure.server.leases import HeldModels, Leases
from perdure.server.live import LiveModels, LiveTexts
from perdure.server.room_gate import Gate, GatedModels
from perdure.server.wakes import claimed_wake, to_be_abandoned, wake_function


@dataclass(frozen=True, slots=True)
class Opener:
    """Makes runs, and keeps none of them."""

    bridge: Bridge
    definitions: Definitions
    models: Callable[[str], Models]
    """Those of a company."""
    leases: Leases
    texts: LiveTexts
    clock: Clock
    new_id: Callable[[str], str]
    embedder: Embedder | None

    async def open(self, claimed: Claimed, log: Sequence[Event]) -> Live:
        """Return a run that has yet to be driven, from the first event of its `log`.

        Raises `flow.runs.UNREADABLE` for a definition or a log that cannot be read.
        """
        definition = await self.definitions.of(claimed.company, claimed.definition)
        given = log[0].data["input"]
        match definition:
            case AgentSpec():
                return self._agent(definition, claimed, given)
            case WakeSpec():
                return await self._wake(definition, claimed, given, log)
            case Notice():
                function = partial(notice_loop, notice=definition, company=claimed.company)
                return Live(self._run(claimed, function), claimed.fence, room=definition.room)
            case _:
                assert_never(definition)

    def _agent(self, spec: AgentSpec, claimed: Claimed, first: Json) -> Live:
        models = self._watched(self.models(claimed.company), claimed)
        function = partial(agent_loop, spec=spec, first=first, models=models, clock=self.clock)
        return Live(self._run(claimed, function), claimed.fence, spec.limits.active_ms)

    async def _wake(self, spec: WakeSpec, claimed: Claimed, cause: Json, log: Sequence[Event]) -> Live:
        known = partial(claimed_wake, execution=claimed.ref.execution, company=claimed.company, given=cause)
        wake = await self.bridge.read(known)
        gate = Gate(self.bridge, self.leases, wake, self.new_id)
        models = self._watched(GatedModels(self.models(claimed.company), gate), claimed)
        function = wake_function(spec, gate, models, self.clock, self.embedder)
        return Live(self._run(claimed, function), claimed.fence, spec.active_ms, wake.room, to_be_abandoned(spec, log))

    def _run(self, claimed: Claimed, function: Function) -> Run:
        return Run(claimed.ref.execution, function, self.clock, self.new_id)

    def _watched(self, models: Models, claimed: Claimed) -> Models:
        """Return the models as an execution asks them: while it is surely held, and with their replies told."""
        execution = claimed.ref.execution
        held = HeldModels(models, self.leases, execution, partial(self._cancelled, claimed))
        return LiveModels(held, self.texts, execution, partial(self.leases.fence, execution))

    async def _cancelled(self, claimed: Claimed) -> bool:
        look = partial(asks_no_more, company=claimed.company, execution=claimed.ref.execution)
        return await patiently(self.clock, partial(self.bridge.read, look))
