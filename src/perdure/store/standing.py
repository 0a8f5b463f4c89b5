"""Wishes that found nothing yet: each stands until a transaction announces what it wants, and is granted inside it.

So what is made in this process for somebody who waits in this process changes hands without a second commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.store.batch import Entry

Topic = tuple[str, str]
"""As a `Note` has it: topic and key."""


class Standing:
    """Entries that wait, the longest waiting first. Owner: `Batches`."""

    def __init__(self) -> None:
        self._by_key: dict[str, Entry] = {}
        self._by_topic: dict[Topic, dict[int, Entry]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, entry: Entry) -> None:
        """Let an entry stand. It has a key, by which a later wish of the same owner takes its place."""
        for key in entry.keys:
            self._by_key[key] = entry
        for topic in entry.wants:
            self._by_topic.setdefault(topic, {})[id(entry)] = entry

    def holds(self, entry: Entry) -> bool:
        """Say whether an entry stands."""
        return bool(entry.wants) and any(self._by_key.get(key) is entry for key in entry.keys)

    def called(self, topics: Iterable[Topic]) -> list[Entry]:
        """Return those that want one of `topics`; they stand on."""
        found: dict[int, Entry] = {}
        for topic in topics:
            found.update(self._by_topic.get(topic, {}))
        return list(found.values())

    def replaced(self, entries: Iterable[Entry]) -> list[Entry]:
        """Remove and return those whose owners ask again, or not any more, with one of `entries`."""
        found = {id(old): old for entry in entries for key in entry.keys if (old := self._by_key.get(key)) is not None}
        self.remove(*found.values())
        return list(found.values())

    def remove(self, *entries: Entry) -> None:
        """Let these stand no more."""
        for entry in entries:
            for key in entry.keys:
                self._by_key.pop(key, None)
            for topic in entry.wants:
                self._forget(topic, entry)

    def _forget(self, topic: Topic, entry: Entry) -> None:
        waiting = self._by_topic.get(topic, {})
        waiting.pop(id(entry), None)
        if not waiting:
            self._by_topic.pop(topic, None)

    def clear(self) -> list[Entry]:
        """Remove and return all."""
        everybody = list({id(entry): entry for entry in self._by_key.values()}.values())
        self._by_key.clear()
        self._by_topic.clear()
        return everybody
