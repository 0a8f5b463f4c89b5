"""Whether a store is what it should be: its file, its tables, what its rows say of each other, its logs.

Changes nothing, and looks at one moment of it, so also while servers run on it. Whatever is wrong is named by its row.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.core.blobs import chunks_of, numbers_of
from perdure.core.chain import Follower, Link
from perdure.errors import StoreFailed
from perdure.store.protocol import Ref, Row
from perdure.store.sqlite_schema import alterations, indexes, tables
from perdure.upkeep.place import View, existing_file, is_address, missing_steps, refuse_damaged_log, view
from perdure.upkeep.tables import count_of, table_queries

MOST_NAMED = 20
"""Rows of one kind that are named; there may be more."""
PAGE = 500
PAGE_BYTES = 4 * 1024 * 1024
_BEFORE_ALL = -(2**62)
"""Lower than the number of any event."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be."""

    table: str
    row: str
    """Which one: its key, or empty if it is not about one row."""
    what: str


@dataclass(slots=True)
class Report:
    """What a check found. Owner: the check, until it returns it."""

    store: str
    dialect: str
    step: int = 0
    """The last migration that it has had."""
    bytes: int = 0
    aside: str = ""
    """Why it is not to be run on, if so: `backup`, `restoring`, `copying`, `copied`."""
    rows: dict[str, int] = field(default_factory=dict[str, int])
    """By table."""
    executions: dict[str, int] = field(default_factory=dict[str, int])
    """By state."""
    logs: int = 0
    events: int = 0
    """Whose hashes were followed, evidence included."""
    values: int = 0
    """Large ones, whose content was found to be what its hash says, or named as a problem."""
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def ok(self) -> bool:
        return not self.problems


def check_store(where: str | os.PathLike[str], *, logs: bool = True) -> Report:
    """Check a store. `logs=False` leaves out what reads every event.

    Raises what `view` raises: for what is no store there is nothing to check. Of a file with a table so damaged that
    SQLite gives up, the report ends there.
    """
    if not is_address(where):
        file = existing_file(where)
        try:
            refuse_damaged_log(file)
        except StoreFailed as error:
            return Report(f"store {file}", "sqlite", problems=[Problem("", "", error.message)])
    with view(where, queries=table_queries()) as found:
        report = Report(found.where, found.dialect)
        try:
            _check(found, report, logs=logs)
        except StoreFailed as error:
            report.problems.append(Problem("", "", error.message))
        return report


def _check(found: View, report: Report, *, logs: bool) -> None:
    applied = found.steps()
    report.step = len(applied)
    report.aside = found.mark().partition(" ")[0]
    report.bytes = _bytes(found)
    if found.dialect == "sqlite":
        for row in found.session.execute(f"PRAGMA integrity_check({MOST_NAMED})"):
            if row["integrity_check"] != "ok":
                report.problems.append(Problem("", "", f"the file is damaged: {row['integrity_check']}"))
    if missing := missing_steps(applied):
        what = f"its tables are of step {report.step}; this release has {len(missing)} more: run `perdure db migrate`"
        report.problems.append(Problem("migrations", "", what))
        return
    _tables(found, report)
    if report.problems:
        return  # what follows would ask for columns that may not be there
    report.rows = {one.name: count_of(found.reads, one) for one in tables()}
    report.executions = {row["state"]: row["n"] for row in found.reads.rows("executions_by_state")}
    for query, problem in _RULES:
        report.problems += map(problem, found.reads.rows(query, limit=MOST_NAMED))
    if logs:
        _logs(found, report)
        _values(found, report)


def _bytes(found: View) -> int:
    row = found.reads.row("stored_bytes")
    size = int(row["bytes"]) if row else 0
    if found.dialect == "sqlite":
        beside = Path(f"{found.where.removeprefix('store ')}-wal")
        size += beside.stat().st_size if beside.exists() else 0
    return size


def _tables(found: View, report: Report) -> None:
    there: dict[str, dict[str, Row]] = {}
    for row in found.reads.rows("table_columns"):
        there.setdefault(row["name"], {})[row["column_name"]] = row
    for table in tables():
        columns = there.get(table.name)
        if columns is None:
            report.problems.append(Problem(table.name, "", "the table is missing"))
            continue
        wanted = zip(table.columns, table.types, table.required, strict=True)
        for name, kind, required in wanted:
            what = _column(columns.get(name), kind, required=required)
            if what:
                report.problems.append(Problem(table.name, "", f"column {name} {what}"))
    names = {row["name"] for row in found.reads.rows("index_names")}
    report.problems += [Problem("", "", f"index {name} is missing") for name in indexes() if name not in names]
    if found.dialect == "sqlite" and not report.problems:
        changed = alterations(found.link.database)  # type: ignore[union-attr] - a SQLite view's link is SQLite's
        report.problems += [Problem(name, "", "it is not as this release makes it") for name in changed]


