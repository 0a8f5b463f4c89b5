"""Stores that earlier versions wrote are opened and their executions finished. A format change adds a folder here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden_agents import agent, script
from perdure import AgentHandle, AgentRuntime, Status
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.upkeep.copying import copy
from perdure.upkeep.migration import migrate_store
from runtimes import runtime_at
from which_store import kind, store_at

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent.name for path in HERE.glob("*/perdure.db"))

MODEL_CALLS_LEFT = {"completed": 0, "task": 3, "approval": 2, "uncertain": 1, "paused": 2}
"""Replies that each stage's log does not hold yet. More calls would mean that a recorded one was asked for again."""


class Asked:
    """The script, noting for which execution it is asked: opening a store sets all of them going."""

    def __init__(self) -> None:
        self.executions: list[str] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        self.executions.append(request.call.partition("/")[0])
        return script(request)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def runtime(
    folder: str, asked: Asked, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentRuntime]:
    """Run on an old file as it is; or, on a database, on what was copied there from it."""
    models = Catalog(scripted={"golden": asked})
    file = tmp_path_factory.mktemp("golden") / "perdure.db"
    shutil.copy(HERE / folder / "perdure.db", file)
    if kind() == "postgres":
        migrate_store(file)
        copy(file, store_at(tmp_path / "p.db"))
    with runtime_at(tmp_path / "p.db" if kind() == "postgres" else file, models=models) as runtime:
        yield runtime


def finish(handle: AgentHandle) -> None:
    """Do what a person would: resume, approve, rule."""
    status = handle.get_status()
    if status.status is Status.PAUSED:
        handle.resume()
    for event in handle.stream():
        match type(event).__name__:
            case "ApprovalRequested" if handle.get_status().is_waiting:
                handle.approve()
            case "ToolUncertain":
                wait = handle.get_status().waits[0]
                handle.rule(wait.address, "happened", value="paid 4200", by="golden")
            case _:
                pass


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("stage", MODEL_CALLS_LEFT)
def test_an_execution_of_an_earlier_version_goes_on_where_it_stood(
    runtime: AgentRuntime, asked: Asked, folder: str, stage: str
) -> None:
    execution = json.loads((HERE / folder / "executions.json").read_text(encoding="utf-8"))[stage]
    runtime.serve(agent, blocking=False)
    handle = runtime.attach(execution)
    finish(handle)
    result = handle.result().raise_for_status()
    assert str(result.output["result"]).startswith("done after")
    assert asked.executions.count(execution) == MODEL_CALLS_LEFT[stage]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_start_key_of_an_earlier_version_still_holds(runtime: AgentRuntime, folder: str) -> None:
    execution = json.loads((HERE / folder / "executions.json").read_text(encoding="utf-8"))["completed"]
    assert runtime.start(agent, "stage completed", idempotency_key="key-completed").execution_id == execution


def test_there_is_something_golden() -> None:
    assert FOLDERS
