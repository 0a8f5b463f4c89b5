"""What a check of durable code finds: all outside steps that a re-run would see otherwise, and nothing inside."""

from __future__ import annotations

import textwrap

import pytest

from perdure.worker.outside_steps import find_outside_steps

HEAD = """
import os, random, time, uuid
import datetime as dt
from datetime import datetime
from pathlib import Path
import httpx
import asyncio
from perdure import flow
from perdure.flow import durable, step

"""


def found(body: str, *, before: str = "", decorator: str = "@durable") -> list[tuple[str, str]]:
    source = f"{HEAD}{before}\n{decorator}\nasync def onboard(who):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return [(one.what, one.kind) for one in find_outside_steps(source)]


@pytest.mark.parametrize(
    ("line", "what", "kind"),
    [
        ("time.time()", "time.time", "time"),
        ("time.sleep(1)", "time.sleep", "time"),
        ("await asyncio.sleep(1)", "asyncio.sleep", "time"),
        ("datetime.now()", "datetime.datetime.now", "time"),
        ("dt.datetime.utcnow()", "datetime.datetime.utcnow", "time"),
        ("random.choice([1, 2])", "random.choice", "chance"),
        ("x = str(uuid.uuid4())", "uuid.uuid4", "chance"),
        ("os.environ['KEY']", "os.environ", "environment"),
        ("os.environ.get('KEY')", "os.environ.get", "environment"),
        ("os.getenv('KEY')", "os.getenv", "environment"),
        ("open('x')", "open", "IO"),
        ("Path('x').read_text()", "….read_text", "IO"),
        ("httpx.get('http://x')", "httpx.get", "IO"),
        ("await asyncio.wait_for(step(act), 3)", "asyncio.wait_for", "a race"),
    ],
)
def test_it_names_what_is_outside_a_step(line: str, what: str, kind: str) -> None:
    assert found(line) == [(what, kind)]


@pytest.mark.parametrize(
    "line",
    [
        "await step(time.time)",
        "await step(lambda: open('x').read(), name='read')",
        "await flow.step(httpx.get, 'http://x')",
        "await flow.sleep(3)",
        "x = dt.timedelta(days=1)",
        "await asyncio.gather(step(act), step(act))",
    ],
)
def test_what_is_in_a_step_or_recorded_is_fine(line: str) -> None:
    assert found(line) == []


def test_a_body_declared_inside_is_no_durable_code_and_a_branch_is() -> None:
    body = """
    async def body():
        return time.time()
    async def branch():
        return random.random()
    await step(body)
    await asyncio.gather(branch())
    """
    assert found(body) == [("random.random", "chance")]


def test_it_follows_functions_of_the_module() -> None:
    before = "async def helper():\n    return os.getenv('X')\n\ndef body():\n    return time.time()\n"
    assert found("await helper()\nawait step(body)", before=before) == [("os.getenv", "environment")]


def test_it_knows_the_decorator_by_any_name_and_leaves_other_functions_alone() -> None:
    assert found("time.time()", decorator="@flow.durable(build='1')") == [("time.time", "time")]
    assert found("time.time()", decorator="") == []


def test_each_finding_has_its_line_and_a_cure() -> None:
    [one] = find_outside_steps(
        f"{HEAD}@durable\nasync def onboard(who):\n    await step(act)\n    return time.time()\n"
    )
    assert (one.line, one.function) == (len(HEAD.splitlines()) + 4, "onboard")
    assert "now()" in one.cure
