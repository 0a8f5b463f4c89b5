"""What runs in a simulation: an agent whose script is its input, durable functions, and the outside that counts.

All of it is deterministic but for how long things take and what the outside refuses, which the world's dice say.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure import Agent, ToolContext, tool
from perdure.core import codec
from perdure.flow import StepFailed, durable, gather_at_most, run_agent, signal, sleep, step, this_step, timeout
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import call, say, together, turns
from perdure.testing.evidence import MODEL_REPLY, MODEL_REQUEST, Entry

OUTSIDE: ContextVar[Outside] = ContextVar("simulated_outside")
"""Set in each process: there is one world."""
MANY = 40
"""The death of a worker uses up a try."""


class Refused(Exception):
    """The outside would not do it."""


@dataclass
class Outside:
    """The world that is acted on. Counts each call that reached it, as `perdure.testing.world` does."""

    dice: random.Random
    refuses: float = 0.0
    """How often a call or a request fails; half of them after it was done."""
    slow: float = 0.0
    """How often something takes longer than a lease."""
    entries: list[Entry] = field(default_factory=list)

    def now_ms(self) -> int:
        """Return the world's own time."""
        return round(asyncio.get_running_loop().time() * 1000)

    async def act(self, name: str, execution: str, step_id: str, key: str, attempt: int) -> int:
        """Do something; return which call it was."""
        refused = self.dice.random() < self.refuses
        before = refused and self.dice.random() < 0.5
        n = self._write(name, execution, step_id, key=key, attempt=attempt, effect=not before)
        await asyncio.sleep(self._takes())
        if refused:
            raise Refused(f"{name} was refused")
        return n

    async def answer(self, request: ModelRequest) -> ModelReply:
        """Play the model: the input lists the tools of each turn."""
        execution, _, address = request.call.partition("/")
        self._write(MODEL_REQUEST, execution, address)
        await asyncio.sleep(self._takes())
        if self.dice.random() < self.refuses:
            self._write(MODEL_REPLY, execution, address, effect=False)
            raise ModelError("transient", "overloaded")
        self._write(MODEL_REPLY, execution, address)
        plan: Any = codec.decode(request.messages[0].text)
        turn = turns(request)
        if turn >= len(plan):
            return say(f"done after {turn}")
        return together(*(call(name, {"n": turn * 10 + place}) for place, name in enumerate(plan[turn])))

    def seen(self, execution: str, address: str) -> bool:
        """Whether a call of this step had its effect."""
        return any((one.execution, one.step) == (execution, address) and one.effect for one in self.entries)

    def _takes(self) -> float:
        if self.dice.random() < self.slow:
            return self.dice.uniform(2, 8)
        return self.dice.choice((0.0, 0.01, 0.2, 0.6)) * self.dice.random()

    def _write(
        self, name: str, execution: str, address: str, *, key: str | None = None, attempt: int | None = None,
        effect: bool = True,
    ) -> int:  # fmt: skip
        n = len(self.entries) + 1
        self.entries.append(Entry(n, self.now_ms(), name, execution, address, key, attempt, effect=effect))
        return n


async def _act(ctx: ToolContext) -> int:
    return await OUTSIDE.get().act(ctx.tool_name, ctx.execution_id, ctx.step_id, ctx.idempotency_key, ctx.attempt)


@tool(retries=MANY, retry_pause_seconds=0.2, retry_ceiling_seconds=2)
async def note(n: int, ctx: ToolContext) -> int:
    """Write something down: at least once."""
    return await _act(ctx)


@tool(delivery="at_most_once", settle_seconds=0)
async def pay(n: int, ctx: ToolContext) -> int:
    """Pay: at most once."""
    return await _act(ctx)


@tool(delivery="at_most_once", settle_seconds=0, approval_required=True)
async def pay_if_allowed(n: int, ctx: ToolContext) -> int:
    """Pay once somebody said yes."""
    return await _act(ctx)


@tool(delivery="at_most_once", settle_seconds=1, if_unknown="give_up", ruling_deadline_seconds=4)
async def pay_or_forget(n: int, ctx: ToolContext) -> int:
    """Pay, and leave it at that if nobody knows whether it was paid."""
    return await _act(ctx)


@tool(retries=MANY, retry_pause_seconds=0.2, retry_ceiling_seconds=2, timeout_seconds=4)
async def dawdle(n: int, ctx: ToolContext) -> int:
    """Take long now and then, and be stopped."""
    return await _act(ctx)


TOOLS = (note, pay, pay_if_allowed, pay_or_forget, dawdle)
AGENT = Agent(name="simulant", model="scripted/simulated", tools=TOOLS)


async def _act_in_step(name: str) -> int:
    here = this_step()
    return await OUTSIDE.get().act(name, here.execution, here.address, here.key, here.attempt)


async def write() -> int:
    return await _act_in_step("write")


async def charge() -> int:
    return await _act_in_step("charge")


async def _charged() -> str:
    """Charge at most once; a failure is an answer."""
    try:
        return str(await step(charge, delivery="at_most_once"))
    except StepFailed as failure:
        return failure.code


async def _written() -> str:
    try:
        return str(await step(write))
    except StepFailed as failure:
        return failure.code


@durable(build="1")
async def errand(ops: list[str]) -> list[str]:
    """Do what the input says, one after another; `a+b` at once."""
    return [await _together(op.split("+")) for op in ops]


async def _together(ops: list[str]) -> str:
    if len(ops) == 1:
        return await _do(ops[0])
    return ",".join(await gather_at_most(3, *(_do(op) for op in ops)))


async def _do(op: str) -> str:
    match op:
        case "write":
            return await _written()
        case "charge":
            return await _charged()
        case "sleep":
            await sleep(timedelta(seconds=1))
            return "slept"
        case "bell":
            try:
                return str(await timeout(signal("bell"), 3))
            except TimeoutError:
                return "silence"
        case _:
            return str((await run_agent(AGENT, codec.encode([["note"]], "plan"))).output)


FUNCTIONS = (errand,)
