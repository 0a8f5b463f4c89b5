"""The verbs, whatever carries them: in-process (`server.direct`) or HTTP (`client.http`). One contract, one test suite.

Every verb raises the errors of `perdure.errors` with the same codes on both. The company is the caller's own, from its
key; in-process it is the default company.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.functions import ClaimRequest, Claims, Entry, HeldExecution, Reply
from perdure.core.live import LiveNews
from perdure.core.states import Waitpoint
from perdure.core.views import (
    ApprovalView,
    Decision,
    EffectView,
    ExecutionFilter,
    ExecutionView,
    Finding,
    ForkEdits,
    FoundPage,
    Page,
    Ruling,
    ServerInfo,
    Started,
    StartRequest,
    TaskView,
)
from perdure.core.work import Answer, Begin, Held, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.wire.api_a2a import A2aApi
from perdure.wire.api_blobs import BlobsApi
from perdure.wire.api_companies import CompaniesApi
from perdure.wire.api_hooks import HooksApi
from perdure.wire.api_queues import QueuesApi
from perdure.wire.api_room_files import RoomFilesApi
from perdure.wire.api_rooms import RoomsApi
from perdure.wire.api_secrets import SecretsApi
from perdure.wire.api_waits import SchedulesApi, WaitsApi


class Api(
    WaitsApi,
    SchedulesApi,
    QueuesApi,
    RoomsApi,
    RoomFilesApi,
    HooksApi,
    CompaniesApi,
    SecretsApi,
    BlobsApi,
    A2aApi,
    Protocol,
):
    """What a client may ask. A normal return of a verb that changes something means: it survives kill -9."""

    async def info(self) -> ServerInfo: ...

    async def start(self, request: StartRequest) -> Started:
        """Begin an execution. Raises `Conflict` (`start_key_conflict`) for the same key with other input."""
        ...

    async def execution(self, execution: str) -> ExecutionView:
        """Return one execution. Raises `NotFound`."""
        ...

    async def executions(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        tag: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Return a page of executions, newest first; of those begun from `since_ms` on and before `until_ms`, and
        of those with a tag."""
        ...

    async def search_executions(
        self, text: str, wanted: ExecutionFilter, *, cursor: str | None = None, limit: int = 50
    ) -> FoundPage:
        """Return a page of executions, newest first, that are `wanted` and have a text in id, agent, tags or input.

        A page looks at so many at most, so it may be short and not be the last: `cursor` leads on. A text that begins
        an id finds the ids that begin so, and nothing else. Raises `InvalidInput`.
        """
        ...

    async def events(self, execution: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return recorded events with `seq` above `after`, in order."""
        ...

    def follow(self, execution: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the log above `after`, then what is appended, without gap or repeat, until the execution ends.

        Reconnects by itself for as long as it is iterated.
        """
        ...

    def follow_live(self, execution: str, *, after: int = 0) -> AsyncIterator[Event | LiveNews]:
        """Yield what `follow` yields and, between the events, what a model says while its reply is not recorded yet.

        Who begins in the middle of a reply is first given its text so far. An attempt takes the place of the one before
        it. None of that is in the log, and where it is missing nothing is lost.
        """
        ...

    async def wait(self, execution: str) -> None:
        """Return once the execution has ended. Costs nothing while it waits."""
        ...

    async def send(self, execution: str, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        """Put a message into the execution's inbox and return its `seq`; the same `dedupe` again changes nothing."""
        ...

    async def pause(self, execution: str, *, by: str = "", reason: str = "") -> None: ...

    async def resume(self, execution: str, *, by: str = "") -> None: ...

    async def stop(self, execution: str, *, by: str = "") -> None:
        """Ask it to end, completed, after the turn in progress."""
        ...

    async def cancel(self, execution: str, *, by: str = "", reason: str = "") -> None:
        """Ask it to end as soon as what has begun has reported. Acknowledged at once as `cancelling`."""
        ...

    async def approvals(
        self, *, execution: str | None = None, state: str | None = Waitpoint.OPEN
    ) -> list[ApprovalView]: ...

    async def decide(
        self,
        approval: str,
        decision: Decision,
        *,
        by: str = "",
        reason: str = "",
        digest: str | None = None,
        args: dict[str, Json] | None = None,
        answer: str | None = None,
    ) -> ApprovalView:
        """Decide about a call, once: approve, reject, edit (`args`: call it with these), respond (`answer`: the model
        reads this instead).

        Raises `Conflict`: `already_decided`, `approval_expired` and `not_waiting` name who was first;
        `approval_changed` if `digest` is not that of the call; `name_needed`, `not_an_approver`, `self_approval` for
        who may not. Raises `InvalidInput` (`invalid_arguments`) for `args` that do not fit the tool.
        """
        ...

    async def tasks(self, execution: str, *, after: int = 0, limit: int = 1000) -> list[TaskView]:
        """Return tool calls that were asked for behind event `after`, in that order. Raises `NotFound`."""
        ...

    async def retry_task(self, execution: str, address: str, *, by: str = "", reason: str = "") -> TaskView:
        """Put a task that has failed for good back on its queue, with its attempts anew and without a deadline.

        What the model was told stays told: the retry and how it ends are told as news, and the run does not end before.
        Asked again in the same words, it changes nothing until the task is dead anew.
        Raises `NotFound`, and `Conflict`: `not_dead`; `ended` (or being cancelled); `answered` for a durable function,
        whose code has gone on from the failure; `had_begun` for what may have acted and was given up; `not_approved`
        for what nobody had approved.
        """
        ...

    async def effects(
        self,
        *,
        execution: str | None = None,
        state: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
        after: int = 0,
    ) -> list[EffectView]:
        """Return acting steps and what is known of their outcomes, those of the newest executions first; 1,000 at most.

        `state`: the task's, or `contradicted`. `since_ms`: changed at that time or later. `after`: of one execution,
        those asked for behind that event, which is the first of an effect's `seqs`.
        Raises `InvalidInput` for a state that there is not.
        """
        ...

    async def log(self, execution: str, *, after: int = 0, limit: int = 1000) -> LogPage:
        """Return the log above `after` as it is stored, with its hashes, for those who check it. Raises `NotFound`."""
        ...

    async def rule(
        self, execution: str, address: str, ruling: Ruling, *, by: str = "", reason: str = "", value: Json = None
    ) -> EffectView:
        """Say what an uncertain effect was. Raises `Conflict` (`not_uncertain`)."""
        ...

    async def fork(
        self, execution: str, at: int, edits: ForkEdits, *, by: str = "", idempotency_key: str | None = None
    ) -> Started:
        """Begin an execution with the log of another up to `at`, edited. What the other did is not done again.

        The same key for the same origin gives the first fork back. Raises `NotFound`; `Conflict` (`not_forkable`) where
        there can be no fork, (`start_key_conflict`) for the same key at another place or with other edits, and
        `InvalidInput`, naming a place.
        """
        ...

    async def diagnose(self, execution: str) -> list[Finding]:
        """Say why an execution does not move and which command helps."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers connected to this server."""
        ...

    async def aclose(self) -> None: ...


class TaskSource(Protocol):
    """Where a worker gets its tasks from and tells how they ended. Resending anything is safe."""

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        """Reserve tasks; wait up to `wait_seconds` for the first one."""
        ...

    async def begin(self, begin: Begin) -> Answer:
        """Commit the claim of an `at_most_once` task. Only after `accepted` may its body start."""
        ...

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        """Say how attempts ended; one answer each, in order."""
        ...

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        """Prolong leases; `lease_lost` and `cancel` tell the holder to stop."""
        ...

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        """Return tasks that never began, so that others may take them at once."""
        ...

    def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        """Hold the liveness connection: yields at once when it is open and at every sign of life; ends when it closes.

        What it yields names these queues: the store and the company whose they are. A result belongs to these alone.

        When it closes, the server shrinks this worker's leases to `ORPHAN_LEASE_MS`; the next heartbeat restores them.
        """
        ...


class FunctionSource(Protocol):
    """Where a worker gets executions of durable functions from, and where their logs are written.

    Resending anything is safe.
    """

    async def claim(self, request: ClaimRequest, *, wait_seconds: float) -> Claims:
        """Own executions; wait up to `wait_seconds` for the first one, or for news of a watched one."""
        ...

    async def renew(self, worker: str, held: Sequence[HeldExecution], lease_ms: int) -> list[Answer]:
        """Prolong ownerships; `lease_lost` tells the holder to stop."""
        ...

    async def release(self, worker: str, held: Sequence[HeldExecution]) -> list[Answer]:
        """Return executions that this worker will not go on with, so that others may at once."""
        ...

    async def journal(self, worker: str, entries: Sequence[Entry]) -> list[Reply]:
        """Write in, or read, the logs of executions; one reply each, in order. A refusal touches no other."""
        ...
