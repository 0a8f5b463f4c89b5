"""One call of an `http_tool`: what is sent, what an answer means under each delivery, and what a receiver cannot do."""

from __future__ import annotations

import gzip
import json
import traceback
from typing import Any

import httpx2
import pytest

from answering_server import Answering, Says, Seen, answering
from perdure.agent.server_tools import HttpPart
from perdure.errors import NotDone, PermanentError
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_call import Asked, HttpCaller, HttpFailed, HttpRefused

pytestmark = pytest.mark.anyio

KEY = "exe_1/turn 1/tool/call_1"
CALLER = HttpCaller(Outbound(allow_private=True, variables={"SHOP_KEY": "s3cret-value"}))


async def call(server: Answering, path: str = "/", method: str = "POST", **given: Any) -> Any:
    options: dict[str, Any] = {"delivery": "at_least_once", "args": {}, "headers": {}, "max_bytes": 10_000, **given}
    part = HttpPart(method, server.url + path, options["headers"], options["max_bytes"])
    return await options.get("caller", CALLER).call(
        part, Asked(options["args"], KEY, options["delivery"], options.get("seconds", 20))
    )


def says(**said: Any) -> Any:
    return lambda _seen: Says(**said)


async def test_arguments_go_into_the_address_the_query_and_the_body() -> None:
    args = {"order": "a/b ?", "cents": 5, "tags": ["x", "y&z"]}
    async with answering() as server:
        await call(server, "/o/{order}", args=args)
        await call(server, "/o/{order}?v=1", "GET", args=args)
        posted, got = server.seen
        assert (posted.method, posted.target) == ("POST", "/o/a%2Fb%20%3F")
        assert json.loads(posted.body) == {"cents": 5, "tags": ["x", "y&z"]}
        assert (got.method, got.target) == ("GET", "/o/a%2Fb%20%3F?v=1&cents=5&tags=x&tags=y%26z")
        assert got.body == b""


@pytest.mark.parametrize("order", ["..", ".", ""])
async def test_no_argument_leads_to_another_address(order: str) -> None:
    async with answering() as server:
        with pytest.raises(PermanentError) as refused:
            await call(server, "/o/{order}/refund", args={"order": order})
        assert refused.value.code == "bad_argument"
        assert server.seen == []


async def test_the_key_and_the_secrets_are_sent_and_not_told() -> None:
    async with answering(lambda seen: Says(body=str(seen.headers).encode())) as server:
        told = await call(server, headers={"Authorization": "Bearer ${env:SHOP_KEY}"})
        assert server.seen[0].headers["authorization"] == "Bearer s3cret-value"
        assert server.seen[0].headers["idempotency-key"] == KEY
        assert "s3cret-value" not in told
        server.answer = lambda seen: Says(400, str(seen.headers).encode())
        with pytest.raises(HttpRefused) as refused:
            await call(server, headers={"Authorization": "Bearer ${env:SHOP_KEY}"})
        assert "s3cret-value" not in refused.value.message


SECRETS = {"TOKEN": 'q"uote\\d-s3cret', "PLAIN": "plain-s3cret"}
BOTH = {"A": "${secret:TOKEN}", "B": "${secret:PLAIN}"}


async def refused_by(server: Answering, **given: Any) -> str:
    """Return all that a traceback of the failure would show."""
    with pytest.raises(Exception) as failed:
        await call(server, headers=BOTH, caller=HttpCaller(Outbound(allow_private=True, secrets=SECRETS)), **given)
    return "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize(
    "said",
    [
        Says(400, b"who sent plain-s3cret?"),
        Says(503, b'{"sent": "q\\"uote\\\\d-s3cret"}'),
        Says(302, headers={"Location": "ftp://plain-s3cret/x"}),
        Says(302, headers={"Location": "http://plain-s3cret:x/y"}),
        Says(302, headers={"Location": "http://plain-s3cret.invalid/y"}),
        Says(200, headers={"Content-Length": "5", "plain-s3cret": "\x00"}),
    ],
)
async def test_no_error_tells_a_secret_however_it_came_about(said: Says) -> None:
    async with answering(lambda _seen: said) as server:
        told = await refused_by(server)
        assert server.seen[0].headers["b"] == "plain-s3cret"
        assert "s3cret" not in told, told


