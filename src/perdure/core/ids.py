"""Ids: sortable by birth, readable by their prefix, and the shard that every execution-scoped key starts with."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import NewType

from perdure.core.ports import Clock, Random
from perdure.errors import InvalidInput

ExecutionId = NewType("ExecutionId", str)

SHARDS = 1024
"""Fixed for ever: the shard is stored in every key. The schema can spread over partitions or clusters by it."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ALPHABET = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghjkmnpqrstvwxyz")


def new_id(prefix: str, clock: Clock, random: Random) -> str:
    """Return `prefix_` and 26 characters: 48 bits of wall time, then 80 of chance. Sorts by time to the millisecond."""
    return id_of(prefix, clock.wall_ms(), random.token(10))


def id_of(prefix: str, at_ms: int, chance: bytes) -> str:
    """Return the id of a moment and 80 bits of chance, or of what identifies a thing that may be made twice."""
    raw = at_ms.to_bytes(6, "big") + chance
    return f"{prefix}_{base64.b32encode(raw).decode().rstrip('=').translate(_ALPHABET)}"


def shard_of(execution: str) -> int:
    """Return the shard of an execution: the same number in every process and release.

    Raises InvalidInput for what can be no id.
    """
    try:
        text = execution.encode()
    except (AttributeError, UnicodeEncodeError):
        raise not_a_name("execution", execution) from None
    return int.from_bytes(hashlib.blake2b(text, digest_size=2).digest(), "big") % SHARDS


def check_named(**names: object) -> None:
    """Raise InvalidInput, saying what was to be named, for a name that is no text which a store can look for."""
    for what, name in names.items():
        if not isinstance(name, str) or _UNSTORABLE.search(name):
            raise not_a_name(what, name)


def not_a_name(what: str, found: object) -> InvalidInput:
    """Return the error for what stands where a name should."""
    return InvalidInput(
        f"{what} should be a name: text without NUL and half surrogate pairs; found {found!r:.80}.",
        code="unstorable",
        fields=[what],
    )


def action_key(execution: str, address: str) -> str:
    """Return the idempotency key of a step: equal on every attempt, different for every other step."""
    return f"{execution}/{address}"
