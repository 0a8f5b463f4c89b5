"""Note which blobs the rows refer to that a transaction writes into logs. In that transaction, whoever wrote them.

Called for rows with the mark of a reference in their text alone, so all others pay one search of their own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.core import codec
from perdure.core.blobs import hashes_in, reference_in
from perdure.errors import InvalidInput

Run = Callable[..., int]

VALUES = ("value", "input", "output")
"""What holds a value in the data of a log's row."""


def refer(run: Run, now_ms: int, rows: Sequence[Mapping[str, Any]], company_of: Callable[[str], str]) -> None:
    """Touch and note the blobs that rows refer to.

    One that is not there is no reference but somebody's text, which may hold anything. Raises `InvalidInput`
    (`blob_missing`) where it is all of a value: then its sender meant it.
    """
    for name in sorted({(company_of(row["execution"]), one) for row in rows for one in hashes_in(row["data"])}):
        company, content_hash = name
        there = run("touch_whole_blob", company=company, hash=content_hash, now_ms=now_ms)
        for row in rows:
            if company_of(row["execution"]) != company or content_hash not in row["data"]:
                continue
            if there:
                run(
                    "use_blob",
                    shard=row["shard"],
                    execution=row["execution"],
                    hash=content_hash,
                    company=company,
                )
            elif content_hash in _meant(row["data"]):
                raise _missing(content_hash)


def _meant(text: str) -> set[str]:
    """Return the blobs that stand for a whole value in the data of a row."""
    data = codec.decode(text)
    found = [reference_in(data.get(name)) for name in VALUES]
    return {one.hash for one in found if one is not None}


def _missing(content_hash: str) -> InvalidInput:
    return InvalidInput(
        f"the value refers to {content_hash[:16]}…, and this company's store has no such content. Send the content "
        "first: who does so with this library need not think of it.",
        code="blob_missing",
        hash=content_hash,
    )
