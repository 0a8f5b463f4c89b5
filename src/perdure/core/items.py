"""What an execution's code asks its log for. Each becomes one event, and the rows that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from perdure.core.approval import DEFAULT_APPROVAL, ApprovalRules
from perdure.core.rights import Hold
from perdure.core.rooms import Act, Actor
from perdure.core.rules import DEFAULT_RULES, TaskRules
from perdure.core.work import Failure


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
    rules: ApprovalRules = DEFAULT_APPROVAL


@dataclass(frozen=True, slots=True)
class SetTimer:
    """A wait for a date, given as a duration: the store's clock counts it."""

    address: str
    digest: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class OpenToken:
    """A wait that whoever holds its secret may end, from anywhere.

    `WAIT_OPENED` with `id`, `kind` "token", `name`, `base`, `expires_ms`. The secret is in no event and no row: it is
    `core.tokens.Issuer.secret(id)`, and its address `Issuer.url(id, base)`, both of the *recorded* id and base, so
    they are the same on every run. The wait ends with `WAIT_RESOLVED`: `decision` "complete" with `value`, "fail" with
    `error`, or "expire".
    """

    address: str
    digest: str
    """Of name and time-out; not of the id, which is a new one at each try."""
    id: str
    """`tok_…`"""
    name: str
    hash: str
    """`core.credentials.hash_of` the secret."""
    base: str = ""
    """Where the public reaches the server (`Issuer.base`); empty if nowhere."""
    timeout_ms: int | None = None
    """From now, by the store's clock; None waits for ever."""


@dataclass(frozen=True, slots=True)
class AwaitSignal:
    """A wait for the oldest signal of a name not yet taken. `WAIT_OPENED` with `kind` "signal" and `name`.

    Which `SIGNAL` event ends it is for the replay to find; in the store it is only the wish.
    """

    address: str
    digest: str
    name: str


@dataclass(frozen=True, slots=True)
class StartChild:
    """An execution of its own, begun together with the event that says so: `CHILD_STARTED`, later `CHILD_ENDED`."""

    address: str
    digest: str
    """Of agent, definition and input; not of the id."""
    id: str
    """`exe_…`"""
    spec: dict[str, Any]
    """The agent compiled to JSON, or `{"kind": "durable", "name": …, "build": …}`."""
    agent: str
    """Its name."""
    definition: str
    """`agent.spec.spec_digest` of `spec`."""
    input: str
    """JSON text."""
    lane: str = ""
    """Name of the durable function; empty for an agent."""
    build: str = ""


@dataclass(frozen=True, slots=True)
class BeginStep:
    """An `at_most_once` step that the holder of the execution runs itself: scheduled and claimed in one commit.

    `TASK_SCHEDULED` and `TASK_BEGUN`, the second with `nonce`, by which the holder knows its own claim again. Begun
    once more, after a ruling that says so, it is `TASK_BEGUN` alone.
    """

    address: str
    digest: str
    nonce: str
    name: str
    args: dict[str, Any]
    timeout_ms: int = 0
    rules: TaskRules = DEFAULT_RULES


@dataclass(frozen=True, slots=True)
class EndStep:
    """How a step ended that was begun with `BeginStep`. Counts by the claim's own nonce, whoever holds the execution.

    `lost`: said by a holder that finds a claim of which nobody reported the end.
    """

    address: str
    digest: str
    nonce: str
    outcome: Literal["completed", "failed", "cancelled", "lost"]
    value: str = "null"
    """JSON text."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class OfferStep:
    """A step that acts, about to be made by the holder of a fork: may it?

    No event answers it with yes. What the origin came to there, appended as the fork's own, or a pause at `step`, with
    no. Outside of forks it is never asked.
    """

    address: str
    digest: str
    kind: Literal["step", "task", "child"]
    """What would record it: the step itself, a claim, an execution that it begins."""
    name: str
    """Of what would be called."""
    step: str
    """Its address without the number of the try: one word of a person is for all tries."""
    args: dict[str, Any]
    simulated: bool = False
    """Whether the holder has what stands in for it, and will run that unless the origin has a result."""


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """What stood in for an `at_most_once` step in a fork: scheduled and ended in one commit, and never begun."""

    address: str
    digest: str
    name: str
    args: dict[str, Any]
    value: str = "null"
    """JSON text."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ActInRoom:
    """What a wake does in its room, recorded by the transaction that does it. Only servers hold wakes.

    `STEP_RECORDED` with `value`: `id`, `seq`, `created` and `woken`; or `refused` and `why`; or `held`, what it needs.
    """

    address: str
    digest: str
    room: str
    actor: Actor
    act: Act
    approvals: tuple[str, ...] = ()
    """Addresses of what was asked for it."""


@dataclass(frozen=True, slots=True)
class HoldAct:
    """A wait for a yes to just this act in a room: an approval of the company whose yes it is. Only servers ask so."""

    address: str
    digest: str
    id: str
    room: str
    actor: Actor
    act: Act
    hold: Hold


Item = (
    StepDone
    | ScheduleTask
    | OpenApproval
    | SetTimer
    | OpenToken
    | AwaitSignal
    | StartChild
    | BeginStep
    | EndStep
    | OfferStep
    | SimulatedStep
    | ActInRoom
    | HoldAct
)
