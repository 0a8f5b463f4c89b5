"""Run a durable function from its log, live or again: the async glue around `Replay`.

One `Run` is one live coroutine of one execution. It is driven while this server owns the execution, kept when it
parks, and thrown away when somebody else may have moved the execution on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from perdure.core import codec
from perdure.core.events import Event, Kind
from perdure.core.items import Item
from perdure.core.ports import Clock
from perdure.core.states import Reason
from perdure.errors import LeaseLost, UserError
from perdure.flow.bodies import Bodies, Halt
from perdure.flow.context import Body, Context, Failed, Pending
from perdure.flow.journal import Journal
from perdure.flow.meter import Bell, Meter, Tracked, Wait
from perdure.flow.replay import Ask, Begin, Deliver, Idle, Mismatch, Replay, Tell

Outcome = Literal["parked", "ended", "halted", "lost"]
Function = Callable[[Context], Coroutine[Any, Any, Any]]

_PAUSING = frozenset({Kind.PAUSED, Kind.RESUMED, Kind.CANCEL_REQUESTED})
"""The latest of these says whether new steps may start."""

LINGER_SECONDS = 0.05
"""How long an execution stays owned with nothing to do: a tool that answers at once costs no park and no claim."""


class Run:
    """A live coroutine and its place in the log. Owner: the executor; everything here happens on its loop."""

    def __init__(self, execution: str, function: Function, clock: Clock, new_id: Callable[[str], str]) -> None:
        self.execution = execution
        self.replay = Replay(execution)
        self._clock = clock
        self._meter = Meter()
        self._context = Context(execution, self, self._meter, new_id)
        self._stir = Bell()
        """Rung by whatever may give `drive` something to do while it waits."""
        self._main = Tracked(function(self._context), self._meter, self._stir.ring)
        self._task: asyncio.Task[Any] | None = None
        self._pending: dict[str, Pending] = {}
        self._outbox: deque[Item] = deque()
        """Asked for or done, and not yet in the log."""
        self._bodies = Bodies(execution, self._outbox.append, self._stir.ring)
        self._failure: BaseException | None = None
        self._finishing: tuple[str, Wait] | None = None
        self._ended = False
        self.writing = False
        """Whether an append is under way: its answer will bring all news along, so hints need not."""
        self._heard = 0
        """The newest `seq` known to exist. Above `replay.last_seq`, there is something to be read."""
        self._pausing = False
        self._since_ms = 0

    # -- what the executor calls

    async def drive(self, journal: Journal, events: Iterable[Event]) -> Outcome:
        """Take the execution as far as it goes under the journal's fence. Never raises on the run's account."""
        self._since_ms = self._clock.monotonic_ms()
        self._failure = None
        self._take(events)
        if self._task is None:
            self._task = asyncio.create_task(self._main, name=self.execution)
        try:
            while True:
                await self._get_ready(journal)
                if not self._move() and (outcome := await self._rest(journal)) is not None:
                    return outcome
        except LeaseLost:
            await self.close()
            return "lost"
        except Mismatch as mismatch:
            return await self._halt(journal, Halt("stick", Reason.MISMATCH, str(mismatch)))
        except Halt as halt:
            return await self._halt(journal, halt)
        except Failed as failed:
            return await self._fail(journal, failed)
        except UserError as error:  # the log refused what was to be written, and would again
            return await self._halt(journal, Halt.poison("what it recorded was refused", error))

    def hint(self, events: Iterable[Event], last_seq: int = 0) -> None:
        """Hear what was appended, or only up to which `seq`. Safe at any time; what is missing is read before anything
        later is handed over."""
        self._take(events)
        self._heard = max(self._heard, last_seq)
        self._stir.ring()

    def interrupt(self, reason: LeaseLost | Failed) -> None:
        """Make `drive` end soon: the lease is gone, or a limit that is not the code's own was passed."""
        self._failure = reason
        self._stir.ring()

    async def close(self) -> None:
        """Throw the coroutine away; it writes nothing any more."""
        self._context.close()
        tasks = [*self._cancel(), *([self._task] if self._task else [])]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._task is None:
            self._main.close()

    # -- what the context calls

    def ask(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Pending:
        pending = Pending(self.replay.ask(kind, address, digest), Wait(), item, body)
        self._pending[address] = pending
        self._stir.ring()
        return pending

    def finish(self, output: str) -> Wait:
        self._finishing = (output, Wait())
        self._stir.ring()
        return self._finishing[1]

    # -- one move

    async def _get_ready(self, journal: Journal) -> None:
        """Let the code run dry, and read what is known to be missing."""
        if self._meter.awake:
            await self._meter.dry()
        if (failure := self._failure or self._bodies.broke) is not None:
            raise failure
        if self._heard > self.replay.last_seq:
            self._take(await journal.events(self.replay.last_seq))

    def _move(self) -> bool:
        """Hand over one event, or start what the code asked for. False if there is neither."""
        match self.replay.advance(in_io=self._meter.in_io > 0, paused=self._pausing):
            case Deliver(ask, event):
                self._pending.pop(ask.address).wait.give(event)
            case Tell(event):
                self._tell(event)
            case Begin(asks):
                self._begin(asks)
            case Idle():
                return False
        return True

    async def _rest(self, journal: Journal) -> Outcome | None:
        if self._pausing and self.replay.used_up:
            return await self._settle_down(journal)
        return await self._idle(journal)

    async def _settle_down(self, journal: Journal) -> Outcome | None:
        """Paused: start nothing more, record what was in flight, then let go."""
        self._stir.hush()
        if self._outbox:
            await self._flush(journal)
        elif self._bodies:
            await self._stir.heard()
        else:
            return await self._park(journal)
        return None

    def _tell(self, event: Event) -> None:
        if event.kind is Kind.CANCEL_REQUESTED:
            self._cancel()
            return
        self._context.tell(event)
        if self._finishing is not None and self._context.told:
            self._finishing[1].give(False)
            self._finishing = None

    def _cancel(self) -> list[asyncio.Task[None]]:
        if self._task is not None and not self._task.done():
            self._main.wake()
            self._task.cancel()
        return self._bodies.cancel()

    def _begin(self, asks: tuple[Ask, ...]) -> None:
        for ask in asks:
            pending = self._pending[ask.address]
            if pending.item is not None:
                self._outbox.append(pending.item)
            elif pending.body is not None:
                self._bodies.start(ask, pending.body, self.replay.takeovers)

    async def _idle(self, journal: Journal) -> Outcome | None:
        """Nothing to hand over: write what is to be written, wait for what runs here, or let go."""
        self._stir.hush()
        if self._outbox:
            await self._flush(journal)
        elif self._task is not None and self._task.done():
            return await self._ended_by_itself(journal, self._task)
        elif self._finishing is not None:
            return await self._try_finish(journal, self._finishing)
        elif self._bodies or self._meter.in_io:
            await self._stir.heard()
        elif not await _stirred(self._stir, LINGER_SECONDS):
            return await self._park(journal)
        return None

    async def _flush(self, journal: Journal) -> None:
        items = tuple(self._outbox)
        self._outbox.clear()
        self.writing = True
        try:
            self._take(await journal.record(self.replay.last_seq, items))
        finally:
            self.writing = False

    async def _park(self, journal: Journal) -> Outcome | None:
        """Let go, unless news came while this was decided: what is fed but not handed over must not be slept on."""
        if self._heard > self.replay.last_seq or not self.replay.used_up:
            return None
        events = await journal.park(self.replay.last_seq, self._active_ms())
        self._take(events)
        return None if events else "parked"

    async def _try_finish(self, journal: Journal, finishing: tuple[str, Wait]) -> Outcome | None:
        answer = await journal.finish(self.replay.last_seq, self._active_ms(), "complete", finishing[0])
        if answer == "ended":
            self._finishing = None
            self._ended = True
            finishing[1].give(True)
        elif isinstance(answer, list):
            self._take(answer)
        return None

    async def _ended_by_itself(self, journal: Journal, task: asyncio.Task[Any]) -> Outcome | None:
        if self._ended:
            return "ended"
        event, data = _terminal(task)
        answer = await journal.finish(self.replay.last_seq, self._active_ms(), event, data)
        if isinstance(answer, list):
            self._take(answer)
            return None
        return await self._park(journal) if answer == "held" else "ended"

    async def _fail(self, journal: Journal, failed: Failed) -> Outcome:
        """End it as failed whatever its code is doing."""
        await self.close()
        data = codec.encode({"error": failed.message, "code": failed.code})
        news: list[Event] = []
        try:
            while True:
                self._take(news)
                answer = await journal.finish(self.replay.last_seq, self._active_ms(), "fail", data)
                if answer == "ended":
                    return "ended"
                # Held: paused, or cancelled under its workers. Whoever goes on with it ends it.
                news = answer if answer != "held" else await journal.park(self.replay.last_seq, 0)
                if not news:
                    return "halted"
        except LeaseLost:
            return "lost"

    async def _halt(self, journal: Journal, halt: Halt) -> Outcome:
        await self.close()
        try:
            await journal.halt(halt.event, halt.reason, halt.message)
        except LeaseLost:
            return "lost"
        return "halted"

    def _take(self, events: Iterable[Event]) -> None:
        events = tuple(events)
        known = self.replay.last_seq
        self.replay.feed(events)
        for event in events:
            self._heard = max(self._heard, event.seq)
            if known < event.seq <= self.replay.last_seq and event.kind in _PAUSING:
                self._pausing = event.kind is Kind.PAUSED

    def _active_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        active_ms, self._since_ms = now_ms - self._since_ms, now_ms
        return active_ms


async def _stirred(stir: Bell, seconds: float) -> bool:
    """Wait until it rings; False if it did not within the time."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, stir.ring)
    await stir.heard()
    timer.cancel()
    return timer.when() > loop.time()


def _terminal(task: asyncio.Task[Any]) -> tuple[Literal["complete", "fail", "end"], str]:
    """Say how the code ended. Raises `Halt` for a bug: it is looked at, not retried and not thrown away."""
    if task.cancelled():
        return "end", "{}"
    error = task.exception()
    match error:
        case None:
            return "complete", codec.encode({"output": task.result()}, "output")
        case Failed():
            return "fail", codec.encode({"error": error.message, "code": error.code})
        case Mismatch():
            raise error
        case _:
            raise Halt.poison("the agent's loop broke", error)