@pytest.mark.parametrize("cut", range(6, 12))
async def test_what_is_left_of_a_secret_where_an_answer_was_cut_is_not_told(cut: int) -> None:
    async with answering(says(body=b"x" * 100 + b"plain-s3cret" + b"y" * 100)) as server:
        caller = HttpCaller(Outbound(allow_private=True, secrets=SECRETS))
        told = await call(server, headers=BOTH, caller=caller, max_bytes=100 + cut)
        assert told["text"] == "x" * 100 + "***"


async def test_an_answer_of_json_stays_one_without_the_secrets() -> None:
    body = json.dumps({"sent": SECRETS["TOKEN"], SECRETS["PLAIN"]: [SECRETS["PLAIN"] + "!", 1]}).encode()
    async with answering(says(body=body, headers={"Content-Type": "application/json"})) as server:
        caller = HttpCaller(Outbound(allow_private=True, secrets=SECRETS))
        assert await call(server, headers=BOTH, caller=caller) == {"sent": "***", "***": ["***!", 1]}


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (Says(body=b'{"a": [1, 2.5, null]}', headers={"Content-Type": "application/json"}), {"a": [1, 2.5, None]}),
        (Says(201, b'{"a": 1}', {"Content-Type": "application/problem+json; charset=utf-8"}), {"a": 1}),
        (Says(body=b"{oh", headers={"Content-Type": "application/json"}), "{oh"),
        (Says(body="grün".encode("latin-1"), headers={"Content-Type": "text/plain; charset=iso-8859-1"}), "grün"),
        (Says(body=b"\xff\x00ok", headers={"Content-Type": "text/plain; charset=base64"}), "\ufffd\x00ok"),
        (Says(204), ""),
    ],
)
async def test_a_success_is_its_json_or_text(said: Says, value: Any) -> None:
    async with answering(lambda _seen: said) as server:
        assert await call(server) == value


async def test_a_success_stays_one_however_long_or_packed_its_answer_is() -> None:
    async with answering(says(body=b"x" * 50_000)) as server:
        told = await call(server, delivery="at_most_once")
        assert (told["status"], len(told["text"])) == (200, 10_000)
        packed = gzip.compress(b"x" * 50_000_000)
        server.answer = says(body=packed, headers={"Content-Encoding": "gzip"})
        assert "gzip" in (await call(server, max_bytes=100_000))["note"]
        assert server.seen[-1].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_what_may_pass_is_tried_again_when_the_receiver_says(status: int) -> None:
    async with answering(says(status=status, headers={"Retry-After": "7"})) as server:
        with pytest.raises(HttpFailed, match=f"answered {status}") as failed:
            await call(server)
        assert failed.value.headers["Retry-After"] == "7"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
async def test_a_refusal_is_for_good(status: int) -> None:
    async with answering(says(status=status, body=b"no")) as server:
        with pytest.raises(HttpRefused, match=f"answered {status}: no"):
            await call(server)


async def test_at_most_once_a_refusal_is_the_receivers_word_that_nothing_happened() -> None:
    async with answering(says(status=422)) as server:
        with pytest.raises(NotDone):
            await call(server, delivery="at_most_once")
        server.answer = says(status=500)
        with pytest.raises(HttpFailed):  # which leaves it uncertain
            await call(server, delivery="at_most_once")
        server.answer = says(cut=True)
        with pytest.raises(httpx2.RemoteProtocolError):
            await call(server, delivery="at_most_once")


