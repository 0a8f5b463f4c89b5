"""Put known bugs into copies of the project, one at a time; see whether the tests find them. `./dev crash --planted`.

Each `tests/planted/*.patch` says in its first line which promise it breaks. The product has no switches: a bug is a
patch of a copy. Exit code 1 if one is not found, or a patch does not fit the code any more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "tests" / "planted"
LOOKS = (
    ("tests/unit/core", "tests/unit/engine", "tests/unit/flow", "tests/unit/worker"),
    ("tests/unit/server", "tests/unit/agent", "tests/store"),
    ("tests/crash",),
)
"""What is run, the quick ones first; the first failure ends it."""
COPIED = ("src", "tests", "examples", "bench", "docs", "tools", "pyproject.toml", "README.md", "CHANGELOG.md")


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one bug."""

    name: str
    breaks: str
    by: str
    """The test that found it; empty if none did."""
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev crash --planted", description=__doc__, allow_abbrev=False)
    parser.add_argument("--planted", action="store_true", help="this command")
    parser.add_argument("--only", default="", help="bugs with this in their name")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args()
    if not options.only and (failed := look_for(None).by):
        raise SystemExit(f"nothing is planted, and {failed} fails: there is nothing to be learned from the rest")
    bugs = [patch for patch in sorted(PATCHES.glob("*.patch")) if options.only in patch.stem]
    results: list[Found] = []
    for bug in bugs:
        results.append(look_for(bug))
        sys.stderr.write(_line(results[-1]))
    found = sum(bool(one.by) for one in results)
    seconds = round(sum(one.seconds for one in results))
    if options.json:
        sys.stdout.write(json.dumps({"found": found, "planted": len(bugs), "bugs": [*map(asdict, results)]}) + "\n")
    else:
        sys.stdout.write("".join(map(_line, results)) + f"found {found} of {len(bugs)} planted, {seconds} s\n")
    return 0 if bugs and found == len(bugs) else 1


def look_for(bug: Path | None) -> Found:
    """Plant a bug into a copy, or none, and run the tests until one fails."""
    breaks = bug.read_text(encoding="utf-8").partition("\n")[0] if bug else ""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-planted-") as folder:
        copy = Path(folder)
        plant(bug, copy)
        by = next(filter(None, (_failure(copy, look) for look in LOOKS)), "")
    return Found(bug.stem if bug else "", breaks, by, round(time.monotonic() - began, 1))


def plant(bug: Path | None, copy: Path) -> None:
    """Copy the project and apply the patch, if any. Raises `SystemExit` if it does not fit."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*cache"))
        else:
            shutil.copy(source, copy / name)
    if bug is None:
        return
    command = ["patch", "-p1", "--batch", "--silent", "--forward", "--input", str(bug)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{bug.name} does not fit the code any more: {done.stdout}{done.stderr}")


def _failure(copy: Path, look: tuple[str, ...]) -> str:
    """Run tests of a copy; return the first that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", "--no-header", *look]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == 0:
        return ""
    failed = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if failed is None:
        raise SystemExit(f"the tests could not be run at all:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return failed[1]


def _line(found: Found) -> str:
    return f"{found.name:<32}{found.seconds:>7.1f} s  {found.by or 'NOT FOUND'}\n"


if __name__ == "__main__":
    sys.exit(main())
