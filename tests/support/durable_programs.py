"""Random users' functions, made of all that durable code may use, with real IO in between if it is wanted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memory_journal import MemoryLog
from perdure.core.events import ASKED
from perdure.core.tokens import Issuer
from perdure.flow import (
    StepFailed,
    completed,
    first,
    gather_at_most,
    now,
    patched,
    signal,
    sleep,
    step,
    this_step,
    timeout,
    token,
)
from perdure.flow.context import Context, Try
from perdure.flow.durable import DurableDefinition, run_durable
from perdure.flow.scope import scoped_tasks
from programs import Op, Program, VirtualLoop

T = TypeVar("T")


def in_durable_time(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in virtual time, on a loop for durable code."""

    def make_loop() -> VirtualLoop:
        loop = VirtualLoop(0)
        scoped_tasks(loop)
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(work())


@dataclass
class DurableProgram(Program):
    """A user's function made of ops. Its output is what it saw, and in which order its branches saw it."""

    io: random.Random = field(default_factory=lambda: random.Random(0))
    """How long IO takes: another source in each run, for no log knows it."""
    order: list[str] = field(default_factory=list)
    """Shared by all branches."""
    keep_order: bool = True
    acted: list[str] = field(default_factory=list)
    """Bodies of `at_most_once` steps that began, in all lives of it."""
    slow: float = 0.0
    """How many of its steps take very long: a log is then cut while its branches stand in very different places."""

    async def __call__(self, ctx: Context) -> Any:
        ctx.issuer = Issuer("00" * 32)
        seen: Any = ctx
        seen.record, seen.known = self._watched(ctx.record), self._watched(ctx.known)
        self.order.clear()
        return await run_durable(ctx, DurableDefinition("program", self.main, "b"), None)

    async def main(self) -> Any:
        seen = await self._branch(self.ops, "0")
        return {"seen": seen, "order": self.order if self.keep_order else None}

    async def _branch(self, ops: Sequence[Op], name: str) -> list[Any]:
        seen: list[Any] = []
        for place, op in enumerate(ops):
            seen.append(await self._op(op, f"{name}.{place}"))
            self.order.append(f"{name}.{place}")
        return seen

    async def _op(self, op: Op, name: str) -> Any:
        match op[0]:
            case "step":
                return await step(self._work)
            case "once":
                return await self._once()
            case "token":
                return await (await token("t"))
            case "signal":
                return await signal("s")
            case "sleep":
                return await sleep(7)
            case "now":
                return (await now()).year
            case "patched":
                return await patched("p")
            case "io":
                return await asyncio.sleep(self.io.random() * 0.2)
            case _:
                return await self._together(op[0], [self._branch(ops, f"{name}.{n}") for n, ops in enumerate(op[1:])])

    async def _together(self, kind: str, branches: list[Coroutine[Any, Any, Any]]) -> Any:
        match kind:
            case "gather":
                return await asyncio.gather(*branches)
            case "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(branch) for branch in branches]
                return [task.result() for task in tasks]
            case "bounded":
                return await gather_at_most(2, *branches)
            case "first":
                return list(await first(*branches))
            case "completed":
                return [[one.index, one.result()] async for one in completed(*branches)]
            case _:
                return await self._in_time(branches)

    async def _in_time(self, branches: list[Coroutine[Any, Any, Any]]) -> Any:
        for branch in branches[1:]:
            branch.close()
        try:
            return await timeout(branches[0], 5)
        except TimeoutError:
            return "late"

    async def _once(self) -> str:
        try:
            return await step(self._act, delivery="at_most_once")
        except StepFailed as failure:
            return failure.code

    async def _act(self) -> str:
        self.acted.append(this_step().address)
        await asyncio.sleep(self.io.random() * 0.3)
        return "acted"

    async def _work(self) -> str:
        return f"value of {this_step().address}"

    def _watched(self, record: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
        """Have every body, those of `now` and of races included, note that it began, and end when the world says so."""

        async def watched(address: str, *given: Any, **named: Any) -> T:
            *rest, body = given

            async def slow(attempt: Try) -> str:
                self.began.append(address)
                if self.log is not None and self.log.run is not None:
                    self.log.known[address] = self.log.run.replay.last_seq
                text = await body(attempt)
                if self.io.random() < self.slow:
                    await asyncio.sleep(20)
                await self.wait_for(address)
                return text

            return await record(address, *rest, slow, **named)

        return watched


def addresses(log: MemoryLog) -> set[str]:
    """Return all that was asked for."""
    return {event.address for event in log.events if event.kind in ASKED}
