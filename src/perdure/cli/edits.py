"""Read what `perdure executions fork --edit` is told to change."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.views import ForkEdits
from perdure.errors import InvalidInput


def read_edits(given: Sequence[str]) -> ForkEdits:
    """Return the edits that `prompt=…`, `model=…`, `build=…`, `input=JSON` and `result:ADDRESS=JSON` name.

    A result or input that is no JSON is taken as text. Raises `InvalidInput` (`bad_edit`).
    """
    texts: dict[str, str] = {}
    results: dict[str, Json] = {}
    for edit in given:
        what, equals, value = edit.partition("=")
        if not equals or not (what in ("prompt", "model", "build", "input") or what.startswith("result:")):
            raise InvalidInput(
                f"--edit {edit!r} is none of prompt=TEXT, model=NAME, build=NAME, input=JSON and result:ADDRESS=JSON.",
                code="bad_edit",
            )
        if what.startswith("result:"):
            results[what.removeprefix("result:")] = _json(value)
        else:
            texts[what] = value
    changed = _json(texts["input"]) if "input" in texts else None
    return ForkEdits(texts.get("prompt"), texts.get("model"), results, changed, texts.get("build"))


def _json(text: str) -> Json:
    try:
        return codec.decode(text)
    except ValueError:
        return text
