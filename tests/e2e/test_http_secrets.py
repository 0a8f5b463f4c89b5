"""Secrets over a real socket: each verb as it is in-process, and a value in no answer, whatever is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from http_server import Server, serving
from perdure.core import codec
from perdure.errors import InvalidInput, NotFound, PerdureError, UserError
from perdure.wire import routes
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio

VALUE = "a-value-to-keep"
OTHER = "pdk_of-another-company-0123456789"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving(tmp_path / "s.db") as server:
        await server.node.add_key("acme", "ops", OTHER)
        yield server


async def test_a_secret_is_set_listed_rotated_and_deleted(server: Server) -> None:
    for api in (server.api(), server.node.api("default")):
        assert await api.secrets() == []
        made = await api.set_secret("SHOP", VALUE, by="ann")
        assert (made.name, made.set_by) == ("SHOP", "ann")
        assert await api.secrets() == [made]
        done = await api.rotate_secrets()
        assert (done.companies, done.secrets) == (1, 1)
        assert (await api.rotate_secrets(all_companies=True)).secrets == 1
        assert dict(await server.node.secrets.of("default")) == {"SHOP": VALUE}
        await api.delete_secret("SHOP")
        with pytest.raises(NotFound) as refused:
            await api.delete_secret("SHOP")
        assert refused.value.code == "no_secret"
        assert (await api.rotate_secrets()).secrets == 0


async def test_another_company_sees_and_changes_its_own_alone(server: Server) -> None:
    await server.api().set_secret("SHOP", VALUE)
    other = server.api(OTHER)
    assert await other.secrets() == []
    with pytest.raises(NotFound):
        await other.delete_secret("SHOP")
    await other.set_secret("SHOP", "another-value")
    for api in (other, server.node.api("acme")):
        with pytest.raises(UserError, match="Only the admin key") as refused:
            await api.rotate_secrets(all_companies=True)
        assert refused.value.code == "admin_only"
    await other.rotate_secrets()
    assert dict(await server.node.secrets.of("default")) == {"SHOP": VALUE}
    assert dict(await server.node.secrets.of("acme")) == {"SHOP": "another-value"}


async def test_what_cannot_be_a_secret_is_refused_the_same_way_on_both(server: Server) -> None:
    for api in (server.api(), server.node.api("default")):
        for name, value in (("my-key", VALUE), ("KEY", "short"), ("KEY", "two\nlines-of-it"), ("KEY", "ümlaut-value")):
            with pytest.raises(InvalidInput) as refused:
                await api.set_secret(name, value)
            assert refused.value.code == "bad_secret"
            assert value not in refused.value.message


async def ask(server: Server, method: str, path: str, body: bytes | None = None) -> Reply:
    return await exchange(server.address, request(method, path, server.address, key=server.key, body=body))


async def test_no_route_gives_a_value_back_and_no_refusal_repeats_one(server: Server) -> None:
    path = routes.fill(routes.SECRET, secret="SHOP")
    replies = [await ask(server, "PUT", path, json.dumps({"value": VALUE}).encode())]
    for body in ({"value": [VALUE]}, {"value": {"a": VALUE}}, {"valu": VALUE}, [VALUE], VALUE):
        replies.append(await ask(server, "PUT", path, json.dumps(body).encode()))
        assert replies[-1].status == 422, body
    replies += [await ask(server, method, path) for method in ("GET", "POST", "DELETE")]
    replies += [await ask(server, "GET", routes.SECRETS), await ask(server, "GET", routes.OPENAPI)]
    assert [reply.status for reply in replies[-5:]] == [405, 405, 204, 200, 200]
    assert not any(VALUE.encode() in reply.body for reply in replies)


@pytest.mark.sqlite_only("the key that is lost is the one that a file has of its own")
async def test_a_damaged_store_is_named_over_http_too(server: Server) -> None:
    await server.api().set_secret("SHOP", VALUE)
    ring = server.node.secrets._ring  # the file of the server's key is lost
    assert ring.own is not None
    ring.own.unlink()
    for verb in (server.api().rotate_secrets(), server.api().set_secret("MORE", VALUE)):
        with pytest.raises(PerdureError) as refused:
            await verb
        assert refused.value.code == "secrets_key_wrong"
        assert str(ring.own) in refused.value.message
    assert VALUE not in codec.encode(await server.api().secrets())
