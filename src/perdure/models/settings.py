"""The settings of a request: which there are, what each must be, and how long a reply may take.

What is unknown is refused by name: a setting that is silently dropped changes what an agent does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.core.codec import Json
from perdure.models.port import ModelError, ModelRequest

CONNECT_SECONDS = 10.0

SILENCE_SECONDS = 300.0
"""Longest wait for the next byte. `timeout` changes it. A whole reply comes at once, after all of its thinking."""

TOTAL_SECONDS = 1800.0
"""Longest reply, however steadily it drips, unless `timeout` is longer."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_KNOWN: Mapping[str, tuple[Callable[[Json], bool], str]] = {
    "temperature": (_number, "a number"),
    "top_p": (_number, "a number"),
    "max_tokens": (_count, "a whole number above 0"),
    "seed": (lambda value: isinstance(value, int), "a whole number"),
    "timeout": (lambda value: _number(value) and float(str(value)) > 0, "seconds above 0"),
    "stop_sequences": (_texts, "a list of texts"),
    "parallel_tool_calls": (lambda value: isinstance(value, bool), "true or false"),
    "reasoning_effort": (lambda value: value in EFFORTS, f"one of {', '.join(EFFORTS)}"),
    "stream": (lambda value: isinstance(value, bool), "true or false"),
}


def resolve(request: ModelRequest) -> dict[str, Any]:
    """Return the settings in pydantic-ai's words, with our time limits and without retries of its own.

    Raises `ModelError` (`rejected`) naming what is unknown or malformed. A value of None is left out.
    """
    chosen: dict[str, Any] = {}
    for name, value in request.settings.items():
        if value is not None:
            chosen[name] = _checked(request.model, name, value)
    if "reasoning_effort" in chosen:
        effort = chosen.pop("reasoning_effort")
        chosen["thinking"] = False if effort == "none" else effort
    chosen.pop("stream", None)  # says how the reply comes, and nothing of what it is: see `providers.streams`
    silence = float(chosen.get("timeout", SILENCE_SECONDS))
    chosen["timeout"] = silence
    chosen["request_timeout"] = max(TOTAL_SECONDS, silence)
    chosen["max_retries"] = 0
    chosen["framing_announcement"] = "never"  # a note about a tag that we never send
    return chosen


def _checked(model: str, name: str, value: Json) -> Json:
    if name not in _KNOWN:
        message = f"{model}: there is no setting {name!r}. Known: {', '.join(_KNOWN)}."
        raise ModelError("rejected", message, maybe_billed=False)
    fits, expected = _KNOWN[name]
    if not fits(value):
        message = f"{model}: setting {name!r} is {value!r:.80}, expected {expected}."
        raise ModelError("rejected", message, maybe_billed=False)
    return value
