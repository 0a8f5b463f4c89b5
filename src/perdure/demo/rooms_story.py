"""What happened in the rooms demo, as plain facts: what the room's ledger, the model endpoint and the processes say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from perdure.core import codec
from perdure.core.chain import Link
from perdure.core.room_views import MemoryView, MessageView, WakeView
from perdure.core.views import ApprovalView
from perdure.demo.processes import Life
from perdure.testing.evidence import Entry

ACME, GLOBEX = "acme", "globex"
PLANNER, SUPPLIER = "acme/planner", "globex/supplier"
ANN, BOB = "ann", "bob"
"""People: of acme, and of globex."""


@dataclass(frozen=True, slots=True)
class RoomsPlan:
    """One demo."""

    folder: Path
    """Where everything goes: the example, the store, logs, the ledger."""
    store: str = ""
    """A database's address; nothing is a file in the folder."""

    @property
    def example(self) -> Path:
        return self.folder / "two_companies"

    @property
    def file(self) -> Path:
        return self.folder / "perdure.db"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def ledger(self) -> Path:
        """Where the room's ledger is written out to."""
        return self.folder / "ledger.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the room's ledger, read."""

    seq: int
    kind: str
    """Of `RoomKind`."""
    about: str
    said: Mapping[str, Any]
    at_ms: int
    hash: str

    @property
    def act(self) -> str:
        """What was done, in words."""
        return self.kind.removeprefix("room_").replace("_", " ")

    @property
    def by(self) -> str:
        return f"{self.said.get('company', '')}/{self.said.get('by', '')}"


def line_of(link: Link) -> Line:
    """Read a line as it is stored."""
    return Line(link.seq, link.kind, link.address, codec.decode(link.data), link.at_ms, link.hash)


@dataclass(frozen=True, slots=True)
class Verified:
    """What the verifier said: one file, in a process of its own, while no server ran."""

    code: int
    said: str
    head: str
    """`SEQ:HASH`, kept by somebody while the server that was killed still answered."""
    servers: int
    """How many servers of the demo were alive then."""


@dataclass(frozen=True, slots=True)
class RoomsStory:
    """One demo that was played to its end. Times in milliseconds since 1970."""

    plan: RoomsPlan
    room: str
    lives: tuple[Life, ...]
    """The servers, in the order of their start."""
    at_death: tuple[Line, ...]
    """The ledger when the server was killed."""
    lines: tuple[Line, ...]
    messages: tuple[MessageView, ...]
    memory: Mapping[str, tuple[MemoryView, ...]]
    """By company: what it may read."""
    wakes: tuple[WakeView, ...]
    """Each as its own company sees it."""
    asked: tuple[Entry, ...]
    """The model endpoint's log."""
    approvals: tuple[ApprovalView, ...]
    verified: Verified
    began_ms: int
    ended_ms: int

    @property
    def approved(self) -> bool:
        """Whether the person said yes."""
        return any(one.decision == "approve" for one in self.approvals)


class RoomsStage(Protocol):
    """Where a demo is shown, and where it asks. Called in the order in which things happen."""

    def opens(self, plan: RoomsPlan) -> None:
        """Nothing has been started yet."""
        ...

    def started(self, life: Life) -> None:
        """A server answers."""
        ...

    def wrote(self, line: Line, text: str) -> None:
        """The room's ledger grew; `text` is what the line is about, where everybody may read it."""
        ...

    def killed(self, life: Life) -> None:
        """The server was killed."""
        ...

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        """Ask a person. None: there is nobody to ask."""
        ...
