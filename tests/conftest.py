"""What every test stands on: surroundings of its own, one async backend, PostgreSQL.
A skip that tests/skips.txt does not declare fails.

`--store` says what stores are in. Without it every test runs on SQLite, and those marked `both_stores` on PostgreSQL
too. `--store postgres` runs everything there once, except what is marked `sqlite_only`, and says what that was and why.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

import postgres_server
import together
import which_store

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


OF_A_SESSION = {**postgres_server.SERVER_OPTIONS, "fsync": "off"}
"""Nothing that a process can do to this server, SIGKILL included, loses what the system was given to write: only a
machine that stops does, and those tests bring a disk of their own. It is most of what making a database costs."""
_left_out: Counter[str] = Counter()
"""Why tests do not run on PostgreSQL, and how many each reason concerns."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=("sqlite", "postgres"),
        help="what stores are in; by default SQLite, and for tests marked both_stores PostgreSQL too",
    )
    parser.addoption("--postgres-binaries", type=Path, metavar="DIR", help="run the tests' PostgreSQL from here")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("postgres_binaries")
    if given is not None and not (given / "postgres").is_file():
        raise pytest.UsageError(f"--postgres-binaries {given}: a folder with initdb and postgres is expected")
    postgres_server.chosen = given and given.resolve()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have tests run on both stores that are to; those of the engine are, wherever they use one."""
    test = metafunc.definition
    engine = test.path.is_relative_to(TESTS / "unit" / "engine") and "bench" in metafunc.fixturenames
    both = (engine or test.get_closest_marker("both_stores")) and not test.get_closest_marker("sqlite_only")
    if both and metafunc.config.getoption("store") is None:
        metafunc.parametrize("store_kind", ["sqlite", "postgres"], indirect=True, scope="module")


def pytest_unconfigure() -> None:
    shutil.rmtree(_home, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has no meaning on PostgreSQL, where that is asked for; mark what kills processes or needs it."""
    if config.getoption("store") == "postgres":
        marks = [(item, item.get_closest_marker("sqlite_only")) for item in items]
        _left_out.update(mark.args[0] for _, mark in marks if mark)
        config.hook.pytest_deselected(items=[item for item, mark in marks if mark])
        items[:] = [item for item, mark in marks if not mark]
    for item in items:
        if item.path.is_relative_to(TESTS / "crash"):
            item.add_marker(pytest.mark.crash)
        chosen = getattr(getattr(item, "callspec", None), "params", {}).get("store_kind")
        if "postgres_dsn" in getattr(item, "fixturenames", ()) or chosen == "postgres":
            item.add_marker(pytest.mark.postgres)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process, for its tests share what they stand on; and some folders, see `together`."""
    return together.Scheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear from one of several processes what it left out. Each of them looks at all tests."""
    _left_out.clear()
    _left_out.update(node.workeroutput.get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and why."""
    if _left_out:
        terminalreporter.section("not run on PostgreSQL")
        for reason, count in sorted(_left_out.items()):
            terminalreporter.line(f"{count:5} {reason}")


def declared_skips() -> dict[str, str]:
    """Return the patterns of test ids that may be skipped, each with its reason."""
    lines = (line.strip() for line in (TESTS / "skips.txt").read_text(encoding="utf-8").splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {pattern.strip(): reason.strip() for pattern, _, reason in pairs}


def _refuse_undeclared_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        patterns = declared_skips()
        if not any(fnmatchcase(report.nodeid, pattern) for pattern in patterns):
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
    with postgres_server.running_server(binaries, options=OF_A_SESSION) as server:
        yield server.address


@pytest.fixture
def store_database(store_databases: which_store.Databases) -> Iterator[str]:
    """The address of a database with nothing in it but, perhaps, a store's tables: making them takes long."""
    address = store_databases.take()
    yield address
    store_databases.give_back(address)


@pytest.fixture(scope="session")
def store_databases(postgres_dsn: str) -> which_store.Databases:
    """Databases for the stores of this test process."""
    return which_store.Databases(postgres_dsn)


@pytest.fixture(scope="module", autouse=True)
def store_kind(request: pytest.FixtureRequest) -> Iterator[which_store.Kind]:
    """What the stores of these tests are in; those of a fixture of the module are kept until the module ends."""
    kind: which_store.Kind = getattr(request, "param", None) or request.config.getoption("store") or "sqlite"
    if request.path.is_relative_to(TESTS / "store"):
        kind = "sqlite"  # what is neither, these tests say by themselves: each is about one store, or names both
    databases = request.getfixturevalue("store_databases") if kind == "postgres" else None
    with which_store.stores_in(databases):
        yield kind


@pytest.fixture(autouse=True)
def _stores_of_the_test(request: pytest.FixtureRequest, store_kind: which_store.Kind) -> Iterator[None]:
    """Take the databases of a test back; and see, where it was to run on them, that it did."""
    with which_store.places_of_its_own():
        yield
    if store_kind == "postgres" and not request.node.get_closest_marker("sqlite_only"):
        folder = request.node.funcargs.get("tmp_path")
        files = which_store.files_in(folder) if folder else []
        assert not files, f"it ran on {files}: open stores by which_store, or mark it sqlite_only and say why"


_databases = count(1)


@pytest.fixture
def postgres_database(postgres_dsn: str) -> Iterator[str]:
    """The address of an empty database, dropped when the test ends."""
    name = f"test_{next(_databases)}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield postgres_dsn.replace("/postgres?", f"/{name}?")
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
