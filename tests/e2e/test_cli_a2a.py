"""`perdure a2a` as people use it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cli_processes import Home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve("--script", "auditor=http_agents:audit")
    yield home
    home.close()


def test_an_agent_is_published_and_withdrawn(home: Home) -> None:
    assert "No agent is published" in home.command("a2a", "list").stdout
    said = home.command("a2a", "publish", "cli_agents:agent", "--description", "Decides.", "--by", "ann")
    assert "Agent clerk is reached at /a2a/clerk" in said.stdout, said.stderr
    [shown] = json.loads(home.command("a2a", "list", "--json").stdout)["items"]
    assert (shown["agent"], shown["description"]) == ("clerk", "Decides.")
    assert "/a2a/clerk" in home.command("a2a", "list").stdout
    assert "Nobody is told" in home.command("a2a", "pushes").stdout
    assert json.loads(home.command("a2a", "pushes", "--given-up", "--json").stdout) == {"items": []}
    assert "not reached any more" in home.command("a2a", "withdraw", "clerk").stdout
    assert "error[no_such_agent]" in home.command("a2a", "withdraw", "clerk").stderr
