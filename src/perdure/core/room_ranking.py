"""What comes first of what was found by words and by meaning. Pure: the same hits give the same order.

What is found to the letter comes first: a number, a name, all that was asked for. A vector knows that two order numbers
are alike, and not that they are two. Then comes what means the same; words alone move that order only if they tell
something, for the words of a question ("how", "do", "we") are in many texts that do not answer it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core.room_search import COMMON

MOST_MIXED = 40
"""Of the first hits by words, and of the nearest ones, so many are put in one order. The others follow by words."""
NEAR = 0.15
"""How like the query a text is that is found by its meaning alone."""
TELLING = 0.6
"""Share of what a query's words tell, from which on a hit by words moves the order."""

_IDENTIFIER = 3
"""Characters of a word with a digit in it that names something: of `48812`, not of `3`."""
_FEW = 3
"""Texts that have a word which names something; in a large room, one in fifty."""
_ALL = 0.9
"""Share of it that is all: but for ordinary words."""
_RANKS = 60
"""What a rank counts less than in a fusion of ranks: the usual number."""


class Candidate(NamedTuple):
    """A text that was found one way or the other."""

    number: int
    has: AbstractSet[str]
    """The words of the query that are in it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the words of a query tell, in what the company may read."""

    words: Sequence[str]
    counts: Mapping[str, int]
    """How many texts have a word; a word that none has is not in it."""
    texts: int
    """How many there are, of those that were compared."""

    def share(self, has: AbstractSet[str]) -> float:
        """Return how much of what the query's words tell these tell, 0 to 1. What all have tells next to nothing."""
        whole = sum(map(self._of, self.words))
        return sum(self._of(word) for word in self.words if word in has) / whole if whole else 0.0

    def identifiers(self) -> frozenset[str]:
        """Return the words that name one thing, and that some text has."""
        few = max(_FEW, self.texts // 50)
        return frozenset(word for word in self.words if _may_name(word) and 0 < self.counts.get(word, 0) <= few)

    def _of(self, word: str) -> float:
        """Return what a word tells: the more, the fewer texts have it, and the most if none has."""
        count = self.counts.get(word, 0)
        return math.log2((max(self.texts, count) + 1) / max(count, 1)) if count < COMMON else 0.0


def mixed(evidence: Evidence, by_words: Sequence[Candidate], near: Sequence[Candidate]) -> list[int]:
    """Return the numbers of what comes first, in order; both are given the best first. Empty: all goes by words.

    Exact hits, then the nearest, in one order with hits whose words tell something. If there are as many exact hits as
    may be put in order, nothing else is: what so many say to the letter needs no guess.
    """
    exact = _exact(evidence, by_words)
    if len(exact) >= MOST_MIXED:
        return []
    first = [one.number for one in by_words if one.number in exact]
    telling = [one.number for one in by_words if one.number not in exact and evidence.share(one.has) >= TELLING]
    nearest = [one.number for one in near if one.number not in exact]
    return [*first, *(_fused(nearest, telling) if telling else nearest)]


def _exact(evidence: Evidence, by_words: Sequence[Candidate]) -> frozenset[int]:
    """Return those that have the most of the query's identifiers, or all that its words tell."""
    named = evidence.identifiers()
    most = max((len(named & one.has) for one in by_words), default=0)
    if most:
        return frozenset(one.number for one in by_words if len(named & one.has) == most)
    return frozenset(one.number for one in by_words if evidence.share(one.has) >= _ALL)


def _fused(*lists: Sequence[int]) -> list[int]:
    """Return all, by the sum of what their ranks in the lists are worth; of equals, as the first list has them."""
    worth: dict[int, float] = {}
    for one in lists:
        for rank, number in enumerate(one, 1):
            worth[number] = worth.get(number, 0.0) + 1 / (_RANKS + rank)
    key: Callable[[int], float] = worth.__getitem__
    return sorted(worth, key=key, reverse=True)


def _may_name(word: str) -> bool:
    return len(word) >= _IDENTIFIER and any(letter.isdigit() for letter in word)
