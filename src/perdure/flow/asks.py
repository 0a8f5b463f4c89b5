"""What the code of an execution asks for, and who among several asks an event belongs to. Pure parts of the replay."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.core.events import ASKED, Event, Kind


@dataclass(slots=True)
class Ask:
    """Something that the code waits for. Owner: the `Replay` that gave it out."""

    kind: Kind
    """The event that will record the asking."""
    address: str
    digest: str
    recorded: bool = False
    """The asking is in the log."""
    answered: bool = False
    abandoned: bool = False
    """The code stopped waiting; whatever answers it later is passed over."""
    opening: bool = False
    """The code wants to see the asking itself too, once it is in the log."""
    patient: bool = False
    """An unknown outcome is no answer to it: the ruling, or the late report, is."""
    signal: str | None = None
    """It waits for the oldest signal of this name that nobody took."""
    mapped: bool = False
    """A person said that the log calls it by another name; its arguments may be others, too."""


class Signals:
    """Who takes which signal: a wait takes the oldest of its name that nobody took; one given up takes nothing."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Event]] = {}
        self._waiting: dict[str, deque[Ask]] = {}

    def came(self, event: Event) -> Ask | None:
        """Return the wait that takes this signal, or keep it."""
        name = event.data["name"]
        waiting = self._waiting.get(name)
        while waiting:
            ask = waiting.popleft()
            if not ask.abandoned:
                return ask
        self._kept.setdefault(name, deque()).append(event)
        return None

    def wait(self, ask: Ask, name: str) -> Event | None:
        """Return the signal that this wait takes at once, or have it wait."""
        if kept := self._kept.get(name):
            return kept.popleft()
        self._waiting.setdefault(name, deque()).append(ask)
        return None


class Maps:
    """Other names of steps, as a person gave them: one step, or with a `/` at the end all of a scope."""

    def __init__(self) -> None:
        self._steps: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        self.given = False

    def add(self, event: Event) -> None:
        """Take a person's word."""
        self.given = True
        old, new = event.data["old"], event.data["new"]
        if new.endswith("/"):
            self._scopes[new] = old
        else:
            self._steps[new] = old

    def of(self, address: str) -> tuple[str, bool]:
        """Return what the log calls an address, and whether that is another name."""
        if (old := self._steps.get(address)) is not None:
            return old, True
        for new, old in self._scopes.items():
            if address.startswith(new):
                return old + address[len(new) :], True
        return address, False


class Ahead:
    """Which scopes the log still has steps of: code that stands before them is being run again."""

    def __init__(self, queue: deque[Event]) -> None:
        self._queue = queue
        self._wanted: list[tuple[Ask, str]] = []
        self._scopes: Counter[str] = Counter()
        self._addresses: set[str] = set()
        self.wanted = False
        """Whether anything was ever asked of it; until then it counts nothing."""

    def want(self, ask: Ask, scope: str) -> None:
        """Have `passed` decide whether this ask was known to an earlier life of its scope."""
        if not self.wanted:
            self.wanted = True
            for event in self._queue:
                self.fed(event)
        self._wanted.append((ask, scope))

    def passed(self) -> Ask | None:
        """Return an ask that the log has nothing of, though its scope went on: it was not in the code then."""
        for place, (ask, scope) in enumerate(self._wanted):
            if ask.address in self._addresses:  # it will come in its turn
                continue
            if self._scopes[scope] and not ask.abandoned:
                del self._wanted[place]
                ask.answered = True
                return ask
        return None

    def begun(self) -> None:
        """The log is used up: whoever asks now is the first."""
        self._wanted.clear()

    def fed(self, event: Event) -> None:
        """Count an event that was added to the queue."""
        self._count(event, 1)

    def taken(self, event: Event) -> None:
        """Count an event that has left it."""
        self._count(event, -1)
        if event.kind is Kind.STEP_RECORDED:
            self._wanted = [one for one in self._wanted if one[0].address != event.address]

    def _count(self, event: Event, change: int) -> None:
        if event.kind not in ASKED:
            return
        for scope in scopes_of(event.address):
            self._scopes[scope] += change
        if change > 0:
            self._addresses.add(event.address)
        else:
            self._addresses.discard(event.address)


def scopes_of(address: str) -> Iterator[str]:
    """Return the scopes that an address lies in, the whole execution, '', first."""
    yield ""
    parts = address.split("/")
    for end in range(1, len(parts)):
        if not parts[end].isdigit():  # else it says which of several scopes of that name
            yield "/".join(parts[:end])
