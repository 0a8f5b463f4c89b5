"""A stand-in for what knows what texts mean: it knows a few groups of words, and that those of a group mean the same.

No model, and declared as none: for tests of all that is made of vectors. `models/vectors.py` has the real one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

GROUPS: tuple[frozenset[str], ...] = tuple(
    frozenset(one.split())
    for one in (
        "cost price fee money expensive",
        "river stream brook water",
        "bridge crossing span",
        "car lorry vehicle truck",
        "late delay overdue slip",
        "secret hidden canary",
        "lunch soup meal kitchen",
    )
)


class StandIn:
    """An `Embedder`. Remembers what it was given."""

    def __init__(self, model: str = "1 stand-in", breaks_on: str = "") -> None:
        """`breaks_on`: a word that it makes no vector of, but raises, or `*` for every one."""
        self.model = model
        self.breaks_on = breaks_on
        self.asked = 0
        """How often it was to make vectors."""
        self.read: list[str] = []

    def vectors(self, texts: Sequence[str]) -> list[str]:
        self.asked += 1
        if self.breaks_on and any(self.breaks_on in ("*", *one.split(" ")) for one in texts):
            raise RuntimeError(f"it breaks on {self.breaks_on!r}")
        self.read += texts
        return [_vector(one) for one in texts]

    def likeness(self, text: str, vectors: Sequence[str]) -> Sequence[float]:
        asked = _numbers(_vector(text))
        return [_cosine(asked, _numbers(one)) for one in vectors]


def _vector(text: str) -> str:
    counts = [sum(word in group for word in text.split(" ")) for group in GROUPS]
    return " ".join(map(str, counts)) if any(counts) else ""


def _numbers(vector: str) -> list[int]:
    found = [int(one) for one in vector.split()]
    return found if len(found) == len(GROUPS) else [0] * len(GROUPS)


def _cosine(one: list[int], other: list[int]) -> float:
    both = sum(left * right for left, right in zip(one, other, strict=True))
    return both / (math.hypot(*one) * math.hypot(*other) or 1)
