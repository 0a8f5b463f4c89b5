"""Count how often the bodies of tools start, in a log of its own: nothing that the engine says is believed.

A line is on the disk before the body it tells of starts. Shares no code with the engine.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.agent.context import ToolContext, current_tool
from perdure.agent.tool import ToolDefinition
from perdure.core.work import Lane
from perdure.testing.evidence import Entry, read_lines

START, RETURN, RAISE = "start", "return", "raise"


@dataclass(frozen=True, slots=True)
class BodyLine:
    """Something that a body did."""

    at_ms: int
    what: str
    """`start`, `return` or `raise`."""
    tool: str
    execution: str
    step: str
    key: str
    attempt: int
    pid: int
    digest: str
    """Of the arguments."""


def read_bodies(path: Path) -> list[BodyLine]:
    """Return the lines of a log in the order in which they were written; none if nothing has started."""
    if not path.exists():
        return []
    return [BodyLine(**line) for line in read_lines(path.read_text(encoding="utf-8"))]


def as_entries(lines: list[BodyLine]) -> list[Entry]:
    """Return each start of a body as a call that reached the world, for the checker."""
    starts = [line for line in lines if line.what == START]
    return [
        Entry(n, one.at_ms, one.tool, one.execution, one.step, one.key, one.attempt)
        for n, one in enumerate(starts, start=1)
    ]


def watched(tools: Mapping[Lane, ToolDefinition], log: Path) -> dict[Lane, ToolDefinition]:
    """Return the tools, each with a body that writes down when it starts and how it ends. Probes stay as they are.

    An isolated tool runs in the worker's own process here: the fresh interpreter of its own would not be watched.
    """
    return {lane: _watched(tool, log) if lane.tool.isidentifier() else tool for lane, tool in tools.items()}


def _watched(tool: ToolDefinition, log: Path) -> ToolDefinition:
    options = dataclasses.replace(tool.options, isolated=False, memory_bytes=0)
    watch = _watch_async if tool.is_async else _watch
    return dataclasses.replace(tool, function=watch(tool.function, log), options=options)


def _watch(function: Callable[..., Any], log: Path) -> Callable[..., Any]:
    @functools.wraps(function)
    def body(*args: Any, **named: Any) -> Any:
        told = _Told(log, named)
        try:
            value = function(*args, **named)
        except BaseException:
            told.write(RAISE)
            raise
        if inspect.isawaitable(value):
            return told.awaited(value)
        told.write(RETURN)
        return value

    return body


def _watch_async(function: Callable[..., Any], log: Path) -> Callable[..., Any]:
    @functools.wraps(function)
    async def body(*args: Any, **named: Any) -> Any:
        return await _Told(log, named).awaited(function(*args, **named))

    return body


class _Told:
    """One body's lines. Making it writes the first."""

    def __init__(self, log: Path, named: Mapping[str, Any]) -> None:
        given = {name: value for name, value in named.items() if not isinstance(value, ToolContext)}
        text = json.dumps(given, sort_keys=True, default=repr)
        self._log, self._digest = log, hashlib.sha256(text.encode()).hexdigest()[:16]
        self._call = current_tool()
        self.write(START)

    async def awaited(self, value: Awaitable[Any]) -> Any:
        try:
            found = await value
        except BaseException:
            self.write(RAISE)
            raise
        self.write(RETURN)
        return found

    def write(self, what: str) -> None:
        call, at_ms = self._call, time.time_ns() // 1_000_000
        line = BodyLine(
            at_ms,
            what,
            call.tool_name,
            call.execution_id,
            call.step_id,
            call.idempotency_key,
            call.attempt,
            os.getpid(),
            self._digest,
        )
        # Opened for each line, so that several processes share nothing but the file, and one write appends whole.
        file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, json.dumps(dataclasses.asdict(line)).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
