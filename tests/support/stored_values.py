"""Large values in a store, put there by the engine's own operations; for tests their content need not be large."""

from __future__ import annotations

import base64

from engine_bench import COMPANY, Bench
from perdure.core.blobs import CHUNK_BYTES, BlobRef, hash_of, numbers_of
from perdure.engine.blobs import BlobName, OfferBlob, PutChunk, finish_blob, offer_blob, put_chunk


def offered(bench: Bench, content: bytes, company: str = COMPANY) -> BlobRef:
    """Send all pieces of content, and do not say that it is whole."""
    ref = BlobRef(hash_of(content), len(content))
    name = BlobName(company, ref.hash)
    bench.do(offer_blob, OfferBlob(name, ref.bytes))
    for number in numbers_of(ref.bytes):
        piece = content[number * CHUNK_BYTES :][:CHUNK_BYTES]
        assert bench.do(put_chunk, PutChunk(name, number, base64.b64encode(piece).decode())) is None
    return ref


def stored(bench: Bench, content: bytes, company: str = COMPANY) -> BlobRef:
    """Have a store keep content, as it does once it has proven it."""
    ref = offered(bench, content, company)
    assert bench.do(finish_blob, OfferBlob(BlobName(company, ref.hash), ref.bytes))
    return ref
