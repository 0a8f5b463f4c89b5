"""Events for whoever operates Perdure: a fixed name, and fields. Silent unless somebody listens.

Stands on the standard library's `logging` under `perdure`: a program that uses the library decides what is shown, and
only the commands `server`, `worker` and `mcp` call `configure`. No payloads and no secrets belong into fields.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO, cast

rewrites: list[Callable[[str], str]] = []
"""What each line passes before it is written: whoever holds secrets takes them out of it. One list for the process, as
there is one log."""

logging.getLogger("perdure").addHandler(logging.NullHandler())


class Fact:
    """One event with its fields, as the message of a log record: any handler shows it as a line of text."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, object]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={_shown(value)}" for name, value in self.fields.items())])


class Log:
    """Says events of one module. The field `exc_info` is an exception whose traceback goes with the event."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        """For those who work on Perdure."""
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """What changed, for an operator."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Something to know of; the field `action` names what is done about it, or should be."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Something is lost or cannot go on. Said once."""
        self._say(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error that nobody expected, with the traceback of the exception being handled."""
        self._say(logging.ERROR, event, {**fields, "exc_info": True})

    def _say(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            error = cast("BaseException | bool | None", fields.pop("exc_info", None))
            self._logger.log(level, Fact(event, fields), exc_info=error, stacklevel=3)


def get_log(name: str) -> Log:
    """Return the log of a module: `log = get_log(__name__)`."""
    return Log(logging.getLogger(name))


def configure(level: str = "info", *, stream: TextIO | None = None, as_json: bool | None = None) -> None:
    """Show events from `level` up on `stream` (stderr), and warnings of every other library.

    Lines for people in a terminal, JSON lines otherwise; `as_json` decides it. Replaces what was configured before.
    """
    out = stream or sys.stderr
    if as_json is None:
        as_json = not out.isatty()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines() if as_json else Lines(colour=out.isatty() and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("perdure").setLevel(level.upper())


class JsonLines(logging.Formatter):
    """One JSON object a line: `at`, `level`, `event`, the fields, `logger`, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _parts(record)
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": record.levelname.lower(), "event": event, **fields, "logger": record.name}
        if trace := _trace(record):
            line["exception"] = trace
        return _rewritten(json.dumps(line, default=str))


class Lines(logging.Formatter):
    """A line for people: time, level, event, fields."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _parts(record)
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = record.levelname.lower()
        shown = "  ".join(f"{self._tint(2, name + '=')}{_shown(value)}" for name, value in fields.items())
        line = f"{self._tint(2, at)} {self._tint(_TINTS.get(level, 0), f'{level:<7}')} {event}  {shown}".rstrip()
        trace = _trace(record)
        return _rewritten(f"{line}\n{trace}" if trace else line)

    def _tint(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


_TINTS = {"debug": 2, "info": 36, "warning": 33, "error": 31, "critical": 31}


def _parts(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """Return the event and its fields; for records of other libraries, their text."""
    fact = cast("object", record.msg)
    if isinstance(fact, Fact):
        return fact.event, fact.fields
    return record.getMessage(), {}


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return "".join(traceback.format_exception(record.exc_info[1])).rstrip()


def _rewritten(line: str) -> str:
    for rewrite in tuple(rewrites):  # one may go meanwhile
        line = rewrite(line)
    return line


def _shown(value: object) -> str:
    """Return a value on one line; quoted if it would run into the next field."""
    text = str(value)
    if text and text.isprintable() and not any(mark in text for mark in ' ="'):
        return text
    return json.dumps(text, ensure_ascii=False)
