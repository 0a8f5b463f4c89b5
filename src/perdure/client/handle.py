"""Hold on to an execution by its id alone: from any process, on any machine, as often as you like.

Every verb has an async twin, `VERB_async`. A handle holds no state of the execution but the approvals that its last
`get_status` showed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypedDict, TypeVar, Unpack

from perdure.client.large import sent_whole
from perdure.client.results import AgentResult, AgentStatus, result_of, status_of
from perdure.client.standstill import until_ended
from perdure.client.stream_events import AgentEvent, live_event, stream_event
from perdure.client.values import Connection, Values
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.live import LiveNews
from perdure.core.views import ApprovalView, Decision, EffectView, Finding, ForkEdits, Ruling, TaskView
from perdure.errors import Conflict
from perdure.wire.pages import all_tasks

T = TypeVar("T")


class ForkChanges(TypedDict, total=False):
    """What is to be different in a fork."""

    prompt: str
    """Of an agent: what the first message says."""
    model: str
    input: Json
    """Of a durable function: what it is given."""
    build: str
    """Of the code that a durable function goes on with."""
    results: Mapping[str, Json]
    """Of calls, and of a durable function's steps, by address."""


class AgentHandle(Values):
    """One execution, held by its id. Making a handle asks nobody: an unknown id shows at the first verb."""

    def __init__(self, execution_id: str, runtime: Connection) -> None:
        self.execution_id = execution_id
        self._runtime = runtime
        self._shown: tuple[ApprovalView, ...] | None = None

    def __repr__(self) -> str:
        return f"AgentHandle({self.execution_id!r})"

    async def get_status_async(self) -> AgentStatus:
        """Return where it stands, its open approvals with tool and exact arguments included."""
        status = status_of(await self._runtime.join(self._runtime.api.execution(self.execution_id)))
        self._shown = status.approvals
        return status

    def get_status(self) -> AgentStatus:
        return self._runtime.wait(self.get_status_async())

    async def approve_async(self, approval_id: str | None = None, *, reason: str = "", by: str = "") -> ApprovalView:
        """Let one call be made. Without an id: the one that `get_status` showed, or the only one pending.

        Raises `Conflict`: `ambiguous` when several are pending or they changed since they were shown, with a list;
        `not_waiting` when none is; `already_decided` when somebody was first.
        """
        return await self._decide(approval_id, "approve", reason, by)

    def approve(self, approval_id: str | None = None, *, reason: str = "", by: str = "") -> ApprovalView:
        return self._runtime.wait(self.approve_async(approval_id, reason=reason, by=by))

    async def reject_async(self, reason: str = "", *, approval_id: str | None = None, by: str = "") -> ApprovalView:
        """Refuse one call; the model is told, with the reason. Which call, and errors: as in `approve`."""
        return await self._decide(approval_id, "reject", reason, by)

    def reject(self, reason: str = "", *, approval_id: str | None = None, by: str = "") -> ApprovalView:
        return self._runtime.wait(self.reject_async(reason, approval_id=approval_id, by=by))

    async def edit_async(
        self, args: dict[str, Json], *, approval_id: str | None = None, reason: str = "", by: str = ""
    ) -> ApprovalView:
        """Let one call be made with other arguments, all of them given here; the model is told.

        Which call, and errors: as in `approve`; `InvalidInput` (`invalid_arguments`) if they do not fit the tool.
        """
        return await self._decide(approval_id, "edit", reason, by, args=args)

    def edit(
        self, args: dict[str, Json], *, approval_id: str | None = None, reason: str = "", by: str = ""
    ) -> ApprovalView:
        return self._runtime.wait(self.edit_async(args, approval_id=approval_id, reason=reason, by=by))

    async def respond_async(self, answer: str, *, approval_id: str | None = None, by: str = "") -> ApprovalView:
        """Answer the model in the tool's place; the tool is not called. Which call, and errors: as in `approve`."""
        return await self._decide(approval_id, "respond", "", by, answer=answer)

    def respond(self, answer: str, *, approval_id: str | None = None, by: str = "") -> ApprovalView:
        return self._runtime.wait(self.respond_async(answer, approval_id=approval_id, by=by))

    async def send_async(self, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        """Say something to the agent; it reads it before its next turn. The same `dedupe` again changes nothing."""
        return await self._runtime.join(self._runtime.api.send(self.execution_id, text, by=by, dedupe=dedupe))

    def send(self, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        return self._runtime.wait(self.send_async(text, by=by, dedupe=dedupe))

    async def signal_async(self, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None) -> int:
        """Send a signal into it, whether or not it waits for one yet. The same `dedupe` again changes nothing.

        Raises `Conflict` (`ended`) when it has ended.
        """
        api = self._runtime.api

        async def send(said: Json) -> int:
            return await api.signal(self.execution_id, name, said, by=by, dedupe=dedupe)

        return await self._runtime.join(sent_whole(api, value, "the signal's value", send))

    def signal(self, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None) -> int:
        return self._runtime.wait(self.signal_async(name, value, by=by, dedupe=dedupe))

    async def pause_async(self, reason: str = "", *, by: str = "") -> None:
        """Start nothing more until it is resumed; what is in flight is recorded."""
        await self._runtime.join(self._runtime.api.pause(self.execution_id, by=by, reason=reason))

    def pause(self, reason: str = "", *, by: str = "") -> None:
        self._runtime.wait(self.pause_async(reason, by=by))

    async def resume_async(self, *, by: str = "") -> None:
        """Let a paused or stuck execution go on."""
        await self._runtime.join(self._runtime.api.resume(self.execution_id, by=by))

    def resume(self, *, by: str = "") -> None:
        self._runtime.wait(self.resume_async(by=by))

    async def stop_async(self, *, by: str = "") -> None:
        """Have it end, completed, after the turn in progress."""
        await self._runtime.join(self._runtime.api.stop(self.execution_id, by=by))

    def stop(self, *, by: str = "") -> None:
        self._runtime.wait(self.stop_async(by=by))

    async def cancel_async(self, reason: str = "", *, by: str = "") -> None:
        """Have it end as soon as what began has reported; running tools are told. Returns at once."""
        await self._runtime.join(self._runtime.api.cancel(self.execution_id, by=by, reason=reason))

    def cancel(self, reason: str = "", *, by: str = "") -> None:
        self._runtime.wait(self.cancel_async(reason, by=by))

    async def rule_async(
        self, address: str, ruling: Ruling, *, value: Json = None, reason: str = "", by: str = ""
    ) -> EffectView:
        """Say what an uncertain effect was: it `happened` (with its result), `run` it, or `give_up`.

        `run` lets its body start once more, in your name. Raises `Conflict` (`not_uncertain`).
        """
        api = self._runtime.api
        return await self._runtime.join(api.rule(self.execution_id, address, ruling, by=by, reason=reason, value=value))

    def rule(self, address: str, ruling: Ruling, *, value: Json = None, reason: str = "", by: str = "") -> EffectView:
        return self._runtime.wait(self.rule_async(address, ruling, value=value, reason=reason, by=by))

    async def tasks_async(self) -> list[TaskView]:
        """Return all tool calls so far, with attempts, workers and times."""
        return await self._runtime.join(all_tasks(self._runtime.api, self.execution_id))

    def tasks(self) -> list[TaskView]:
        return self._runtime.wait(self.tasks_async())

    async def retry_task_async(self, address: str, *, reason: str = "", by: str = "") -> TaskView:
        """Put a call that has failed for good back on its queue: its attempts anew, under the same idempotency key.

        The model keeps what it was told, and is told of the retry, and of how it ends, as news; the run does not end
        before that. Raises `Conflict`: `not_dead`, `ended`, `answered` (a durable function has gone on from the
        failure), `had_begun` (it may have acted: only a ruling lets it run again), `not_approved`.
        """
        api = self._runtime.api
        return await self._runtime.join(api.retry_task(self.execution_id, address, by=by, reason=reason))

    def retry_task(self, address: str, *, reason: str = "", by: str = "") -> TaskView:
        return self._runtime.wait(self.retry_task_async(address, reason=reason, by=by))

    async def fork_async(
        self,
        at: int,
        *,
        by: str = "",
        idempotency_key: str | None = None,
        **changes: Unpack[ForkChanges],
    ) -> AgentHandle:
        """Begin an execution with this one's log up to `at`: an agent's with another prompt or model, a durable
        function's with another input or build, either with other results of calls and steps (by address). Of an agent,
        the reply that its model gave last may be another, too: its text, or `{"text": …, "tool_calls": […]}`.

        What this one did is not done again. Past `at` an acting call or step takes its result if it made the same; else
        what its author gave to stand in for it (`simulate=`) is run; else the fork pauses until somebody resumes it.
        The same `idempotency_key` for this execution gives the first fork back. Raises `Conflict` (`not_forkable`) and
        `InvalidInput`, which name a place where it can be; `Conflict` (`start_key_conflict`) for a key of another fork.
        """
        edits = ForkEdits(**changes)
        api = self._runtime.api
        asked = api.fork(self.execution_id, at, edits, by=by, idempotency_key=idempotency_key)
        started = await self._runtime.join(asked)
        return AgentHandle(started.id, self._runtime)

    def fork(
        self,
        at: int,
        *,
        by: str = "",
        idempotency_key: str | None = None,
        **changes: Unpack[ForkChanges],
    ) -> AgentHandle:
        return self._runtime.wait(self.fork_async(at, by=by, idempotency_key=idempotency_key, **changes))

    async def diagnose_async(self) -> list[Finding]:
        """Say why it does not move and which command helps."""
        return await self._runtime.join(self._runtime.api.diagnose(self.execution_id))

    def diagnose(self) -> list[Finding]:
        return self._runtime.wait(self.diagnose_async())

    def stream(self, after: int = 0, *, live: bool = True) -> AgentStream:
        """Follow it from `seq` `after` on: with `for`, with `async for`, or to its end by `get_result`.

        `live`: between the recorded events come `ReplyDelta`, pieces of a reply that a model is still at.
        """
        return AgentStream(self, self._runtime, after, live=live)

    async def result_async(self) -> AgentResult:
        """Wait until it has ended, well or not, and return how. Survives lost connections and server restarts.

        Warns (`UserWarning`) if it stands still meanwhile: paused, stuck, or before a person who has to decide.
        """
        return await self._runtime.join(self._ended())

    async def _ended(self) -> AgentResult:
        await until_ended(self._runtime.api, self.execution_id)
        view = await self._runtime.api.execution(self.execution_id)
        events: list[Event] = []
        while len(events) < view.last_seq:
            events += await self._runtime.api.events(self.execution_id, after=len(events))
        return result_of(view, events)

    def result(self) -> AgentResult:
        return self._runtime.wait(self.result_async())

    async def _decide(
        self, approval_id: str | None, decision: Decision, reason: str, by: str, **answer: Any
    ) -> ApprovalView:
        """Decide; where it is known what the caller saw, only on just that."""
        if approval_id is None:
            chosen, digest = await self._only_one()
        else:
            seen = [one.digest for one in self._shown or () if one.id == approval_id]
            chosen, digest = approval_id, seen[0] if seen else None
        api = self._runtime.api
        decided = await self._runtime.join(api.decide(chosen, decision, by=by, reason=reason, digest=digest, **answer))
        self._shown = None
        return decided

    async def _only_one(self) -> tuple[str, str]:
        """Return the approval that is meant when none is named: never one that the caller has not seen."""
        shown = self._shown
        pending = (await self._runtime.join(self._runtime.api.execution(self.execution_id))).approvals
        if not pending:
            raise Conflict(
                f"execution {self.execution_id} waits for no decision now. `get_status()` says what it waits for.",
                code="not_waiting",
            )
        if len(pending) == 1 and (shown is None or [one.id for one in shown] == [pending[0].id]):
            return pending[0].id, (shown or pending)[0].digest
        lines = "; ".join(f"{one.id}: {one.tool}({one.args})" for one in pending)
        why = "several decisions are" if len(pending) > 1 else "another decision than the one you were shown is"
        raise Conflict(
            f"{why} pending in execution {self.execution_id}: {lines}. Name the one you mean: approve(approval_id).",
            code="ambiguous",
            approvals=[one.id for one in pending],
        )


class AgentStream:
    """The news of one execution, from a place in its log on, without gap or repeat. May be iterated again."""

    def __init__(self, handle: AgentHandle, runtime: Connection, after: int, *, live: bool = True) -> None:
        self._handle = handle
        self._runtime = runtime
        self._after = after
        self._live = live

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        follow, seen = self._follow(), _Seen(self._after)
        try:
            while (news := await self._runtime.join(_next(follow))) is not None:
                yield seen.told(news)
        finally:
            await self._runtime.join(_close(follow))

    def __iter__(self) -> Iterator[AgentEvent]:
        follow, seen = self._follow(), _Seen(self._after)
        try:
            while (news := self._runtime.wait(_next(follow))) is not None:
                yield seen.told(news)
        finally:
            self._runtime.wait(_close(follow))

    def _follow(self) -> AsyncIterator[Event | LiveNews]:
        api, execution = self._runtime.api, self._handle.execution_id
        return api.follow_live(execution, after=self._after) if self._live else api.follow(execution, after=self._after)

    async def get_result_async(self) -> AgentResult:
        """Wait for the end and return the result, whatever was iterated before."""
        return await self._handle.result_async()

    def get_result(self) -> AgentResult:
        return self._handle.result()


class _Seen:
    """The last recorded event that a reader was given."""

    def __init__(self, after: int) -> None:
        self._seq, self._at_ms = after, 0

    def told(self, news: Event | LiveNews) -> AgentEvent:
        """Return what came as programs see it."""
        if not isinstance(news, Event):
            return live_event(news, self._seq, self._at_ms)
        self._seq, self._at_ms = news.seq, news.at_ms
        return stream_event(news)


async def _next(follow: AsyncIterator[T]) -> T | None:
    return await anext(follow, None)


async def _close(follow: AsyncIterator[Event | LiveNews]) -> None:
    close = getattr(follow, "aclose", None)
    if close is not None:
        await close()
