"""Random durable functions, a world that answers them in random order, and re-runs from any part of their log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from driving import run_of, task
from memory_journal import MemoryLog
from perdure.core.codec import digest
from perdure.core.events import ASKED, Event, Kind
from perdure.flow.context import Context, Try
from perdure.flow.driver import Run
from perdure.testing.simulation import SimLoop

T = TypeVar("T")

Op = tuple[Any, ...]
"""`("step",)`, `("task",)`, `("ask",)`, `("sleep",)`, `("look",)` or `("gather", [op, ...], ...)`."""

TIMING = frozenset({Kind.PAUSED, Kind.RESUMED, Kind.TAKEN_OVER})
"""Facts that say when something was done, and never what."""
STEPS = 2_000
"""Moves of the world until a run that does not end is a failure."""


@dataclass
class Program:
    """A durable function made of ops. Its output is all that it saw, in the order in which it saw it."""

    ops: Sequence[Op]
    wait_for: Callable[[str], Any] = field(default=lambda _address: asyncio.sleep(0))
    """Awaited by the body of a step before it gives its value."""
    began: list[str] = field(default_factory=list)
    """Steps whose body ran, in order."""
    log: MemoryLog | None = None

    async def __call__(self, ctx: Context) -> Any:
        seen: list[Any] = []
        await self._sequence(ctx, self.ops, "", seen)
        while not await ctx.finish({"seen": seen}):
            self._look(ctx, "end", seen)
            await self._one(ctx, ("step",), f"after {len(seen)}", seen)
        return None

    async def _sequence(self, ctx: Context, ops: Sequence[Op], path: str, seen: list[Any]) -> None:
        for place, op in enumerate(ops):
            await self._one(ctx, op, f"{path}{place}", seen)

    async def _one(self, ctx: Context, op: Op, address: str, seen: list[Any]) -> None:
        match op[0]:
            case "step":
                seen.append([address, await ctx.step(address, "d", self._body)])
            case "task":
                event = await ctx.task(task(address))
                seen.append([address, str(event.kind), event.data.get("value")])
            case "ask":
                event = await ctx.approval(address, "post", {"at": address})
                seen.append([address, event.data["decision"]])
            case "sleep":
                await ctx.sleep(address, 7)
                seen.append([address, "slept"])
            case "look":
                self._look(ctx, address, seen)
            case _:
                await ctx.gather(*(self._sequence(ctx, ops, f"{address}.{n}.", seen) for n, ops in enumerate(op[1:])))
                seen.append([address, "joined"])

    def _look(self, ctx: Context, address: str, seen: list[Any]) -> None:
        told, ctx.told = ctx.told, []
        seen.append([address, ctx.stop_requested, [[str(event.kind), event.address] for event in told]])

    async def _body(self, attempt: Try) -> str:
        address = attempt.key.partition("/")[2]
        self.began.append(address)
        if self.log is not None and self.log.run is not None:
            self.log.known[address] = self.log.run.replay.last_seq
        await self.wait_for(address)
        return f'"value of {address}"'


class VirtualLoop(SimLoop):
    """Time that jumps, and callbacks in the order in which they were made ready: what asyncio promises, and gathers
    of branches rely on."""

    def _shuffle(self) -> None:
        return


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine without waiting for its sleeps."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(0)) as runner:
        return runner.run(work())


async def live(program: Program, seed: int, past: Sequence[Event] = (), *, previews: bool = False) -> MemoryLog:
    """Run a program to its end, from the past on, in a world that does what the seed says; return its log."""
    log, dice = MemoryLog(past), random.Random(seed)
    world = _World(log, dice)
    program.wait_for, program.log = world.wait, log
    await _to_the_end(program, log, world.act, previews=previews)
    return log


async def again(program: Program, then: MemoryLog, cut: int, *, previews: bool = False) -> MemoryLog:
    """Run a program from the first `cut` events, in a world where the same goes on happening; return its log."""
    log = MemoryLog(then.events[:cut])
    world = _Memory(program, log, then)
    program.wait_for = world.wait
    log.on_append = world.heard
    log.on_ask = world.soon
    world.go_on()
    await _to_the_end(program, log, world.act, previews=previews)
    return log


async def _to_the_end(program: Program, log: MemoryLog, act: Callable[[], Any], *, previews: bool) -> None:
    """Be the server of one execution: drive it whenever there is news, until it has ended."""
    run: Run | None = None
    fence = -1
    while not log.ended:
        if log.still:
            await act()
            continue
        log.news.clear()
        if run is None or log.fence != fence:
            if run is not None:
                await run.close()
            run = run_of(program)
        journal, unseen = log.claim(run), log.events[run.replay.last_seq :]
        driving = asyncio.ensure_future(run.drive(journal, unseen, journal if previews else None))
        fence = log.fence
        while not driving.done():
            await act()
        if driving.result() != "parked":
            run = None
        if driving.result() == "overtaken":
            log.overtaken += 1
            continue
        while not log.news.is_set() and not log.ended:
            await act()


class _World:
    """Answers what is open, and does what people and crashes do, in an order that a seed decides."""

    def __init__(self, log: MemoryLog, dice: random.Random) -> None:
        self._log, self._dice = log, dice
        self._left = STEPS

    async def wait(self, _address: str) -> None:
        await asyncio.sleep(self._dice.random() * 0.1)

    async def act(self) -> None:
        self._left -= 1
        assert self._left > 0, f"it never ends: {self._log.kinds[-20:]}"
        await asyncio.sleep(self._dice.random() * 0.05)
        log, dice = self._log, self._dice
        if log.ended:
            return
        log.deaf = dice.random() < 0.3
        if log.still:
            log.append(Kind.RESUMED)
        elif dice.random() < 0.6 and (waiting := sorted(log.open())):
            self._answer(dice.choice(waiting))
        else:
            self._meddle()

    def _answer(self, address: str) -> None:
        log, dice = self._log, self._dice
        asked = log.open()[address]
        match asked.kind:
            case Kind.TASK_SCHEDULED if asked.data.get("delivery") == "at_most_once":
                self._rule(address)
            case Kind.TASK_SCHEDULED if dice.random() < 0.2:
                log.append(Kind.TASK_UNCERTAIN, address, why="?")
                log.append(Kind.EFFECT_RULED, address, ruling="happened")
            case Kind.TASK_SCHEDULED if dice.random() < 0.3:
                log.append(Kind.TASK_FAILED, address, error="x")
            case Kind.TASK_SCHEDULED:
                log.append(Kind.TASK_BEGUN, address)
                log.append(Kind.TASK_COMPLETED, address, value=dice.randrange(1_000))
            case Kind.WAIT_OPENED:
                self._resolve(address, log.open()[address].data)
            case _:
                log.append(Kind.TIMER_FIRED, address)

    def _rule(self, address: str) -> None:
        """Say what a claim came to that the execution's holder made itself, once nobody knows."""
        latest = [event.kind for event in self._log.events if event.address == address][-1]
        if latest is Kind.TASK_UNCERTAIN:
            ruling = self._dice.choice(["happened", "run", "give_up"])
            self._log.append(Kind.EFFECT_RULED, address, ruling=ruling, value="ruled", by="world")

    def _resolve(self, address: str, wait: dict[str, Any]) -> None:
        match wait.get("kind"):
            case "token":
                self._log.append(Kind.WAIT_RESOLVED, address, decision="complete", value=self._dice.randrange(1_000))
            case "signal":
                self._log.append(Kind.SIGNAL, name=wait["name"], value=self._dice.randrange(1_000))
            case _:
                self._log.append(Kind.WAIT_RESOLVED, address, decision=self._dice.choice(["approve", "reject"]))

    def _meddle(self) -> None:
        chance = self._dice.random()
        if chance < 0.15:
            self._log.append(Kind.MESSAGE, text=str(self._left))
        elif chance < 0.2:
            self._log.append(Kind.STOP_REQUESTED)
        elif chance < 0.3:
            self._log.append(Kind.PAUSED, reason="user")
        elif chance < 0.4:
            self._log.take_over()
        elif chance < 0.41:
            self._log.append(Kind.CANCEL_REQUESTED)


