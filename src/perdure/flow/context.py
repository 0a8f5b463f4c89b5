"""What a durable function may do. Every await here is recorded, or waits for something that is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.core import codec
from perdure.core.events import Event, Kind
from perdure.core.items import Item, OpenApproval, ScheduleTask, SetTimer
from perdure.flow.meter import Meter, Tracked, Wait
from perdure.flow.replay import Ask


class Evicted(BaseException):
    """This coroutine is no longer the execution: another run of it is, or will be. Write nothing, leave at once.

    Derives from `BaseException` so that no `except Exception` in a durable function can swallow it.
    """


class Failed(Exception):
    """Raised by a durable function to end its execution as failed, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Paused(Exception):
    """Raised by a step's body: nothing is wrong with the run, but somebody has to act before it can go on."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Try:
    """What a step's body may know about earlier tries of itself."""

    key: str
    """`execution/address`."""
    takeovers: int
    """How often the holder changed since the last recorded step: each may hide a try nobody recorded."""


Body = Callable[[Try], Awaitable[str]]
"""What a step runs. Returns its value as JSON text: it knows best what of it needs checking."""


@dataclass(slots=True)
class Pending:
    """An ask with everything needed to start it. Owner: the driver."""

    ask: Ask
    wait: Wait
    item: Item | None
    """What to append to start it; None for a step whose body runs here."""
    body: Body | None


class Asker(Protocol):
    """What a context needs of its driver."""

    def ask(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Pending:
        """Note that the code waits at `address`, from now on."""
        ...

    def finish(self, output: str) -> Wait:
        """End the execution with this output unless there is news; the wait gives whether it ended."""
        ...


class Context:
    """Given to a durable function. Owner: one run of one execution, on the executor's loop."""

    def __init__(self, execution: str, asker: Asker, meter: Meter, new_id: Callable[[str], str]) -> None:
        self.execution = execution
        self.told: list[Event] = []
        """Messages and rulings not yet taken, in `seq` order."""
        self.stop_requested = False
        self._asker: Asker | None = asker
        """None once closed: held for longer, the two would keep each other, and all of an ended run with them."""
        self._meter = meter
        self._new_id = new_id
        self._news: Wait | None = None

    async def step(self, address: str, digest: str, body: Body) -> Any:
        """Run `body` here and record what it returns; return what decoding the record gives. `repeatable`."""
        event = await self._wait(Kind.STEP_RECORDED, address, digest, body=body)
        return event.data["value"]

    async def task(self, item: ScheduleTask) -> Event:
        """Have a worker do it; return the event that says how it ended: completed, failed or uncertain."""
        return await self._wait(Kind.TASK_SCHEDULED, item.address, item.digest, item=item)

    async def approval(self, address: str, tool: str, args: dict[str, Any]) -> Event:
        """Ask a person for a yes to exactly this call; return the event with the decision."""
        digest = codec.digest(tool, args)
        item = OpenApproval(address, digest, self._new_id("apr"), tool, args)
        return await self._wait(Kind.WAIT_OPENED, address, digest, item=item)

    async def sleep(self, address: str, delay_ms: int) -> None:
        """Wait by the store's clock, holding nothing."""
        digest = codec.digest(delay_ms)
        await self._wait(Kind.TIMER_SET, address, digest, item=SetTimer(address, digest, delay_ms))

    async def gather(self, *branches: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run branches side by side and return their results in order. All end before the first error is raised."""
        if len(branches) == 1:  # most turns have one call, and a task of its own would change nothing but its cost
            return [await branches[0]]
        join = Wait()
        left = len(branches)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                join.give(None)

        children = [Tracked(branch, self._meter, ended) for branch in branches]
        tasks = [asyncio.create_task(child) for child in children]
        try:
            if children:
                await join
        except asyncio.CancelledError:
            for child, task in zip(children, tasks, strict=True):
                if not task.done():
                    child.wake()
                    task.cancel()
            raise
        finally:
            unwinding = [task for task in tasks if not task.done()]
            if unwinding:  # being cancelled: they wait for nothing else
                await asyncio.gather(*unwinding, return_exceptions=True)
        for child in children:
            if child.error is not None:
                raise child.error
        return [child.value for child in children]

    async def news(self) -> None:
        """Wait until something is in `told`, or a stop was asked for."""
        if not self.told and not self.stop_requested:
            self._driver()
            self._news = Wait()
            await self._news

    async def finish(self, output: Any) -> bool:
        """End the execution, completed. False if a message arrived first: look at `told` and go on."""
        driver = self._driver()
        if self.told:  # it came while the answer was being made
            return False
        return bool(await driver.finish(codec.encode({"output": output}, "output")))

    def tell(self, event: Event) -> None:
        """Take news from the driver: a message, a ruling, a request to stop."""
        if event.kind is Kind.STOP_REQUESTED:
            self.stop_requested = True
        else:
            self.told.append(event)
        if self._news is not None:
            self._news.give(None)
            self._news = None

    def close(self) -> None:
        """Make every later durable call raise `Evicted`."""
        self._asker = None

    async def _wait(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Event:
        pending = self._driver().ask(kind, address, digest, item=item, body=body)
        try:
            return await pending.wait
        except asyncio.CancelledError:
            pending.ask.abandoned = True
            raise

    def _driver(self) -> Asker:
        if self._asker is None:
            raise Evicted
        return self._asker
