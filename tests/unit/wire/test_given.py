"""What a client asks for names only what it asks for: a server of the version before understands the rest."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from perdure.wire import bodies, codec


def test_what_is_at_its_default_is_not_said() -> None:
    body = bodies.DecisionBody("approve", "ops")
    assert orjson.loads(codec.dump_given(body)) == {"decision": "approve", "by": "ops"}
    assert orjson.loads(codec.dump_given(bodies.ReasonBody())) == {}


def test_what_has_no_default_is_said_whatever_it_is() -> None:
    assert orjson.loads(codec.dump_given(bodies.StartBody({}, None))) == {"spec": {}, "input": None}


@pytest.mark.parametrize(
    "body",
    [
        bodies.StartBody({"name": "a"}, {"x": [1]}, "key", "ann"),
        bodies.SignalBody("noon"),
        bodies.ScheduleBody("s", {}, "in", "* * * * *", missed="skip"),
        bodies.TriggerBody(),
        bodies.CompleteBody(0),
        bodies.RulingBody("a/b", "happened", value=False),
        bodies.ForkBody(3, results={"a": None}),
    ],
    ids=lambda body: type(body).__name__,
)
def test_the_reader_finds_what_was_meant(body: Any) -> None:
    assert codec.load(type(body), codec.dump_given(body)) == body
