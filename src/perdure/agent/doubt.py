"""Read the options of a tool that say what becomes of an unknown outcome, and which calls are the same act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

from perdure.agent.tool_rules import bad_tool, milliseconds
from perdure.core import codec
from perdure.core.delivery import Delivery
from perdure.core.rules import TaskRules

IfUnknown = Literal["ask", "give_up", "happened"]
Intent = Callable[[Any], Any]
"""From the arguments, as attributes, to what makes two calls the same act."""

_POLICIES = ("ask", "give_up", "happened")
_OF_ACTS = ("settle_seconds", "key_ttl_seconds", "probe", "if_unknown", "ruling_deadline_seconds", "intent", "simulate")
_MOST_CHARACTERS = 200


def with_doubt(name: str, options: Mapping[str, Any], delivery: Delivery, rules: TaskRules) -> TaskRules:
    """Return `rules` with those for an unknown outcome. Raises `InvalidInput` (`bad_tool`)."""
    given = [option for option in _OF_ACTS if options.get(option) is not None]
    if given and delivery is Delivery.REPEATABLE:
        raise bad_tool(
            name, f"has {given[0]} with delivery='repeatable', which changes nothing: leave it out, or say how it acts"
        )
    key_ttl, settle = options.get("key_ttl_seconds"), options.get("settle_seconds")
    if key_ttl is not None and delivery is not Delivery.AT_LEAST_ONCE:
        raise bad_tool(
            name, f"has key_ttl_seconds with delivery={str(delivery)!r}; only 'at_least_once' relies on keys"
        )
    rule_as, rule_by_ms = _policy(name, options)
    return replace(
        rules,
        settle_ms=None if settle is None else milliseconds(name, "settle_seconds", settle),
        key_ttl_ms=0 if key_ttl is None else milliseconds(name, "key_ttl_seconds", key_ttl, least=0.001),
        probe=options.get("probe") is not None,
        simulate=options.get("simulate") is not None,
        rule_as=rule_as,
        rule_by_ms=rule_by_ms,
    )


def _policy(name: str, options: Mapping[str, Any]) -> tuple[str, int]:
    policy, deadline = options.get("if_unknown", "ask"), options.get("ruling_deadline_seconds")
    if policy not in _POLICIES:
        raise bad_tool(name, f"has if_unknown={policy!r}; expected one of {', '.join(map(repr, _POLICIES))}")
    if (policy == "ask") != (deadline is None):
        missing = "ruling_deadline_seconds" if deadline is None else "if_unknown"
        raise bad_tool(
            name, f"lacks {missing}: a policy rules after a time that people and the probe have; give both or neither"
        )
    if deadline is None:
        return "", 0
    return policy, milliseconds(name, "ruling_deadline_seconds", deadline, least=0.001)


def read_intent(name: str, intent: object) -> Intent | None:
    """Return the function that names an act. Raises `InvalidInput` (`bad_tool`)."""
    if intent is not None and not callable(intent):
        raise bad_tool(name, f"has intent={intent!r:.80}; expected a function, as in `intent=lambda a: a.order_id`")
    return intent


def intent_of(intent: Intent, args: Mapping[str, Any]) -> str:
    """Return the act that a call is, as text. Runs the author's code; raises what that raises.

    Equal JSON is the same act. Raises `InvalidInput` (`unserialisable`) for what is none.
    """
    text = codec.encode(intent(SimpleNamespace(**args)), "the intent")
    return text if len(text) <= _MOST_CHARACTERS else codec.digest(text)
