"""Turn the summaries of `./dev crash --minutes N --json FILE`, `--planted --json FILE` and `matrix --json > FILE` into
tables of Markdown.

Prints; `docs/reference/reliability.md` holds what it printed of the last runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PHASE_COLUMNS = ("phase", "runs", "kills", "kills in flight", "stops", "steps", "effects", "uncertain", "seconds")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/crash_tables.py", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what a run wrote with --json")
    for file in parser.parse_args().files:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if "rooms" in told:
            lines = rooms_table(told["rooms"])
        else:
            lines = planted_table(told) if "bugs" in told else long_tables(told)
        sys.stdout.write("\n".join(lines) + "\n\n")
    return 0


def long_tables(told: dict[str, Any]) -> list[str]:
    """Return the phases of a long run, and its figures."""
    phases = [[one.get(name, 0) for name in PHASE_COLUMNS] for one in told["phases"]]
    figures = [
        (name, value) for name, value in told.items() if name not in ("phases", "complaints", "not covered", "machine")
    ]
    lines = [*_table(PHASE_COLUMNS, phases), "", *_table(("figure", "value"), figures)]
    lines += ["", "Not covered: " + "; ".join(told["not covered"]) + "."] if told["not covered"] else []
    verdict = "failed: " + "; ".join(told["complaints"]) if told["complaints"] else "passed"
    return [*lines, "", f"The run {verdict}."]


def planted_table(told: dict[str, Any]) -> list[str]:
    """Return which bug was found by which test, after how long."""
    rows = [
        (
            one["name"],
            f"`{_short(one['by'])}`{' (hung)' if one['hung'] else ''}" if one["by"] else "not found",
            one["seconds"],
        )
        for one in told["bugs"]
    ]
    found = f"Found {told['found']} of {told['planted']} in {told['seconds']:,} s."
    return [*_table(("bug", "found by", "seconds"), rows), "", found]


def rooms_table(told: dict[str, Any]) -> list[str]:
    """Return what killing wakes in rooms came to."""
    rows = [tuple(row.values()) for row in told["rows"]]
    head = [name.replace("_", " ") for name in told["rows"][0]]
    lines = [*_table(head, rows), "", f"{told['killed_wakes']:,} wakes killed, {len(told['wrong'])} promises broken."]
    return lines + [f"Nobody came by {name}." for name in told["not_killed"]]


def _short(test: str) -> str:
    """Return a test's file and name, without folders and parameters."""
    file, _, name = test.partition("::")
    return f"{Path(file).name}::{name.partition('[')[0]}"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(_cell(one) for one in row) + " |" for row in lines]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
