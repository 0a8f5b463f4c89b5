"""Logging: silent in a user's program, lines for people in a terminal, JSON lines for programs."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from perdure import log


@pytest.fixture(autouse=True)
def undisturbed() -> Iterator[None]:
    """`configure` is for whole processes: put back what it changes."""
    root, ours = logging.getLogger(), logging.getLogger("perdure")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def told(as_json: bool, level: str = "info") -> io.StringIO:
    out = io.StringIO()
    log.configure(level, stream=out, as_json=as_json)
    return out


def test_a_program_that_uses_the_library_sees_nothing() -> None:
    program = (
        "from perdure.log import get_log; log = get_log('perdure.x'); log.debug('a'); log.warning('b', c=1); "
        "log.error('d')"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_may_listen_with_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perdure"):
        log.get_log("perdure.x").info("task.claimed", task="turn 1", attempt=2)
    assert caplog.messages == ['task.claimed task="turn 1" attempt=2']


def test_json_lines_carry_event_and_fields() -> None:
    out = told(as_json=True)
    log.get_log("perdure.x").info("task.claimed", task="t", attempt=2, error=ValueError("odd"))
    logging.getLogger("other").warning("from %s", "elsewhere")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert {name: first[name] for name in ("level", "event", "task", "attempt", "error", "logger")} == {
        "level": "info",
        "event": "task.claimed",
        "task": "t",
        "attempt": 2,
        "error": "odd",
        "logger": "perdure.x",
    }
    assert first["at"].endswith("Z")
    assert (second["event"], second["level"]) == ("from elsewhere", "warning")


def test_lines_for_people_stay_lines() -> None:
    out = told(as_json=False)
    log.get_log("perdure.x").warning("a.b", text="two\nlines", plain="x")
    (line,) = out.getvalue().splitlines()
    assert line.endswith(r'warning a.b  text="two\nlines"  plain=x')


@pytest.mark.parametrize("as_json", [True, False])
def test_an_exception_comes_with_its_traceback(as_json: bool) -> None:
    out = told(as_json)
    try:
        raise ValueError("deep")
    except ValueError as error:
        log.get_log("perdure.x").exception("a.b", code=1)
        log.get_log("perdure.x").error("c.d", exc_info=error)
    assert out.getvalue().count("ValueError: deep") == 2


def test_levels_hold_back_what_is_below() -> None:
    out = told(as_json=True, level="warning")
    log.get_log("perdure.x").info("quiet")
    log.get_log("perdure.x").warning("loud")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["loud"]
