"""Say at once that a value fits a plain schema: an object of words, numbers and flags, as most tools take. Pure.

Only a yes counts. Whatever is not plain, or does not fit, is left to the full checker, which also says why.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.core.codec import Json

Fits = Callable[[Json], bool]

_CLASSES: dict[Json, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}
_SAYS_NOTHING = frozenset({"title", "description", "default", "examples", "$schema"})
"""Keywords that no value can fail."""
_OF_OBJECTS = _SAYS_NOTHING | {"type", "properties", "required", "additionalProperties"}


def plain_check(schema: Json) -> Fits | None:
    """Return a function that says whether a value surely fits; None if the schema is not plain."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not schema.keys() <= _OF_OBJECTS:
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    classes = {name: _classes(one) for name, one in properties.items()}
    wanted = frozenset(name for name in required if isinstance(name, str))
    if len(wanted) != len(required) or not all(classes.values()):
        return None

    def fits(value: Json) -> bool:
        return (
            isinstance(value, dict)
            and wanted <= value.keys()
            and all(item.__class__ in classes.get(name, ()) for name, item in value.items())
        )

    return fits


def _classes(schema: Json) -> frozenset[type]:
    """Return what JSON values of a property are in Python; nothing if there is more to it than a type."""
    if not isinstance(schema, dict) or not schema.keys() <= _SAYS_NOTHING | {"type"}:
        return frozenset()
    kind = schema.get("type")
    return _CLASSES.get(kind, frozenset()) if isinstance(kind, str) else frozenset()
