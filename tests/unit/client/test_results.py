"""What a program reads of an execution that has ended: its output, or why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure import Agent, ExecutionFailed, Status
from perdure.models.catalog import Catalog
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import say
from runtimes import runtime_at


def refuses(request: ModelRequest) -> ModelReply:
    raise ModelError("rejected", "the provider says no.")


def test_who_takes_the_output_of_a_failed_run_learns_why_there_is_none(tmp_path: Path) -> None:
    models = Catalog(scripted={"refuses": refuses, "says": [say("hello")]})
    with runtime_at(tmp_path / "p.db", models=models) as runtime:
        failed = runtime.run(Agent(name="a", model="scripted/refuses"), "Hi.")
        well = runtime.run(Agent(name="b", model="scripted/says"), "Hi.")
    assert (failed.status, failed.output, json.dumps(failed.output)) == (Status.FAILED, {}, "{}")
    with pytest.raises(ExecutionFailed, match=f"execution {failed.execution_id} failed: .*the provider says no"):
        failed.output["result"]
    with pytest.raises(ExecutionFailed, match="the provider says no"):
        failed.raise_for_status()
    assert failed.output.get("result") is None
    assert well.raise_for_status().output["result"] == "hello"
