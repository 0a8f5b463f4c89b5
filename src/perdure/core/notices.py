"""A notice: what a schedule says in a room, to whom. What it wakes it wakes as a message of its company."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from perdure.core.codec import Json
from perdure.core.rooms import Post, check_act
from perdure.errors import InvalidInput

NOTICE = "notice"
"""What `kind` says in the definition of one; and what the name begins with that its executions have, before a `/`."""
AUTHOR = "schedule"
"""Who says it, in the company's name."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What is said at each tick."""

    room: str
    to: str
    """`company/agent`, or a company."""
    text: str

    @property
    def name(self) -> str:
        """What its executions are called: no agent can have this name."""
        return f"{NOTICE}/{self.to}"


def is_notice(spec: Json) -> bool:
    """Say whether a definition is that of a notice."""
    return isinstance(spec, dict) and spec.get("kind") == NOTICE


def notice_to_json(notice: Notice) -> dict[str, Json]:
    """Return its definition."""
    return {"kind": NOTICE, **asdict(notice)}


def notice_from_json(spec: Json) -> Notice:
    """Return what `notice_to_json` wrote. Raises `InvalidInput` (`bad_notice`, `bad_act`)."""
    names = [one.name for one in fields(Notice)]
    if not isinstance(spec, dict) or set(spec) != {"kind", *names} or not all(isinstance(spec[n], str) for n in names):
        raise InvalidInput(
            f"a notice has the texts {', '.join(names)}, and the kind {NOTICE!r}; found {str(spec)[:80]}.",
            code="bad_notice",
        )
    notice = Notice(*(str(spec[name]) for name in names))
    check_act(Post(notice.text, (notice.to,)))
    return notice
