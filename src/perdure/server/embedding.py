"""Have vectors made of what rooms hold: of texts that were just written, and of those from before there was a model.

In bounded batches, on a thread of its own while it thinks; nobody's transaction waits for it. It may stop anywhere and
run on several servers at once: what has no vector of this model is found by an index, and keeping one twice changes
nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial

from perdure.core.ports import Clock, Embedder
from perdure.engine.room_vectors import TOPIC, KeepVectors, Turn, keep_vectors, without_vector
from perdure.errors import Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub, stirred

log = get_log(__name__)

BATCH = 100
"""Texts at a time: no row of anybody else waits longer for the writer than keeping their vectors takes."""
GATHER_SECONDS = 0.2
"""From a hint to the look: what is written together is given its vectors together."""
LOOK_SECONDS = 15.0
"""Between two looks without a hint: for what another server wrote and could not make vectors of."""


class Embedding:
    """One server's share. Run `run` in one task until it is cancelled."""

    def __init__(self, bridge: Bridge, hub: Hub, clock: Clock, embedder: Embedder) -> None:
        self._bridge, self._hub, self._clock, self._embedder = bridge, hub, clock, embedder
        self._stir = asyncio.Event()
        self._turn = Turn()

    async def run(self) -> None:
        """Make vectors until cancelled. Raises only `StoreFailed`."""
        with self._hub.listening([(TOPIC, "")], lambda _: self._stir.set()):
            while True:
                self._stir.clear()  # before looking: what comes meanwhile is seen, or stirs again
                if not await self._trying():
                    await stirred(self._stir, LOOK_SECONDS)
                    await self._clock.sleep(GATHER_SECONDS)

    async def _trying(self) -> bool:
        """Make one batch; say whether there may be more at once. What fails is said, and tried at the next look."""
        try:
            return await self._batch()
        except StoreFailed:
            raise
        except Retryable as error:
            log.debug("vectors.put_off", code=error.code, action="will look again")
        except Exception as error:
            log.exception("vectors.failed", error=type(error).__name__, action="will look again; words find all texts")
        return False

    async def _batch(self) -> bool:
        model = self._embedder.model
        turn = self._turn
        found, self._turn = await self._bridge.read(partial(without_vector, model=model, turn=turn, limit=BATCH))
        if not found:
            return turn != Turn()  # behind the last room comes the first
        vectors = await asyncio.to_thread(self._vectors, found)
        kept = await self._bridge.run(keep_vectors, KeepVectors(model, vectors))
        log.debug("vectors.kept", texts=kept, model=model)
        if not kept:  # another server is at the same ones
            await self._clock.sleep(GATHER_SECONDS)
        return True

    def _vectors(self, texts: dict[int, str]) -> dict[int, str]:
        """Return the vectors of texts. One that the model breaks on gets an empty one, and holds up no other."""
        try:
            return dict(zip(texts, self._embedder.vectors(list(texts.values())), strict=True))
        except Exception as error:
            self._embedder.vectors(["word"])  # raises where it is not for the texts
            if len(texts) > 1:
                return {
                    number: vector for one in texts.items() for number, vector in self._vectors(dict([one])).items()
                }
            log.exception("vectors.text_left_out", error=type(error).__name__, action="none: it is found by its words")
            return dict.fromkeys(texts, "")
