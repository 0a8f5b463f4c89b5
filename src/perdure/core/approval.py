"""Who may decide about a call, how many must agree, and until when. Pure; rows are resolve.py's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, cast

from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import InvalidInput

MOST_APPROVERS = 100
_LONGEST_MS = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The rules of one approval, stored with it. Durations in milliseconds from when it was asked for; 0 is none.

    Raises `InvalidInput` (`bad_approval`) for rules that nobody could ever fulfil.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    quorum: int = 1
    """So many different people must approve. One is enough to reject or to answer."""
    approvers: tuple[str, ...] = ()
    """Only these may decide; empty is anybody."""
    expires_ms: int = 0
    """Then it counts as not given, and the model is told."""
    escalate_ms: int = 0
    """Then `escalate_to` may decide too."""
    escalate_to: tuple[str, ...] = ()
    not_by_starter: bool = False
    """Whoever started the execution, forked it, or started the one that started it, may not decide."""

    def __post_init__(self) -> None:
        everybody = {*self.approvers, *self.escalate_to}
        if not 1 <= self.quorum <= MOST_APPROVERS:
            raise _bad(f"quorum={self.quorum}; expected 1 to {MOST_APPROVERS}")
        if len(everybody) > MOST_APPROVERS or not all(everybody):
            raise _bad(f"its approvers should be 1 to {MOST_APPROVERS} names, none of them empty")
        if self.approvers and self.quorum > len(everybody):
            raise _bad(f"quorum={self.quorum}, and only {len(everybody)} may approve at all: it could never be given")
        if not (0 <= self.expires_ms <= _LONGEST_MS and 0 <= self.escalate_ms <= _LONGEST_MS):
            raise _bad("its times should be up to 366 days")
        if bool(self.escalate_ms) != bool(self.escalate_to):
            raise _bad("to escalate needs both: after how long, and to whom")
        if self.escalate_ms and not self.approvers:
            raise _bad("to escalate needs approvers: without them anybody may decide from the start")
        if self.expires_ms and self.escalate_ms >= self.expires_ms:
            raise _bad("it would expire before it is escalated")

    def who(self, waited_ms: int) -> tuple[str, ...]:
        """Return who may decide after so long; empty is anybody."""
        if not self.approvers:
            return ()
        escalated = bool(self.escalate_ms) and waited_ms >= self.escalate_ms
        return (*self.approvers, *self.escalate_to) if escalated else self.approvers

    @property
    def needs_a_name(self) -> bool:
        """Whether an answer without a name says too little."""
        return bool(self.quorum > 1 or self.approvers or self.not_by_starter)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody's answer does not count."""

    code: str
    why: str


def refusal_of(rules: ApprovalRules, by: str, starters: Collection[str], waited_ms: int) -> Refusal | None:
    """Say why `by` may not decide, or None."""
    if rules.needs_a_name and not by:
        return Refusal("name_needed", "who decides must give a name: `by`, or an API key of their own")
    who = rules.who(waited_ms)
    if who and by not in who:
        return Refusal("not_an_approver", f"only {', '.join(who)} may decide, not {by}")
    if rules.not_by_starter and by in starters:
        return Refusal("self_approval", f"{by} started the execution, and somebody else must decide")
    return None


def enough(rules: ApprovalRules, approved: Collection[str]) -> bool:
    """Say whether the approval is given."""
    return len(set(approved)) >= rules.quorum


DEFAULT_APPROVAL = ApprovalRules()
_NAMES = tuple(field.name for field in fields(ApprovalRules))


def approval_to_json(rules: ApprovalRules) -> dict[str, Json]:
    """Return only what differs from the defaults."""
    return codec.decode(approval_to_text(rules))


@lru_cache(maxsize=256)
def approval_to_text(rules: ApprovalRules) -> str:
    """Return the JSON text that a waitpoint's row keeps: what differs from the defaults."""
    return codec.encode(
        {name: value for name, value in asdict(rules).items() if value != getattr(DEFAULT_APPROVAL, name)}
    )


@lru_cache(maxsize=256)
def approval_from_text(text: str) -> ApprovalRules:
    """Return the rules that a row keeps. Raises `InvalidInput` (`bad_approval`) for a rule that is not known."""
    found: Json = codec.decode(text)
    if not isinstance(found, dict) or found.keys() - set(_NAMES):
        raise _bad(f"{text[:80]} holds rules that this version does not know")
    values = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value for name, value in found.items()
    }
    return ApprovalRules(**cast("dict[str, Any]", values))


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"the rules of an approval cannot be: {why}.", code="bad_approval")