class _Memory:
    """Does what a log says was done, as soon as all that came before it is there; and expects the code's part."""

    def __init__(self, program: Program, log: MemoryLog, then: MemoryLog) -> None:
        self._program, self._log, self._then = program, log, then
        past = len(log.events)
        self._rest = [event for event in then.events[past:] if event.kind is not Kind.TAKEN_OVER]
        self._left = STEPS

    def heard(self) -> None:
        """Something was appended: if it is what came next then, it is done."""
        if self._rest and _same(self._rest[0], self._log.events[-1]):
            self._rest.pop(0)
        if self._log.cancelling:  # what was in flight then need not be now
            self._rest = [event for event in self._rest if event.kind not in ASKED]
        self.soon()  # not before the code's own append was answered

    def soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.go_on)

    def go_on(self) -> None:
        """Append whatever others did next."""
        while self._rest and not self._log.ended and self._may_happen(event := self._rest[0]):
            # What the code did not know when it did something later, it must not hear before it does that again.
            self._log.deaf = bool(self._before(event, self._then.seen))
            self._log.append(event.kind, event.address, event.digest, **event.data)

    def _may_happen(self, event: Event) -> bool:
        """Say whether all that was under way then is under way again."""
        if event.kind in ASKED | {Kind.COMPLETED, Kind.CANCELLED}:
            return False
        return self._before(event, self._then.known) <= self._log.asking | set(self._program.began)

    def _before(self, event: Event, known: dict[str, int]) -> set[str]:
        """Return what was done without knowing an event, and is not in the log yet."""
        return {one.address for one in self._rest if one.kind in ASKED and known[one.address] < event.seq}

    async def wait(self, address: str) -> None:
        while self._rest and self._rest[0].address != address and not self._log.cancelling:
            await self.act()

    async def act(self) -> None:
        self._left -= 1
        assert self._left > 0, f"it waits for {self._rest[:1]} and did {self._log.events[-1:]}"
        await asyncio.sleep(0.01)
        self.go_on()


