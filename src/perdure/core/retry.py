"""How long to wait before trying again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Growing pauses with a ceiling and a count."""

    attempts: int = 3
    """All tries, the first included."""
    pause_ms: int = 2_000
    """Before the second try; doubles from there."""
    ceiling_ms: int = 60_000

    def pause_before(self, attempt: int) -> int:
        """Return the pause, in milliseconds, before try number `attempt` (2 or more)."""
        return min(self.pause_ms * 2 ** (attempt - 2), self.ceiling_ms)
