"""The verbs in-process: straight to the engine through the bridge. HTTP routes call exactly these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from perdure.agent.spec import spec_digest, spec_from_json
from perdure.core import codec, states
from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.events import LAST, Event
from perdure.core.functions import is_function, lane_of
from perdure.core.ids import check_named, new_id
from perdure.core.ledger import EFFECT_STATES
from perdure.core.live import LiveNews
from perdure.core.notices import is_notice, notice_from_json
from perdure.core.queues import check_limit_key, check_priority
from perdure.core.rooms import ROOM_ACT
from perdure.core.tags import check_tag, checked_tags
from perdure.core.views import (
    ApprovalView,
    Decision,
    EffectFilter,
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
from perdure.engine import ledger, query, query_tasks
from perdure.engine.diagnose import diagnose
from perdure.engine.fork import Fork, fork
from perdure.engine.query_list import check_cursor, execution_page
from perdure.engine.resolve import Decide, decide, no_approval
from perdure.engine.revive import Revive, revive
from perdure.engine.rule import Rule, rule
from perdure.engine.search import check_text, found_page
from perdure.engine.signal import Signal, Verb, signal
from perdure.engine.start import Start, start
from perdure.engine.stored import value_of
from perdure.errors import InvalidInput
from perdure.server.answers import check_answer
from perdure.server.direct_a2a import DirectA2a
from perdure.server.direct_blobs import DirectBlobs
from perdure.server.direct_companies import DirectCompanies
from perdure.server.direct_hooks import DirectHooks
from perdure.server.direct_queues import DirectQueues
from perdure.server.direct_room_files import DirectRoomFiles
from perdure.server.direct_schedules import DirectSchedules
from perdure.server.direct_secrets import DirectSecrets
from perdure.server.direct_waits import DirectWaits
from perdure.server.edits import with_replies
from perdure.server.following import PAGE, Following, page_of
from perdure.server.hub import stirred
from perdure.store.protocol import Reads
from perdure.store.tx import Note

if TYPE_CHECKING:
    from perdure.server.node import Node

MOST_DELAY_SECONDS = 10 * 365 * 24 * 3600.0
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: what a date can say."""
POLL_SECONDS = 5.0
"""How often one who waits for an end looks without a hint."""


