"""The client of a simulated world: it starts executions by their keys, decides, rules, resumes, and waits for the end.

Everything it asks and learns is in its log, as `perdure.testing.client_log` would have it. A life of it that is killed
is followed by one that knows only the keys.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from perdure.client.http import HttpApi
from perdure.core.events import Event, Kind
from perdure.core.views import StartRequest
from perdure.errors import Conflict, PerdureError, Retryable, UserError
from perdure.testing.evidence import ClientLine
from simulated_agents import Outside


@dataclass
class Notebook:
    """The client's log: it outlives the client."""

    outside: Outside
    lines: list[ClientLine] = field(default_factory=list)
    calls: int = 0
    ended: dict[str, str] = field(default_factory=dict)
    """By key: the execution that was seen to its end."""
    refusals: list[str] = field(default_factory=list)
    """What nobody may be told: errors that the client could do nothing about."""

    def write(self, type_: str, call: str, op: str, execution: str | None, value: dict[str, Any]) -> None:
        self.lines.append(ClientLine(call, type_, op, self.outside.now_ms(), execution, value))

    async def ask(self, op: str, execution: str | None, verb: Callable[[], Awaitable[Any]], **value: Any) -> Any:
        """Ask once. Raises what the verb raises."""
        self.calls += 1
        call = str(self.calls)
        self.write("invoke", call, op, execution, value)
        try:
            answer = await verb()
        except PerdureError as error:
            known = "info" if isinstance(error, Retryable) else "fail"
            self.write(known, call, op, execution, {"error": error.code})
            raise
        if op == "start":
            execution = answer.id
        self.write("ok", call, op, execution, {})
        return answer


@dataclass
class Client:
    """One life of the client."""

    api: HttpApi
    book: Notebook
    outside: Outside
    dice: random.Random

    async def see_through(self, wishes: dict[str, StartRequest], meddle: float) -> None:
        """Have all of them started and ended. `meddle`: how likely something more is asked of each."""
        async with asyncio.TaskGroup() as group:
            for key, request in wishes.items():
                if key not in self.book.ended:
                    group.create_task(self._one(key, request, meddle))

    async def _one(self, key: str, request: StartRequest, meddle: float) -> None:
        await asyncio.sleep(self.dice.uniform(0, 2))
        started = await self._insist("start", None, lambda: self.api.start(request), key=key)
        if started is None:
            return
        meddling = None
        if self.dice.random() < meddle:
            meddling = asyncio.get_running_loop().create_task(self._meddle(started.id, key))
        await self._follow(started.id)
        self.book.ended[key] = started.id
        if meddling is not None:
            meddling.cancel()

    async def _follow(self, execution: str) -> None:
        after = 0
        while True:
            try:
                async for event in self.api.follow(execution, after=after):
                    await self._react(execution, event)
                    after = event.seq
                return
            except Retryable:
                await asyncio.sleep(0.5)

    async def _react(self, execution: str, event: Event) -> None:
        match event.kind:
            case Kind.WAIT_OPENED if "tool" in event.data:
                await self._decide(execution, str(event.data["id"]))
            case Kind.TASK_UNCERTAIN:
                await self._rule(execution, event.address)
            case Kind.PAUSED:
                await self._insist("resume", execution, lambda: self.api.resume(execution, by="ops"))
            case _:
                return

    async def _decide(self, execution: str, approval: str) -> None:
        decision: Any = self.dice.choice(("approve", "approve", "reject"))
        await self._insist(
            "decide",
            execution,
            lambda: self.api.decide(approval, decision, by="ops"),
            approval=approval,
            decision=decision,
        )

    async def _rule(self, execution: str, address: str) -> None:
        """Rule as the outside saw it; wait first, as what is still on its way may arrive."""
        await asyncio.sleep(self.dice.choice((0.0, 2.0, 12.0)))
        happened = self.outside.seen(execution, address)
        ruling: Any = "happened" if happened else self.dice.choice(("run", "give_up"))
        await self._insist(
            "rule",
            execution,
            lambda: self.api.rule(execution, address, ruling, by="ops", value=1 if happened else None),
            address=address,
            ruling=ruling,
        )

    async def _meddle(self, execution: str, key: str) -> None:
        await asyncio.sleep(self.dice.uniform(0, 6))
        verb = self.dice.choice(("send", "signal", "pause", "cancel", "stop"))
        key = f"{key} {verb}"  # a key stands for one thing: who meddles again, in another life, may do another
        match verb:
            case "send":
                await self._insist("send", execution, lambda: self.api.send(execution, "well?", dedupe=key), dedupe=key)
            case "signal":
                await self._insist(
                    "signal", execution, lambda: self.api.signal(execution, "bell", 1, dedupe=key), dedupe=key
                )
            case "pause":
                await self._insist("pause", execution, lambda: self.api.pause(execution, by="ops"))
            case "cancel":
                await self._insist("cancel", execution, lambda: self.api.cancel(execution, by="ops"))
            case _:
                await self._insist("stop", execution, lambda: self.api.stop(execution, by="ops"))

    async def _insist(self, op: str, execution: str | None, verb: Callable[[], Awaitable[Any]], **value: Any) -> Any:
        """Ask until there is an answer; None for no."""
        while True:
            try:
                return await self.book.ask(op, execution, verb, **value)
            except Retryable:
                await asyncio.sleep(self.dice.uniform(0.2, 1.5))
            except Conflict as error:
                if error.code == "not_settled":
                    await asyncio.sleep(1.0)
                    continue
                return None
            except UserError as error:
                self.book.refusals.append(f"{op} {execution}: {error.code} {error.message}")
                return None