def _same(one: Event, other: Event) -> bool:
    return _told(one) == _told(other)


def _told(event: Event) -> tuple[Any, ...]:
    """Return an event without its number, and without ids that are new every time they are made."""
    return event.kind, event.address, event.digest, digest({k: v for k, v in event.data.items() if k != "id"})


def cuts(log: MemoryLog) -> list[int]:
    """Return where a log may be cut so that all that follows can happen again in the same order.

    Not where something was under way that had been begun without knowing the event before the cut: from there on it
    would know it. Nor after a cancel, for what was under way is not begun again.
    """
    good: list[int] = []
    for cut in range(1, len(log.events)):
        past, rest = log.events[:cut], log.events[cut:]
        cancelled = any(event.kind is Kind.CANCEL_REQUESTED for event in past) and len(rest) > 1
        if not cancelled and all(log.known[event.address] >= cut for event in rest if event.kind in ASKED):
            good.append(cut)
    return good


def what(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Return what was done, without when: and nothing of what was in flight when it was cancelled."""
    told: list[tuple[Any, ...]] = []
    for event in events:
        cancelled = any(kind == Kind.CANCEL_REQUESTED for kind, *_ in told)
        if event.kind not in TIMING and not (cancelled and event.kind in ASKED):
            told.append(_told(event))
    return told


def asked(events: Sequence[Event]) -> list[str]:
    """Return what the code asked for, in order."""
    return [event.address for event in events if event.kind in ASKED]