class DirectApi(
    DirectWaits,
    DirectSchedules,
    DirectQueues,
    DirectRoomFiles,
    DirectHooks,
    DirectCompanies,
    DirectSecrets,
    DirectBlobs,
    DirectA2a,
):
    """`Api` of one company over a node."""

    def __init__(self, node: Node, company: str) -> None:
        given = (node.bridge, company, node.parts.clock, node.parts.random)
        DirectWaits.__init__(self, *given)
        DirectSchedules.__init__(self, *given, read_definition)
        DirectQueues.__init__(self, node.bridge, company, node.look_time)
        DirectRoomFiles.__init__(self, *given, node.hub, node.look_time, node.parts.embedder)
        DirectHooks.__init__(self, node.bridge, company)
        DirectCompanies.__init__(self, node.bridge, company)
        DirectSecrets.__init__(self, node.secrets, company)
        DirectBlobs.__init__(self, node.bridge, company, node.parts.max_value_bytes)
        DirectA2a.__init__(self, node.bridge, company)
        self._node = node

    async def info(self) -> ServerInfo:
        return self._node.info()

    async def start(self, request: StartRequest) -> Started:
        row = _start_of(request, self._company, new_id("exe", self._node.parts.clock, self._node.parts.random))
        return await self._bridge.ask(start, row)

    async def execution(self, execution: str) -> ExecutionView:
        gists = self._node.gists
        return await self._bridge.read(lambda reads: query.execution_view(reads, self._company, execution, gists))

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
        wanted = ExecutionFilter(state, agent, since_ms, until_ms, tag)
        _check_list(wanted, cursor, limit)
        return await self._bridge.read(
            lambda reads: execution_page(reads, self._company, wanted, cursor=cursor, limit=limit)
        )

    async def search_executions(
        self, text: str, wanted: ExecutionFilter, *, cursor: str | None = None, limit: int = 50
    ) -> FoundPage:
        text = check_text(text)
        _check_list(wanted, cursor, limit)
        return await self._bridge.read(
            lambda reads: found_page(reads, self._company, wanted, text, cursor=cursor, limit=limit)
        )

    async def events(self, execution: str, *, after: int = 0, limit: int = PAGE) -> list[Event]:
        _check_limit(limit)
        return (await self._bridge.read(lambda reads: page_of(reads, self._company, execution, after, limit)))[0]

    def follow(self, execution: str, *, after: int = 0) -> AsyncIterator[Event]:
        return cast("AsyncIterator[Event]", Following(self._node, self._company, execution, after, live=False).news())

    def follow_live(self, execution: str, *, after: int = 0) -> AsyncIterator[Event | LiveNews]:
        return Following(self._node, self._company, execution, after, live=True).news()

    async def wait(self, execution: str) -> None:
        check_named(execution=execution)
        stir = asyncio.Event()

        def hear(note: Note) -> None:
            if note.rows[-1]["kind"] in LAST:
                stir.set()

        with self._node.hub.listening([("events", execution)], hear):
            while not await self._bridge.glance(lambda reads: query.has_ended(reads, self._company, execution)):
                if await stirred(stir, POLL_SECONDS):
                    return
                stir.clear()

    async def send(self, execution: str, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        codec.encode(text, "message")
        key = dedupe or new_id("msg", self._node.parts.clock, self._node.parts.random)  # the store may run it twice
        return await self._bridge.ask(signal, Signal(self._company, execution, "send", by, text, key))

    async def pause(self, execution: str, *, by: str = "", reason: str = "") -> None:
        await self._request(execution, "pause", by, reason)

    async def resume(self, execution: str, *, by: str = "") -> None:
        await self._request(execution, "resume", by)

    async def stop(self, execution: str, *, by: str = "") -> None:
        await self._request(execution, "stop", by)

    async def cancel(self, execution: str, *, by: str = "", reason: str = "") -> None:
        await self._request(execution, "cancel", by, reason)

    async def _request(self, execution: str, verb: Verb, by: str, reason: str = "") -> None:
        key = new_id("req", self._node.parts.clock, self._node.parts.random)  # as above, and twice would mean more
        await self._bridge.ask(signal, Signal(self._company, execution, verb, by, reason, key))

    async def approvals(
        self, *, execution: str | None = None, state: str | None = states.Waitpoint.OPEN
    ) -> list[ApprovalView]:
        return await self._bridge.read(
            lambda reads: query.approvals_of(reads, self._company, execution=execution, state=state)
        )

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
        check_named(approval=approval)
        row = Decide(self._company, approval, decision, by, reason, digest, args, answer)
        check_answer(row, await self._spec_asking(approval) if decision == "edit" else None)
        await self._bridge.ask(decide, row)
        found = await self._bridge.read(lambda reads: query.approvals_of(reads, self._company, approval=approval))
        return found[0]

    async def _spec_asking(self, approval: str) -> tuple[Json, str]:
        """Return the definition that an approval belongs to, and its tool. Raises `NotFound`."""

        def look(reads: Reads) -> tuple[Json, str]:
            found = query.approvals_of(reads, self._company, approval=approval)
            if not found:
                raise no_approval(approval)
            if found[0].tool.startswith(ROOM_ACT):  # maybe another company's execution; nothing of it is edited
                return None, found[0].tool
            row = query.execution_row_of(reads, self._company, found[0].execution)
            return value_of(row["spec"], f"the definition of execution {found[0].execution}"), found[0].tool

        return await self._bridge.read(look)

    async def retry_task(self, execution: str, address: str, *, by: str = "", reason: str = "") -> TaskView:
        check_named(address=address)
        await self._bridge.ask(revive, Revive(self._company, execution, address, by, reason))
        [task] = await self._tasks(execution, address=address)
        return task

    async def tasks(self, execution: str, *, after: int = 0, limit: int = PAGE) -> list[TaskView]:
        _check_limit(limit)
        return await self._tasks(execution, after=after, limit=limit)

    async def _tasks(self, execution: str, **page: Any) -> list[TaskView]:
        return await self._bridge.read(lambda reads: query_tasks.tasks_view(reads, self._company, execution, **page))

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
        given = EffectFilter(execution, state, tool, agent, since_ms, after)
        if given.state is not None and given.state not in EFFECT_STATES:
            raise InvalidInput(f"there is no state {given.state!r} of effects; there are: {', '.join(EFFECT_STATES)}.")
        if after and execution is None:
            raise InvalidInput(
                f"after is {after}, a place in one execution's log, and no execution is named. Name one."
            )
        return await self._bridge.read(lambda reads: ledger.effects_view(reads, self._company, given))

    async def log(self, execution: str, *, after: int = 0, limit: int = PAGE) -> LogPage:
        _check_limit(limit)
        return await self._bridge.read(
            lambda reads: ledger.log_page(reads, self._company, execution, after=after, limit=limit)
        )

    async def rule(
        self, execution: str, address: str, ruling: Ruling, *, by: str = "", reason: str = "", value: Json = None
    ) -> EffectView:
        check_named(address=address)
        await self._bridge.ask(rule, Rule(self._company, execution, address, ruling, by, reason, value))
        given = EffectFilter(execution, address=address)
        [effect] = await self._bridge.read(lambda reads: ledger.effects_view(reads, self._company, given))
        return effect

    async def fork(
        self, execution: str, at: int, edits: ForkEdits, *, by: str = "", idempotency_key: str | None = None
    ) -> Started:
        spec, definition = "", ""
        changed = {"model": edits.model, "build": edits.build}
        given = {name: value for name, value in changed.items() if value is not None}
        if given or edits.results:
            row = await self._bridge.read(lambda reads: query.execution_row_of(reads, self._company, execution))
            found = value_of(row["spec"], f"the definition of execution {execution}")
            edits = edits if row["lane"] else replace(edits, results=with_replies(edits.results))
            if given and given.keys() <= found.keys():  # else it is refused, as an edit of what it has not
                spec = codec.encode_json({**found, **given})
                _, definition, _ = read_definition(spec)
        id = new_id("exe", self._node.parts.clock, self._node.parts.random)
        wish = Fork(id, self._company, execution, at, edits, by, spec, definition, idempotency_key)
        return await self._bridge.ask(fork, wish)

    async def diagnose(self, execution: str) -> list[Finding]:
        workers = await self.workers()
        now_ms = await self._node.look_time.now_ms()
        return await self._bridge.read(lambda reads: diagnose(reads, self._company, execution, workers, now_ms))

    async def workers(self) -> list[WorkerInfo]:
        return await self._node.workers.of(self._company)

    async def aclose(self) -> None:
        return None


def _check_list(wanted: ExecutionFilter, cursor: str | None, limit: int) -> None:
    if wanted.state is not None and wanted.state not in list(states.Execution):
        raise InvalidInput(f"there is no state {wanted.state!r}. The states are: {', '.join(states.Execution)}.")
    _check_limit(limit)
    check_cursor(cursor)
    if wanted.tag is not None:
        check_tag(wanted.tag)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE:
        raise InvalidInput(f"limit should be 1 to {PAGE}, found {limit}.")


@lru_cache(maxsize=256)
def read_definition(text: str) -> tuple[str, str, str]:
    """Check a definition; return its name, its fingerprint and, if workers run it, its lane. Raises `InvalidInput`.

    Programs start the same one many times.
    """
    value = codec.decode(text)
    if is_notice(value):
        return notice_from_json(value).name, spec_digest(value), ""
    name = lane_of(value).name if is_function(value) else ""
    return name or spec_from_json(value).name, spec_digest(value), name


def _start_of(request: StartRequest, company: str, execution: str) -> Start:
    """Return what is asked for as the engine takes it. Raises `InvalidInput` for what cannot be."""
    text = codec.encode_json(request.spec)
    agent, definition, lane = read_definition(text)
    delay_ms, at_ms = _delay_of(request)
    check_priority(request.priority)
    check_limit_key(request.limit_key)
    return Start(
        id=execution,
        company=company,
        agent=agent,
        definition=definition,
        spec=text,
        input=codec.encode(request.input, "input"),
        start_key=request.idempotency_key,
        by=request.by,
        lane=lane,
        delay_ms=delay_ms,
        at_ms=at_ms,
        priority=request.priority,
        limit_key=request.limit_key or "",
        tags=checked_tags(request.tags),
    )


def _delay_of(request: StartRequest) -> tuple[int, int]:
    """Return the delay and the time of a start, as the engine takes them. Raises `InvalidInput` (`bad_start`)."""
    seconds, at_ms = request.delay_seconds, request.start_at_ms
    if seconds is not None and at_ms is not None:
        raise InvalidInput(
            f"delay_seconds is {seconds:g} and start_at_ms is {at_ms}: say one of them, or neither.", code="bad_start"
        )
    if seconds is not None and not 0 <= seconds <= MOST_DELAY_SECONDS:
        raise InvalidInput(
            f"delay_seconds should be 0 to {MOST_DELAY_SECONDS:.0f} (ten years); found {seconds:g}.", code="bad_start"
        )
    if at_ms is not None and not 0 <= at_ms <= LATEST_MS:
        raise InvalidInput(
            f"start_at_ms should be milliseconds since 1970, at most {LATEST_MS}; found {at_ms}.", code="bad_start"
        )
    return round((seconds or 0) * 1000), at_ms or 0
