"""Split a docstring into what a tool does and what each parameter means. Google, numpy and sphinx styles.

Text only: nothing is imported, evaluated or warned about. What cannot be parsed is description.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from griffe import DocstringSection

Style = Literal["google", "numpy", "sphinx"]

_STYLES: tuple[tuple[Style, re.Pattern[str]], ...] = (
    ("sphinx", re.compile(r"^:(?:param|parameter|arg|argument|key|keyword|returns?|rtype|raises?)\b[^:\n]*:", re.M)),
    ("numpy", re.compile(r"^(?:Other )?(?:Parameters|Returns|Raises|Yields|Notes|Examples)[ \t]*\n-{3,}", re.M)),
    (
        "google",
        re.compile(r"^(?:[A-Z]\w+ )?(?:Args|Arguments|Params|Parameters|Returns|Raises|Yields):\s*\n[ \t]", re.M),
    ),
)


def describe(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the description and, by name, what is said of each parameter."""
    text = inspect.cleandoc(docstring or "")
    for style, mark in _STYLES:
        if mark.search(text):
            return _sections(_parse(text, style))
    return text, {}


def _parse(text: str, style: Style) -> list[DocstringSection]:
    from griffe import Docstring, parse_google, parse_numpy, parse_sphinx  # noqa: PLC0415 - 50 ms that plain docstrings need not pay

    docstring = Docstring(text, lineno=1)
    match style:
        case "google":
            return parse_google(docstring, warnings=False)
        case "numpy":
            return parse_numpy(docstring, warnings=False)
        case "sphinx":
            return parse_sphinx(docstring, warnings=False)


def _sections(sections: list[DocstringSection]) -> tuple[str, dict[str, str]]:
    from griffe import DocstringSectionParameters, DocstringSectionText  # noqa: PLC0415 - as above

    texts: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        if isinstance(section, DocstringSectionText):
            texts.append(section.value)
        elif isinstance(section, DocstringSectionParameters):
            for parameter in section.value:
                parameters.setdefault(parameter.name.lstrip("*"), _joined(parameter.description))
    return "\n\n".join(texts).strip(), parameters


def _joined(text: str) -> str:
    return " ".join(text.split())
