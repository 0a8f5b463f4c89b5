"""A pytest plugin for the search for planted bugs: at the first failure say which test it was, and leave at once.

Loaded by name (`-p planted_watch`) in the processes of `planted.py` alone. It leaves without any clean-up: whatever a
bug has left hanging would keep the process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import hypothesis
import pytest

FILE = "PLANTED_FILE"
"""Names the file to write to."""
HUNG, SAID = "Timeout (", "AssertionError"
"""How pytest-timeout begins what it says of a test that took too long; and what is in what any other test says. A test
of examples may say both: it had found a false one and went on to look for a smaller one."""

# A false example is enough: a smaller one, or a second one, would only take time.
hypothesis.settings.register_profile(
    "planted",
    deadline=None,
    derandomize=True,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        why = report.longreprtext
        _leave(report.nodeid, kind="hung" if HUNG in why and SAID not in why else "failed", why=why)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _leave(report.nodeid, kind="broken", why=report.longreprtext)


def pytest_sessionfinish(exitstatus: int) -> None:
    _leave("", kind="passed" if exitstatus == pytest.ExitCode.OK else "broken", why=f"exit status {exitstatus}")


def _leave(test: str, *, kind: str, why: str) -> None:
    Path(os.environ[FILE]).write_text(json.dumps({"test": test, "kind": kind, "why": why[-2000:]}), encoding="utf-8")
    os._exit(0)
