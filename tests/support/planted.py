"""Put known bugs into copies of the project, one at a time; see whether the tests find them. `./dev crash --planted`.

Each `tests/planted/*.patch` says in its first line which promise it breaks. The product has no switches: a bug is a
patch of a copy. The same tests are run in the same order for each. A test that fails has to fail once more, and to pass
within the same limit of time where nothing is planted: else it has not found anything.
Exit code 1 if one is not found, or a patch does not fit the code any more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "tests" / "planted"
LOOKS = (
    ("tests/unit/engine", "tests/unit/store"),
    ("tests/unit/core", "tests/unit/flow", "tests/unit/agent", "tests/store"),
    ("tests/unit/worker", "tests/unit/server"),
    ("tests/crash/test_failpoints.py", "tests/crash/test_stopped.py", "tests/crash/test_functions.py"),
)
"""What is run, for every bug, one look after the other until a test fails: the quick ones first, then kills."""
LIMIT_SECONDS = 30
"""Of one test: several times what the slowest takes."""
MOST_SECONDS = 900
"""Of one look, after which the bug counts as not found by it."""
TWICE = 2
"""How often a test that failed is run again, alone, of which it has to fail once more."""
COPIED = ("src", "tests", "examples", "bench", "docs", "tools", "pyproject.toml", "README.md", "CHANGELOG.md")

RUNNING: set[int] = set()
"""Process groups of the tests that run now."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one bug."""

    name: str
    breaks: str
    by: str
    """The test that found it; empty if none did."""
    hung: bool
    """It did not fail but took too long; where nothing is planted it passes in time."""
    seconds: float
    trouble: str = ""
    """Why the tests could not be run at all."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a run of the tests ended."""

    test: str
    """The one that failed; empty if all passed."""
    kind: str
    """`passed`, `failed`, `hung`, or `broken`: the tests could not be run at all."""
    why: str


def main() -> int:
    options = _parser().parse_args()
    bugs = [patch for patch in sorted(PATCHES.glob("*.patch")) if options.only in patch.stem]
    if not bugs:
        raise SystemExit(f"no bug has {options.only!r} in its name")
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        results = _without_false_alarms(list(pool.map(_told, bugs)))
    seconds = round(time.monotonic() - began)
    if options.json:
        options.json.write_text(json.dumps(_summary(results, seconds), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("".join(map(_line, results)))
    found = sum(bool(one.by) for one in results)
    sys.stdout.write(f"found {found} of {len(bugs)} planted, {seconds} s\n")
    return 0 if found == len(bugs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev crash --planted", description=__doc__, allow_abbrev=False)
    parser.add_argument("--planted", action="store_true", help="this command")
    parser.add_argument("--only", default="", help="bugs with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="copies at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too, for programs")
    return parser


def _summary(results: Sequence[Found], seconds: int) -> dict[str, Any]:
    found = sum(bool(one.by) for one in results)
    return {"found": found, "planted": len(results), "seconds": seconds, "bugs": [*map(asdict, results)]}


def _told(bug: Path) -> Found:
    found = look_for(bug)
    sys.stderr.write(_line(found))
    return found


def look_for(bug: Path) -> Found:
    """Plant a bug into a copy and run the tests until one fails."""
    breaks = bug.read_text(encoding="utf-8").partition("\n")[0]
    began = time.monotonic()
    seen = Look("", "passed", "")
    for look in LOOKS:
        seen = _sure(bug, look)
        if seen.kind != "passed":
            break
    seconds = round(time.monotonic() - began, 1)
    trouble = f"{seen.test}: {seen.why}" if seen.kind == "broken" else ""
    return Found(bug.stem, breaks, "" if trouble else seen.test, seen.kind == "hung", seconds, trouble)


def _sure(bug: Path | None, look: Sequence[str]) -> Look:
    """Run one look. What fails once and then never again was not the bug's doing: the rest goes on without it."""
    spared: list[str] = []
    while True:
        seen = _look(bug, look, spared)
        if seen.kind == "broken" and not seen.test:  # somebody may have ended it from outside; a bug would do it again
            seen = _look(bug, look, spared)
        if seen.kind in ("passed", "broken") or any(_look(bug, (seen.test,)).kind != "passed" for _ in range(TWICE)):
            return seen
        spared.append(seen.test)


def _without_false_alarms(results: Sequence[Found]) -> list[Found]:
    """Take back what was found by a test that fails, or takes too long, where nothing is planted."""
    found, alarms = {one.by for one in results if one.by}, set[str]()
    while found - alarms and (seen := _look(None, sorted(found - alarms))).kind != "passed":
        if seen.test not in found:
            raise SystemExit(f"nothing is planted, and the tests could not be run at all: {seen}")
        alarms.add(seen.test)
    return [
        replace(one, by="", trouble=f"{one.by} fails where nothing is planted") if one.by in alarms else one
        for one in results
    ]


def plant(bug: Path | None, copy: Path) -> None:
    """Copy the project and apply the patch, if any. Raises `SystemExit` if it does not fit."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*cache"))
        else:
            shutil.copy(source, copy / name)
    if bug is not None:
        apply(bug, copy)


def apply(bug: Path, copy: Path) -> None:
    """Apply a patch to what it is about. Raises `SystemExit` if it does not fit."""
    command = ["patch", "-p1", "--batch", "--silent", "--forward", "--input", str(bug)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{bug.name} does not fit the code any more: {done.stdout}{done.stderr}")


def _look(bug: Path | None, tests: Sequence[str], spared: Sequence[str] = ()) -> Look:
    """Run tests of a copy until the first that fails."""
    with tempfile.TemporaryDirectory(prefix="perdure-planted-", ignore_cleanup_errors=True) as folder:
        copy, said = Path(folder) / "copy", Path(folder) / "said.json"
        copy.mkdir()
        plant(bug, copy)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "planted_watch",
            "--hypothesis-profile=planted",
        ]
        command += ["-n", "0", "-m", "not postgres", "--no-header", f"--timeout={LIMIT_SECONDS}", *tests]
        command += [f"--deselect={test}" for test in spared]
        with (Path(folder) / "output").open("w") as output:
            _run(command, copy, said, output)
        if said.exists():
            return Look(**json.loads(said.read_text(encoding="utf-8")))
        return Look("", "broken", (Path(folder) / "output").read_text(encoding="utf-8")[-3000:])


def _run(command: Sequence[str], copy: Path, said: Path, output: Any) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "tests" / "support")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PLANTED_FILE": str(said),
        "TMPDIR": str(said.parent),
    }
    options: dict[str, Any] = {"stdout": output, "stderr": output, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=copy, env=environment, start_new_session=True, **options) as tests:
        RUNNING.add(tests.pid)
        try:
            code = tests.wait(MOST_SECONDS)
            output.write(f"\nended with {code}\n")
        except subprocess.TimeoutExpired:
            said.write_text(json.dumps({"test": "", "kind": "passed", "why": f"not within {MOST_SECONDS} s"}))
        finally:
            RUNNING.discard(tests.pid)
            _end(tests.pid)  # the leader of a session of its own: what its tests started ends with it


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _line(found: Found) -> str:
    how = " (hung)" if found.hung and found.by else ""
    return f"{found.name:<32}{found.seconds:>7.1f} s  {found.by or found.trouble or 'NOT FOUND'}{how}\n"


def _leave() -> None:
    """End at once, with all tests that run."""
    for group in list(RUNNING):
        _end(group)
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: _leave())
    signal.signal(signal.SIGINT, lambda *_: _leave())
    sys.exit(main())