async def test_at_most_once_what_was_never_sent_did_not_happen() -> None:
    async with answering() as server:
        with pytest.raises(NotDone, match="nothing was sent"):
            await call(server, headers={"X": "${env:NOT_ALLOWED}"}, delivery="at_most_once")
    with pytest.raises(NotDone, match="nothing was sent"):  # it is gone
        await call(server, delivery="at_most_once")
    with pytest.raises(httpx2.ConnectError):
        await call(server)


async def test_no_answer_in_time_is_a_time_out() -> None:
    async with answering(says(hang=True)) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await call(server, seconds=0.1)


async def test_an_address_that_is_not_public_is_refused_unless_allowed() -> None:
    async with answering() as server:
        part = HttpPart("POST", server.url)
        with pytest.raises(PermanentError) as refused:
            await HttpCaller(Outbound()).call(part, Asked({}, KEY, "at_least_once", 5))
        assert refused.value.code == "address_refused"
        with pytest.raises(NotDone):
            await HttpCaller(Outbound()).call(part, Asked({}, KEY, "at_most_once", 5))
        assert server.seen == []


async def test_a_redirect_is_followed_with_the_same_key_and_told_nothing_that_was_for_others() -> None:
    async with answering(says(body=b"there")) as other, answering() as server:
        server.answer = lambda seen: Says(307, headers={"Location": "/b" if seen.target == "/a" else f"{other.url}/c"})
        headers = {"Authorization": "Bearer ${env:SHOP_KEY}", "X-Api-Key": "${env:SHOP_KEY}"}
        assert await call(server, "/a", args={"n": 1}, headers=headers) == "there"
        assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer s3cret-value"] * 2
        assert (other.seen[0].method, json.loads(other.seen[0].body)) == ("POST", {"n": 1})
        assert other.seen[0].headers["idempotency-key"] == KEY
        assert "s3cret-value" not in str(other.seen[0].headers)


async def test_a_see_other_is_read_and_not_posted_again() -> None:
    def answer(seen: Seen) -> Says:
        return Says(303, headers={"Location": "/done"}) if seen.target == "/a" else Says(body=b"done")

    async with answering(answer) as server:
        assert await call(server, "/a", args={"n": 1}) == "done"
        assert [(seen.method, seen.body) for seen in server.seen][1] == ("GET", b"")


async def test_redirects_end_and_lead_nowhere_else() -> None:
    async with answering(says(status=302, headers={"Location": "/again"})) as server:
        with pytest.raises(HttpRefused, match="more than 3 times"):
            await call(server, method="GET")
        assert len(server.seen) == 4
        for place in ("file:///etc/passwd", "gopher://x/", "http://ann:pw@127.0.0.1/"):
            server.answer = says(status=302, headers={"Location": place})
            with pytest.raises(HttpRefused, match="not followed"):
                await call(server, method="GET")


async def test_a_redirect_is_checked_like_the_first_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.toolbox import guarded_http

    public = guarded_http.is_public
    monkeypatch.setattr(guarded_http, "is_public", lambda address: address == "127.0.0.1" or public(address))
    async with answering(says(status=307, headers={"Location": "http://169.254.169.254/latest/meta-data"})) as server:
        caller = HttpCaller(Outbound())
        with pytest.raises(PermanentError) as refused:
            await caller.call(HttpPart("POST", server.url), Asked({}, KEY, "at_least_once", 5))
        assert refused.value.code == "address_refused"
        assert len(server.seen) == 1


@pytest.mark.parametrize(("status", "kind"), [(303, HttpRefused), (307, NotDone)])
async def test_at_most_once_a_refusal_counts_only_from_the_receiver(status: int, kind: type[Exception]) -> None:
    """After a 303 the request was taken; that its result cannot be read is no word that nothing happened."""

    def answer(seen: Seen) -> Says:
        return Says(status, headers={"Location": "/b"}) if seen.target == "/a" else Says(404)

    async with answering(answer) as server:
        with pytest.raises(kind):
            await call(server, "/a", delivery="at_most_once")
