"""Large values in-process: what is sent in pieces is proven before it may be referred to, and limits are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from http_server import open_node, start_request
from perdure.client.large import InMemory, load, sent_whole, upload
from perdure.core import codec
from perdure.core.blobs import CHUNK_BYTES, BlobRef, BlobState, hash_of, reference_in
from perdure.errors import InvalidInput, LimitExceeded, NotFound
from perdure.server.direct import DirectApi
from perdure.server.direct_blobs import max_value_bytes

pytestmark = pytest.mark.anyio

LARGE = "ä" * 5_000_000
"""As JSON text, more than a log holds."""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[DirectApi]:
    node = open_node(tmp_path / "p.db")
    yield node.api("default")
    node.stop()


async def test_an_input_too_large_for_a_log_is_sent_before_and_read_again(api: DirectApi) -> None:
    async def begin(given: object) -> str:
        return (await api.start(start_request("plain", given))).id  # type: ignore[arg-type]

    execution = await sent_whole(api, LARGE, "the input", begin)
    [first] = await api.events(execution, limit=1)
    ref = reference_in(first.data["input"])
    assert ref is not None
    assert await load(api, execution, ref) == LARGE
    assert await api.values(execution) == [ref]
    with pytest.raises(NotFound):
        await load(api, await begin("small"), ref)


async def test_what_is_sent_must_be_what_its_hash_says(api: DirectApi) -> None:
    content = b"x" * (CHUNK_BYTES + 7)
    ref = BlobRef(hash_of(content), len(content))
    with pytest.raises(NotFound):
        await api.put_chunk(ref.hash, 0, b"")
    assert (await api.offer_blob(ref.hash, ref.bytes)).missing == (0, 1)
    for number, piece in ((0, b"short"), (2, b""), (-1, b"")):
        with pytest.raises(InvalidInput):
            await api.put_chunk(ref.hash, number, piece)
    for number, piece in ((0, content[:CHUNK_BYTES]), (1, b"another")):
        await api.put_chunk(ref.hash, number, piece)
    with pytest.raises(InvalidInput) as refused:
        await api.offer_blob(ref.hash, ref.bytes)
    assert refused.value.code == "blob_wrong"
    await upload(api, ref, InMemory(content))
    assert await api.offer_blob(ref.hash, ref.bytes) == BlobState(whole=True)
    with pytest.raises(InvalidInput):
        await api.offer_blob(ref.hash, 5)


async def test_the_limit_is_told_with_its_setting(api: DirectApi) -> None:
    with pytest.raises(LimitExceeded) as refused:
        await api.offer_blob("0" * 64, 10**9)
    assert refused.value.code == "too_large"
    for word in ("1,000,000,000", "67,108,864", "--max-value-mb"):
        assert word in refused.value.message


async def test_what_is_not_too_large_is_refused_as_it_was(api: DirectApi) -> None:
    async def refuse(_given: object) -> None:
        codec.encode("x" * 100, "something else", 10)

    with pytest.raises(LimitExceeded, match="something else"):
        await sent_whole(api, "small", "the input", refuse)


def test_the_setting_is_a_number_of_megabytes() -> None:
    assert max_value_bytes({}) == 64 * 2**20
    assert max_value_bytes({"PERDURE_MAX_VALUE_MB": "100"}) == 100 * 2**20
    for said in ("7", "1025", "much"):
        with pytest.raises(InvalidInput):
            max_value_bytes({"PERDURE_MAX_VALUE_MB": said})
