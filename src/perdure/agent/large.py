"""Values too large for a log, as a model meets them: it reads that there is one, and may hand it on as an argument.

Pure. What a value holds is for tools: a worker puts the content in the place of the reference before a body starts.
"""

from __future__ import annotations

from perdure.core import codec
from perdure.core.blobs import reference_in
from perdure.core.codec import Json


def shown(value: Json, what: str) -> str:
    """Return a value as JSON text for a model; of a large one, what it is and what can be done with it."""
    text = codec.encode(value, what)
    ref = reference_in(value)
    if ref is None:
        return text
    return (
        f"{text}\nThis stands for a value of {ref.bytes:,} bytes, which was stored and is too large to be shown. To "
        "give it to a tool, pass this object as it is in the place of the argument."
    )


def standing_in(schema: dict[str, Json], args: dict[str, Json]) -> dict[str, Json] | None:
    """Return a schema that takes anything where an argument stands for a large value; None if none does.

    What such a value holds is checked against the parameter's own type where it is loaded.
    """
    names = [name for name, value in args.items() if reference_in(value) is not None]
    known = schema.get("properties")
    if not names or not isinstance(known, dict):
        return None
    return {**schema, "properties": {**known, **{name: {} for name in names if name in known}}}
