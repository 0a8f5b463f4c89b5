"""The verbs of `wire.api.Api` over HTTP. Same meaning, same errors as in-process; resending never acts twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from perdure.client.channel import Ask
from perdure.client.follow import Follower
from perdure.client.functions import HttpFunctionSource
from perdure.client.http_a2a import HttpA2a
from perdure.client.http_blobs import HttpBlobs
from perdure.client.http_companies import HttpCompanies
from perdure.client.http_hooks import HttpHooks
from perdure.client.http_queues import HttpQueues
from perdure.client.http_room_files import HttpRoomFiles
from perdure.client.http_rooms import HttpRooms
from perdure.client.http_screen import HttpScreen
from perdure.client.http_secrets import HttpSecrets
from perdure.client.http_waits import HttpSchedules, HttpWaits
from perdure.client.tasks import HttpTaskSource
from perdure.core import states
from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.live import LiveNews
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
from perdure.core.work import WorkerInfo
from perdure.errors import Retryable
from perdure.wire import bodies, codec, routes

__all__ = ["HttpApi", "HttpTaskSource"]

T = TypeVar("T")

WAIT_SECONDS = 30
"""How long one request waits for an execution's end. Not longer: what stands between may cut off who says nothing."""
_GRACE_SECONDS = 10
"""For the network, beside that."""