def _column(found: Row | None, kind: str, *, required: bool) -> str:
    if found is None:
        return "is missing"
    if found["type"] != kind.lower():
        return f"is {found['type']} and should be {kind.lower()}"
    if bool(found["required"]) != required:
        return "should be NOT NULL" if required else "should not be NOT NULL"
    return ""


def _lost(row: Row) -> Problem:
    return Problem(row["name"], row["execution"], "its execution is not there")


def _unlisted(row: Row) -> Problem:
    what = f"it says that it is {row['name']}, and has no row in `{row['name']}` (fence {row['fence']})"
    return Problem("executions", row["execution"], what)


def _listed(row: Row) -> Problem:
    return Problem(row["name"], row["execution"], f"its execution says that it is {row['ownership']}")


def _ended(row: Row) -> Problem:
    what = f"it is {row['state']} and {row['ownership']}, or its end is not noted: the two do not go together"
    return Problem("executions", row["execution"], what)


def _held(row: Row) -> Problem:
    what = f"it is {row['state']}, and does not say by whom or until when"
    return Problem("tasks", f"{row['execution']} {row['address']}", what)


def _tagged(row: Row) -> Problem:
    what = f"it is listed as {row['ended'] or 'one that goes on'}, and its execution is {row['state']}"
    return Problem("tagged", f"{row['execution']} {row['tag']}", what)


def _unfound(row: Row) -> Problem:
    return Problem("blob_uses", row["execution"], f"its log refers to value {row['hash']}, which is not there whole")


_RULES: Sequence[tuple[str, Callable[[Row], Problem]]] = (
    ("rows_without_execution", _lost),
    ("ownership_without_row", _unlisted),
    ("row_without_ownership", _listed),
    ("ended_and_claimable", _ended),
    ("held_by_nobody", _held),
    ("tagged_otherwise", _tagged),
    ("uses_without_blob", _unfound),
)


def _values(found: View, report: Report) -> None:
    """Read every large value a piece at a time: it has to be what its hash says."""
    after, broken = {"company": "", "hash": ""}, 0
    while rows := found.reads.rows("blobs_after", **after, limit=PAGE):
        for row in rows:
            after = {"company": row["company"], "hash": row["hash"]}
            report.values += 1
            what = _wrong(found, after, row["bytes"])
            if what and broken < MOST_NAMED:
                broken += 1
                report.problems.append(Problem("blobs", f"{row['company']} {row['hash']}", what))


def _wrong(found: View, name: dict[str, str], size: int) -> str:
    """Say what is wrong with a value's content, if anything."""
    content = hashlib.sha256()
    for number in numbers_of(size):
        piece = found.reads.row("blob_chunk", **name, number=number)
        if piece is None:
            return f"piece {number} of {chunks_of(size)} is missing"
        try:
            content.update(base64.b64decode(piece["data"], validate=True))
        except ValueError as error:
            return f"piece {number} holds what no release writes ({error})"
    return "" if content.hexdigest() == name["hash"] else "its content is not what its hash says"


def _logs(found: View, report: Report) -> None:
    """Follow every log: numbered from 1 without gaps up to where its execution says that it ends, and hash by hash."""
    broken = 0
    for head in _heads(found):
        report.logs += 1
        try:
            problem = _follow(found, head, report)
        except (TypeError, ValueError, AttributeError) as error:  # SQLite keeps whatever is put into a column
            problem = Problem("events", str(head["id"]), f"a row holds what no release writes ({error})")
        if problem is not None and broken < MOST_NAMED:
            broken += 1
            report.problems.append(problem)


def _follow(found: View, head: Row, report: Report) -> Problem | None:
    follower = Follower(head["id"])
    ref, last = Ref(head["shard"], head["id"]), head["next_seq"] - 1
    for links in _links(found, ref, last):
        follower.take(links)
    more = found.reads.row("last_evidence", shard=ref.shard, execution=ref.execution)
    ending = last if more is None or more["seq"] is None else more["seq"]
    checked = follower.end(head["chain"], ending)
    report.events += checked.links
    if checked.broken_at is None:
        return None
    where = "events" if checked.broken_at <= last or not last else "evidence"
    return Problem(where, f"{ref.execution} {checked.broken_at}", checked.why)


def _heads(found: View) -> Iterator[Row]:
    after = Ref(-1, "")
    while rows := found.reads.rows("chain_heads", shard=after.shard, execution=after.execution, limit=PAGE):
        yield from rows
        after = Ref(rows[-1]["shard"], rows[-1]["id"])


def _links(found: View, ref: Ref, last: int) -> Iterator[list[Link]]:
    scope, after = {"shard": ref.shard, "execution": ref.execution}, _BEFORE_ALL
    while rows := found.reads.rows("chain_after", **scope, after=after, limit=PAGE, most=PAGE_BYTES):
        yield [Link(**row) for row in rows]
        after = rows[-1]["seq"]
    after = last
    while rows := found.reads.rows("evidence_after", **scope, after=after, limit=PAGE):
        yield [Link(**row) for row in rows]
        after = rows[-1]["seq"]
