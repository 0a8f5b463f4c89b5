"""Whatever is sent to whatever route: an answer of ours, never a fault of ours. Bounded; one server for all of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from http_server import Process, process, spec, start_request
from perdure.client.http import HttpApi
from perdure.server.routes.control import router
from perdure.server.routes.functions import WORKER_OPERATIONS as OPERATIONS
from perdure.wire import routes

ROUTES = [
    (method, route.path) for route in router.routes if isinstance(route, APIRoute) for method in route.methods or ()
]
POSTS = [path for method, path in ROUTES if method == "POST"] + [path for path in OPERATIONS if path != routes.ALIVE]
GETS = [path for method, path in ROUTES if method == "GET"]

FIELDS = """spec input idempotency_key name model instructions tools limits settings text by dedupe decision reason
address ruling value request worker nonce lanes slots lease_ms wait_seconds agent tool queue execution fence reports
outcome failure code message permanent retry_after_ms held company""".split()
WORDS = [
    "",
    "approve",
    "reject",
    "happened",
    "run",
    "give_up",
    "completed",
    "failed",
    "cancelled",
    "default",
    "\x00",
    "\ud800",
]


@dataclass(frozen=True)
class Target:
    """A server with something in it, and the ids of it."""

    server: Process
    execution: str
    approval: str


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    path: Path = tmp_path_factory.mktemp("fuzz") / "s.db"
    with process(path) as server:
        yield Target(server, *asyncio.run(_fill(server)))


async def _fill(server: Process) -> tuple[str, str]:
    api = HttpApi(server.url, server.key)
    started = await api.start(start_request("approval"))
    while not (found := await api.approvals(execution=started.id)):  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0.01)
    await api.aclose()
    return started.id, found[0].id


NUMBERS = (
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, 1, -1, 2**63])
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.sampled_from(WORDS) | st.text(max_size=8)
KEYS = st.sampled_from(FIELDS) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=12
)
HELD = st.fixed_dictionaries(
    {"execution": SCALARS, "address": SCALARS, "fence": SCALARS}, optional={"outcome": SCALARS}
)
NEAR = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.just(spec("plain")) | st.dictionaries(st.sampled_from([*spec("plain")]), VALUES) | VALUES,
        "input": VALUES,
        "text": SCALARS,
        "by": SCALARS,
        "decision": SCALARS,
        "address": SCALARS,
        "ruling": SCALARS,
        "worker": SCALARS,
        "nonce": SCALARS,
        "execution": SCALARS,
        "fence": SCALARS,
        "held": st.lists(HELD, max_size=3),
        "reports": st.lists(HELD, max_size=3),
        "request": st.fixed_dictionaries({"worker": SCALARS, "nonce": SCALARS, "slots": SCALARS, "lanes": VALUES}),
        "value": VALUES,
    },
)
BODIES = NEAR | VALUES
BOUNDED = settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])


def answer(target: Target, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Send one request; a connection of its own, so that each case stands alone."""
    connection = http.client.HTTPConnection(*target.server.address, timeout=60)
    headers = {"authorization": f"Bearer {target.server.key}", "content-type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def is_ours(status: int, body: bytes) -> bool:
    """Whether it is a success, or an error in our shape that is the sender's to mend."""
    if status < 300:
        return True
    found = json.loads(body)["error"]
    return 400 <= status < 500 and bool(found["code"]) and bool(found["message"]) and isinstance(found["details"], dict)


def fill(target: Target, path: str) -> str:
    return path.replace("{execution}", target.execution).replace("{approval}", target.approval)


@BOUNDED
@given(st.sampled_from(POSTS), BODIES)
def test_no_body_is_too_much(target: Target, path: str, body: object) -> None:
    status, reply = answer(target, "POST", fill(target, path), json.dumps(body).encode())
    assert is_ours(status, reply), (status, reply)


QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["state", "agent", "cursor", "limit", "after", "execution", "x"]),
        st.text(max_size=12) | st.integers(-2, 2**65).map(str) | st.sampled_from(WORDS[:-1]),
    ),
    max_size=4,
)


@BOUNDED
@given(st.sampled_from(GETS), QUERIES)
def test_no_query_is_too_much(target: Target, path: str, query: list[tuple[str, str]]) -> None:
    from urllib.parse import urlencode

    status, reply = answer(target, "GET", f"{fill(target, path)}?{urlencode(query, errors='surrogatepass')}")
    assert is_ours(status, reply), (status, reply)


@BOUNDED
@given(st.sampled_from(ROUTES), st.text(min_size=1, max_size=20))
def test_no_id_is_too_much(target: Target, route: tuple[str, str], name: str) -> None:
    from urllib.parse import quote

    method, path = route
    sent = re.sub(r"{\w+}", lambda _: quote(name, safe="", errors="surrogatepass"), path)
    status, reply = answer(target, method, sent, b'{"text": "x", "decision": "approve"}' if method == "POST" else None)
    assert is_ours(status, reply), (status, reply)


def test_the_server_is_as_well_as_before(target: Target) -> None:
    assert answer(target, "GET", routes.READY)[0] == 200
