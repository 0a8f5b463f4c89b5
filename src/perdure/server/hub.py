"""Pass hints of a commit to whoever waits in this process. A hint may be lost: whoever waits looks again by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial

from perdure.core.work import SERVER_QUEUE
from perdure.mailbox import Mailbox, Mailboxes
from perdure.store.standing import Topic
from perdure.store.tx import Note

Listener = Callable[[Note], None]
Entry = tuple[Mailbox, Listener]

DRAINING: Topic = ("draining", "")
"""Nothing more is given out here: whoever waits for work need not wait longer."""


class Hub:
    """Who listens to what. Listeners run on their own loop, after the commit, in its order."""

    def __init__(self, mail: Mailboxes | None = None) -> None:
        self._mail = mail or Mailboxes()
        self._lock = threading.Lock()
        """Guards `_listeners`: they come and go on event loops, and hints come from the writer's thread."""
        self._listeners: dict[Topic, list[Entry]] = {}

    @contextmanager
    def listening(self, topics: Iterable[Topic], listener: Listener) -> Generator[None]:
        """Have `listener` called on the running loop for every hint about `topics`, while the block lasts."""
        entry = (self._mail.of(asyncio.get_running_loop()), listener)
        wanted = tuple(topics)
        self._add(wanted, entry)
        try:
            yield
        finally:
            self._remove(wanted, entry)

    def heard(self, topic: str) -> list[str]:
        """Return the keys of a topic that somebody listens to now."""
        with self._lock:
            return [key for name, key in self._listeners if name == topic]

    def _add(self, topics: Iterable[Topic], entry: Entry) -> None:
        with self._lock:
            for topic in topics:
                self._listeners.setdefault(topic, []).append(entry)

    def _remove(self, topics: Iterable[Topic], entry: Entry) -> None:
        with self._lock:
            for topic in topics:
                self._listeners[topic].remove(entry)
                if not self._listeners[topic]:
                    del self._listeners[topic]

    def publish(self, notes: Sequence[Note]) -> None:
        """Give the hints of one commit, in the order of commits. From any thread: one call across threads per loop."""
        calls: dict[Mailbox, list[tuple[Listener, Note]]] = {}
        with self._lock:
            for note in notes:
                for box, listener in self._about(note):
                    calls.setdefault(box, []).append((listener, note))
        for box, pairs in calls.items():
            box.put(partial(_give, box.loop, pairs))

    def _about(self, note: Note) -> Sequence[Entry]:
        """Return who listens to a hint. What servers run themselves they run for every company, under names without
        one."""
        own = self._listeners.get((note.topic, note.key), ())
        if note.topic == "tasks" and note.key.endswith(SERVER_QUEUE):
            return [*own, *self._listeners.get(("tasks", SERVER_QUEUE), ())]
        return own if note.topic != "tasks_all" else [*own, *self._listeners.get(("tasks_all", ""), ())]


async def stirred(stir: asyncio.Event, seconds: float) -> bool:
    """Wait for a hint, which sets `stir`; False if none came for so long. A timer that sets it costs less than
    `wait_for`."""
    late = False

    def look() -> None:
        nonlocal late
        late = True  # the clock does not tell: timers of some loops are early by it
        stir.set()

    timer = asyncio.get_running_loop().call_later(seconds, look)
    try:
        await stir.wait()
        return not late
    finally:
        timer.cancel()


def _give(loop: asyncio.AbstractEventLoop, pairs: Sequence[tuple[Listener, Note]]) -> None:
    for listener, note in pairs:
        if note.after_ms:
            loop.call_later(note.after_ms / 1000, listener, note)
        else:
            listener(note)
