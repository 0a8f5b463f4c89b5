"""Read a CSV file and print what a writer needs to know about it, as JSON.

Standard library only. Reads one file, writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import columns

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_ROWS_BYTES = 1024 * 1024
"""The rows that are printed stop here, whatever --limit says."""

MAX_GROUPS = 60
DELIMITERS = ",;\t|"


class Refused(Exception):
    """The file or an option is not usable; the message says why and what to do."""


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        report = read(Path(options.file), options.limit, options.group_by, options.delimiter)
    except Refused as refused:
        sys.stderr.write(f"read-csv: {refused}\n")
        return 1
    json.dump(report, sys.stdout, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0


def read(path: Path, limit: int, group_by: list[str], delimiter: str | None) -> dict[str, Any]:
    """Return the report on the file at `path`. Raises `Refused`."""
    header, rows, ragged = _table(_text(path), delimiter)
    cells = [[row[i] for row in rows] for i in range(len(header))]
    kinds = [columns.kind_of(column) for column in cells]
    report: dict[str, Any] = {
        "file": str(path.resolve()),
        "columns": header,
        "rowCount": len(rows),
        "summary": {
            name: columns.summary(column, kind) for name, column, kind in zip(header, cells, kinds, strict=True)
        },
        "durations": columns.durations(header, cells, kinds),
    }
    if group_by:
        report["groups"] = [_groups(spec, header, rows) for spec in group_by]
    included = _within(rows[: max(0, limit)], MAX_ROWS_BYTES)
    return report | {"raggedRows": ragged, "rowsIncluded": len(included), "rows": included}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="read-csv", description="Summarise a CSV file as JSON.", allow_abbrev=False)
    parser.add_argument("file")
    parser.add_argument("--limit", type=int, default=500, help="rows to include (500)")
    parser.add_argument("--group-by", action="append", default=[], metavar="COLUMN[:PART],...", help="counts to add")
    parser.add_argument("--delimiter", help="the character between cells; found out unless given")
    return parser


def _text(path: Path) -> str:
    if path.is_dir():
        raise Refused(f"{path} is a folder; give the path of a CSV file.")
    if not path.is_file():
        raise Refused(f"there is no file {str(path)!r} (looked in {Path.cwd()}).{_near(path)}")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise Refused(f"{path} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read. Split it first.")
    raw = path.read_bytes()
    if b"\0" in raw[:65536] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(f"{path} is not text; export it as CSV first.")
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")  # what spreadsheets still write


def _near(path: Path) -> str:
    try:
        names = [child.name for child in path.parent.iterdir() if child.suffix.lower() in (".csv", ".tsv", ".txt")]
    except OSError:
        return " Its folder does not exist either."
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


def _table(text: str, delimiter: str | None) -> tuple[list[str], list[list[str]], int]:
    if delimiter is not None and len(delimiter) != 1:
        raise Refused(f"--delimiter takes one character, not {delimiter!r}.")
    csv.field_size_limit(MAX_FILE_BYTES)
    found = delimiter or _delimiter(text)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=found)
        lines = [row for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise Refused(f"this is not readable as CSV: {error}.") from None
    if not lines:
        raise Refused("the file is empty; a header line with the names of the columns is expected.")
    header = _distinct_names(lines[0])
    width = len(header)
    rows = [[cell.strip() for cell in row[:width]] + [""] * (width - len(row)) for row in lines[1:]]
    return header, rows, sum(len(row) != width for row in lines[1:])


def _delimiter(text: str) -> str:
    first = text.split("\n", 1)[0]
    return max(DELIMITERS, key=first.count)


def _distinct_names(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    distinct: list[str] = []
    for position, raw in enumerate(names, start=1):
        name = raw.strip() or f"column_{position}"
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _groups(spec: str, header: list[str], rows: list[list[str]]) -> dict[str, Any]:
    parts = [part.strip().partition(":") for part in spec.split(",")]
    for name, _, part in parts:
        if name not in header:
            close = difflib.get_close_matches(name, header, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(header)}."
            raise Refused(f"--group-by: there is no column {name!r}.{hint}")
        if part and part not in columns.DATE_PARTS:
            raise Refused(f"--group-by: {part!r} is no part of a date; there are {', '.join(columns.DATE_PARTS)}.")
    places = [(header.index(name), part) for name, _, part in parts]
    counts = Counter(tuple(columns.part_of(row[i], part) for i, part in places) for row in rows)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = [{"values": list(values), "count": count} for values, count in ordered[:MAX_GROUPS]]
    return {"by": spec, "groupCount": len(ordered), "groups": listed}


def _within(rows: list[list[str]], most_bytes: int) -> list[list[str]]:
    used = 0
    for count, row in enumerate(rows):
        used += sum(len(cell.encode(errors="replace")) + 4 for cell in row)
        if used > most_bytes:
            return rows[:count]
    return rows


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
