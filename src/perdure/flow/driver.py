"""Run a durable function from its log, live or again: the async glue around `Replay`.

One `Run` is one live coroutine of one execution. It is driven while this server owns the execution, kept when it
parks, and thrown away when somebody else may have moved the execution on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

from perdure.core import codec
from perdure.core.events import Event, Kind
from perdure.core.items import Item
from perdure.core.ports import Clock
from perdure.core.states import Reason
from perdure.errors import LeaseLost, UserError
from perdure.flow.bodies import Halt
from perdure.flow.context import Context, Failed
from perdure.flow.desk import CleanupOver, Desk
from perdure.flow.journal import Journal, PreviewJournal
from perdure.flow.meter import Bell, Meter, Tracked, Wait
from perdure.flow.preview import Overtaken, Preview
from perdure.flow.replay import Begin, Deliver, Idle, Mismatch, Opened, Replay, Skip, Tell

Outcome = Literal["parked", "ended", "halted", "lost", "overtaken"]
"""`overtaken`: still its holder's, and to be run again from its log."""
Function = Callable[[Context], Coroutine[Any, Any, Any]]
Ending = tuple[Literal["complete", "fail", "end"], str]
"""What an execution ends with, and the data of that."""

_PAUSING = frozenset({Kind.PAUSED, Kind.RESUMED, Kind.CANCEL_REQUESTED})
"""The latest of these says whether new steps may start."""

REAL_IO_SECONDS = 5.0
"""How long code may wait for the world outside a step before somebody is told."""

LINGER_SECONDS = 0.05
"""How long an execution stays owned with nothing to do: a tool that answers at once costs no park and no claim."""


