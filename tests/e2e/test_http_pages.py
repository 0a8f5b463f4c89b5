"""The web UI's pages, and how a browser signs in: by a link that is good once, for a cookie that proves little."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from http_server import Server, serving, serving_node
from perdure.engine.keys import Principal
from perdure.engine.logins import LINK, LINK_MS, SESSION, SESSION_MS
from perdure.models.catalog import Catalog
from perdure.server.logins import new_link
from perdure.server.node import Node, Parts
from perdure.server.options import ServeOptions
from perdure.server.pages import pages
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.wire import routes
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio

ADA = Principal("acme", "ada")


async def link_of(server: Server, who: Principal = ADA) -> str:
    """Make a link, and return its secret."""
    return (await new_link(server.node, who, SystemRandom())).path.partition("#")[2]


async def sign_in(server: Server, link: str, **headers: str) -> Reply:
    """Redeem a link as a page of the server does."""
    body = f'{{"link": "{link}"}}'
    given = {"origin": server.url, **headers}
    return await exchange(server.address, request("POST", routes.SESSION, server.address, body=body, **given))


async def cookie_of(server: Server) -> str:
    """Sign a browser in and return its cookie."""
    reply = await sign_in(server, await link_of(server))
    assert reply.status == 204
    return reply.headers["set-cookie"].partition(";")[0]


async def ask(server: Server, method: str, path: str, **headers: str) -> Reply:
    body = b"{}" if method in ("POST", "PUT") else None
    return await exchange(server.address, request(method, path, server.address, body=body, **headers))


@pytest.mark.both_stores
async def test_a_link_signs_one_browser_in_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        link = await link_of(server)
        tried = await asyncio.gather(*(sign_in(server, link) for _ in range(5)))
        assert sorted(reply.status for reply in tried) == [204, 401, 401, 401, 401]
        assert {reply.code for reply in tried if reply.status == 401} == {"link_used"}
        [given] = [reply.headers["set-cookie"] for reply in tried if reply.status == 204]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(given.split("; "))
        cookie = given.partition(";")[0]
        who = (await ask(server, "GET", routes.SESSION, cookie=f"other=1; {cookie}")).json
        assert who == {"name": "ada", "company": "acme", "by": "session"}


async def test_opening_a_link_uses_nothing_up(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        link = await link_of(server)
        for method in ("GET", "HEAD"):
            await exchange(server.address, request(method, f"/login?{link}", server.address), head_only=True)
        assert (await ask(server, "GET", f"{routes.SESSION}?link={link}")).status == 401
        assert (await sign_in(server, link)).status == 204


async def test_only_a_page_of_this_server_signs_in(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        link = await link_of(server)
        assert (await sign_in(server, link, origin="")).code == "no_origin"
        assert (await sign_in(server, link, origin="https://evil.example")).code == "origin_refused"
        assert (await sign_in(server, link, content_type="text/plain")).code == "unsupported_media_type"
        assert (await sign_in(server, link)).status == 204


async def test_neither_a_link_nor_a_session_is_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        link, cookie = await link_of(server), await cookie_of(server)
        name, _, session = cookie.partition("=")
        assert session.startswith(SESSION)
        for secret in (link, server.key):
            assert (await ask(server, "GET", routes.INFO, cookie=f"{name}={secret}")).status == 401
        for secret in (session, server.key, "pdl_" + "x" * 43):
            assert (await sign_in(server, secret)).code == "link_used"


async def test_a_cookie_changes_something_only_for_a_page_of_this_server(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        cookie = await cookie_of(server)
        path = routes.fill(routes.QUEUE_PAUSE, queue="q")
        assert (await ask(server, "POST", path, cookie=cookie)).code == "no_origin"
        assert (await ask(server, "POST", path, cookie=cookie, origin="null")).code == "origin_refused"
        same_site = {"origin": server.url, "sec_fetch_site": "same-site"}  # another port of this machine
        assert (await ask(server, "POST", path, cookie=cookie, **same_site)).code == "cross_site"
        assert (await ask(server, "GET", routes.INFO, cookie=cookie, sec_fetch_site="cross-site")).code == "cross_site"
        page = {"origin": server.url, "sec_fetch_site": "same-origin"}
        assert (await ask(server, "POST", path, cookie=cookie, **page)).status == 200
        assert (await ask(server, "GET", routes.INFO, cookie=cookie, sec_fetch_site="same-origin")).status == 200
        key = f"Bearer {server.key}"
        assert (await ask(server, "POST", path, cookie="x=y", authorization=key)).status == 200  # a program


@pytest.mark.both_stores
async def test_keys_are_told_by_their_names_and_not_what_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        secret = "pdk_" + "o" * 43
        await server.node.add_key("acme", "bob", secret)
        for _ in range(2):
            cookie = await cookie_of(server)
        await link_of(server)
        found = await ask(server, "GET", routes.KEYS, cookie=cookie)
        assert [(one["name"], one["begins"]) for one in found.json["items"]] == [("bob", secret[:8])]
        assert found.json["sessions"] == 2
        assert secret not in found.body.decode()


async def test_who_signs_out_is_out_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        cookie = await cookie_of(server)
        assert (await ask(server, "GET", routes.INFO, cookie=cookie)).status == 200
        out = await ask(server, "DELETE", routes.SESSION, cookie=cookie, origin=server.url)
        assert out.status == 204
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert (await ask(server, "GET", routes.INFO, cookie=cookie)).status == 401


async def test_a_link_of_one_server_is_redeemed_at_another_and_then_nowhere(postgres_database: str) -> None:
    async with server_on(postgres_database) as one, server_on(postgres_database) as other:
        link = await link_of(one)
        assert (await sign_in(other, link)).status == 204
        assert (await sign_in(one, link)).code == "link_used"


@asynccontextmanager
async def server_on(database: str) -> AsyncGenerator[Server]:
    """Run one more server on a database."""
    clock, random = SystemClock(), SystemRandom()
    node = Node(open_postgres(database, random=random), Parts(Catalog(), clock, random), nonce=random.token(16).hex())
    node.start()
    async with serving_node(node) as server:
        yield server


@pytest.mark.sqlite_only("the rows are aged by hand, in the file")
async def test_old_links_and_sessions_are_good_for_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        link, cookie = await link_of(server), await cookie_of(server)
        with closing(sqlite3.connect(tmp_path / "s.db", timeout=60)) as database, database:
            for prefix, life_ms in ((LINK, LINK_MS), (SESSION, SESSION_MS)):
                sql = "UPDATE api_keys SET created_ms = created_ms - ? WHERE prefix = ?"
                database.execute(sql, (life_ms + 1000, prefix))
        assert (await sign_in(server, link)).code == "link_used"
        assert (await ask(server, "GET", routes.INFO, cookie=cookie)).status == 401
        await link_of(server)  # and whoever makes a new one forgets them
        with closing(sqlite3.connect(tmp_path / "s.db", timeout=60)) as database:
            left = database.execute("SELECT prefix FROM api_keys WHERE prefix IN (?, ?)", (LINK, SESSION)).fetchall()
        assert left == [(LINK,)]


async def test_the_pages_are_open_and_hold_nothing_but_themselves(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for path in (
            "/",
            "/executions",
            "/executions/exe_1/events",
            "/compare/exe_1/exe_2",
            "/approvals",
            "/workers",
            "/agents/refund%20desk",
            "/schedules",
            "/rooms/rm_1/files",
            "/settings",
            "/demo",
            "/login",
        ):
            reply = await ask(server, "GET", path)
            assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
            assert reply.headers["cache-control"] == "no-cache"
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert (await ask(server, "GET", path, host="evil.example")).code == "host_refused"
        assert (await ask(server, "POST", "/")).status == 401


def test_files_are_sent_as_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "index-1a2b.js").write_text("x" * 5000)
    (tmp_path / "index.html").write_text("<html>")
    (tmp_path / "secret.py").write_text("")
    found = pages(tmp_path)
    script, index = found.find("/assets/index-1a2b.js"), found.find("/executions/exe_1")
    assert script is not None
    assert b"immutable" in script.caching
    assert len(script.packed) < 100
    assert index is found.find("/")
    assert index is not None
    assert index.caching == b"no-cache"
    for path in ("/secret.py", "/index.html", "/assets/../index.html", "/assets", "//executions", "/v1/info", "/docs"):
        assert found.find(path) is None, path


def test_a_checkout_without_the_ui_says_how_to_build_it(tmp_path: Path) -> None:
    page = pages(tmp_path / "nothing").find("/executions")
    assert page is not None
    assert b"./dev ui" in page.body


async def test_without_keys_nobody_signs_in(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(auth=False)) as server:
        assert (await ask(server, "GET", routes.SESSION)).json["by"] == "nothing"
        assert (await ask(server, "GET", "/")).status == 200
