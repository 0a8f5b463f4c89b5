"""Named SQL: one text per operation for every database, kept in `.sql` files and found by its name.

Reads and checks texts; runs nothing. A file under `sql/` holds queries, each opened by `-- name: query_name` and a line
that says what it does; a file under `overrides/DIALECT/` replaces some of them and opens each with
`-- differs because: REASON`. Parameters are `:name`. Casts are written `CAST(x AS TYPE)`: `::` means nothing to SQLite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perdure.core.codec import Json, encode_json
from perdure.errors import InternalError, InvalidInput
from perdure.store.protocol import Params, Unsound

SQL = Path(__file__).parent / "sql"
OVERRIDES = Path(__file__).parent / "overrides"

MAX_INTEGER = 2**63 - 1

_TOKEN = re.compile(
    r"""(?P<literal>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<cast>::)
      | :(?P<param>[A-Za-z_]\w*)
      | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r"^-- name:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_REASON = re.compile(r"\s*-- differs because:[ \t]*\S")


@dataclass(frozen=True, slots=True)
class Query:
    """One named statement, without comments."""

    name: str
    sql: str
    params: tuple[str, ...]
    """Its parameters in the order in which they first appear."""

    def render(self, placeholder: Callable[[str], str], literal: Callable[[str], str] = str) -> str:
        """Return the text with each `:name` replaced; everything else passes through `literal`, piece by piece."""
        return "".join(placeholder(text) if kind == "param" else literal(text) for kind, text in _pieces(self.sql))


def load_queries(dialect: str, *folders: Path, overrides: Path = OVERRIDES) -> Mapping[str, Query]:
    """Return every query for `dialect` by name; `folders` hold further base queries, as tests bring them.

    Raises InternalError for a text that no release should contain: two queries of one name, an override of nothing or
    without a reason, a `::`, or more than one statement.
    """
    return _load(dialect, (SQL, *folders), overrides)


@cache
def _load(dialect: str, folders: tuple[Path, ...], overrides: Path) -> Mapping[str, Query]:
    queries: dict[str, Query] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.sql"))):
        for name, text in _sections(path):
            if name in queries:
                raise _bad(path, name, "there is a query of that name already")
            queries[name] = _query(path, name, text)
    replaced: set[str] = set()
    for path in sorted((overrides / dialect).glob("*.sql")):
        for name, text in _sections(path):
            if name not in queries:
                raise _bad(path, name, "it overrides nothing: no base query has that name")
            if name in replaced:
                raise _bad(path, name, "it is overridden twice")
            if not _REASON.match(text):
                raise _bad(path, name, "an override opens with `-- differs because: REASON`")
            replaced.add(name)
            queries[name] = _query(path, name, text)
    return queries


def statements(text: str) -> list[str]:
    """Split a script at its semicolons, not those inside literals; leave comments out."""
    found = [""]
    for kind, piece in _pieces(text):
        if kind == "end":
            found.append("")
        else:
            found[-1] += f":{piece}" if kind == "param" else piece
    return [statement for part in found if (statement := part.strip())]


@cache
def parse(name: str, sql: str) -> Query:
    """Make a query of one statement without comments."""
    return Query(name, sql, tuple(dict.fromkeys(text for kind, text in _pieces(sql) if kind == "param")))


def missing(queries: Mapping[str, Any], name: str) -> InternalError:
    """Return the error for a query that is not there."""
    return InternalError(f"no query is named {name!r}; there are {len(queries)} in store/sql", code="bad_sql")


def names(query: str, wanted: Mapping[str, Json]) -> str:
    """Return names, and names below names, as the JSON text that a query takes to look all of them up at once.

    Raises InvalidInput (`unstorable`) for a name that no row can have; databases differ in how they would misread it.
    Raises Unsound for one that is no text: only a damaged row gives it.
    """
    try:
        text = encode_json(dict(wanted), query)
    except InvalidInput:
        raise Unsound(f"{query} was to look for what is no name: {list(wanted)!r:.80}") from None
    if "\\u" in text:  # something was escaped that plain names do not hold
        _check_names(query, wanted)
    return text


def _check_names(query: str, wanted: Mapping[str, Json]) -> None:
    for name, below in wanted.items():
        if why := _why_not(name):
            raise _unstorable("a name", query, name, why)
        if isinstance(below, Mapping):
            _check_names(query, below)


def bad_value(query: str, params: Params, names: Sequence[str]) -> InvalidInput | InternalError:
    """Return the error for parameters that a database refused to take, naming the first that is to blame."""
    for name in names:
        if name not in params:
            return InternalError(f"query {query}: parameter {name} is missing", code="bad_sql")
        value = params[name]
        if why := _why_not(value):
            return _unstorable(name, query, value, why)
    return InternalError(f"query {query}: a parameter has a type that no database column takes", code="bad_sql")


def _unstorable(what: str, query: str, value: object, why: str) -> InvalidInput:
    return InvalidInput(
        f"{what} ({query}) is {value!r:.80}, which cannot be stored: {why}.", code="unstorable", query=query
    )


def _why_not(value: object) -> str:
    if isinstance(value, str):
        if "\0" in value:
            return "text may not contain NUL; remove it, or encode the text as JSON"
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            return "it holds half of a surrogate pair; remove it, or encode the text as JSON"
    if isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        return "whole numbers have 64 bits"
    return ""


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Cut SQL into (kind, text): `sql`, `literal`, `param`, `cast` and `end`; comments are dropped."""
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() > at:
            yield "sql", text[at : match.start()]
        at = match.end()
        kind = match.lastgroup or "sql"
        if kind != "comment":
            yield kind, match[kind]
    if at < len(text):
        yield "sql", text[at:]


def _sections(path: Path) -> Iterator[tuple[str, str]]:
    parts = _HEADER.split(path.read_text(encoding="utf-8"))
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _query(path: Path, name: str, text: str) -> Query:
    if any(kind == "cast" for kind, _ in _pieces(text)):
        raise _bad(path, name, "`::` means nothing to SQLite; write CAST(x AS TYPE)")
    found = statements(text)
    if len(found) != 1:
        raise _bad(path, name, f"it holds {len(found)} statements; one is expected")
    return parse(name, found[0])


def _bad(path: Path, name: str, what: str) -> InternalError:
    return InternalError(f"{path.parent.name}/{path.name}, query {name}: {what}", code="bad_sql")
