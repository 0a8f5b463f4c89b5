"""Names, missing packages, and which key goes to which address."""

from __future__ import annotations

import sys

import pytest

from perdure.models import providers
from perdure.models.port import ModelError, ModelRequest
from perdure.models.providers import NO_KEY, PROVIDERS, find, key_for, split


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("openai/gpt-5.5", ("openai", "gpt-5.5")),
        ("openai:gpt-5.5", ("openai", "gpt-5.5")),
        ("openrouter/anthropic/claude-opus-4.8", ("openrouter", "anthropic/claude-opus-4.8")),
        ("ollama/qwen3:8b", ("ollama", "qwen3:8b")),
        ("OpenAI/gpt-5.5", ("openai", "gpt-5.5")),
        ("gpt-5.5", ("", "gpt-5.5")),
        ("test:", ("test", "")),
    ],
)
def test_a_name_is_cut_at_its_first_separator(model: str, parts: tuple[str, str]) -> None:
    assert split(model) == parts


@pytest.mark.parametrize(
    ("model", "base_url", "environ", "given", "streams"),
    [
        ("openai/gpt-5.5", None, {}, None, True),
        ("anthropic/claude-opus-4.8", None, {"OPENAI_BASE_URL": "http://proxy"}, None, True),
        ("ollama/qwen3:8b", None, {}, None, True),
        ("openai/gpt-5.5", None, {}, False, False),
        ("openai/gpt-5.5", None, {"OPENAI_BASE_URL": "http://proxy"}, None, False),
        ("openai/gpt-5.5", None, {"OPENAI_BASE_URL": "http://proxy"}, True, True),
        ("qwen3", "http://localhost:8000/v1", {}, None, False),
        ("qwen3", "http://localhost:8000/v1", {}, True, True),
    ],
)
def test_pieces_are_asked_for_where_the_provider_knows_them_or_the_agent_says_so(
    model: str, base_url: str | None, environ: dict[str, str], given: bool | None, streams: bool
) -> None:
    settings = {} if given is None else {"stream": given}
    request = ModelRequest(model, "", (), base_url=base_url, settings={**settings})
    assert providers.streams(request, environ) is streams


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("opnai/gpt-5.5", "Did you mean openai/gpt-5.5?"),
        ("antropic:claude", "Did you mean anthropic/claude?"),
        ("script/demo", "Did you mean scripted/demo?"),
        ("gpt-5.5", "Did you mean openai/gpt-5.5?"),
        ("claude-opus-4.8", "Did you mean anthropic/claude-opus-4.8?"),
        ("llama", "expected provider/model"),
        ("zzzz/llama", "Known: alibaba"),
        ("openai/", "expected a model's name after 'openai'"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(model: str, told: str) -> None:
    with pytest.raises(ModelError) as failure:
        find(model, None)
    assert failure.value.kind == "unknown_model"
    assert told in failure.value.message
    assert not failure.value.maybe_billed


@pytest.mark.parametrize(
    ("module", "model", "command"),
    [
        ("openai", "openai/gpt-5.5", 'pip install "perdure[openai]"'),
        ("openai", "deepseek/deepseek-chat", 'pip install "perdure[openai]"'),
        ("anthropic", "anthropic/claude", 'pip install "perdure[anthropic]"'),
        ("google", "google/gemini-3", 'pip install "perdure[google]"'),
        ("groq", "groq/llama", 'pip install "pydantic-ai-slim[groq]"'),
    ],
)
def test_a_missing_package_is_told_with_the_command(
    monkeypatch: pytest.MonkeyPatch, module: str, model: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(ModelError) as failure:
        find(model, None)
    assert failure.value.kind == "missing_extra"
    assert command in failure.value.message


@pytest.mark.parametrize(
    ("model", "protocol", "name"),
    [
        ("qwen3", "chat", "qwen3"),
        ("meta-llama/Llama-4", "chat", "meta-llama/Llama-4"),
        ("openai/qwen3", "chat", "qwen3"),
        ("openai/anthropic/claude", "chat", "anthropic/claude"),
        ("deepseek/deepseek-chat", "chat", "deepseek-chat"),
        ("openai-responses/gpt-5.5", "responses", "gpt-5.5"),
        ("anthropic/claude", "anthropic", "claude"),
    ],
)
def test_an_address_needs_no_provider(model: str, protocol: str, name: str) -> None:
    provider, found = find(model, "http://localhost:8000/v1")
    assert (provider.protocol, found) == (protocol, name)


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host/v1", "/v1", "http://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ModelError, match="expected an address like") as failure:
        find("openai/x", address)
    assert failure.value.kind == "rejected"


OPENAI = PROVIDERS["openai"]
ANTHROPIC = PROVIDERS["anthropic"]


def test_the_providers_own_address_gets_the_providers_key() -> None:
    assert key_for(OPENAI, None, {"OPENAI_API_KEY": "secret"}) == "secret"
    assert key_for(OPENAI, None, {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": "http://proxy"}) == "secret"
    assert key_for(OPENAI, None, {}) == ""
    assert key_for(OPENAI, None, {"OPENAI_API_KEY": ""}) == ""


def test_a_server_of_the_operators_own_may_need_no_key() -> None:
    assert key_for(OPENAI, None, {"OPENAI_BASE_URL": "http://localhost:8000/v1"}) == NO_KEY
    assert key_for(ANTHROPIC, None, {"ANTHROPIC_BASE_URL": "http://localhost:8000"}) == NO_KEY


def test_an_address_that_an_agent_names_never_gets_the_operators_key() -> None:
    environ = {"OPENAI_API_KEY": "secret", "ANTHROPIC_API_KEY": "secret"}
    for provider in (OPENAI, ANTHROPIC):
        assert key_for(provider, "https://evil.example/v1", environ) == NO_KEY
    near = {**environ, "OPENAI_BASE_URL": "https://proxy.example/v1"}
    assert key_for(OPENAI, "https://proxy.example.evil/v1", near) == NO_KEY
    assert key_for(OPENAI, "https://proxy.example@evil.example/v1", near) == NO_KEY


def test_a_companys_own_key_takes_the_place_of_the_environments() -> None:
    environ = {"OPENAI_API_KEY": "operators", providers.ADDRESS_KEYS: "llm.example=LLM_KEY", "LLM_KEY": "operators"}
    keys = {"OPENAI_API_KEY": "companys", "LLM_KEY": "companys-too", "OPENAI_BASE_URL": "https://evil.example"}
    assert key_for(OPENAI, None, environ, keys) == "companys"
    assert key_for(ANTHROPIC, None, environ, keys) == ""
    assert key_for(OPENAI, "https://llm.example/v1", environ, keys) == "companys-too"
    assert key_for(OPENAI, "https://evil.example/v1", environ, keys) == NO_KEY


def test_every_provider_has_a_name_for_a_companys_key() -> None:
    named = {provider.key or provider.secret for provider in PROVIDERS.values()}
    assert "" not in named


def test_an_address_that_the_operator_gave_too_gets_the_key() -> None:
    environ = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": "https://proxy.example/v1"}
    assert key_for(OPENAI, "https://proxy.example/v1/", environ) == "secret"


def test_the_operator_says_which_key_goes_to_which_address() -> None:
    environ = {
        providers.ADDRESS_KEYS: "api.together.xyz = TOGETHER_KEY, localhost:8000=LOCAL_KEY,empty.example=UNSET",
        "TOGETHER_KEY": "one",
        "LOCAL_KEY": "two",
    }
    assert key_for(OPENAI, "https://API.together.xyz/v1", environ) == "one"
    assert key_for(OPENAI, "http://localhost:8000/v1", environ) == "two"
    assert key_for(OPENAI, "http://localhost:8001/v1", environ) == NO_KEY
    assert key_for(OPENAI, "https://api.together.xyz:444/v1", environ) == NO_KEY
    assert key_for(OPENAI, "https://empty.example/v1", environ) == NO_KEY
