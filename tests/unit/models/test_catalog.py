"""Who answers for a name, what is loaded for it, and what is sent where."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from perdure.core.codec import encode
from perdure.models.catalog import Catalog
from perdure.models.port import Message, ModelError, ModelReply, ModelRequest
from perdure.models.scripted import say
from perdure.toolbox.guarded_http import GuardedTransport, Outbound

if TYPE_CHECKING:
    from conftest import ScriptServer

ASKED = (Message("user", "hi"),)


def test_importing_the_catalog_loads_no_provider() -> None:
    program = (
        "import sys, perdure.models.catalog as c; c.Catalog().port('openai/gpt-5.5');"
        "print(*[n for n in ('pydantic_ai', 'openai', 'anthropic', 'genai_prices', 'httpx2') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == ""


@pytest.fixture
async def catalog(anyio_backend: str) -> AsyncIterator[Catalog]:
    models = Catalog(scripted={"demo": [say("from a script")]}, environ={"OPENAI_API_KEY": "operators-secret"})
    yield models
    await models.aclose()


def test_a_port_is_kept() -> None:
    models = Catalog()
    assert models.port("openai/gpt-5.5") is models.port("anthropic:claude-opus-4.8")
    assert models.port("scripted/a") is models.port("test:b")


def test_an_unknown_name_is_refused_before_any_request() -> None:
    with pytest.raises(ModelError, match="Did you mean openai/gpt"):
        Catalog().port("opnai/gpt")
    assert Catalog().port("opnai/gpt", "http://localhost:1/v1")


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["scripted/demo", "scripted:demo", "test:demo"])
async def test_scripts_of_this_process_answer(catalog: Catalog, model: str) -> None:
    assert (await catalog.request(ModelRequest(model, "", ASKED))).text == "from a script"
    pieces = [piece async for piece in catalog.stream(ModelRequest(model, "", ASKED))]
    assert isinstance(pieces[-1], ModelReply)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic/claude-opus-4.8", "ANTHROPIC_API_KEY"),
        ("openai/gpt-5.5", "OPENAI_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
    ],
)
async def test_a_missing_key_is_named_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str, model: str, variable: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    models = Catalog(environ={})
    with pytest.raises(ModelError, match=f"Set {variable}") as failure:
        await models.request(ModelRequest(model, "", ASKED))
    assert failure.value.kind == "key"
    assert not failure.value.maybe_billed
    await models.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["openai/x", "anthropic/x", "any-name"])
async def test_an_address_that_an_agent_names_gets_nothing_of_the_operators(
    anyio_backend: str, script_server: ScriptServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "operators-secret")
        monkeypatch.setenv(f"{name}_AUTH_TOKEN", "operators-secret")
        monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "X-Gateway-Token: operators-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "operators-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "operators-secret")
    models = Catalog()
    script_server.answer = lambda _body: (401, {"content-type": "application/json"}, b'{"error": {"message": "who?"}}')
    with pytest.raises(ModelError, match=r"PERDURE_BASE_URL_KEYS=127\.0\.0\.1:") as failure:
        await models.request(ModelRequest(model, "", ASKED, base_url=script_server.url))
    assert failure.value.kind == "key"
    (headers,) = script_server.headers
    assert "operators-secret" not in str(headers)
    await models.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["openai/x", "anthropic/x", "any-name", "scripted/x"])
async def test_a_guarded_request_does_not_go_into_the_house(
    anyio_backend: str, script_server: ScriptServer, model: str
) -> None:
    request = ModelRequest(model, "", ASKED, base_url=script_server.url, guarded=True)
    for models in (Catalog(environ={}, guard=partial(GuardedTransport, Outbound())), Catalog(environ={})):
        with pytest.raises(ModelError, match=r"no public address|asks nobody at http") as failure:
            await models.request(request)
        assert (failure.value.kind, failure.value.maybe_billed) == ("rejected", False)
        await models.aclose()
    assert script_server.headers == []


@pytest.mark.anyio
async def test_an_address_that_the_operator_names_too_is_asked_without_a_guard(
    anyio_backend: str, script_server: ScriptServer
) -> None:
    host = script_server.url.removeprefix("http://").partition("/")[0]
    environ = {"PERDURE_BASE_URL_KEYS": f"{host}=HOUSE", "HOUSE": "key-of-the-house"}
    models = Catalog(environ=environ, guard=partial(GuardedTransport, Outbound()))
    script_server.answer = lambda _body: (200, {"content-type": "application/json"}, completion("here"))
    request = ModelRequest("openai/x", "", ASKED, base_url=script_server.url, guarded=True)
    assert (await models.request(request)).text == "here"
    await models.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["openai/x", "any-name", "scripted/x"])
async def test_a_guarded_answer_has_a_bound(anyio_backend: str, script_server: ScriptServer, model: str) -> None:
    guard = partial(GuardedTransport, Outbound(allow_private=True), max_bytes=10_000)
    models = Catalog(environ={"OPENAI_API_KEY": "k"}, guard=guard)
    script_server.answer = lambda _body: (200, {"content-type": "application/json"}, completion("x" * 20_000))
    request = ModelRequest(model, "", ASKED, base_url=script_server.url, guarded=True)
    with pytest.raises(ModelError, match="longer than 10,000 bytes") as failure:
        await models.request(request)
    assert (failure.value.kind, failure.value.maybe_billed) == ("rejected", True), "asked again, it would be paid again"
    await models.aclose()


def completion(said: str) -> bytes:
    message = {"role": "assistant", "content": said}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]}
    ).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["openai/x", "vllm/x"])
async def test_a_companys_own_key_is_sent_and_told_by_nobody(
    anyio_backend: str, script_server: ScriptServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    environ = {"OPENAI_API_KEY": "operators-secret", "OPENAI_BASE_URL": script_server.url}
    monkeypatch.setenv("VLLM_BASE_URL", script_server.url)  # read by the package
    monkeypatch.setenv("VLLM_API_KEY", "operators-secret")
    models = Catalog(environ=environ)
    keys = {"OPENAI_API_KEY": "companys-secret", "VLLM_API_KEY": "companys-secret"}
    request = ModelRequest(model, "", ASKED, keys=keys)
    kind = {"content-type": "application/json"}
    script_server.answer = lambda _body: (200, kind, completion("you sent companys-secret"))
    reply = await models.request(request)
    assert reply.text == "you sent ***"
    assert "companys" not in encode(reply)
    script_server.answer = lambda _body: (401, kind, b'{"error": {"message": "companys-secret is no key"}}')
    with pytest.raises(ModelError, match=r'"\*\*\* is no key".*among the company.s secrets') as failure:
        await models.request(request)
    assert failure.value.kind == "key"
    assert "companys-secret" not in "".join(traceback.format_exception(failure.value))
    await assert_raises_for(models, ModelRequest(model, "", ASKED))  # the next company's request has not this one's key
    sent = [headers["authorization"] for headers in script_server.headers]
    assert sent == ["Bearer companys-secret"] * 2 + ["Bearer operators-secret"]
    await models.aclose()


async def assert_raises_for(models: Catalog, request: ModelRequest) -> None:
    with pytest.raises(ModelError):
        await models.request(request)


@pytest.mark.anyio
async def test_a_whole_body_without_a_finish_reason_does_not_count(
    catalog: Catalog, script_server: ScriptServer
) -> None:
    choice = b'{"index": 0, "message": {"role": "assistant", "content": "half an ans"}, "finish_reason": null}'
    body = b'{"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices": [' + choice + b"]}"
    script_server.answer = lambda _body: (200, {"content-type": "application/json"}, body)
    with pytest.raises(ModelError, match="broke off before its finish reason") as failure:
        await catalog.request(ModelRequest("openai/x", "", ASKED, base_url=script_server.url))
    assert failure.value.kind == "transient"


@pytest.mark.anyio
async def test_a_body_that_is_no_reply_is_transient(catalog: Catalog, script_server: ScriptServer) -> None:
    for kind, body in (("text/html", b"<html>"), ("application/json", b"{"), ("application/json", b'{"choices": []}')):
        script_server.answer = lambda _body, kind=kind, body=body: (200, {"content-type": kind}, body)
        with pytest.raises(ModelError) as failure:
            await catalog.request(ModelRequest("openai/x", "", ASKED, base_url=script_server.url))
        assert failure.value.kind == "transient", body


def test_each_event_loop_has_connections_of_its_own(script_server: ScriptServer) -> None:
    models = Catalog(environ={})
    script_server.answer = lambda _body: (500, {"content-type": "application/json"}, b"{}")

    async def ask_and_close() -> str:
        with pytest.raises(ModelError) as failure:
            await models.request(ModelRequest("openai/x", "", ASKED, base_url=script_server.url))
        await models.aclose()
        return failure.value.kind

    assert [asyncio.run(ask_and_close()) for _ in range(2)] == ["transient", "transient"]
    assert len(script_server.asked) == 2
