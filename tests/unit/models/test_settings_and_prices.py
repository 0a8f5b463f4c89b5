"""Settings are checked by name and kind; prices are known or unknown, and never zero for want of knowing."""

from __future__ import annotations

import pytest

from perdure.core.codec import Json
from perdure.models import settings
from perdure.models.port import ModelError, ModelRequest, Usage
from perdure.models.prices import cost_usd


def resolve(**chosen: Json) -> dict[str, object]:
    return settings.resolve(ModelRequest("openai/x", "", (), settings=chosen))


def test_every_request_has_an_end_and_no_hidden_retry() -> None:
    assert resolve() == {
        "timeout": settings.SILENCE_SECONDS,
        "request_timeout": settings.TOTAL_SECONDS,
        "max_retries": 0,
        "framing_announcement": "never",
    }
    assert resolve(timeout=5)["timeout"] == 5
    assert resolve(timeout=7200)["request_timeout"] == 7200


def test_settings_are_passed_on() -> None:
    chosen = resolve(temperature=0, max_tokens=5, seed=1, stop_sequences=["x"], top_p=None, reasoning_effort="low")
    assert chosen["temperature"] == 0
    assert chosen["thinking"] == "low"
    assert "top_p" not in chosen
    assert "reasoning_effort" not in chosen
    assert resolve(reasoning_effort="none")["thinking"] is False
    assert "stream" not in resolve(stream=False), "it is about how a reply comes, and for nobody else to know"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_retries", 3),
        ("temprature", 1),
        ("temperature", "hot"),
        ("temperature", True),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("timeout", 0),
        ("timeout", "soon"),
        ("stop_sequences", "x"),
        ("stop_sequences", [1]),
        ("parallel_tool_calls", "yes"),
        ("reasoning_effort", "heroic"),
        ("seed", "x"),
        ("stream", "yes"),
    ],
)
def test_a_setting_that_is_wrong_is_named(name: str, value: Json) -> None:
    with pytest.raises(ModelError, match=f"'{name}'") as failure:
        resolve(**{name: value})
    assert failure.value.kind == "rejected"
    assert not failure.value.maybe_billed


def test_cached_tokens_have_their_own_price() -> None:
    fresh = cost_usd("openai", "gpt-4o", Usage(input_tokens=1_000_000, output_tokens=0))
    cached = cost_usd("openai", "gpt-4o", Usage(input_tokens=1_000_000, output_tokens=0, cache_read_tokens=1_000_000))
    assert fresh
    assert cached
    assert 0 < cached < fresh


def test_what_is_not_known_is_unknown() -> None:
    used = Usage(input_tokens=100, output_tokens=10)
    assert cost_usd("openai", "no-such-model", used) is None
    assert cost_usd("nobody", "gpt-4o", used) is None
    assert cost_usd("openai", "gpt-4o", Usage()) is None
    assert cost_usd("openai", "gpt-4o", Usage(input_tokens=1, cache_read_tokens=100)) is None


def test_an_address_of_the_owner_is_not_priced_by_a_borrowed_name() -> None:
    used = Usage(input_tokens=100, output_tokens=10)
    assert cost_usd("openai", "gpt-4o", used, base_url="http://localhost:8000/v1") is None
    assert cost_usd("openai", "gpt-4o", used, base_url="https://api.openai.com/v1")
