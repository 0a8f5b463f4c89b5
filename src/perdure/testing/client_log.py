"""What a client asked, and what it learned of the outcome: the second witness beside the world's log.

One JSON object a line, fsynced before the question leaves and before the answer is used. Shares no code with the
runtime. Several processes may write to one file.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perdure.testing.evidence import ClientLine, read_lines

Outcome = Literal["ok", "fail", "info"]


@dataclass(slots=True)
class Pending:
    """A question without an answer yet. Whoever gets the answer fills in what it said."""

    execution: str | None = None
    value: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what its outcome says. One whose asker died before the answer has the outcome `info`."""

    op: str
    outcome: str
    execution: str | None
    value: dict[str, Any]
    asked_ms: int
    known_ms: int
    """When the outcome was written down; for one without, when it was asked."""


class ClientLog:
    """Writer and reader of a client's log.

    Ops are the API's verbs, with what the checker needs of their arguments: `start(key)`, `send(dedupe)`,
    `decide(approval, decision)`, `rule(address, ruling)`, `pause`, `resume`, `stop`, `cancel`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._calls = 0

    def invoke(self, op: str, *, execution: str | None = None, **value: Any) -> str:
        """Write down that `op` is about to be asked; return the call that its outcome has to name."""
        with self._lock:
            self._calls += 1
            call = f"{os.getpid()}-{id(self)}-{self._calls}"
        self._write("invoke", call, op, execution, value)
        return call

    def outcome(self, outcome: Outcome, call: str, op: str, *, execution: str | None = None, **value: Any) -> None:
        """Write down what became of a call: accepted, surely refused, or unknown."""
        self._write(outcome, call, op, execution, value)

    @contextmanager
    def asking(
        self, op: str, *, execution: str | None = None, refusals: tuple[type[Exception], ...] = (), **value: Any
    ) -> Generator[Pending]:
        """Log the question around the `with` block that asks it.

        Leaving means `ok`; an exception of `refusals` means `fail`, any other means that nobody knows. All go through.
        """
        call = self.invoke(op, execution=execution, **value)
        pending = Pending()
        try:
            yield pending
        except BaseException as error:
            known: Outcome = "fail" if isinstance(error, refusals) else "info"
            self._write(known, call, op, execution, {"error": repr(error)})
            raise
        self._write("ok", call, op, pending.execution or execution, pending.value)

    def lines(self) -> list[ClientLine]:
        """Return everything written so far, by all processes."""
        if not self.path.exists():
            return []
        return [ClientLine.parse(line) for line in read_lines(self.path.read_text(encoding="utf-8"))]

    def _write(self, type_: str, call: str, op: str, execution: str | None, value: dict[str, Any]) -> None:
        at_ms = time.time_ns() // 1_000_000
        line = {"at_ms": at_ms, "type": type_, "call": call, "op": op, "execution": execution, "value": value}
        # Opened for each line: nothing is shared with forked processes, and one write appends whole.
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, json.dumps(line, default=repr).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)


def pair(lines: Iterable[ClientLine]) -> list[Asked]:
    """Join each question with its outcome, in the order they were asked."""
    asked: dict[str, Asked] = {}
    for line in lines:
        if line.type == "invoke":
            asked[line.call] = Asked(line.op, "info", line.execution, dict(line.value), line.at_ms, line.at_ms)
        elif first := asked.get(line.call):
            value = {**first.value, **line.value}
            execution = line.execution or first.execution
            asked[line.call] = Asked(first.op, line.type, execution, value, first.asked_ms, line.at_ms)
    return list(asked.values())