class HttpApi(
    HttpWaits,
    HttpSchedules,
    HttpQueues,
    HttpRooms,
    HttpRoomFiles,
    HttpHooks,
    HttpCompanies,
    HttpSecrets,
    HttpBlobs,
    HttpA2a,
    HttpScreen,
):
    """`Api` of the company that the key belongs to, at `url`. Belongs to the event loop that first uses it."""

    def functions(self) -> HttpFunctionSource:
        """Return a way to durable functions of the same company at the same address."""
        return HttpFunctionSource(self.url, self._channel.key)

    async def info(self) -> ServerInfo:
        return await self._get(ServerInfo, "info", routes.INFO)

    async def start(self, request: StartRequest) -> Started:
        """Begin an execution. Without a key of the caller's it gets one of its own, so that it can be sent again."""
        own = request.idempotency_key is None
        if own:
            request = replace(request, idempotency_key=f"auto-{self._chance()}")
        when = (request.delay_seconds, request.start_at_ms, request.priority, request.limit_key, request.tags)
        body = bodies.StartBody(request.spec, request.input, request.idempotency_key, request.by, *when)
        started = await self._post(Started, "start", routes.EXECUTIONS, body)
        return replace(started, created=True) if own else started  # a second sending may find the first one's

    async def execution(self, execution: str) -> ExecutionView:
        return await self._get(ExecutionView, "execution", routes.fill(routes.EXECUTION, execution=execution))

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
        time = {"since_ms": since_ms, "until_ms": until_ms}
        query = _given(state=state, agent=agent, tag=tag, **time, cursor=cursor, limit=limit)
        return await self._get(Page, "executions", routes.EXECUTIONS, query)

    async def search_executions(
        self, text: str, wanted: ExecutionFilter, *, cursor: str | None = None, limit: int = 50
    ) -> FoundPage:
        query = _given(
            text=text,
            state=wanted.state,
            agent=wanted.agent,
            since_ms=wanted.since_ms,
            until_ms=wanted.until_ms,
            tag=wanted.tag,
            cursor=cursor,
            limit=limit,
        )
        return await self._get(FoundPage, "search_executions", routes.SEARCH, query)

    async def events(self, execution: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        path = routes.fill(routes.EVENTS, execution=execution)
        found = await self._get(bodies.EventList, "events", path, _given(after=after, limit=limit))
        return list(found.items)

    async def follow(self, execution: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the log above `after` until the execution has ended. Comes back after every cut, for ever.

        Raises what coming back cannot change (`NotFound`, `Unauthorized`), and `Unreachable` if nothing ever
        answered at this address.
        """
        async with aclosing(Follower(self._channel, execution, after).news()) as news:
            async for one in news:
                if isinstance(one, Event):
                    yield one

    async def follow_live(self, execution: str, *, after: int = 0) -> AsyncGenerator[Event | LiveNews]:
        """Yield what `follow` yields, as it does, and what models say meanwhile. A server that knows nothing of that
        sends events alone."""
        async with aclosing(Follower(self._channel, execution, after, live=True).news()) as news:
            async for one in news:
                yield one

    async def wait(self, execution: str) -> None:
        """Return once it has ended, by one request that waits; nothing of its log is read. As `follow`, it survives
        lost connections and restarts of the server, and raises the same."""
        failures = 0
        while True:
            asked_ms = self._channel.clock.monotonic_ms()
            state = await self._state_at_its_end(execution)
            if state in states.TERMINAL:
                return
            # A server that waited says when the time is over; one that knows of no waiting is not hammered.
            waited = self._channel.clock.monotonic_ms() - asked_ms > WAIT_SECONDS * 500
            failures = 0 if waited and state else failures + 1
            if failures:
                await self._channel.pause(failures)

    async def _state_at_its_end(self, execution: str) -> str:
        """Return the state once it has ended, or what it is after a while; empty while nobody answers any more."""
        path, wait = routes.fill(routes.EXECUTION, execution=execution), {"wait_seconds": WAIT_SECONDS}
        ask = Ask("execution", "GET", path, wait, reply_seconds=WAIT_SECONDS + _GRACE_SECONDS)
        try:
            return codec.load(ExecutionView, await self._channel.call(ask)).state
        except Retryable:
            if not self._channel.met:
                raise
            return ""

    async def send(self, execution: str, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        path = routes.fill(routes.MESSAGES, execution=execution)
        body = bodies.MessageBody(text, by, dedupe or f"auto-{self._chance()}")
        return (await self._post(bodies.Sent, "send", path, body)).seq

    async def pause(self, execution: str, *, by: str = "", reason: str = "") -> None:
        await self._tell("pause", routes.PAUSE, execution, by, reason)

    async def resume(self, execution: str, *, by: str = "") -> None:
        await self._tell("resume", routes.RESUME, execution, by)

    async def stop(self, execution: str, *, by: str = "") -> None:
        await self._tell("stop", routes.STOP, execution, by)

    async def cancel(self, execution: str, *, by: str = "", reason: str = "") -> None:
        await self._tell("cancel", routes.CANCEL, execution, by, reason)

    async def approvals(
        self, *, execution: str | None = None, state: str | None = states.Waitpoint.OPEN
    ) -> list[ApprovalView]:
        query = _given(execution=execution, state=state or routes.ANY)
        return list((await self._get(bodies.ApprovalList, "approvals", routes.APPROVALS, query)).items)

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
        path = routes.fill(routes.DECISION, approval=approval)
        body = bodies.DecisionBody(decision, by, reason, digest, args, answer)
        return await self._post(ApprovalView, "decide", path, body)

    async def retry_task(self, execution: str, address: str, *, by: str = "", reason: str = "") -> TaskView:
        path = routes.fill(routes.RETRY, execution=execution)
        return await self._post(TaskView, "retry_task", path, bodies.RetryBody(address, by, reason), safe=False)

    async def tasks(self, execution: str, *, after: int = 0, limit: int = 1000) -> list[TaskView]:
        path = routes.fill(routes.TASKS, execution=execution)
        found = await self._get(bodies.TaskList, "tasks", path, _given(after=after, limit=limit))
        return list(found.items)

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
        query = _given(execution=execution, state=state or routes.ANY, tool=tool, agent=agent, since_ms=since_ms)
        query |= {"after": after} if after else {}
        return list((await self._get(bodies.EffectList, "effects", routes.EFFECTS, query)).items)

    async def log(self, execution: str, *, after: int = 0, limit: int = 1000) -> LogPage:
        path = routes.fill(routes.LOG, execution=execution)
        return await self._get(LogPage, "log", path, _given(after=after, limit=limit))

    async def rule(
        self, execution: str, address: str, ruling: Ruling, *, by: str = "", reason: str = "", value: Json = None
    ) -> EffectView:
        path = routes.fill(routes.RULING, execution=execution)
        body = bodies.RulingBody(address, ruling, by, reason, value)
        return await self._post(EffectView, "rule", path, body, safe=False)

    async def fork(
        self, execution: str, at: int, edits: ForkEdits, *, by: str = "", idempotency_key: str | None = None
    ) -> Started:
        # Without a key it is not sent again once it may have arrived: it would fork twice.
        path = routes.fill(routes.FORK, execution=execution)
        changed = (edits.prompt, edits.model, dict(edits.results), by, edits.input, edits.build)
        body = bodies.ForkBody(at, *changed, idempotency_key)
        return await self._post(Started, "fork", path, body, safe=idempotency_key is not None)

    async def diagnose(self, execution: str) -> list[Finding]:
        found = await self._get(bodies.FindingList, "doctor", routes.fill(routes.DOCTOR, execution=execution))
        return list(found.items)

    async def workers(self) -> list[WorkerInfo]:
        return list((await self._get(bodies.WorkerList, "workers", routes.WORKERS)).items)

    async def _get(self, kind: type[T], name: str, path: str, query: Mapping[str, str | int] | None = None) -> T:
        return codec.load(kind, await self._channel.call(Ask(name, "GET", path, query)))

    async def _post(self, kind: type[T], name: str, path: str, body: codec.Shape, *, safe: bool = True) -> T:
        ask = Ask(name, "POST", path, body=codec.dump_given(body), safe=safe)
        return codec.load(kind, await self._channel.call(ask))

    async def _tell(self, name: str, template: str, execution: str, by: str, reason: str = "") -> None:
        # Not sent again once it may have arrived: a second cancel, or a pause after somebody's resume, means more.
        body = codec.dump_given(bodies.ReasonBody(by, reason))
        path = routes.fill(template, execution=execution)
        await self._channel.call(Ask(name, "POST", path, body=body, safe=False))

    def _chance(self) -> str:
        return self._channel.random.token(16).hex()


def _given(**values: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in values.items() if value is not None}
