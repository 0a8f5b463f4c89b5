"""Every route behind the same guard: keys, hosts, origins, JSON, sizes. Against a real server on a real socket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from bad_json import BAD_JSON
from http_server import Server, serving
from perdure.engine.look import deadlines
from perdure.server.options import ServeOptions
from perdure.server.routes import a2a, blobs, companies, demo, hooks, room_files, rooms, screen
from perdure.server.routes.control import router
from perdure.server.routes.functions import WORKER_OPERATIONS as OPERATIONS
from perdure.store.protocol import Reads
from perdure.wire import routes
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio


def every_route() -> list[tuple[str, str]]:
    """Return (method, path) of all routes that the application has, with something in the place of each part."""
    control = [
        (method, route)
        for group in (
            router,
            rooms.router,
            room_files.router,
            companies.router,
            hooks.router,
            blobs.router,
            screen.router,
            demo.router,
            a2a.router,
        )
        for route in group.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    ]
    found = [(method, route.path) for method, route in control]
    cards = (routes.A2A_CARD, routes.A2A + routes.A2A_CARD)
    found += [("POST", path) for path in (*OPERATIONS, routes.MCP, routes.A2A)] + [
        ("GET", path) for path in (routes.OPENAPI, *cards, *routes.OPEN)
    ]
    return sorted((method, filled(path)) for method, path in found)


def filled(path: str) -> str:
    return re.sub(r"{\w+}", "exe_1", path.replace("{number}", "0"))


HELD = "held[0].execution"
LACKING = (routes.FEED, routes.SEARCH, routes.VERSIONS, "/v1/rooms/exe_1/search")
"""What has to be asked for as a stream, or say what it asks for."""
CLOSED = [pair for pair in every_route() if pair[1] not in routes.OPEN]


async def ask(server: Server, method: str, path: str, **headers: str) -> Reply:
    """Send a request with an empty object where the method takes a body."""
    body = b"{}" if method in ("POST", "PUT") else None
    return await exchange(server.address, request(method, path, server.address, body=body, **headers))


def test_the_route_table_is_the_one_we_know() -> None:
    assert len(CLOSED) == 119
    assert {method for method, _ in CLOSED} == {"DELETE", "GET", "POST", "PUT"}


async def test_every_route_asks_for_a_key_except_two(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for method, path in [*CLOSED, ("GET", "/docs"), ("GET", "/v1"), ("GET", "/v1/unknown"), ("DELETE", "/v1/info")]:
            for given in (
                "",
                "Bearer",
                "Bearer null",
                f"Basic {server.key}",
                f"Bearer {server.key}x",
                "Bearer [object]",
            ):
                reply = await ask(server, method, path, authorization=given)
                assert (reply.status, reply.code) == (401, "unauthorized"), (method, path, given)
                assert reply.headers["www-authenticate"].startswith("Bearer")
        for path in routes.OPEN:
            assert (await ask(server, "GET", path)).status == 200
            assert (await ask(server, "POST", path)).status == 401


async def test_no_route_answers_another_host_or_another_page(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        key = f"Bearer {server.key}"
        for method, path in every_route():
            reply = await ask(server, method, path, authorization=key, host="evil.example")
            assert (reply.status, reply.code) == (403, "host_refused"), (method, path)
            for origin in ("https://evil.example", "null", "http://localhost:3000"):
                reply = await ask(server, method, path, authorization=key, origin=origin)
                assert (reply.status, reply.code) == (403, "origin_refused"), (method, path)
                assert not [name for name in reply.headers if name.startswith("access-control-")]


async def test_a_page_of_the_server_itself_may_call_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        reply = await ask(server, "GET", routes.INFO, authorization=f"Bearer {server.key}", origin=server.url)
        assert reply.status == 200


async def test_a_browser_is_told_that_a_page_which_was_allowed_may_call_it(tmp_path: Path) -> None:
    page = "https://app.example"
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    async with serving(tmp_path / "s.db", ServeOptions(drain_seconds=2.0, origins=(f"{page}/",))) as server:
        key = f"Bearer {server.key}"
        before = await ask(server, "OPTIONS", routes.EXECUTIONS, origin=page, **asked)
        assert before.status == 200
        assert before.headers["access-control-allow-origin"] == page
        assert "POST" in before.headers["access-control-allow-methods"]
        assert "authorization" in before.headers["access-control-allow-headers"].lower()
        for path, given, status in ((routes.INFO, key, 200), (routes.INFO, "", 401), (routes.EXECUTION, key, 404)):
            reply = await ask(server, "GET", filled(path), authorization=given, origin=page)
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == page, "also of a refusal, or the page cannot read it"
            assert reply.headers["vary"] == "Origin"
            assert "access-control-allow-credentials" not in reply.headers, "a cookie is never another site's"


async def test_a_browser_is_told_that_any_other_page_may_not(tmp_path: Path) -> None:
    asked = {"access-control-request-method": "GET"}
    async with serving(tmp_path / "s.db", ServeOptions(drain_seconds=2.0, origins=("https://app.example",))) as server:
        for origin in ("https://evil.example", "https://app.example.evil.example", "http://app.example", "null"):
            before = await ask(server, "OPTIONS", routes.INFO, origin=origin, **asked)
            assert before.status == 400
            reply = await ask(server, "GET", routes.INFO, authorization=f"Bearer {server.key}", origin=origin)
            assert (reply.status, reply.code) == (403, "origin_refused")
            assert "access-control-allow-origin" not in {*before.headers, *reply.headers}


async def test_no_get_changes_anything(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        before = await tables(server)
        for method, path in every_route():
            if method == "GET":
                reply = await ask(server, "GET", path, authorization=f"Bearer {server.key}")
                assert reply.status in (200, 404) or path in LACKING
        assert await tables(server) == before


async def tables(server: Server) -> dict[str, int]:
    """Return how many rows each table of executions has."""

    def count(reads: Reads) -> dict[str, int]:
        return {
            "deadlines": sum(due is not None for due in deadlines(reads).values()),
            "keys": len(reads.rows("any_key")),
        }

    found = await server.node.bridge.read(count)
    return {**found, "executions": len((await server.node.api("default").executions()).items)}


@pytest.mark.parametrize("path", [routes.EXECUTIONS, routes.LEASE])
async def test_bad_json_is_refused_before_anything_looks_at_it(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path / "s.db") as server:
        for name, (body, code) in BAD_JSON.items():
            reply = await exchange(server.address, request("POST", path, server.address, key=server.key, body=body))
            assert (reply.status, reply.code) == (400, code), name


async def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    bad: list[tuple[str, str, bytes, str]] = [
        ("POST", routes.EXECUTIONS, b"{}", "body.spec"),
        ("POST", routes.EXECUTIONS, b"[]", "body"),
        ("POST", routes.EXECUTIONS, b'{"spec": {}, "input": 1, "company": "acme"}', "body.company"),
        ("POST", routes.EXECUTIONS, b'{"spec": {}, "input": 1, "idempotency_key": 7}', "body.idempotency_key"),
        ("POST", "/v1/approvals/a/decision", b'{"decision": "maybe"}', "body.decision"),
        ("GET", "/v1/executions?limit=0", b"", "query.limit"),
        ("GET", "/v1/executions?state=gone", b"", "query.state"),
        ("GET", "/v1/executions/e/events?after=-1", b"", "query.after"),
        ("GET", "/v1/executions/e/events?after=99999999999999999999", b"", "query.after"),
        ("POST", routes.LEASE, b'{"request": {"worker": "w"}}', "request.nonce"),
        ("POST", routes.REPORT, b'{"worker": "w", "reports": [{"execution": "e"}]}', "reports[0].address"),
        ("POST", routes.BEAT, b'{"worker": "w", "held": 5}', "held"),
        ("POST", routes.BEGIN, b"", "body"),
        ("POST", routes.BEGIN, b'{"execution": "\\ud800", "address": "", "fence": 1, "nonce": ""}', "execution"),
        ("POST", routes.BEAT, b'{"worker": "w", "held": [{"execution": "\\ud800", "address": "", "fence": 1}]}', HELD),
    ]
    async with serving(tmp_path / "s.db") as server:
        for method, path, body, field in bad:
            data = request(method, path, server.address, key=server.key, body=body or None)
            reply = await exchange(server.address, data)
            assert (reply.status, reply.code) == (422, "invalid_input"), (path, body, reply.body)
            assert field in reply.json["error"]["details"]["fields"]
            assert field in reply.json["error"]["message"]


async def test_numbers_that_no_column_holds_are_refused(tmp_path: Path) -> None:
    fence = b'{"execution": "e", "address": "a", "nonce": "n", "outcome": "completed", "fence": %d}'
    lease = b'{"request": {"worker": "w", "nonce": "n", "lanes": [], "slots": %d, "lease_ms": %d}, "wait_seconds": %s}'
    bodies = [
        *((routes.BEGIN, fence % number) for number in (-1, 2**63, 2**80)),
        *((routes.REPORT, b'{"worker": "w", "reports": [%s]}' % (fence % number)) for number in (-1, 2**63)),
        *((routes.BEAT, b'{"worker": "w", "held": [%s]}' % (fence % number)) for number in (-1, 2**63)),
        *((routes.HAND_BACK, b'{"worker": "w", "held": [%s]}' % (fence % number)) for number in (-1, 2**63)),
        (routes.LEASE, lease % (0, 30_000, b"0")),
        (routes.LEASE, lease % (2**63, 30_000, b"0")),
        (routes.LEASE, lease % (1, 0, b"0")),
        (routes.LEASE, lease % (1, 2**63, b"0")),
        (routes.LEASE, lease % (1, 30_000, b"1e9")),
        (routes.LEASE, lease % (1, 30_000, b"-1")),
        (routes.ALIVE, b'{"worker": "w", "name": "n", "lanes": [], "slots": -1}'),
    ]
    async with serving(tmp_path / "s.db") as server:
        for path, body in bodies:
            reply = await exchange(server.address, request("POST", path, server.address, key=server.key, body=body))
            assert (reply.status, reply.code) == (422, "invalid_input"), (path, body)


async def test_unknown_routes_and_methods_have_errors_of_their_own(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for path in (
            "/v1",
            "/v1/",
            "/v1/info/",
            "/v1//info",
            "/docs",
            "/redoc",
            "/openapi.json",
            "/v1/executions/",
        ):
            reply = await exchange(server.address, request("GET", path, server.address, key=server.key))
            assert (reply.status, reply.code) == (404, "no_such_route"), path
        for method, path in (("DELETE", routes.EXECUTIONS), ("PUT", routes.INFO), ("GET", routes.LEASE)):
            reply = await exchange(server.address, request(method, path, server.address, key=server.key))
            assert (reply.status, reply.code) == (405, "method_not_allowed"), (method, path)


async def test_a_path_is_not_hidden_by_its_spelling(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for path in (
            "/health/../v1/info",
            "/health%2f..%2fv1%2finfo",
            "//v1/info",
            "/v1/info%00",
            "/health;x",
            "/%761/info",
        ):
            reply = await exchange(server.address, request("GET", path, server.address))
            assert reply.status in (400, 401), path


async def test_an_error_of_ours_tells_nothing_of_our_insides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "s.db") as server:

        async def broken(**_: object) -> None:
            raise ZeroDivisionError("secret/path/of/ours")

        monkeypatch.setattr(server.node.api("default"), "executions", broken)
        monkeypatch.setattr(server.node.tasks("default"), "beat", broken)
        for path, body in ((routes.EXECUTIONS, None), (routes.BEAT, b'{"worker": "w"}')):
            caplog.clear()
            method = "GET" if body is None else "POST"
            reply = await exchange(server.address, request(method, path, server.address, key=server.key, body=body))
            assert (reply.status, reply.code) == (500, "internal")
            assert b"secret" not in reply.body
            assert b"ZeroDivision" not in reply.body
            assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


async def test_without_auth_loopback_is_open_and_still_guarded(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(auth=False)) as server:
        assert server.key == ""
        assert (await ask(server, "GET", routes.INFO)).status == 200
        assert (await ask(server, "GET", routes.INFO, host="evil.example")).code == "host_refused"
        assert (await ask(server, "GET", routes.INFO, origin="https://evil.example")).code == "origin_refused"


async def test_the_description_names_every_route_and_is_valid(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        document = (await ask(server, "GET", routes.OPENAPI, authorization=f"Bearer {server.key}")).json
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    plain = {(method, filled(path)) for method, path in described}
    of_browsers = {("POST", routes.SESSION), ("DELETE", routes.SESSION)}  # before a key is asked for
    assert plain == {pair for pair in every_route() if pair[1] != routes.OPENAPI} | of_browsers
    names = set(document["components"]["schemas"])
    assert {ref.removeprefix("#/components/schemas/") for ref in refs(document)} <= names
    ids = [one.get("operationId") for methods in document["paths"].values() for one in methods.values()]
    assert len({name for name in ids if name}) == len([name for name in ids if name])
    assert document["security"] == [{"key": []}]


def refs(value: object) -> Iterator[str]:
    """Yield every reference in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from refs(item)
