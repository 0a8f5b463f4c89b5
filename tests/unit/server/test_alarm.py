"""What a person has to look at is said in the server's log, once, with the command that helps."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from node_bench import node_over, tool
from perdure.models.scripted import call, say
from perdure.server.alarm import with_alarms
from perdure.store.tx import Note

pytestmark = pytest.mark.anyio


async def test_an_effect_that_nobody_knows_of_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    send = tool("send", delivery="at_most_once", attempts=1)
    async with node_over(tmp_path, [call("send"), say("?")]) as bench:
        execution = await bench.start(send)
        task = await bench.uncertain("send")
        await bench.until(execution, "step_recorded", address="turn 2/model")
    said = [record for record in caplog.records if record.name == "perdure.server.alarm"]
    [text] = [record.getMessage() for record in said]
    assert text.startswith("effect.uncertain ")
    assert f"perdure effects rule {execution} '{task.address}' happened|run|give-up" in text


def test_hints_are_given_first_and_nothing_of_the_call_is_told(caplog: pytest.LogCaptureFixture) -> None:
    given: list[Note] = []
    row = {"kind": "effect_contradicted", "execution": "exe_1", "address": "tool", "data": '{"value":"secret"}'}
    note = Note("events", "exe_1", rows=(row, {**row, "kind": "message"}))
    with_alarms(given.extend)([note, Note("ready", "")])
    assert given == [note, Note("ready", "")]
    [record] = caplog.records
    assert record.getMessage().startswith("effect.contradicted ")
    assert "perdure prove exe_1" in record.getMessage()
    assert "secret" not in str(vars(record))
