"""What an author says of unknown outcomes is checked when the tool is declared, and reaches the server complete."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, InvalidInput, Outcome, ToolContext
from perdure.agent.doubt import intent_of
from perdure.agent.spec import spec_from_json
from perdure.agent.tool import definition_of, tool
from perdure.core.delivery import Delivery
from perdure.core.rules import TaskRules
from perdure.core.work import Lane


def pay(order_id: str, cents: int, ctx: ToolContext) -> str:
    """Pay an order."""
    return f"{order_id} {cents} {ctx.attempt}"


def look(order_id: str) -> Outcome:
    return Outcome.happened(f"receipt of {order_id}")


def refused(**options: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        tool(**options)(pay)
    assert caught.value.code == "bad_tool"
    return caught.value.message


def test_the_rules_for_doubt_reach_the_server() -> None:
    declared = tool(
        delivery="at_most_once",
        settle_seconds=5,
        probe=look,
        if_unknown="give_up",
        ruling_deadline_seconds=3_600,
        intent=lambda a: a.order_id,
    )(pay)
    agent = Agent(name="payer", model="scripted/payer", tools=[declared])
    rules = spec_from_json(agent.compile()).tools[0].rules
    assert (rules.settle_ms, rules.probe, rules.rule_as, rules.rule_by_ms) == (5_000, True, "give_up", 3_600_000)


def test_without_them_a_person_is_asked_for_as_long_as_it_takes() -> None:
    rules = definition_of(tool(delivery="at_most_once")(pay)).options.rules
    assert (rules.settle_ms, rules.probe, rules.rule_as, rules.rule_by_ms, rules.key_ttl_ms) == (None, False, "", 0, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delivery": "repeatable", "probe": look}, "has probe with delivery='repeatable'"),
        ({"delivery": "repeatable", "intent": len}, "has intent with delivery='repeatable'"),
        ({"delivery": "at_most_once", "key_ttl_seconds": 60}, "only 'at_least_once' relies on keys"),
        ({"key_ttl_seconds": 0}, "key_ttl_seconds=0"),
        ({"settle_seconds": -1}, "settle_seconds=-1"),
        ({"if_unknown": "run"}, "expected one of 'ask', 'give_up', 'happened'"),
        ({"if_unknown": "give_up"}, "lacks ruling_deadline_seconds"),
        ({"ruling_deadline_seconds": 60}, "lacks if_unknown"),
        ({"intent": "order_id"}, "expected a function"),
        ({"probe": 7}, "expected a function"),
        ({"probe": lambda invoice: None}, "probe"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    assert said in refused(**options)


def test_a_probe_is_called_with_those_arguments_that_it_names() -> None:
    def strange(invoice: str) -> Outcome:
        return Outcome.unknown()

    assert "wants 'invoice', which is no parameter of the tool" in refused(probe=strange)


def test_a_probe_is_served_beside_its_tool_under_a_name_that_no_tool_can_have() -> None:
    declared = tool(delivery="at_most_once", probe=look, queue="money")(pay)
    lanes = Agent(name="payer", model="scripted/payer", tools=[declared]).lanes()
    assert set(lanes) == {Lane("payer", "pay", "money"), Lane("payer", "pay?probe", "money")}
    found = lanes[Lane("payer", "pay?probe", "money")]
    assert found.options.delivery is Delivery.REPEATABLE
    assert found.function(order_id="o1", cents=5) == {"happened": True, "value": "receipt of o1"}


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (Outcome.happened(), {"happened": True, "value": None}),
        (Outcome.did_not_happen(), {"happened": False, "value": None}),
        (Outcome.unknown(), {"happened": None, "value": None}),
    ],
)
def test_what_a_probe_may_answer(outcome: Outcome, answer: dict[str, Any]) -> None:
    probe = definition_of(tool(delivery="at_most_once", probe=lambda: outcome)(pay)).probing()
    assert probe is not None
    assert probe.function(order_id="o1", cents=5) == answer


@pytest.mark.parametrize("said", [True, None, "yes"])
def test_any_other_answer_is_a_mistake_of_its_author(said: Any) -> None:
    probe = definition_of(tool(delivery="at_most_once", probe=lambda: said)(pay)).probing()
    assert probe is not None
    with pytest.raises(Exception, match=r"expected Outcome\.happened") as caught:
        probe.function(order_id="o1", cents=5)
    assert getattr(caught.value, "code", None) == "bad_probe"


def test_equal_json_is_the_same_act() -> None:
    def intent(a: Any) -> Any:
        return (a.order_id, a.cents)

    assert intent_of(intent, {"order_id": "o1", "cents": 5, "note": "x"}) == '["o1",5]'
    assert intent_of(intent, {"order_id": "o1", "cents": 5, "note": "y"}) == '["o1",5]'
    long = intent_of(intent, {"order_id": "o" * 5_000, "cents": 5})
    assert len(long) < 100
    with pytest.raises(InvalidInput):
        intent_of(lambda a: object(), {})


def test_a_floor_tightens_what_would_be_tried_again_and_nothing_else() -> None:
    tools = [
        tool(name="a")(lambda: None),
        tool(name="b", delivery="repeatable")(lambda: None),
        tool(name="c", key_ttl_seconds=60)(lambda: None),
        tool(name="d", delivery="transactional")(lambda: None),
    ]
    agent = Agent(name="payer", model="scripted/payer", tools=tools, delivery_floor="at_most_once")
    found = {one.name: one for one in spec_from_json(agent.compile()).tools}
    assert [found[name].delivery for name in "abcd"] == [
        Delivery.AT_MOST_ONCE, Delivery.REPEATABLE, Delivery.AT_MOST_ONCE, Delivery.TRANSACTIONAL,
    ]  # fmt: skip
    assert found["c"].rules.key_ttl_ms == 0
    loose = Agent(name="payer", model="scripted/payer", tools=tools)
    assert spec_from_json(loose.compile()).tools[0].delivery is Delivery.AT_LEAST_ONCE


def test_a_floor_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="delivery_floor='repeatable'") as caught:
        Agent(name="payer", model="scripted/payer", delivery_floor="repeatable")  # type: ignore[arg-type]
    assert caught.value.code == "bad_agent"


def test_the_rules_are_those_that_are_stored() -> None:
    assert TaskRules(settle_ms=0).settle_ms == 0, "nothing to wait for is not the default wait"
