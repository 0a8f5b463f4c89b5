"""A scripted model that says a piece of its reply when a test opens its gate: a file, so that any process may open it.

Every attempt says other words, so that whoever sees them knows whose they are. `perdure server --script` finds it here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from perdure.models.port import ModelError, ModelReply, ModelRequest, Usage
from perdure.models.scripted import say

FOLDER = "SPEAKING_GATES"
"""The variable of the environment that names the folder of the gates."""
PIECES = 3
LOOK_SECONDS = 0.005


def piece(attempt: int, number: int) -> str:
    """Return what an attempt says as its piece of a number, from 1."""
    return f"{attempt}.{number} ☂ "


def said(attempt: int, pieces: int = PIECES) -> str:
    """Return the first pieces of an attempt."""
    return "".join(piece(attempt, number) for number in range(1, pieces + 1))


@dataclass(frozen=True)
class Gates:
    """What an attempt may do, and whether it was begun."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """What the process of the model has to be given."""
        return {FOLDER: str(self.folder)}

    def let(self, attempt: int, pieces: int = PIECES) -> None:
        """Let an attempt say its first pieces."""
        for number in range(1, pieces + 1):
            self._gate(attempt, f"say-{number}").touch()

    def end(self, attempt: int) -> None:
        """Let an attempt say everything, and end."""
        self.let(attempt)
        self._gate(attempt, "end").touch()

    def cut(self, attempt: int) -> None:
        """Let an attempt break off where it is."""
        self._gate(attempt, "cut").touch()

    def begun(self, attempt: int) -> bool:
        """Say whether an attempt was made."""
        return self._gate(attempt, "begun").exists()

    def begin(self, attempt: int) -> None:
        """Note that an attempt is made. The model's own."""
        self._gate(attempt, "begun").touch()

    async def opened(self, attempt: int, what: str) -> None:
        """Return once an attempt may do something; break off if it is to. The model's own."""
        while not self._gate(attempt, what).exists():
            if self._gate(attempt, "cut").exists():
                raise ModelError("transient", "scripted/speaker: it broke off.", retry_after=0)
            await asyncio.sleep(LOOK_SECONDS)

    def _gate(self, attempt: int, what: str) -> Path:
        return self.folder / f"{attempt}-{what}"


async def speak(request: ModelRequest) -> AsyncIterator[str | ModelReply]:
    """Say the pieces of this attempt, each when it is let."""
    gates, attempt = Gates(Path(os.environ[FOLDER])), request.attempt
    gates.begin(attempt)
    for number in range(1, PIECES + 1):
        await gates.opened(attempt, f"say-{number}")
        yield piece(attempt, number)
    await gates.opened(attempt, "end")
    yield say(said(attempt), usage=Usage(7, 11), cost_usd=0.25)
