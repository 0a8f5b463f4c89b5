"""Take secrets out of what comes back: one rule for answers, errors and lines of a log.

Pure. A value is found as it is, as JSON writes it in a text, and as an address does. Text in which its owner hid it
otherwise, in base64 for one, is not known as the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast
from urllib.parse import quote

from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import PerdureError

HIDDEN = "***"
LEAST_PART = 6
"""Characters from which the beginning of a secret, at the end of a text that was cut, is taken for one."""

E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What must not be told. Make it with `redaction`."""

    forms: tuple[str, ...] = field(default=(), repr=False)
    """The longest first, so that a secret which holds another one is replaced whole."""

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        for form in self.forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        return text

    def cut(self, text: str) -> str:
        """Return a text that ends where it was cut, without the secrets and without what is left of one at its end."""
        text = self.text(text)
        for form in self.forms:
            for size in range(min(len(form) - 1, len(text)), LEAST_PART - 1, -1):
                if text.endswith(form[:size]):
                    return text[:-size] + HIDDEN
        return text

    def json(self, value: Json) -> Json:
        """Return a value of JSON without the secrets, in its keys or values."""
        if not self.forms:
            return value
        text = codec.encode_json(value, "the answer")
        hidden = self.text(text)
        return value if hidden == text else codec.decode(hidden)

    def error(self, error: E) -> E:
        """Take the secrets out of an error, out of those that it came from and those that it holds; return it.

        What an error keeps in forms of its own, and not in its arguments or its message, is not found.
        """
        if self.forms:
            for one in _family(error):
                one.args = tuple(self.text(part) if isinstance(part, str) else part for part in one.args)
                if isinstance(said := vars(one).get("message"), str):
                    cast("PerdureError", one).message = self.text(said)
        return error


class Redacting:
    """Takes the secrets out of a text that comes in pieces. What may be the beginning of one is held back until it is
    known. Owner: whoever reads that text.
    """

    def __init__(self, hidden: Redaction) -> None:
        self._forms = hidden.forms
        self._hidden = hidden
        self._held = ""
        """As it came: it may turn out to be part of a longer secret than it looks."""

    def piece(self, text: str) -> str:
        """Take what came, and return what may be told of it and of what was held back."""
        if not self._forms:
            return text
        text = self._held + text
        cut = self._before_occurrences(text, len(text) - self._beginning(text))
        self._held = text[cut:]
        return self._hidden.text(text[:cut])

    def rest(self) -> str:
        """Return what may be told of what is still held back, at the end of the text."""
        held, self._held = self._held, ""
        return self._hidden.text(held)

    def _beginning(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret."""
        for size in range(min(len(self._forms[0]) - 1, len(text)), 0, -1):
            end = text[-size:]
            if any(len(form) > size and form.startswith(end) for form in self._forms):
                return size
        return 0

    def _before_occurrences(self, text: str, cut: int) -> int:
        """Return a place at or before `cut` at which no secret is cut in two."""
        while True:
            starts = [text.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1) for form in self._forms]
            across = [start for start in starts if 0 <= start < cut]
            if not across:
                return cut
            cut = min(across)


def redaction(values: Iterable[str]) -> Redaction:
    """Return what hides these values. Empty ones hide nothing."""
    forms = {form for value in values if value for form in (value, json.dumps(value)[1:-1], quote(value, safe=""))}
    return Redaction(tuple(sorted(forms, key=len, reverse=True)))


def _family(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that a traceback of it would show."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
