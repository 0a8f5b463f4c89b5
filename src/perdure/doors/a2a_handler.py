"""A2A requests, by the official SDK's interface. It keeps nothing: a task is an execution, and that is in the store.

Importing this takes a good part of a second: only who speaks A2A does. The SDK reads and writes the protocol, of 1.0
and through its adapter of 0.3. What it has for running agents and keeping tasks is not used: docs/decisions/0020.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, cast

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import (
    RequestHandler,
    validate_request_params,  # pyright: ignore[reportUnknownVariableType] - the SDK says nothing of what it wraps
)
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from perdure.core import codec
from perdure.core.a2a import A2aMessage, A2aQuery, PushConfig
from perdure.core.events import Event
from perdure.doors.a2a_seat import SEAT, Seat
from perdure.doors.a2a_story import ENDED, GOES_ON, Object, Story, story_of
from perdure.errors import Conflict, NotFound, PerdureError, UserError
from perdure.log import get_log

log = get_log(__name__)

Update = pb.Task | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent
MOST_LISTED = 100
LISTED = 50
DEFAULT_PUSH = "default"
"""What a push configuration is called that comes without a name, with the message that begins a task."""


class Handler(RequestHandler):
    """Answers for every company and agent: whom a request is for stands in its context."""

    @validate_request_params
    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        """Take the message; unless asked to answer at once, answer when the task has ended or waits for somebody."""
        with _told():
            seat = _seat(context)
            execution = await _accept(seat, params, context)
            if not params.configuration.return_immediately:
                await seat.hold(partial(_settle, seat, execution))
            return _task((await _story(seat, execution)).task(_history(params.configuration)))

    @validate_request_params
    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Take the message, and tell of its task until that has ended or waits for somebody."""
        with _told():
            seat = _seat(context)
            story = await _story(seat, await _accept(seat, params, context))
            yield _task(story.task(_history(params.configuration)))
            if story.settled:
                return
            async with aclosing(_updates(seat, story)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Tell how a task stands, and all that happens to it from there on: whoever was cut off misses nothing."""
        with _told():
            seat = _seat(context)
            story = await _story(seat, params.id)
            if story.ended:
                raise UnsupportedOperationError(f"Task {params.id} has ended: nothing happens to it any more.")
            yield _task(story.task())
            async with aclosing(_updates(seat, story)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        """Return a task as it stands."""
        with _told():
            return _task((await _story(_seat(context), params.id)).task(_history(params)))

    @validate_request_params
    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """Return a page of the agent's tasks, those that changed last first."""
        with _told():
            seat = _seat(context)
            history = _history(params)
            query = _query(params)
            page = await seat.tasks.tasks(seat.agent, query)
            stories = [story_of(one) for one in page.items]
            wanted = pb.TaskState.Name(params.status) if params.status else ""
            return pb.ListTasksResponse(
                tasks=[
                    _task(story.task(history, artifacts=params.include_artifacts))
                    for story in stories
                    if story.state == wanted or not wanted
                ],
                next_page_token=page.cursor,
                page_size=query.limit,
                total_size=page.total,
            )

    @validate_request_params
    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        """Ask a task to leave off, and answer when it has, or after a while as it stands: the wish is durable."""
        with _told():
            seat = _seat(context)
            story = await _story(seat, params.id)
            if story.ended:
                raise TaskNotCancelableError(f"Task {params.id} has ended.")
            try:
                await seat.tasks.cancel(params.id, by=seat.by)
            except Conflict as error:
                raise TaskNotCancelableError(error.message) from None
            await seat.hold(partial(_end, seat, params.id))
            return _task((await _story(seat, params.id)).task())

    @validate_request_params
    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """Have somebody told of what a task does."""
        with _told():
            seat = _pushing(context)
            push = _push(params, context, params.task_id)
            await seat.tasks.set_push(seat.agent, params.task_id, push)
            return _shown(params.task_id, push)

    @validate_request_params
    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """Return whom a task tells, by its id, without the credentials."""
        with _told():
            seat = _pushing(context)
            for push in await seat.tasks.pushes(seat.agent, params.task_id):
                if push.id == params.id:
                    return _shown(params.task_id, push)
            raise TaskNotFoundError(f"Task {params.task_id} has no push configuration {params.id!r:.80}.")

    @validate_request_params
    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """Return all whom a task tells: they are few, and one page."""
        with _told():
            seat = _pushing(context)
            found = await seat.tasks.pushes(seat.agent, params.task_id)
            return pb.ListTaskPushNotificationConfigsResponse(configs=[_shown(params.task_id, one) for one in found])

    @validate_request_params
    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Have somebody told no more; again changes nothing."""
        with _told():
            seat = _pushing(context)
            await seat.tasks.delete_push(seat.agent, params.task_id, params.id)

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        """Refuse: the card that everybody with a key sees is all there is."""
        with _told():
            raise ExtendedAgentCardNotConfiguredError("There is one card of each agent, and no other.")


# -- what every request does ------------------------------------------------------------------------------------------


def _seat(context: ServerCallContext) -> Seat:
    return context.state[SEAT]


@contextmanager
def _told() -> Generator[None]:
    """Turn what the verbs raise into what the protocol calls it."""
    try:
        yield
    except A2AError:
        raise
    except PerdureError as error:
        raise _refusal(error) from None
    except Exception as error:
        log.exception("a2a.failed", error=type(error).__name__)
        said = "The server met an error of its own and wrote it to its log. Please report it."
        raise InternalError(said) from None


def _refusal(error: PerdureError) -> A2AError:
    if isinstance(error, NotFound):
        return TaskNotFoundError(error.message)
    if isinstance(error, Conflict) and error.code == "ended":
        return UnsupportedOperationError(error.message)
    if isinstance(error, UserError):
        return InvalidParamsError(error.message)
    return InternalError(error.message)


def _pushing(context: ServerCallContext) -> Seat:
    """Return the seat, where others are told."""
    seat = _seat(context)
    if not seat.pushes:
        raise PushNotificationNotSupportedError("This server makes no requests of its own, and tells nobody by push.")
    return seat


def _push(params: pb.TaskPushNotificationConfig, context: ServerCallContext, default: str) -> PushConfig:
    """Return whom to tell. `default`: its id where none is given."""
    known_by = params.authentication
    version = "0.3" if "/" in context.state["method"] else "1.0"
    sent_back = (params.token, known_by.scheme, known_by.credentials)
    return PushConfig(params.id or default or DEFAULT_PUSH, params.url, *sent_back, version)


def _shown(task: str, push: PushConfig) -> pb.TaskPushNotificationConfig:
    found = pb.TaskPushNotificationConfig(id=push.id, task_id=task, url=push.url, token=push.token)
    if push.scheme:
        found.authentication.scheme = push.scheme
    return found


async def _accept(seat: Seat, params: pb.SendMessageRequest, context: ServerCallContext) -> str:
    """Take a message; return its task. On return that is durable."""
    message = params.message
    push = None
    if params.configuration.HasField("task_push_notification_config"):
        push = _push(params.configuration.task_push_notification_config, context, message.task_id)
        _pushing(context)
    if message.role != pb.ROLE_USER:
        raise InvalidParamsError("The role of a message to an agent is ROLE_USER.")
    _history(params.configuration)  # refused before anything is done
    given = A2aMessage(message.message_id, _text(message), message.context_id, message.task_id, push)
    return (await seat.tasks.accept(seat.agent, given, by=seat.by)).execution


def _text(message: pb.Message) -> str:
    """Return what a message says, as an agent reads it: its parts, one below the other."""
    said: list[str] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                said.append(part.text)
            case "data":
                said.append(codec.encode(MessageToDict(part.data), "a part of the message"))
            case _:
                raise ContentTypeNotSupportedError(
                    "A part of the message is a file; agents here read text and data. Send its text, or the address of "
                    "the file as text."
                )
    return "\n\n".join(said)


async def _story(seat: Seat, execution: str) -> Story:
    return story_of(await seat.tasks.task(seat.agent, execution))


async def _updates(seat: Seat, story: Story) -> AsyncGenerator[Update]:
    """Yield what happens behind a story, until it comes to an end or to where it waits for somebody."""
    async with aclosing(cast("Any", seat.tasks.follow(story.execution, after=story.seq))) as events:
        async for event in cast("AsyncIterator[Event]", events):
            updates = story.feed(event)
            for update in updates:
                yield _update(update)
            if updates and story.settled:
                return


async def _settle(seat: Seat, execution: str) -> None:
    """Return when a task has ended or waits for somebody."""
    story = await _story(seat, execution)
    if not story.settled:
        async with aclosing(_updates(seat, story)) as updates:
            async for _ in updates:
                pass


async def _end(seat: Seat, execution: str) -> None:
    """Return when a task has ended."""
    story = await _story(seat, execution)
    while not story.ended:
        async with aclosing(_updates(seat, story)) as updates:
            async for _ in updates:
                pass


def _update(found: Object) -> Update:
    if "statusUpdate" in found:
        return ParseDict(found["statusUpdate"], pb.TaskStatusUpdateEvent())
    return ParseDict(found["artifactUpdate"], pb.TaskArtifactUpdateEvent())


def _task(found: Object) -> pb.Task:
    return ParseDict(found, pb.Task())


def _history(params: Any) -> int | None:
    """Return how many messages of its history a task is to be shown with; None: all."""
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise InvalidParamsError(f"historyLength should be 0 or more, found {params.history_length}.")
    return params.history_length


def _query(params: pb.ListTasksRequest) -> A2aQuery:
    limit = params.page_size if params.HasField("page_size") else LISTED
    if not 1 <= limit <= MOST_LISTED:
        raise InvalidParamsError(f"pageSize should be 1 to {MOST_LISTED}, found {limit}.")
    since_ms = params.status_timestamp_after.ToMilliseconds() if params.HasField("status_timestamp_after") else 0
    state = pb.TaskState.Name(params.status) if params.status else ""
    ended = ENDED.get(state, "" if not state or state in GOES_ON else state)  # the last: none of ours is ever in it
    return A2aQuery(params.context_id, ended, state in GOES_ON, max(since_ms, 0), params.page_token, limit)
