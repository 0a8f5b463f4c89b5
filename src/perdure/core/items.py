"""What an execution's code asks its log for. Each becomes one event, and the rows that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.core.rules import DEFAULT_RULES, TaskRules


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step that the holder of the execution ran itself: a model call, a recorded value."""

    address: str
    digest: str
    data: str
    """JSON text: `{"value": …}`."""


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """A tool call for a worker."""

    address: str
    digest: str
    agent: str
    tool: str
    queue: str
    args: dict[str, Any]
    delivery: str
    max_attempts: int
    timeout_ms: int
    approval: str | None = None
    """Address of the approval it stands on, if it needed one."""
    rules: TaskRules = DEFAULT_RULES
    intent: str | None = None
    """The author's own identity of the act, for one that is asked for again under another address."""


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A wait for a person's decision about one exact call."""

    address: str
    digest: str
    id: str
    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """A wait for a date, given as a duration: the store's clock counts it."""

    address: str
    digest: str
    delay_ms: int


Item = StepDone | ScheduleTask | OpenApproval | SetTimer
