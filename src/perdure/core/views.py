"""What people and programs see of an execution. Read-only shapes, the same in one process and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perdure.core.codec import Json
from perdure.core.costs import Costs
from perdure.core.work import Failure

Decision = Literal["approve", "reject", "edit", "respond"]
"""`edit`: call the tool with other arguments. `respond`: the model reads an answer, and the tool is not called."""
Ruling = Literal["happened", "run", "give_up"]


@dataclass(frozen=True, slots=True)
class StartRequest:
    """Everything that begins an execution. `spec` is the agent compiled to JSON (`perdure.agent.spec`)."""

    spec: dict[str, Json]
    input: Json
    """What the first message says: text, or JSON shown as text."""
    idempotency_key: str | None = None
    """Scope: company and agent. The same key with the same spec name and input returns the first execution."""
    by: str = ""
    """Who starts it; over HTTP the key's name stands for it."""
    delay_seconds: float | None = None
    """How long after the store took it in it begins, at the earliest."""
    start_at_ms: int | None = None
    """The time at which it begins, at the earliest, by the store's clock. One of the two, or neither."""
    priority: int = 0
    """0 to 9: the higher goes first, wherever it has to wait with others of its company."""
    limit_key: str | None = None
    """Whose it is: its tool calls take turns with those of other keys, and queues may limit each."""
    tags: tuple[str, ...] = ()
    """What it is found by: 20 at most, of 1 to 100 characters. The same key with other tags changes none."""


@dataclass(frozen=True, slots=True)
class ForkEdits:
    """What is to be different in a fork."""

    prompt: str | None = None
    """What the first message says."""
    model: str | None = None
    results: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Results of tool calls, or of a durable function's steps, by address; of an agent also its model's last reply, as
    `reply_to_json` writes one."""
    input: Json = None
    """What a durable function is given. None: what it was given."""
    build: str | None = None
    """Of the code that a durable function goes on with."""

    def told(self) -> dict[str, Json]:
        """Return what differs, for the log."""
        said: dict[str, Json] = {
            "prompt": self.prompt,
            "model": self.model,
            "input": self.input,
            "build": self.build,
        }
        return {**{name: value for name, value in said.items() if value is not None}, "results": dict(self.results)}


@dataclass(frozen=True, slots=True)
class Started:
    """An accepted start."""

    id: str
    created: bool
    """False when the idempotency key had been used: `id` is the first execution."""


@dataclass(frozen=True, slots=True)
class UsageView:
    """What the recorded model calls come to."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    """Answered or not: as many as a proof counts. Those that failed add no tokens and no cost."""
    cost_usd: float | None = None
    """None when the price of at least one reply is unknown."""


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A call that waits, or waited, for a person's yes."""

    id: str
    execution: str
    agent: str
    address: str
    tool: str
    args: dict[str, Json]
    digest: str
    state: str
    opened_ms: int
    decision: str | None = None
    decided_by: str | None = None
    decided_ms: int | None = None
    reason: str | None = None
    edited: bool = False
    """Whether `args` are a person's: those that the call will be made with, or that are to be agreed on."""
    answer: str | None = None
    """What the model was answered in the tool's place."""
    quorum: int = 1
    approved: tuple[str, ...] = ()
    """Who has approved so far, where several must."""
    approvers: tuple[str, ...] = ()
    """Who may decide; empty is anybody."""
    escalate_to: tuple[str, ...] = ()
    """Who may, too, from `escalates_ms` on."""
    escalates_ms: int | None = None
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WaitView:
    """One thing that an execution waits for."""

    kind: Literal["task", "approval", "timer", "ruling", "model", "message", "token", "signal", "child", "start"]
    address: str
    since_ms: int
    detail: str
    """One sentence: the tool and its queue, the worker that holds it, when a timer is due."""


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """A line of a list."""

    id: str
    agent: str
    state: str
    reason: str | None
    created_ms: int
    updated_ms: int
    finished_ms: int | None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildView:
    """One execution of a tree."""

    id: str
    parent: str
    address: str
    """The step of the parent that began it."""
    depth: int
    """1 for a child of the root."""
    agent: str
    state: str


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """An execution as it stands."""

    id: str
    agent: str
    model: str
    state: str
    reason: str | None
    message: str | None
    """Why it is paused, stuck or failed, with the fix."""
    input: Json
    output: Json
    """Of an agent `result` and `finish_reason`; of a durable function what it returned. None before the end."""
    failure: Failure | None
    waits: tuple[WaitView, ...]
    approvals: tuple[ApprovalView, ...]
    """The open ones."""
    usage: UsageView
    last_seq: int
    active_ms: int
    created_ms: int
    updated_ms: int
    finished_ms: int | None
    parent: str | None = None
    """The execution that began it."""
    children: tuple[ChildView, ...] = ()
    """The tree below it: each after its parent."""
    priority: int = 0
    limit_key: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskView:
    """One tool call, with what a crash did to it."""

    execution: str
    address: str
    tool: str
    queue: str
    state: str
    delivery: str
    key: str
    args: dict[str, Json]
    attempt: int
    max_attempts: int
    worker: str | None
    scheduled_ms: int
    started_ms: int | None
    ended_ms: int | None
    value: Json = None
    failure: Failure | None = None
    progress: Json = None
    """How far its body said it is: a fraction from 0 to 1, or a few words."""
    saved: Json = None
    """What its body saved last, for its next attempt."""
    run_at_ms: int | None = None
    """When its next try is due, while it waits for one."""
    simulated: bool = False
    """Whether what stands in for the tool in a fork runs, and not the tool."""
    scheduled_seq: int = 0
    """The event that it was asked for by: give it as `after` to get those behind it."""


