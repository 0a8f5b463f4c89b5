"""`perdure executions watch`: print what has ended, keep in view what is under way, until the execution has ended.

What ended is printed once, for good, and scrolls away like any output; only the lines below it are redrawn. There, on a
terminal, a reply is seen as it comes; a pipe, which takes nothing back, is given what is recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from perdure.cli import failure, moments, phrases
from perdure.cli.connect import find
from perdure.cli.story import Line, head, lines_of, saying, story_table, sums, waits
from perdure.cli.terminal import console, print_json, state_text
from perdure.client.http import HttpApi
from perdure.client.replies import Replies
from perdure.client.timeline import Entry, Timeline, timeline_of
from perdure.client.tool_steps import ToolStep
from perdure.core import states
from perdure.core.events import Event
from perdure.core.live import LiveNews
from perdure.core.views import ExecutionView
from perdure.errors import Retryable

LOOK_SECONDS = 1.0
"""How often the execution's state is asked for, beside its events."""
DRAW_SECONDS = 0.2
DRAW_SHARE = 10
"""So many times as long as drawing took it rests after it: the story of a long log is long to put together."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What was asked for."""

    execution: str
    after: int
    until_decision: bool
    as_json: bool


def watch_until_end(server: str | None, watch: Watch) -> int:
    """Watch until the end, or the decision, and return the exit code. Raises the errors of the verbs."""
    return asyncio.run(_watch(server, watch))


async def _watch(server: str | None, watch: Watch) -> int:
    async with _connection(server) as api, _connection(server) as looks:
        view = await api.execution(watch.execution)
        screen: _Screen = _Lines(watch.after) if watch.as_json else _Story(console(), view, watch.after)
        with screen.shown():
            ended = await _until(watch, api, looks, screen)
        view = await api.execution(watch.execution)
        screen.end(view)
        if not ended:
            return failure.NEEDS_APPROVAL
        return failure.OK if view.state == states.Execution.COMPLETED else failure.FAILED


@asynccontextmanager
async def _connection(server: str | None) -> AsyncGenerator[HttpApi]:
    target = await find(server)
    api = HttpApi(target.url, target.key)
    try:
        yield api
    finally:
        await api.aclose()


