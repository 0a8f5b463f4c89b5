"""What a durable function may do. Every await here is recorded, or waits for something that is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from perdure.core import codec
from perdure.core.approval import DEFAULT_APPROVAL, ApprovalRules
from perdure.core.events import Event, Kind
from perdure.core.items import (
    ActInRoom,
    AwaitSignal,
    BeginStep,
    HoldAct,
    Item,
    OpenApproval,
    OpenToken,
    ScheduleTask,
    SetTimer,
    StartChild,
)
from perdure.core.tokens import Issuer
from perdure.flow.asks import Ask
from perdure.flow.large import Large
from perdure.flow.meter import Meter, Tracked, Wait

CLOSINGS = 3
"""How often what a closed run left behind is cancelled: cleanup may start tasks of its own."""
CLOSING_SECONDS = 2.0


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


class Unsuccessful(Exception):
    """Raised by a step's body that ended without a value, for good: its error is recorded in place of one."""

    def __init__(self, data: str) -> None:
        super().__init__(data)
        self.data = data
        """JSON text of the whole record: `{"value": null, "error": …}`."""


class Paused(Exception):
    """Raised by a step's body: nothing is wrong with the run, but somebody has to act before it can go on."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Try(NamedTuple):
    """What a step's body may know about earlier tries of itself."""

    key: str
    """`execution/address`."""
    takeovers: int
    """How often the holder changed since the last recorded step: each may hide a try nobody recorded."""


Body = Callable[[Try], Awaitable[str]]
"""What a step runs. Returns its value as JSON text: it knows best what of it needs checking."""


@dataclass(slots=True)
class Acting:
    """That a step acts on the world: a fork asks first."""

    kind: Literal["step", "task", "child"]
    name: str
    """Of what is called."""
    step: str = ""
    """Its address without the number of the try; empty: its own."""
    simulate: Body | None = None
    """What stands in for its body in a fork that may not act."""


@dataclass(slots=True)
class Pending:
    """An ask with everything needed to start it. Owner: the driver."""

    ask: Ask
    wait: Wait
    item: Item | None
    """What to append to start it; None for a step whose body runs here."""
    body: Body | None
    opened: Wait | None = None
    """Ended by the asking itself, once it is in the log."""
    then: Callable[[Event], None] | None = None
    """Called with the answer, in its turn."""
    acting: Acting | None = None
    """Set for what a fork may not begin without asking."""