@dataclass(frozen=True, slots=True)
class EffectView:
    """An acting step and what is known of its outcome: a line of the ledger."""

    execution: str
    address: str
    agent: str
    tool: str
    key: str
    args: dict[str, Json]
    state: str
    """The task's."""
    claims: int
    """How often an `at_most_once` body may have started; above 1 only where somebody said that it had not acted."""
    worker: str | None
    claimed_ms: int
    """Of the newest claim; 0 without one."""
    value: Json = None
    """The receipt: what the tool returned, or what a ruling said it did."""
    ruling: str | None = None
    ruled_by: str | None = None
    reason: str | None = None
    digest: str = ""
    """Of tool and arguments."""
    delivery: str = ""
    attempts: int = 0
    """In which the body may have started."""
    outcome: str = ""
    """`waiting` (it cannot have begun), `begun`, `done`, `dead`, `uncertain`, `contradicted`, or `simulated`."""
    confirmed: int = 0
    """How often a holder reported it done; a ruling is not counted."""
    why: str = ""
    """What failed, or why nobody knows."""
    scheduled_ms: int = 0
    ended_ms: int | None = None
    doubt: str = ""
    """Why it may have been done more than once, with the events that say so; empty if it cannot have been."""
    served: str = ""
    """Whose result it was given without running: an equal call's address, or the execution that this one forks."""
    simulated: bool = False
    """Whether its author's `simulate=` stood in for it, in a fork: nothing was done."""
    cost: Costs = field(default_factory=dict[str, str])
    """What its attempts said that they cost, by currency; empty if none said anything."""
    seqs: tuple[int, ...] = ()
    """The events that tell of it."""
    edited: bool = False
    """Whether its result was written by who forked the execution: nothing and nobody reported it."""


@dataclass(frozen=True, slots=True)
class EffectFilter:
    """Which effects are meant; None is all."""

    execution: str | None = None
    state: str | None = None
    """The task's, `contradicted` or `simulated`."""
    tool: str | None = None
    agent: str | None = None
    since_ms: int | None = None
    """Changed at that time or later."""
    after: int = 0
    """Of one execution: those asked for behind that event. 0 is all."""
    address: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCallView:
    """A recorded model call."""

    address: str
    seq: int
    cost_usd: float | None
    """None: its price is unknown."""
    doubt: str = ""
    """Why it may have been paid more than once; empty if it cannot have been."""


@dataclass(frozen=True, slots=True)
class InlineStepView:
    """A recorded step that a durable function ran itself."""

    address: str
    seq: int
    failed: bool
    doubt: str = ""
    """Why it may have been tried more than once; empty if it cannot have been."""
    simulated: bool = False
    """Whether what its code gave to stand in for it ran, in a fork: nothing was done."""
    served: str = ""
    """The execution whose result it was given without running."""


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """Which executions a list is to have; None matches all."""

    state: str | None = None
    agent: str | None = None
    since_ms: int | None = None
    """Begun then or later, by the store's clock."""
    until_ms: int | None = None
    """Begun before."""
    tag: str | None = None
    id_begins: str = ""
    """What its id begins with."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of executions, newest first."""

    items: tuple[ExecutionSummary, ...]
    cursor: str | None
    """Give it back to get the next page; None on the last."""


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page of executions that have a text, newest first."""

    items: tuple[ExecutionSummary, ...]
    cursor: str | None
    """Where the look ended, of which a page may be short or empty; None where all were looked at."""
    looked_at: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor has to say."""

    level: Literal["ok", "note", "problem"]
    what: str
    command: str | None = None
    """What to type, if anything."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who answers at an address."""

    version: str
    store: str
    """The store's id."""
    nonce: str
    """Equal to the one in the owner's lock file exactly when this is the owner."""
    dialect: str
    started_ms: int
