"""Two servers of one user, each on a store of its own: commands never guess which one is meant, and no key is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_processes import Home
from which_store import store_at


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def test_commands_take_the_one_that_runs_and_ask_where_two_do(home: Home) -> None:
    here = home.serve()
    there = home.serve("--store", store_at(home.folder / "other.db"))
    both = home.command("executions", "list")
    assert both.returncode != 0
    assert here.url in both.stderr
    assert there.url in both.stderr
    assert "--server URL" in both.stderr
    for one in (here, there):  # each with the key of its own, found by itself
        assert home.json("executions", "list", "--server", one.url) == {"items": [], "cursor": None}

    assert there.end() == 0
    assert home.command("executions", "list").returncode == 0
    again = home.serve("--store", store_at(home.folder / "other.db"))
    assert again.ready["key"] is None, "the other server did not take its key away"
    assert json.loads(Path(again.ready["state_file"]).read_text())["key"] == there.ready["key"]
