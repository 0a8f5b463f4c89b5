"""The three kinds of evidence that a checker may read: the world's log, a client's log, the public history.

Plain data and how to read it from JSON; knows nothing of the runtime. Fields that are absent read as None or empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODEL_REQUEST = "model_request"
MODEL_REPLY = "model_reply"
BEGUN_AT_MS = "begun_at_ms"
"""In a model request's body, if its sender says so: when it began to send, in milliseconds of the world's clock."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call that reached the world, whole."""

    n: int
    received_at_ms: int
    name: str
    """The effect's name, or `model_request`, or `model_reply`."""
    execution: str | None = None
    step: str | None = None
    """The step's address."""
    key: str | None = None
    """The idempotency key it carried."""
    attempt: int | None = None
    company: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    effect: bool = True
    """False when the world refused it and did nothing; for a `model_reply`, when it was a refusal."""
    fault: str | None = None
    """What the world did to the reply."""

    @classmethod
    def parse(cls, line: Mapping[str, Any]) -> Entry:
        """Read one line of the world's log."""
        return cls(**{name: line[name] for name in cls.__slots__ if name in line})


@dataclass(frozen=True, slots=True)
class ClientLine:
    """One line of a client's log: something was asked (`invoke`), or became known of what was asked."""

    call: str
    """Ties an outcome to its `invoke`."""
    type: str
    """`invoke`; `ok`, it was accepted; `fail`, it surely was not; `info`, nobody knows."""
    op: str
    at_ms: int
    execution: str | None = None
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def parse(cls, line: Mapping[str, Any]) -> ClientLine:
        """Read one line of a client's log."""
        return cls(**{name: line[name] for name in cls.__slots__ if name in line})


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of an execution, as the public API shows it."""

    seq: int
    kind: str
    address: str
    data: Mapping[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class History:
    """One execution: how it stands, and its whole log."""

    id: str
    state: str
    events: tuple[Event, ...]

    @property
    def inherited(self) -> int:
        """The last `seq` that a fork has from its origin's log; 0 if it is no fork."""
        return next((event.seq - 1 for event in self.events if event.kind == "forked"), 0)

    @classmethod
    def parse(cls, view: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> History:
        """Read an execution and its events from the JSON of the public API."""
        facts = (
            Event(line["seq"], line["kind"], line.get("address") or "", line.get("data") or {}, line["at_ms"])
            for line in events
        )
        return cls(view["id"], view["state"], tuple(facts))


def read_lines(text: str) -> list[dict[str, Any]]:
    """Return the objects of a log of JSON lines. A last line without its end was torn by a kill and is left out."""
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def read_world_log(path: Path) -> list[Entry]:
    """Return the world's log from its file, which outlives the world."""
    return [Entry.parse(line) for line in read_lines(path.read_text(encoding="utf-8"))]
