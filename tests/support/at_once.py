"""Do things at the same moment, in a thread each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60


def at_once(*things: Callable[[], T]) -> list[T]:
    """Run these in threads that begin together; return what they gave. Their errors are raised here."""
    together = threading.Barrier(len(things))
    gave: dict[int, T] = {}
    raised: list[BaseException] = []

    def run(place: int, thing: Callable[[], T]) -> None:
        together.wait(PATIENCE)
        try:
            gave[place] = thing()
        except BaseException as error:  # noqa: BLE001 - the test's to see
            raised.append(error)

    threads = [threading.Thread(target=run, args=(place, thing)) for place, thing in enumerate(things)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not raised
    assert len(gave) == len(things), "they wait for each other for ever"
    return [gave[place] for place in range(len(things))]
