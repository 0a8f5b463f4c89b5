"""`http_tool`: what may be declared, and what a definition keeps of it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agent.agent import Agent
from perdure.agent.spec import spec_from_json
from perdure.core.delivery import Delivery
from perdure.core.work import SERVER_QUEUE
from perdure.errors import InvalidInput
from perdure.toolbox.http_tool import http_tool

SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}}}


def refund(**options: Any) -> Any:
    given: dict[str, Any] = {"url": "https://shop.example/orders/{order}/refund", "method": "post", **options}
    return http_tool("refund", "Refund an order.", input_schema=SCHEMA, **given)


def test_it_is_part_of_the_definition_and_no_worker_serves_it() -> None:
    agent = Agent(name="clerk", model="scripted/x", tools=[refund(headers={"Authorization": "Bearer ${env:KEY}"})])
    assert agent.lanes() == {}
    tool = spec_from_json(agent.compile()).tools[0]
    assert tool.queue == SERVER_QUEUE
    assert tool.timeout_ms == 30_000
    assert tool.http is not None
    assert tool.http.method == "POST"
    assert tool.http.headers == {"Authorization": "Bearer ${env:KEY}"}


@pytest.mark.parametrize(
    ("method", "delivery"), [("GET", "repeatable"), ("HEAD", "repeatable"), ("DELETE", "at_least_once")]
)
def test_the_method_chooses_a_delivery_if_none_is_given(method: str, delivery: str) -> None:
    assert refund(method=method).entry.delivery == delivery
    assert refund(method=method, delivery="at_most_once").entry.delivery is Delivery.AT_MOST_ONCE


def test_a_policy_of_the_agent_holds_for_it() -> None:
    agent = Agent(name="clerk", model="scripted/x", tools=[refund()], delivery_floor="at_most_once")
    assert spec_from_json(agent.compile()).tools[0].delivery is Delivery.AT_MOST_ONCE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "BREW"}, "method='BREW'"),
        ({"url": "ftp://shop.example/"}, "expected http"),
        ({"url": "https:///x"}, "expected http"),
        ({"url": "https://{order}.example/"}, "a host that no argument changes"),
        ({"url": "https://shop.example:{order}/"}, "url="),
        ({"url": "https://ann:pw@shop.example/"}, "user or password"),
        ({"url": "https://shop.example/#top"}, "fragment"),
        ({"url": "https://shop.example/{item}"}, "names {item}"),
        ({"headers": {"A b": "x"}}, "header 'A b'"),
        ({"headers": {"Host": "other"}}, "header 'Host'"),
        ({"headers": {"Idempotency-Key": "x"}}, "header 'Idempotency-Key'"),
        ({"headers": {"X": "a\r\nY: b"}}, "not printable"),
        ({"delivery": "transactional"}, "is transactional"),
        ({"timeout_seconds": None}, "needs an end"),
        ({"isolated": True}, "isolated"),
        ({"probe": print}, "probe"),
        ({"queue": "mine"}, "queue"),
        ({"retires": 3}, "no option 'retires'"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match="refund") as refused:
        refund(**options)
    assert words in refused.value.message
    assert refused.value.code == "bad_tool"


@pytest.mark.parametrize("schema", [[], {"type": "string"}, {"type": "object", "properties": 3}])
def test_arguments_need_a_schema_of_an_object(schema: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        http_tool("x", "X.", "https://shop.example/", input_schema=schema)
    assert refused.value.code == "bad_schema"


def test_a_pattern_that_no_call_could_be_held_against_is_refused_at_once() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "array", "items": {"pattern": r"^(?=a)(a+)+$"}}}}
    with pytest.raises(InvalidInput, match=r"tool x.*Write it without repeating what repeats") as refused:
        http_tool("x", "X.", "https://shop.example/", input_schema=schema)
    assert refused.value.code == "bad_schema"


def test_a_value_that_is_named_pattern_is_none() -> None:
    schema = {"type": "object", "properties": {"rule": {"const": {"pattern": "("}}}}
    assert http_tool("x", "X.", "https://shop.example/", input_schema=schema)


def test_the_servers_queue_is_for_its_own_tools_alone() -> None:
    agent = Agent(name="clerk", model="scripted/x", tools=[refund()])
    tampered: Any = agent.compile()
    tampered["tools"][0]["http"] = None
    with pytest.raises(InvalidInput, match="tools that a server calls"):
        spec_from_json(tampered)
