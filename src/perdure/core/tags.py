"""Tags: words that people put on an execution when they start it, to find it again by."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import InvalidInput

MOST_TAGS = 20
"""On one execution."""
MOST_LETTERS = 100
"""In one tag."""


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags in their order, each once. Raises `InvalidInput` (`bad_tags`), naming the one that cannot be."""
    if isinstance(tags, str):
        raise _bad(f"tags should be a list of texts; found the text {tags[:80]!r}. Write tags=[{tags[:80]!r}]")
    found = tuple(dict.fromkeys(tags))
    if len(found) > MOST_TAGS:
        raise _bad(f"an execution has at most {MOST_TAGS} tags; found {len(found)}")
    for tag in found:
        check_tag(tag)
    return found


def check_tag(tag: object) -> None:
    """Raise `InvalidInput` (`bad_tags`) for what can be no tag."""
    if not isinstance(tag, str) or not 0 < len(tag) <= MOST_LETTERS or not tag.isprintable() or tag != tag.strip():
        raise _bad(
            f"a tag is 1 to {MOST_LETTERS} printable characters without a space around them; found {str(tag)[:80]!r}"
        )


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"{why}.", code="bad_tags", fields=["tags"])
