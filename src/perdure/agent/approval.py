"""`Approval`: what the author of a tool asks of those who let its calls be made. A value, checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.agent.tool_rules import bad_tool, milliseconds
from perdure.core.approval import DEFAULT_APPROVAL, ApprovalRules
from perdure.errors import InvalidInput

Seconds = float | timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """`@tool(approval=Approval(...))`: a person must say yes to each call, by these rules.

    Over HTTP a person is the name of the API key that is used; the admin key may speak in anybody's name.
    """

    quorum: int = 1
    """So many different people must approve; one is enough to reject."""
    approvers: tuple[str, ...] = ()
    """Only these may decide. Empty: anybody who has a key."""
    expires_seconds: Seconds | None = None
    """Not decided by then, the call is not made, and the model is told. None waits for ever."""
    escalate_seconds: Seconds | None = None
    """After so long, `escalate_to` may decide too."""
    escalate_to: tuple[str, ...] = ()
    not_by_starter: bool = False
    """Whoever started the execution, forked it, or started the one that started it, may not decide."""


def read_approval(name: str, options: Mapping[str, Any]) -> tuple[bool, ApprovalRules]:
    """Return whether calls of tool `name` need an approval, and its rules. Raises `InvalidInput` (`bad_tool`)."""
    given = options.get("approval")
    timeout = options.get("approval_timeout_seconds")
    if given is not None and not isinstance(given, Approval):
        raise bad_tool(name, f"has approval={given!r:.80}; expected `Approval(...)`, or `approval_required=True`")
    if given is not None and options.get("approval_required") is False:
        raise bad_tool(name, "has approval=... and approval_required=False; leave one of them out")
    required = bool(options.get("approval_required", False)) or given is not None
    if timeout is not None and not required:
        raise bad_tool(name, "has approval_timeout_seconds, and needs no approval: add approval_required=True")
    if given is None and timeout is None:
        return required, DEFAULT_APPROVAL
    asked = given or Approval()
    if timeout is not None and asked.expires_seconds is not None:
        raise bad_tool(name, "has approval_timeout_seconds and Approval(expires_seconds=...); leave one of them out")
    for what in ("approvers", "escalate_to"):
        if isinstance(getattr(asked, what), str):
            raise bad_tool(name, f"has {what}={getattr(asked, what)!r}; expected a tuple of names")
    expires = asked.expires_seconds if timeout is None else timeout
    try:
        return True, ApprovalRules(
            quorum=asked.quorum,
            approvers=tuple(asked.approvers),
            expires_ms=_ms(name, "expires_seconds", expires),
            escalate_ms=_ms(name, "escalate_seconds", asked.escalate_seconds),
            escalate_to=tuple(asked.escalate_to),
            not_by_starter=asked.not_by_starter,
        )
    except InvalidInput as error:
        raise error if error.code == "bad_tool" else bad_tool(name, f"cannot be: {error.message}") from None


def _ms(name: str, option: str, seconds: Seconds | None) -> int:
    return 0 if seconds is None else milliseconds(name, option, seconds, least=0.001)
