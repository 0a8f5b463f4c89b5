"""A token's address: whoever has it ends that one wait, and nobody learns or changes anything else with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from http_server import Server, process, serving
from perdure.client.http import HttpApi
from perdure.core.events import Kind
from perdure.core.tokens import Issuer, company_key
from perdure.errors import Conflict, InvalidInput, NotFound, UserError
from perdure.server.open_tokens import MOST_MISSES
from perdure.server.options import ServeOptions
from raw_http import Reply, exchange, request
from waiting_executions import claimed, with_token, with_token_over_http

pytestmark = pytest.mark.anyio

STRANGER = Issuer(company_key(b"x" * 32, "default"))


async def ask(server: Server, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
    return await exchange(server.address, request(method, path, server.address, body=body, **headers))


async def test_whoever_posts_to_its_address_ends_the_wait_without_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        server.node.public_url = server.url
        execution, _, url = await with_token(server.node)
        path = url.removeprefix(server.url)
        reply = await ask(server, "POST", path, '{"paid":true,"cents":5}')
        assert (reply.status, reply.json) == (200, {"status": "accepted"})
        last = (await server.api().events(execution))[-1]
        assert last.kind is Kind.WAIT_RESOLVED
        assert (last.data["value"], last.data["by"]) == ({"paid": True, "cents": 5}, "token")
        assert (await ask(server, "POST", path, '{"cents":5,"paid":true}')).status == 200
        assert (await ask(server, "POST", path, '{"paid":false}')).code == "token_used"


async def test_complete_and_fail_say_in_words_which_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution, secret, _ = await with_token(server.node)
        assert (await ask(server, "POST", f"/v1/tokens/{secret}/complete", '{"valeu":1}')).code == "invalid_input"
        assert (await ask(server, "POST", f"/v1/tokens/{secret}/fail", '{"error":"no funds"}')).status == 200
        last = (await server.api().events(execution))[-1]
        assert (last.data["decision"], last.data["error"]) == ("fail", "no funds")
        refused = await ask(server, "POST", f"/v1/tokens/{secret}/complete", '{"value":1}')
        assert (refused.status, refused.json["error"]["details"]["decision"]) == (409, "fail")


async def test_a_get_says_the_same_of_every_token_and_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution, secret, _ = await with_token(server.node)
        before = await server.api().events(execution)
        known = await ask(server, "GET", f"/v1/tokens/{secret}")
        unknown = await ask(server, "GET", f"/v1/tokens/{STRANGER.secret('tok_1')}")
        assert (known.status, known.body) == (unknown.status, unknown.body)
        assert known.status == 200
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await ask(server, method, f"/v1/tokens/{secret}")).code == "method_not_allowed"
        assert await server.api().events(execution) == before


async def test_an_address_that_guesses_is_told_to_stop_and_keeps_nobody_else_back(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution, secret, _ = await with_token(server.node)
        for number in range(MOST_MISSES):
            reply = await ask(server, "POST", f"/v1/tokens/{STRANGER.secret(str(number))}", "1")
            assert (reply.status, reply.code) == (404, "no_such_token")
        commits = len(await server.api().events(execution))
        reply = await ask(server, "POST", f"/v1/tokens/{STRANGER.secret('more')}", "1")
        assert (reply.status, reply.code) == (429, "rate_limited")
        assert 0 < int(reply.headers["retry-after"]) <= 60
        assert len(await server.api().events(execution)) == commits
        assert (await ask(server, "POST", f"/v1/tokens/{secret}", "1")).status == 200


async def test_what_has_not_the_form_of_a_secret_gets_no_further_than_the_gate(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        _, secret, _ = await with_token(server.node)
        for guess in ("tok_1", secret[:-1], secret + "A", "pdt_"):
            assert (await ask(server, "POST", f"/v1/tokens/{guess}/complete", "{}")).status == 401
        assert (await ask(server, "POST", f"/v1/tokens/{secret}/other", "{}")).status == 404
        assert (await ask(server, "POST", f"/v1/tokens/{secret}", "[" * 3000)).status == 400
        assert (await ask(server, "POST", f"/v1/tokens/{secret}", "1", host="evil.example")).code == "host_refused"


async def test_people_of_the_company_end_it_by_its_id_and_in_their_name(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution, _, _ = await with_token(server.node)
        api = server.api()
        await api.complete_token("tok_1", {"ok": True}, by="eve")
        assert (await api.events(execution))[-1].data["by"] == "eve"
        await api.complete_token("tok_1", {"ok": True}, by="eve")
        with pytest.raises(Conflict) as refused:
            await api.fail_token("tok_1", "no")
        assert refused.value.code == "token_used"


async def test_the_verbs_mean_the_same_over_http_and_in_process(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution, secret, _ = await with_token(server.node)
        for api in (server.api(), server.node.api("default")):
            with pytest.raises(NotFound):
                await api.complete_token(STRANGER.secret("x"), 1)
            with pytest.raises(InvalidInput):
                await api.signal(execution, "", 1)
            with pytest.raises(NotFound):
                await api.signal("exe_nobody", "go", 1)
            assert await api.signal(execution, "go", {"n": 1}, dedupe="k", by="eve") == 3
            with pytest.raises(Conflict) as refused:
                await api.signal(execution, "go", 2, dedupe="k")
            assert refused.value.code == "dedupe_conflict"
            await api.complete_token(secret, 1)


async def test_a_public_address_is_what_callbacks_begin_with_and_may_be_called(tmp_path: Path) -> None:
    options = ServeOptions(drain_seconds=2.0, public_url="https://perdure.example.com")
    async with serving(tmp_path / "s.db", options) as server:
        server.node.public_url = options.public_url
        _, secret, url = await with_token(server.node)
        assert url == f"https://perdure.example.com/v1/tokens/{secret}"
        assert (await ask(server, "POST", f"/v1/tokens/{secret}", "1", host="perdure.example.com")).status == 200


async def test_the_secret_is_the_same_for_whoever_holds_the_execution_next(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        first = (await claimed(server.node)).tokens
    async with serving(tmp_path / "s.db") as server:
        assert first is not None
        assert server.node.issuer("default").secret("tok_1") == first.secret("tok_1")
        assert server.node.issuer("other").secret("tok_1") != first.secret("tok_1")


async def test_a_body_too_large_for_a_stranger_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        _, secret, _ = await with_token(server.node)
        reply = await ask(server, "POST", f"/v1/tokens/{secret}", '"' + "x" * (1024 * 1024) + '"')
        assert (reply.status, reply.code) == (413, "body_too_large")


async def test_an_unknown_verb_of_a_token_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        _, secret, _ = await with_token(server.node)
        with pytest.raises(UserError):
            await server.api().complete_token("not a token", 1)
        assert (await ask(server, "POST", f"/v1/tokens/{secret}/burn", "1")).code == "no_such_route"


async def test_an_accepted_answer_survives_the_death_of_the_server(tmp_path: Path) -> None:
    with process(tmp_path / "s.db") as server:
        execution, secret = await with_token_over_http(server.url, server.key)
        sent = request("POST", f"/v1/tokens/{secret}", server.address, body='{"ok":true}')
        assert (await exchange(server.address, sent)).status == 200
        server.popen.kill()
        server.popen.wait()
    with process(tmp_path / "s.db") as server:
        api = HttpApi(server.url, server.key)
        try:
            assert (await api.events(execution))[-1].data["value"] == {"ok": True}
            await api.complete_token(secret, {"ok": True})
            with pytest.raises(Conflict) as refused:
                await api.complete_token(secret, {"ok": False})
            assert refused.value.code == "token_used"
        finally:
            await api.aclose()
