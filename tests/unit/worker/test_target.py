"""`module:attribute`: what is found, and what is said when it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agent.agent import Agent
from perdure.errors import InvalidInput
from perdure.worker.main import lanes_of
from perdure.worker.target import load_agents, load_target

SOURCE = """
from perdure.agent.agent import Agent
from perdure.agent.tool import tool

@tool
def work(n: int) -> int:
    return n

class shop:
    refunds = Agent(name="refunds", model="scripted/x", tools=[work])

agent = Agent(name="desk", model="scripted/x", tools=[work])
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules of a user's, forgotten afterwards."""
    (tmp_path / "my_agents.py").write_text(SOURCE)
    (tmp_path / "broken_agents.py").write_text("import math\n\n\nprice = 1 / 0\n")
    (tmp_path / "needy_agents.py").write_text("import a_library_that_is_not_there\n")
    (tmp_path / "torn_agents.py").write_text("price = 1\n\nagent = Agent(\n")
    (tmp_path / "mistaken_agents.py").write_text(f"{SOURCE}Agent(name='no name', model='scripted/x')\n")
    (tmp_path / "program.py").write_text("raise SystemExit('usage: program.py FILE')\n")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("")
    (tmp_path / "my_package" / "desk.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def said(target: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        load_agents([target])
    assert caught.value.code == "bad_target"
    assert target in caught.value.message
    return caught.value.message


def test_agents_are_found_beside_the_user() -> None:
    agents = load_agents(["my_agents:agent", "my_agents:shop.refunds", "my_package.desk:agent"])
    assert [agent.name for agent in agents] == ["desk", "refunds", "desk"]
    assert isinstance(load_target("my_agents:agent"), Agent)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("my_agents.py", "for example my_agents:agent"),
        ("my_agents", "for example my_agents:agent"),
        ("./my_agents.py:agent", "for example my_agents:agent"),
        (":agent", "module:attribute"),
        ("my_agent:agent", "did you mean 'my_agents'"),
        ("my_package.desc:agent", "there is no 'my_package.desc'; did you mean 'desk'?"),
        ("nowhere.at.all:agent", "there is no 'nowhere'"),
        ("my_agents:agnet", "module my_agents has no 'agnet'; did you mean 'agent'?"),
        ("my_agents:work", "is a function, not an Agent"),
        ("broken_agents:agent", "broken_agents.py:4"),
        ("broken_agents:agent", "ZeroDivisionError: division by zero"),
        ("needy_agents:agent", "No module named 'a_library_that_is_not_there'"),
        ("torn_agents:agent", "torn_agents.py:3)"),
        ("mistaken_agents:agent", f"mistaken_agents.py:{len(SOURCE.splitlines()) + 1})"),
        ("program:agent", "if __name__ =="),
    ],
)
def test_a_mistake_is_told_with_what_is_near(target: str, expected: str) -> None:
    assert expected in said(target)


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two agents are called 'desk'"):
        lanes_of(load_agents(["my_agents:agent", "my_package.desk:agent"]))


def test_nothing_to_serve_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs no worker"):
        lanes_of([Agent(name="thinker", model="scripted/x")])


def test_lanes_are_the_tools_of_all() -> None:
    lanes = lanes_of(load_agents(["my_agents:agent", "my_agents:shop.refunds"]))
    assert sorted((lane.agent, lane.tool) for lane in lanes) == [("desk", "work"), ("refunds", "work")]