async def _until(watch: Watch, api: HttpApi, looks: HttpApi, screen: _Screen) -> bool:
    """Show what comes; return True at the execution's end, False when only a person can go on and that was asked."""
    follow = asyncio.create_task(_follow(watch, api, screen), name="follow")
    look = asyncio.create_task(_look(watch, looks, screen), name="look")
    try:
        while not (follow.done() or look.done()):
            await asyncio.wait((follow, look), timeout=DRAW_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            screen.draw()
        done = follow if follow.done() else look
        done.result()
        return done is follow
    finally:
        follow.cancel()
        look.cancel()
        await asyncio.gather(follow, look, return_exceptions=True)


async def _follow(watch: Watch, api: HttpApi, screen: _Screen) -> None:
    # A story needs each step whole, so it reads from the start, and does not print what was before `after`.
    after = watch.after if watch.as_json else 0
    follow = api.follow_live if screen.live else api.follow
    async with aclosing(cast("AsyncGenerator[Event | LiveNews]", follow(watch.execution, after=after))) as news:
        async for one in news:
            if isinstance(one, Event):
                screen.take(one)
            screen.hear(one)


async def _look(watch: Watch, looks: HttpApi, screen: _Screen) -> None:
    """Renew the view for ever, or until a person has to decide."""
    while True:
        try:
            view = await looks.execution(watch.execution)
        except Retryable:
            screen.look(None)
        else:
            screen.look(view)
            if watch.until_decision and _only_a_person_can_go_on(view) and screen.seen >= view.last_seq:
                return
        await asyncio.sleep(LOOK_SECONDS)


def _only_a_person_can_go_on(view: ExecutionView) -> bool:
    kinds = {wait.kind for wait in view.waits}
    return view.state == states.Execution.WAITING and bool(kinds) and kinds <= {"approval", "ruling"}


class _Screen(Protocol):
    """Where a watch shows what it sees."""

    seen: int
    """Number of the last event it was given."""

    @property
    def live(self) -> bool:
        """Whether it shows replies as they come."""
        ...

    @contextmanager
    def shown(self) -> Generator[None]: ...

    def take(self, event: Event) -> None: ...

    def hear(self, news: Event | LiveNews) -> None:
        """Take what may change a reply that a model is still at."""
        ...

    def look(self, view: ExecutionView | None) -> None:
        """Take the newest view; None if the server did not answer."""
        ...

    def draw(self) -> None: ...

    def end(self, view: ExecutionView) -> None: ...


class _Lines:
    """For programs: one event a line."""

    live = False

    def __init__(self, after: int) -> None:
        self.seen = after

    @contextmanager
    def shown(self) -> Generator[None]:
        yield

    def take(self, event: Event) -> None:
        self.seen = event.seq
        print_json(event)

    def hear(self, news: Event | LiveNews) -> None:
        pass

    def look(self, view: ExecutionView | None) -> None:
        pass

    def draw(self) -> None:
        pass

    def end(self, view: ExecutionView) -> None:
        pass


class _Story:
    """For people: the timeline, growing. Without a terminal the same lines, and nothing is redrawn."""

    def __init__(self, out: Console, view: ExecutionView, after: int) -> None:
        self._out = out
        self._view = view
        self._after = after
        self.seen = 0
        self._silent = False
        self._events: list[Event] = []
        self._drawn = -1
        """How many events the printed lines account for."""
        self._rests_until = 0.0
        self._told: set[object] = set()
        self._pending: list[Entry] = []
        self._replies = Replies()
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(get_renderable=self._below, console=out, refresh_per_second=8, transient=True)

    @property
    def live(self) -> bool:
        return self._out.is_terminal

    @contextmanager
    def shown(self) -> Generator[None]:
        self._out.print(Text.assemble((self._view.id, "bold"), "  ", phrases.plain(self._view.agent)))
        if not self._out.is_terminal:
            yield
            return
        with self._live:
            yield

    def take(self, event: Event) -> None:
        self.seen = event.seq
        self._events.append(event)

    def hear(self, news: Event | LiveNews) -> None:
        self._replies.take(news)

    def look(self, view: ExecutionView | None) -> None:
        self._silent = view is None
        self._view = view or self._view

    def draw(self) -> None:
        began = time.monotonic()
        if began >= self._rests_until:
            self._draw()
            self._rests_until = began + DRAW_SHARE * (time.monotonic() - began)

    def _draw(self) -> None:
        if len(self._events) == self._drawn:
            return
        self._drawn = len(self._events)
        if self._after:
            before = timeline_of(event for event in self._events if event.seq <= self._after)
            self._told |= {_key(entry) for entry in before.entries if _has_ended(entry)}
            if self._events and self._events[-1].seq > self._after:
                self._after = 0
        timeline = timeline_of(self._events)
        self._pending = [entry for entry in timeline.entries if not _has_ended(entry)]
        self._print(timeline)

    def end(self, view: ExecutionView) -> None:
        self._draw()
        self._out.print()
        self._out.print(head(view, moments.now_ms()))
        self._out.print(sums(timeline_of(self._events)))

    def _print(self, timeline: Timeline) -> None:
        fresh = [entry for entry in timeline.entries if _has_ended(entry) and _key(entry) not in self._told]
        if not fresh:
            return
        self._told |= {_key(entry) for entry in fresh}
        self._out.print(story_table(_lines(fresh), timeline.entries[0].started_ms))

    def _below(self) -> RenderableType:
        """Return what is under way: redrawn several times a second."""
        now_ms = moments.now_ms()
        table = Table.grid(padding=(0, 1))
        status = state_text(self._view.state, self._view.reason)
        if self._silent:
            status = Text("the server does not answer; waiting for it", style="yellow")
        table.add_row(self._spinner, status)
        zero_ms = self._events[0].at_ms if self._events else now_ms
        rows: list[RenderableType] = [story_table(_lines(self._pending), zero_ms)] if self._pending else []
        spoken = [saying(*one, self._out.width) for one in self._replies.made.items()]
        return Group(*rows, *spoken, table, *waits(self._view, now_ms))


def _lines(entries: Sequence[Entry]) -> list[Line]:
    return [line for entry in entries for line in lines_of(entry)]


def _has_ended(entry: Entry) -> bool:
    return not isinstance(entry, ToolStep) or entry.ended_ms is not None


def _key(entry: Entry) -> object:
    """Tell entries apart; a step whose end changes, as by a ruling, is told again."""
    if isinstance(entry, ToolStep):
        return entry.address, entry.state, entry.ruling
    return entry