class Asker(Protocol):
    """What a context needs of its driver."""

    def ask(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Pending:
        """Note that the code waits at `address`, from now on."""
        ...

    def ask_whether(self, address: str, digest: str, scope: str, body: Body) -> Pending:
        """Like `ask`, for a step that an earlier life of the code in this scope may not have known."""
        ...

    def abandon(self, pending: Pending) -> None:
        """Note that the code does not wait for it any more."""
        ...

    def ring(self) -> None:
        """Look again at what there is to do."""
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
        self.cancel_requested = False
        self.meter = meter
        self.branches: set[asyncio.Task[Any]] = set()
        """Live tasks beside the main one. Owner: the scopes of a user's function."""
        self.cleanup_ms: int | None = None
        """How long the code may go on after a cancel. None: as long as it likes."""
        self.issuer: Issuer | None = None
        """Makes the secrets of tokens, where the holder has the right to."""
        self.large: Large | None = None
        """Where values go that are too large for a log, if the holder has such a place."""
        self._asker: Asker | None = asker
        """None once closed: held for longer, the two would keep each other, and all of an ended run with them."""
        self._new_id = new_id
        self._news: Wait | None = None

    async def step(self, address: str, digest: str, body: Body) -> Any:
        """Run `body` here and record what it returns; return what decoding the record gives. `repeatable`."""
        event = await self._wait(Kind.STEP_RECORDED, address, digest, body=body)
        return event.data["value"]

    async def record(self, address: str, digest: str, body: Body, *, acting: Acting | None = None) -> Event:
        """Like `step`; return the record itself. `acting`: unless it changes nothing."""
        pending = self._driver().ask(Kind.STEP_RECORDED, address, digest, body=body)
        pending.acting = acting
        try:  # as `_await` does, and a call less on the path of every step
            return await pending.wait
        except asyncio.CancelledError:
            self._give_up(pending)
            raise

    async def known(self, address: str, digest: str, scope: str, body: Body) -> bool:
        """Record a step that the code in `scope` may not have had when it was run before. False: it had not."""
        return await self._await(self._driver().ask_whether(address, digest, scope, body)) is not None

    async def claim(self, item: BeginStep, body: Body, simulate: Body | None = None) -> Event:
        """Run `body` here once at most, claimed before it starts; return the event that says what became of it.

        An unknown outcome is waited out: for the ruling, or the late report.
        """
        pending = self._driver().ask(Kind.TASK_SCHEDULED, item.address, item.digest, item=item, body=body)
        pending.ask.patient = True
        pending.acting = Acting("task", item.name, simulate=simulate)
        return await self._await(pending)

    async def signal(self, address: str, name: str) -> Event:
        """Wait for the oldest signal of a name that nobody took, and take it."""
        digest = codec.digest(name)
        pending = self._driver().ask(Kind.WAIT_OPENED, address, digest, item=AwaitSignal(address, digest, name))
        pending.ask.signal = name
        return await self._await(pending)

    async def child(self, item: StartChild) -> Event:
        """Begin an execution of its own; return the event that says how it ended."""
        pending = self._driver().ask(Kind.CHILD_STARTED, item.address, item.digest, item=item)
        pending.acting = Acting("child", item.agent)
        return await self._await(pending)

    async def open(self, item: OpenToken) -> tuple[Event, Pending]:
        """Open a wait; return the event that says so, and the answer to come."""
        pending = self._driver().ask(Kind.WAIT_OPENED, item.address, item.digest, item=item)
        pending.ask.opening, pending.opened = True, Wait()
        try:
            return await pending.opened, pending
        except asyncio.CancelledError:
            self._give_up(pending)
            raise

    def new_id(self, prefix: str) -> str:
        """Return an id for something to be begun. Another one at each run, so it is in no digest."""
        return self._new_id(prefix)

    async def task(self, item: ScheduleTask) -> Event:
        """Have a worker do it; return the event that says how it ended: completed, failed or uncertain."""
        return await self._wait(Kind.TASK_SCHEDULED, item.address, item.digest, item=item)

    async def act(self, item: ActInRoom) -> Any:
        """Do something in a room; return what became of it. Done and recorded in one transaction."""
        event = await self._wait(Kind.STEP_RECORDED, item.address, item.digest, item=item)
        return event.data["value"]

    async def hold(self, item: HoldAct) -> Event:
        """Ask for a yes to an act in a room; return the event with the decision."""
        return await self._wait(Kind.WAIT_OPENED, item.address, item.digest, item=item)

    async def approval(
        self, address: str, tool: str, args: dict[str, Any], rules: ApprovalRules = DEFAULT_APPROVAL
    ) -> Event:
        """Ask people for a yes to exactly this call; return the event with the decision, which may be another one."""
        digest = codec.digest(tool, args)
        item = OpenApproval(address, digest, self._new_id("apr"), tool, args, rules)
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

        children = [Tracked(branch, self.meter, ended) for branch in branches]
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

    @property
    def closed(self) -> bool:
        """Whether this run writes nothing any more."""
        return self._asker is None

    def check_open(self) -> None:
        """Raise `Evicted` if this run writes nothing any more."""
        self._driver()

    def ring(self) -> None:
        """Have the driver look: a branch ended."""
        if self._asker is not None:
            self._asker.ring()

    def in_io(self, main: Tracked) -> list[str]:
        """Return where the code waits for something that no event will bring, as file and line."""
        coroutines = [main, *(task.get_coro() for task in self.branches)]
        return [where(one.inner) for one in coroutines if isinstance(one, Tracked) and one.in_io]

    def close(self) -> None:
        """Make every later durable call raise `Evicted`."""
        self._asker = None

    async def end_tasks(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Wait for tasks that were cancelled, and cancel those beside them. Not for ever: users' code may hold on."""
        for _ in range(CLOSINGS):
            for task in tasks:
                task.add_done_callback(_heard_out)
            await asyncio.wait(tasks, timeout=CLOSING_SECONDS)
            tasks = [task for task in self.branches if not task.done()]
            if not tasks:
                return
            for task in tasks:
                task.cancel()

    async def _wait(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Event:
        pending = self._driver().ask(kind, address, digest, item=item, body=body)
        try:  # as `_await` does, and a call less on the path of every step
            return await pending.wait
        except asyncio.CancelledError:
            self._give_up(pending)
            raise

    async def _await(self, pending: Pending) -> Any:
        try:
            return await pending.wait
        except asyncio.CancelledError:
            self._give_up(pending)
            raise

    def _give_up(self, pending: Pending) -> None:
        pending.ask.abandoned = True
        if self._asker is not None:
            self._asker.abandon(pending)

    def _driver(self) -> Asker:
        if self._asker is None:
            raise Evicted
        return self._asker


def _heard_out(task: asyncio.Task[Any]) -> None:
    """Take the error of a task that nobody waits for, so that asyncio does not report it as lost."""
    if not task.cancelled():
        task.exception()


def where(coroutine: Any) -> str:
    """Return the place in the user's code where a coroutine stands: `file:line in function`."""
    found = "?"
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if not is_library(frame.f_code.co_filename):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        coroutine = coroutine.cr_await
    return found


def is_library(filename: str) -> bool:
    """Say whether a file is no code of the user's own: an installed package, the standard library, or ours."""
    return "site-packages" in filename or filename.startswith((_STANDARD, _OURS))


_STANDARD = os.path.dirname(asyncio.__file__).removesuffix("asyncio")
_OURS = os.path.dirname(os.path.dirname(__file__))
