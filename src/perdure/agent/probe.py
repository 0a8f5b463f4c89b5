"""Find out what became of a call: what the function that an author gives for it may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from perdure.agent.companion import Companion
from perdure.core.codec import Json
from perdure.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a probe found out about a call. Make one with `happened`, `did_not_happen` or `unknown`."""

    known: bool | None
    """Whether it happened; None if that cannot be told."""
    value: Any = None
    """What the call would have returned."""

    @classmethod
    def happened(cls, value: Any = None) -> Outcome:
        """It was done, and this is what it would have returned: its receipt. The call counts as done."""
        return cls(True, value)

    @classmethod
    def did_not_happen(cls) -> Outcome:
        """It was not done and will not be: nothing of it is still on its way. The call begins once more."""
        return cls(False)

    @classmethod
    def unknown(cls) -> Outcome:
        """It cannot be told now. You are asked again a few times; then a person, or the declared policy, rules."""
        return cls(None)


def probe_body(probe: Companion) -> Callable[..., Any]:
    """Return what a worker runs: called with the tool's arguments, it returns the answer as JSON-like data."""
    return probe.body(_answer)


def redact_answer(redact: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what redacts the value in such an answer, and texts of errors."""

    def told(found: Any) -> Any:
        if not isinstance(found, dict):
            return redact(found)
        answer = cast("dict[str, Any]", found)
        return answer if answer["value"] is None else {**answer, "value": redact(answer["value"])}

    return told


def _answer(outcome: object) -> dict[str, Json]:
    if not isinstance(outcome, Outcome):
        raise PermanentError(
            f"the probe returned {outcome!r:.80}; expected Outcome.happened(...), Outcome.did_not_happen() or "
            "Outcome.unknown()",
            code="bad_probe",
        )
    return {"happened": outcome.known, "value": outcome.value}