class Run:
    """A live coroutine and its place in the log. Owner: the executor; everything here happens on its loop."""

    def __init__(self, execution: str, function: Function, clock: Clock, new_id: Callable[[str], str]) -> None:
        self.execution = execution
        self.replay = Replay(execution)
        self._clock = clock
        self._stir = Bell()
        """Rung by whatever may give `drive` something to do while it waits."""
        self._meter = Meter(self._stir.ring)
        self._desk = Desk(execution, self.replay, self._stir.ring, new_id)
        self._bodies = self._desk.bodies
        self._context = Context(execution, self._desk, self._meter, new_id)
        self._main = Tracked(function(self._context), self._meter, self._stir.ring)
        self._task: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._ended = False
        self.writing = False
        """Whether an append is under way: its answer will bring all news along, so hints need not."""
        self._heard = 0
        """The newest `seq` known to exist. Above `replay.last_seq`, there is something to be read."""
        self._pausing = False
        self._preview = Preview(self.replay, self._desk)
        self._since_ms = 0
        self.spent_ms = 0
        """For how long its holder drove it before this run, which follows one that was overtaken. Set by the holder."""
        self._bounded = False
        """Whether the cleanup after a cancel has a deadline."""
        self.on_real_io: Callable[[list[str]], None] | None = None
        """Told, every few seconds, where the code waits for the world outside a step; with nothing, once it goes on."""
        self._told_io = False

    # -- what the executor calls

    async def drive(self, journal: Journal, events: Iterable[Event], previews: PreviewJournal | None = None) -> Outcome:
        """Take the execution as far as it goes under the journal's fence. Never raises on the run's account. With
        `previews`, the same journal, code that does nothing outside of steps is shown early what they gave."""
        self._preview.journal = previews
        self._since_ms = self._clock.monotonic_ms()
        self._failure = None
        self._take(events)
        if self._task is None:
            self._task = asyncio.create_task(self._main, name=self.execution)
        try:
            while True:
                if self._meter.awake:
                    await self._meter.dry()
                if self._heard > self.replay.last_seq and self._preview.shown is None:
                    self._take(await journal.events(self.replay.last_seq))
                self._look_up()  # no turn of the loop from here until it waits: what rings meanwhile is not missed
                if not self._move() and (outcome := await self._rest(journal)) is not None:
                    return outcome
        except (LeaseLost, Overtaken, Mismatch, Halt, Failed, CleanupOver, UserError) as end:
            await self.close()
            return await self._end_for(_so(end), journal)

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
        self._cancel()
        tasks = [*self._bodies.cancel(), *([self._task] if self._task else [])]
        if self._task is None:
            self._main.close()
        elif self._meter.judge is None:
            await asyncio.gather(*tasks, return_exceptions=True)
        else:  # a user's function, which may hold on
            await self._context.end_tasks(tasks)

    # -- one move

    def _look_up(self) -> None:
        """Raise what ends the drive, and give the cleanup after a cancel its deadline."""
        if (failure := self._failure or self._bodies.broke) and (
            self._preview.shown is None or isinstance(failure, LeaseLost)
        ):
            raise failure
        if self._context.cancel_requested and not self._bounded:
            self._bounded = True
            if self._context.cleanup_ms is not None and self._task is not None and not self._task.done():
                self._desk.set_deadline(self._context.cleanup_ms)

    def _move(self) -> bool:
        """Hand over one event, or start what the code asked for. False if there is neither."""
        match self.replay.advance(in_io=self._meter.in_io > 0, paused=self._pausing):  # the frequent ones come first
            case Idle():
                return False
            case Deliver(ask, event):
                self._desk.deliver(ask, event)
            case Begin(asks):
                self._preview.begin(asks)
            case Opened(ask, event):
                self._desk.show(ask, event)
            case Skip(ask):
                self._desk.deliver(ask, None)
            case Tell(event):
                self._tell(event)
        return True

    def _rest(self, journal: Journal) -> Coroutine[Any, Any, Outcome | None]:
        still = self._pausing and self.replay.used_up
        return self._settle_down(journal) if still else self._idle(journal)

    async def _settle_down(self, journal: Journal) -> Outcome | None:
        """Paused: start nothing more, record what was in flight, then let go."""
        self._stir.hush()
        if self._desk.outbox:
            await self._flush(journal)
        elif self._bodies:
            await self._stir.heard()
        else:
            return await self._park(journal)
        return None

    def _tell(self, event: Event) -> None:
        if event.kind is Kind.CANCEL_REQUESTED:
            if self._context.cancel_requested:
                raise CleanupOver
            self._context.cancel_requested = True
            self._cancel()
            return
        self._context.tell(event)
        if self._desk.finishing is not None and self._context.told:
            self._desk.finishing[1].give(False)
            self._desk.finishing = None

    def _cancel(self) -> None:
        """Cancel the code; it gives up its steps itself, and their bodies with them."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def _idle(self, journal: Journal) -> Outcome | None:
        """Nothing to hand over: write what is to be written, wait for what runs here, or let go."""
        self._stir.hush()
        self._desk.offers.ask_again(pausing=self._pausing)
        if self._desk.claims.known and self.replay.used_up:
            self._desk.outbox.extend(self._desk.claims.follow())
        if self._desk.outbox:
            if self._context.cancel_requested or not self._preview.show(self._heard):
                await self._flush(journal)
        elif self._task is not None and self._task.done() and not self._desk.in_doubt(self._context):
            return await self._ended_by_itself(journal, self._task)
        elif self._desk.finishing is not None:
            return await self._try_finish(journal, self._desk.finishing)
        elif self._meter.in_io:
            self._say_real_io(quiet=not await _stirred(self._stir, REAL_IO_SECONDS))
        elif self._bodies:
            await self._stir.heard()
        elif not await _stirred(self._stir, LINGER_SECONDS):
            return await self._park(journal)
        return None

    def _say_real_io(self, *, quiet: bool) -> None:
        """Tell where the code waits for the world, or, if that was told, that it goes on."""
        if self.on_real_io is not None and (quiet or self._told_io):
            self.on_real_io(self._context.in_io(self._main) if quiet else [])
            self._told_io = quiet

    async def _flush(self, journal: Journal) -> None:
        items = tuple(self._desk.outbox)
        self._desk.outbox.clear()
        self.writing = True
        try:
            events = await self._preview.write(journal, items)
            self._take(events)
        finally:
            self.writing = False
        self._desk.answered(items, events, pausing=self._pausing)

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
            self._desk.finishing = None
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

    async def _end_for(self, so: Halt | Ending | Outcome, journal: Journal) -> Outcome:
        """Let go of it for a reason that is not the code's; the coroutine is gone already."""
        if isinstance(so, str):
            return so
        done = self._desk.done() if self._preview.shown is None else ()
        if isinstance(so, Halt):
            return await _halt(journal, so, self.replay.last_seq, done)
        try:
            news = await _record(journal, self.replay.last_seq, done)
            while True:
                self._take(news)
                seen = self.replay.last_seq  # what is heard of meanwhile may be what it is held for
                answer = await journal.finish(seen, self._active_ms(), *so)
                if answer == "ended":
                    return "ended"
                # Held: paused, or cancelled under its workers. Whoever goes on with it ends it.
                news = answer if answer != "held" else await journal.park(seen, self._active_ms())
                if not news:
                    return "halted"
        except LeaseLost:
            return "lost"

    def _take(self, events: Iterable[Event]) -> None:
        if not (events := tuple(events)):
            return
        known = self.replay.last_seq
        self.replay.feed(events)
        for event in events:
            self._heard = max(self._heard, event.seq)
            if known < event.seq <= self.replay.last_seq and event.kind in _PAUSING:
                self._pausing = event.kind is Kind.PAUSED

    def _active_ms(self) -> int:
        """Return for how long it has been driven. Counted by whatever lets go of it, and so only once."""
        return self.spent_ms + self._clock.monotonic_ms() - self._since_ms


async def _stirred(stir: Bell, seconds: float) -> bool:
    """Wait until it rings; False if it did not within the time."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, stir.ring)
    await stir.heard()
    timer.cancel()
    return timer.when() > loop.time()


def _so(end: Exception) -> Halt | Ending | Outcome:
    """Say what follows from what ended a drive."""
    match end:
        case LeaseLost():
            return "lost"
        case Overtaken():
            return "overtaken"
        case Failed():
            return "fail", codec.encode({"error": end.message, "code": end.code})
        case CleanupOver():
            return "end", "{}"
        case Halt():
            return end
        case Mismatch():
            return Halt("stick", Reason.MISMATCH, str(end))
        case _:  # the log refused what was to be written, and would again
            return Halt.poison("what it recorded was refused", end)


async def _halt(journal: Journal, halt: Halt, seen: int, done: Sequence[Item]) -> Outcome:
    """Let go of it until somebody acts; first say how its steps ended, which nobody after it will know."""
    try:
        await _record(journal, seen, done)
        await journal.halt(halt.event, halt.reason, halt.message)
    except LeaseLost:
        return "lost"
    return "halted"


async def _record(journal: Journal, seen: int, done: Sequence[Item]) -> list[Event]:
    """Say what was done. What the log refuses is lost, as after a death."""
    with suppress(UserError):
        return await journal.record(seen, done) if done else []
    return []


def _terminal(task: asyncio.Task[Any]) -> Ending:
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
