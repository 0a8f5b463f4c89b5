"""A client's log tells accepted, refused and unknown apart, also when its writer dies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.testing.client_log import ClientLog, pair


def outcomes(log: ClientLog) -> list[tuple[str, str, str | None, dict[str, object]]]:
    return [(asked.op, asked.outcome, asked.execution, asked.value) for asked in pair(log.lines())]


def test_an_accepted_start_names_its_execution(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "client.log")
    with log.asking("start", key="k") as start:
        start.execution = "exe_1"
        start.value["created"] = True
    assert outcomes(log) == [("start", "ok", "exe_1", {"key": "k", "created": True})]


def test_a_refusal_is_told_from_the_unknown(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "client.log")
    for error in (LookupError("no"), TimeoutError("?")):
        with pytest.raises(type(error)), log.asking("cancel", execution="exe_1", refusals=(LookupError,)):
            raise error
    assert [outcome for _, outcome, _, _ in outcomes(log)] == ["fail", "info"]


def test_a_question_whose_asker_died_is_unknown(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "client.log")
    child = os.fork()
    if not child:
        with log.asking("send", execution="exe_1", dedupe="m"):
            os._exit(0)
    os.waitpid(child, 0)
    log.invoke("pause", execution="exe_1")
    assert outcomes(log) == [
        ("send", "info", "exe_1", {"dedupe": "m"}),
        ("pause", "info", "exe_1", {}),
    ]


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "client.log")
    assert log.lines() == []
    log.invoke("pause", execution="exe_1")
    with log.path.open("a") as file:
        file.write('{"type": "ok", "ca')
    assert outcomes(log) == [("pause", "info", "exe_1", {})]
