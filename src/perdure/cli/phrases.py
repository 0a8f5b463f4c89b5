"""How times, amounts, calls and values are said in one line of a terminal. Text in, text out.

What models and users wrote is shown without its control characters, so that it cannot move the cursor, hide a part of
a call, or pass for something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from perdure.core.codec import Json
from perdure.core.spoken import plural as plural

SHORT = 60
"""Characters of a value in a table."""


def duration(ms: float) -> str:
    """Say a span: `4 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if ms < 1000:
        return f"{round(ms)} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for size, unit, part, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


def progress(said: Json) -> str:
    """Say how far something is: `42 %`, or the words that were given."""
    return f"{said * 100:.0f} %" if isinstance(said, (int, float)) else clip(str(said))


def ago(at_ms: int, now_ms: int) -> str:
    """Say how long ago something was."""
    gone = now_ms - at_ms
    return "just now" if gone < 1000 else f"{duration(gone // 1000 * 1000).replace('.0 s', ' s')} ago"


def money(dollars: float | None) -> str:
    """Say a cost; an unknown price is said to be unknown, never 0."""
    if dollars is None:
        return "price unknown"
    return f"${dollars:.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.4f}"


def short_id(given: str) -> str:
    """Return enough of an id to tell it from its neighbours: `wrk_…6dgca4`."""
    prefix, _, rest = given.rpartition("_")
    return f"{prefix}_…{rest[-6:]}" if len(rest) > 10 else given


def plain(text: str) -> str:
    """Return text on one line, what cannot be printed written out as `\\x1b`."""
    return "".join(char if char.isprintable() else _ESCAPES.get(char) or _written(char) for char in text)


def clip(text: str, room: int = SHORT) -> str:
    """Return text on one line, cut at its end if it is longer than `room`."""
    line = plain(text)
    return line if len(line) <= room else line[: room - 1] + "…"


def block(text: str) -> str:
    """Return text in its lines, with the rest of what cannot be printed written out."""
    return "\n".join(map(plain, text.replace("\r\n", "\n").split("\n")))


def value(found: Json, room: int = SHORT) -> str:
    """Return JSON on one line, cut if long."""
    return clip(_json(found), room)


def exact(found: Json) -> str:
    """Return JSON whole, on one line, for somebody who decides on it."""
    return plain(_json(found))


def call(tool: str, args: Mapping[str, Json], room: int = SHORT) -> str:
    """Return `tool(name=value, …)`, cut if long."""
    return clip(f"{tool}({', '.join(f'{name}={_json(given)}' for name, given in args.items())})", room)


def written_call(tool: str, arguments: str, room: int = SHORT) -> str:
    """The same for a call as a model wrote it, which may be no JSON."""
    try:
        args: object = json.loads(arguments or "{}")
    except ValueError:
        args = None
    if isinstance(args, dict):
        return call(tool, cast("dict[str, Json]", args), room)
    return clip(f"{tool}({arguments})", room)


_ESCAPES = {"\n": "⏎", "\t": " "}


def _written(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _json(found: Json) -> str:
    return json.dumps(found, ensure_ascii=False, default=str)


def costs(cost: Mapping[str, str]) -> str:
    """Return a cost as people read it: `0.25 USD + 3 EUR`; empty for none."""
    return " + ".join(f"{amount} {currency}" for currency, amount in cost.items())
