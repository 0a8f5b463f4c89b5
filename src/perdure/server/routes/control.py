"""The control API: executions, approvals, effects, workers. No GET changes anything."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.core import states
from perdure.core.chain import LogPage
from perdure.core.companies import SPEAKS_FOR_ALL
from perdure.core.queues import DeadFilter, DeadPage, QueueView
from perdure.core.schedules import ScheduleRequest, ScheduleView
from perdure.core.secrets import Rotation, SecretView
from perdure.core.views import (
    ApprovalView,
    EffectView,
    ExecutionView,
    Page,
    ServerInfo,
    Started,
    StartRequest,
    TaskView,
)
from perdure.errors import InvalidInput
from perdure.server.call import Call
from perdure.server.direct_secrets import not_yours
from perdure.server.routes.parsed import After, Caller, Limit, Moment, ParsedRoute, moment
from perdure.server.routes.parsed import reply as _reply
from perdure.server.routes.worker import MAX_WAIT_SECONDS
from perdure.server.stream import EventStream
from perdure.wire import frames, routes
from perdure.wire.bodies import (
    ApprovalList,
    ByBody,
    CompleteBody,
    DecisionBody,
    EffectList,
    EventList,
    FailBody,
    FindingList,
    ForkBody,
    MapBody,
    MessageBody,
    QueueBody,
    QueueList,
    ReasonBody,
    RetryBody,
    RotateBody,
    RulingBody,
    ScheduleBody,
    ScheduleList,
    SecretBody,
    SecretList,
    Sent,
    SignalBody,
    StartBody,
    TaskList,
    TriggerBody,
    WorkerList,
)

WaitForEnd = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_SECONDS, description="Answer when it has ended, or as it stands after so long"),
]


LiveText = Annotated[
    bool,
    Query(description="In a stream: what models say is to come, too, in frames `delta` and `reset` that have no id"),
]

router = APIRouter(route_class=ParsedRoute)


@router.get(routes.INFO, response_model=ServerInfo, summary="Who answers here")
async def info(call: Caller) -> Response:
    return _reply(await call.api.info())


@router.post(
    routes.EXECUTIONS,
    status_code=201,
    response_model=Started,
    summary="Begin an execution",
    responses={200: {"model": Started, "description": "The idempotency key had been used: the first execution"}},
)
async def start(call: Caller, body: StartBody) -> Response:
    when = (body.delay_seconds, body.start_at_ms, body.priority, body.limit_key, body.tags)
    given = (body.idempotency_key, call.identity(body.by), *when)
    started = await call.api.start(StartRequest(body.spec, body.input, *given))
    return _reply(started, 201 if started.created else 200)


@router.get(routes.EXECUTIONS, response_model=Page, summary="List executions, newest first")
async def executions(
    call: Caller,
    state: states.Execution | None = None,
    agent: str | None = None,
    since_ms: Moment = None,
    until_ms: Moment = None,
    tag: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    found = await call.api.executions(
        state=state, agent=agent, since_ms=since_ms, until_ms=until_ms, tag=tag, cursor=cursor, limit=limit
    )
    return _reply(found)


@router.get(routes.EXECUTION, response_model=ExecutionView, summary="One execution as it stands")
async def execution(call: Caller, execution: str, wait_seconds: WaitForEnd = 0) -> Response:
    if wait_seconds:
        with call.streams.place(call.principal.company, "waits for an end", call.limits.polls):
            await call.streams.run(_end(call, execution, wait_seconds), call.receive)
    return _reply(await call.api.execution(execution))


async def _end(call: Call, execution: str, seconds: float) -> None:
    """Return when it has ended, or the time is over."""
    with anyio.move_on_after(seconds):
        await call.api.wait(execution)


@router.get(
    routes.EVENTS,
    response_model=EventList,
    summary="The log: a page of it, or, with Accept: text/event-stream, a stream that follows it",
    responses={200: {"content": {frames.MEDIA_TYPE: {}}}},
)
async def events(call: Caller, execution: str, after: After = 0, limit: Limit = 200, live: LiveText = True) -> Response:
    if frames.MEDIA_TYPE.encode() not in call.head.get(b"accept", b""):
        return _reply(EventList(tuple(await call.api.events(execution, after=after, limit=limit))))
    # What a browser saw last counts: on its own reconnects it repeats the address it was given first.
    after = _last_seen(call, after)
    await call.api.events(execution, after=after, limit=1)  # raises NotFound while there is a status to say it with
    follow = call.api.follow_live if live else call.api.follow
    return EventStream(call.streams, follow(execution, after=after), call.principal.company, call.limits.streams)


@router.post(routes.MESSAGES, status_code=201, response_model=Sent, summary="Send a message into an execution")
async def send(call: Caller, execution: str, body: MessageBody) -> Response:
    seq = await call.api.send(execution, body.text, by=call.by(body.by), dedupe=body.dedupe)
    return _reply(Sent(seq), 201)


@router.post(routes.SIGNALS, status_code=201, response_model=Sent, summary="Send a signal into an execution")
async def signal(call: Caller, execution: str, body: SignalBody) -> Response:
    seq = await call.api.signal(execution, body.name, body.value, by=call.by(body.by), dedupe=body.dedupe)
    return _reply(Sent(seq), 201)


@router.get(routes.SCHEDULES, response_model=ScheduleList, summary="Starts by the calendar")
async def schedules(call: Caller) -> Response:
    return _reply(ScheduleList(tuple(await call.api.schedules())))


@router.post(routes.SCHEDULES, status_code=201, response_model=ScheduleView, summary="Make a schedule")
async def create_schedule(call: Caller, body: ScheduleBody) -> Response:
    given = (body.name, body.spec, body.input, body.cron, body.zone, body.missed, body.tags, body.overlap)
    request = ScheduleRequest(*given)
    return _reply(await call.api.create_schedule(request, by=call.by(body.by)), 201)


@router.get(routes.SCHEDULE, response_model=ScheduleView, summary="One schedule")
async def schedule(call: Caller, schedule: str) -> Response:
    return _reply(await call.api.schedule(schedule))


@router.delete(routes.SCHEDULE, status_code=204, summary="Take a schedule away; what it began goes on")
async def delete_schedule(call: Caller, schedule: str) -> Response:
    await call.api.delete_schedule(schedule)
    return Response(status_code=204)


@router.post(routes.SCHEDULE_PAUSE, response_model=ScheduleView, summary="Begin nothing until it is resumed")
async def pause_schedule(call: Caller, schedule: str) -> Response:
    return _reply(await call.api.pause_schedule(schedule))


@router.post(routes.SCHEDULE_RESUME, response_model=ScheduleView, summary="Go on with the next tick")
async def resume_schedule(call: Caller, schedule: str) -> Response:
    return _reply(await call.api.resume_schedule(schedule))


@router.post(routes.SCHEDULE_TRIGGER, response_model=Started, summary="Begin now, beside the ticks")
async def trigger_schedule(call: Caller, schedule: str, body: TriggerBody | None = None) -> Response:
    return _reply(await call.api.trigger_schedule(schedule, nonce=(body or TriggerBody()).nonce))


@router.get(routes.DEAD, response_model=DeadPage, summary="Calls that failed for good, the newest first")
async def dead_tasks(
    call: Caller,
    agent: str | None = None,
    tool: str | None = None,
    queue: str | None = None,
    since_ms: Annotated[int | None, moment(description="Failed then or later")] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    wanted = DeadFilter(agent, tool, queue, since_ms)
    return _reply(await call.api.dead_tasks(wanted, cursor=cursor, limit=limit))


@router.get(routes.QUEUES, response_model=QueueList, summary="What waits for workers, by queue, and under which limits")
async def queues(call: Caller) -> Response:
    return _reply(QueueList(tuple(await call.api.queues())))


@router.get(routes.QUEUE, response_model=QueueView, summary="One queue")
async def queue(call: Caller, queue: str) -> Response:
    return _reply(await call.api.queue(queue))


@router.put(routes.QUEUE, response_model=QueueView, summary="Set all of a queue's limits")
async def set_queue(call: Caller, queue: str, body: QueueBody) -> Response:
    return _reply(await call.api.set_queue(queue, body.limits, by=call.by(body.by)))


@router.post(routes.QUEUE_PAUSE, response_model=QueueView, summary="Give nothing out until it is resumed")
async def pause_queue(call: Caller, queue: str, body: ByBody | None = None) -> Response:
    return _reply(await call.api.pause_queue(queue, by=call.by((body or ByBody()).by)))


@router.post(routes.QUEUE_RESUME, response_model=QueueView, summary="Give out again")
async def resume_queue(call: Caller, queue: str, body: ByBody | None = None) -> Response:
    return _reply(await call.api.resume_queue(queue, by=call.by((body or ByBody()).by)))


@router.get(routes.SECRETS, response_model=SecretList, summary="The company's secrets, without their values")
async def secrets(call: Caller) -> Response:
    return _reply(SecretList(tuple(await call.api.secrets())))


@router.put(routes.SECRET, response_model=SecretView, summary="Keep a secret, in place of the one of its name")
async def set_secret(call: Caller, secret: str, body: SecretBody) -> Response:
    return _reply(await call.api.set_secret(secret, body.value, by=call.by(body.by)))


@router.delete(routes.SECRET, status_code=204, summary="Take a secret away")
async def delete_secret(call: Caller, secret: str) -> Response:
    await call.api.delete_secret(secret)
    return Response(status_code=204)


@router.post(routes.SECRETS_ROTATE, response_model=Rotation, summary="Seal all secrets under a new key")
async def rotate_secrets(call: Caller, body: RotateBody | None = None) -> Response:
    every = (body or RotateBody()).all_companies
    if every and call.principal.name not in SPEAKS_FOR_ALL:
        raise not_yours()
    return _reply(await call.api.rotate_secrets(all_companies=every))


@router.post(
    routes.TOKEN_COMPLETE, status_code=204, summary="End a token's wait with a value: by its id, or its secret alone"
)
async def complete_token(call: Caller, token: str, body: CompleteBody | None = None) -> Response:
    asked = body or CompleteBody()
    await call.api.complete_token(token, asked.value, by=call.by(asked.by))
    return Response(status_code=204)


@router.post(routes.TOKEN_FAIL, status_code=204, summary="End a token's wait with an error")
async def fail_token(call: Caller, token: str, body: FailBody) -> Response:
    await call.api.fail_token(token, body.error, by=call.by(body.by))
    return Response(status_code=204)


@router.post(routes.PAUSE, status_code=204, summary="Pause an execution")
async def pause(call: Caller, execution: str, body: ReasonBody | None = None) -> Response:
    asked = body or ReasonBody()
    await call.api.pause(execution, by=call.by(asked.by), reason=asked.reason)
    return Response(status_code=204)


@router.post(routes.RESUME, status_code=204, summary="Resume a paused or stuck execution")
async def resume(call: Caller, execution: str, body: ReasonBody | None = None) -> Response:
    await call.api.resume(execution, by=call.by((body or ReasonBody()).by))
    return Response(status_code=204)


@router.post(routes.STOP, status_code=204, summary="End an execution after the turn in progress")
async def stop(call: Caller, execution: str, body: ReasonBody | None = None) -> Response:
    await call.api.stop(execution, by=call.by((body or ReasonBody()).by))
    return Response(status_code=204)


@router.post(routes.CANCEL, status_code=202, response_class=Response, summary="Cancel an execution")
async def cancel(call: Caller, execution: str, body: ReasonBody | None = None) -> Response:
    asked = body or ReasonBody()
    await call.api.cancel(execution, by=call.by(asked.by), reason=asked.reason)
    return Response(status_code=202)


@router.post(
    routes.FORK,
    status_code=201,
    response_model=Started,
    summary="Begin an execution with a part of another",
    responses={200: {"model": Started, "description": "The idempotency key had been used: the first fork"}},
)
async def fork(call: Caller, execution: str, body: ForkBody) -> Response:
    by, key = call.by(body.by), body.idempotency_key
    started = await call.api.fork(execution, body.at, body.edits, by=by, idempotency_key=key)
    return _reply(started, 201 if started.created else 200)


@router.get(routes.TASKS, response_model=TaskList, summary="The tool calls of an execution")
async def tasks(call: Caller, execution: str, after: After = 0, limit: Limit = 1000) -> Response:
    return _reply(TaskList(tuple(await call.api.tasks(execution, after=after, limit=limit))))


@router.post(routes.RETRY, response_model=TaskView, summary="Put a dead task back on its queue")
async def retry_task(call: Caller, execution: str, body: RetryBody) -> Response:
    return _reply(await call.api.retry_task(execution, body.address, by=call.by(body.by), reason=body.reason))


@router.post(routes.MAP, response_model=Sent, summary="Say what a step of its log is called now")
async def map_step(call: Caller, execution: str, body: MapBody) -> Response:
    seq = await call.api.map_step(execution, body.old, body.new, by=call.by(body.by), reason=body.reason)
    return _reply(Sent(seq))


@router.get(routes.DOCTOR, response_model=FindingList, summary="Why an execution does not move")
async def doctor(call: Caller, execution: str) -> Response:
    return _reply(FindingList(tuple(await call.api.diagnose(execution))))


@router.get(routes.APPROVALS, response_model=ApprovalList, summary="Calls that wait for a person's yes")
async def approvals(
    call: Caller, execution: str | None = None, state: states.Waitpoint | Literal["any"] = states.Waitpoint.OPEN
) -> Response:
    return _reply(ApprovalList(tuple(await call.api.approvals(execution=execution, state=_one(state)))))


@router.post(routes.DECISION, response_model=ApprovalView, summary="Decide about a call, once")
async def decide(call: Caller, approval: str, body: DecisionBody) -> Response:
    who = call.identity(body.by)
    decided = await call.api.decide(
        approval,
        body.decision,
        by=who,
        reason=body.reason if body.by in ("", who) else f"{body.reason} (for {body.by})".strip(),
        digest=body.digest,
        args=body.args,
        answer=body.answer,
    )
    return _reply(decided)


@router.get(routes.EFFECTS, response_model=EffectList, summary="The ledger: what was done to the world")
async def effects(
    call: Caller,
    execution: str | None = None,
    state: states.Task | Literal["any", "contradicted", "simulated"] = routes.ANY,
    tool: str | None = None,
    agent: str | None = None,
    since_ms: Annotated[int | None, moment(description="Changed then or later")] = None,
    after: After = 0,
) -> Response:
    given = {"execution": execution, "tool": tool, "agent": agent}
    found = await call.api.effects(**given, state=_one(state), since_ms=since_ms, after=after)
    return _reply(EffectList(tuple(found)))


@router.get(routes.LOG, response_model=LogPage, summary="The log as it is stored, with its hashes")
async def log(call: Caller, execution: str, after: After = 0, limit: Limit = 200) -> Response:
    return _reply(await call.api.log(execution, after=after, limit=limit))


@router.post(routes.RULING, response_model=EffectView, summary="Say what an uncertain effect was")
async def rule(call: Caller, execution: str, body: RulingBody) -> Response:
    by = call.by(body.by)
    return _reply(
        await call.api.rule(execution, body.address, body.ruling, by=by, reason=body.reason, value=body.value)
    )


@router.get(routes.WORKERS, response_model=WorkerList, summary="The workers connected to this server")
async def workers(call: Caller) -> Response:
    return _reply(WorkerList(tuple(await call.api.workers())))


def _one(state: str) -> str | None:
    return None if state == routes.ANY else state


def _last_seen(call: Call, after: int) -> int:
    text = call.head.get(b"last-event-id")
    if text is None:
        return after
    if not text.isdigit() or len(text) > 18:
        raise InvalidInput(f"Last-Event-ID is {text[:40]!r}; expected the seq of an event.", fields=["Last-Event-ID"])
    return int(text)
