"""The facts an execution's log is made of. Immutable, numbered from 1 without gaps by `seq`.

Kinds are stored; renaming one is a change of log format. What each carries in `data` stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

LOG_FORMAT = 2
"""Format that new executions are written in. A claim takes only formats in `READABLE_FORMATS`.

1: the kinds of the first release. 2: since `SINCE_2`; an older log that gets one of them becomes of format 2.
"""

READABLE_FORMATS = frozenset({1, 2})


ANY_DIGEST = "*"
"""Fingerprint of a step in a fork's prefix that stands behind an edit: it matches whatever is asked for there."""


class Kind(StrEnum):
    """What happened."""

    STARTED = "started"
    """Always seq 1. `input`, `agent`, `definition`."""
    TAKEN_OVER = "taken_over"
    """A server claimed it from a holder that never let go. `fence`. An unrecorded step may have run before it."""
    STEP_RECORDED = "step_recorded"
    """A step run by the server ended, for good. `value`, and `requests` for a model call."""
    TASK_SCHEDULED = "task_scheduled"
    """A tool call went to its queue. `tool`, `args`, `delivery`, `key`, `attempts`, `timeout_ms`, `approval`."""
    TASK_BEGUN = "task_begun"
    """An `at_most_once` claim became durable; only now may the body start. `claim`, `worker`, `attempt`."""
    ATTEMPT_FAILED = "attempt_failed"
    """One try ended in an error, another will follow. `attempt`, `error`, `retry_ms`, `worker`, `started_ms`."""
    ATTEMPT_LOST = "attempt_lost"
    """A lease ran out, or was handed back, before it began. `attempt`, `worker`, `why`."""
    TASK_COMPLETED = "task_completed"
    """The result, for good. `value`, `attempt`, `worker`, `started_ms`; `late` after it had been uncertain."""
    TASK_FAILED = "task_failed"
    """No result, for good. `error`, `attempt`, `worker`, `started_ms`."""
    TASK_REVIVED = "task_revived"
    """Somebody had one that had failed for good put back on its queue. `by`, `reason`, `attempts`."""
    TASK_UNCERTAIN = "task_uncertain"
    """Begun, and nobody knows the outcome. `why`, `attempt`, `worker`."""
    EFFECT_RULED = "effect_ruled"
    """Somebody said what an uncertain effect was. `ruling`, `by`, `reason`, `value`."""
    EFFECT_CONTRADICTED = "effect_contradicted"
    """The holder of an earlier claim reported after it had been ruled over. `claim`, `worker`, `value` or `error`."""
    WAIT_OPENED = "waitpoint_opened"
    """An approval was asked for. `id`, `kind`, `tool`, `args`, `expires_ms`."""
    WAIT_RESOLVED = "waitpoint_resolved"
    """It was answered. `decision`, `by`, `reason`, `at_ms`."""
    APPROVAL_VOTED = "approval_voted"
    """One of several who must agree has spoken; it is still open. `decision`, `by`, `reason`."""
    APPROVAL_ESCALATED = "approval_escalated"
    """Nobody had decided in time: others may decide, too. `id`, `to`, `after_ms`."""
    SIGNAL = "signal"
    """Somebody signalled the execution. `name`, `value`, `by`, `dedupe`."""
    CHILD_STARTED = "child_started"
    """An execution of its own was started. `execution`, `agent`, `input`."""
    CHILD_ENDED = "child_ended"
    """It ended. `state`, `output`, `failure`."""
    TIMER_SET = "timer_set"
    """`due_ms` by the store's clock."""
    TIMER_FIRED = "timer_fired"
    MESSAGE = "message"
    """Somebody wrote to the execution. `text`, `by`, `dedupe`."""
    PAUSED = "paused"
    """`reason`, `message`, `by`."""
    RESUMED = "resumed"
    STOP_REQUESTED = "stop_requested"
    """End after the turn in progress. `by`."""
    CANCEL_REQUESTED = "cancel_requested"
    """`by`, `reason`."""
    STEP_MAPPED = "step_mapped"
    """A person said that what the log calls one address, the code now calls another. `old`, `new`, `by`, `reason`."""
    FORKED = "forked"
    """What follows is its own; what stands before was another's. `origin`, `seq`, `head`, `edits`, `by`."""
    STUCK = "stuck"
    """`reason`, `explanation`."""
    COMPLETED = "completed"
    """`output`."""
    FAILED = "failed"
    """`error`."""
    CANCELLED = "cancelled"


SINCE_2 = frozenset(
    {
        Kind.TASK_REVIVED,
        Kind.EFFECT_CONTRADICTED,
        Kind.APPROVAL_VOTED,
        Kind.APPROVAL_ESCALATED,
        Kind.SIGNAL,
        Kind.CHILD_STARTED,
        Kind.CHILD_ENDED,
        Kind.STEP_MAPPED,
        Kind.FORKED,
    }
)
"""Kinds that log format 2 brought."""

LAST = frozenset({Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED})
"""Facts that end a log: no other comes behind one."""

ASKED = frozenset({Kind.STEP_RECORDED, Kind.TASK_SCHEDULED, Kind.WAIT_OPENED, Kind.TIMER_SET, Kind.CHILD_STARTED})
"""Facts that the code itself caused: a re-run must ask for each, with the same digest, in the same order."""

ANSWERS = frozenset(
    {
        Kind.STEP_RECORDED,
        Kind.TASK_COMPLETED,
        Kind.TASK_FAILED,
        Kind.TASK_UNCERTAIN,
        Kind.EFFECT_RULED,
        Kind.WAIT_RESOLVED,
        Kind.TIMER_FIRED,
        Kind.CHILD_ENDED,
    }
)
"""Facts that end, or may end, a wait at their address."""


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of one execution."""

    seq: int
    kind: Kind
    address: str
    """`scope path/name`; empty for facts about the execution as a whole."""
    digest: str
    """Fingerprint of the arguments of what was asked for; empty for answers and requests."""
    data: dict[str, Any]
    at_ms: int
    """The store's clock at the commit."""


def is_model_call(event: Event) -> bool:
    """Say whether an event records a call of a model, answered or not: what all counts of model calls count."""
    value: Any = event.data.get("value") if event.kind is Kind.STEP_RECORDED else None
    return isinstance(value, dict) and "outcome" in value and "requests" in value


def reply_in(event: Event) -> dict[str, Any] | None:
    """Return the model's reply that an event records, as JSON, if it records one."""
    reply: object = event.data["value"].get("reply") if is_model_call(event) else None
    return cast("dict[str, Any]", reply) if isinstance(reply, dict) else None
