"""Check an execution's log by its hashes, through the API or from an exported file, and take it out into such a file.

An export is JSON, one record a line. For each execution: its events as they are stored, its effects, then the end of
its log. Nothing here changes anything, and nothing is believed that the hashes do not cover.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from perdure.core import codec
from perdure.core.chain import Follower, Link, LogPage
from perdure.core.events import Event, Kind
from perdure.core.ledger import effects_of
from perdure.core.views import EffectView
from perdure.errors import InvalidInput
from perdure.wire import codec as wire
from perdure.wire.account import Verified, event_of, pages_of, verified
from perdure.wire.api import Api


async def verify(api: Api, execution: str) -> Verified:
    """Follow one chain, a page at a time. Raises `NotFound`."""
    follower, page = Follower(execution), None
    async for page in pages_of(api, execution):
        follower.take(page.links)
    assert page is not None
    return verified(execution, follower.end(page.head, page.last_seq))


async def executions_of(api: Api, *, agent: str | None = None) -> AsyncIterator[str]:
    """Yield the ids of all executions, newest first."""
    cursor: str | None = None
    while True:
        page = await api.executions(agent=agent, cursor=cursor, limit=500)
        for one in page.items:
            yield one.id
        if page.cursor is None:
            return
        cursor = page.cursor


async def export(api: Api, execution: str, addresses: frozenset[str]) -> AsyncIterator[bytes]:
    """Yield the lines of one execution: its whole log, of its effects those at `addresses`, and the log's end."""
    events: list[Event] = []
    page = None
    async for page in pages_of(api, execution):
        for link in page.links:
            yield _line("event", {"execution": execution, **asdict(link)})
            if link.kind != Kind.STEP_RECORDED:  # what models said tells of no effect, and is most of a log
                events.append(event_of(link))
    assert page is not None
    for effect in effects_of(execution, page.agent, events):
        if effect.address in addresses:
            yield _line("effect", asdict(effect))
    yield _line("log", {name: getattr(page, name) for name in _END})


_END = ("execution", "agent", "state", "head", "events", "last_seq")


def verify_lines(lines: Iterable[bytes]) -> Iterator[Verified]:
    """Yield what is found of each execution in an exported file, in its order. What is no export is told as broken.

    That a whole execution, or an effect's line, was taken out of the file cannot be seen; that one was changed can.
    """
    open_log: _Reading | None = None
    for number, line in enumerate(lines, 1):
        record = _record(line)
        if record is None or not isinstance(record.get("execution"), str):
            yield _broken(open_log.execution if open_log else "", 0, f"line {number} is no record of an export")
            return
        execution: str = record["execution"]
        if open_log is not None and open_log.execution != execution:
            yield _broken(open_log.execution, 0, f"its records end at line {number - 1}, before its log does")
            open_log = None
        open_log = open_log or _Reading(execution)
        if record.get("record") == "log":
            yield open_log.end(record)
            open_log = None
        else:
            open_log.take(record)
    if open_log is not None:
        yield _broken(open_log.execution, 0, "the file ends before its log does")


@dataclass(slots=True)
class _Reading:
    """One execution of a file, while its lines come."""

    execution: str
    events: list[Event] = field(default_factory=list[Event])
    effects: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problem: str = ""
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        self.follower = Follower(self.execution)

    def take(self, record: dict[str, Any]) -> None:
        rest = {name: value for name, value in record.items() if name not in ("record", "execution")}
        if record.get("record") == "effect":
            self.effects.append({"execution": self.execution, **rest})
            return
        try:
            link = wire.read(Link, rest)
            self.follower.take([link])
            if link.kind != Kind.STEP_RECORDED:
                self.events.append(event_of(link))
        except (ValueError, KeyError, TypeError, InvalidInput) as error:
            self.problem = self.problem or f"a record of it cannot be read: {error}"

    def end(self, record: dict[str, Any]) -> Verified:
        try:
            page = wire.read(LogPage, {"links": [], **{name: record[name] for name in _END}})
        except (KeyError, InvalidInput):
            return _broken(self.execution, 0, "the record of its end is incomplete")
        found = verified(self.execution, self.follower.end(page.head, page.last_seq))
        if not found.holds:
            return found
        if self.problem:
            return _broken(self.execution, found.events, self.problem)
        told = {one.address: _plain(one) for one in effects_of(self.execution, page.agent, self.events)}
        for effect in self.effects:
            if told.get(effect.get("address", "")) != effect:
                why = f"the effect at {effect.get('address')!r} is not what the log says"
                return _broken(self.execution, found.events, why, next(iter(effect.get("seqs") or [0])))
        return found


def _broken(execution: str, events: int, why: str, at: int = 0) -> Verified:
    return Verified(execution, events, 0, "", at, why)


def _line(record: str, facts: dict[str, Any]) -> bytes:
    return wire.dump({"record": record, **facts}) + b"\n"


def _plain(effect: EffectView) -> dict[str, Any]:
    return codec.decode(wire.dump(asdict(effect)))


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found: object = codec.decode(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
