"""What the tools of rooms take and give: shapes with descriptions, of which their schemas are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from perdure.core import states
from perdure.core.room_search import KINDS, MOST_FOUND, SearchKind
from perdure.core.room_views import MemoryView, MessageView, RoomTaskView, RoomView
from perdure.core.rooms import EVERYBODY, MAX_WAIT_SECONDS
from perdure.wire.codec import MAX_INT

MOST = 200
"""Messages, tasks or lines that one call may give."""

_STRICT: dict[str, Any] = {"extra": "forbid"}

# -- what tools take ---------------------------------------------------------------------------------------------------

RoomId = Annotated[str, Field(description="The room's id. Not needed if the connection is for one room alone.")]
TaskId = Annotated[str, Field(description="The task's id.")]
After = Annotated[
    int, Field(ge=0, le=MAX_INT, description="Only what has a higher seq: `next_after` of the last call.")
]
Limit = Annotated[int, Field(ge=1, le=MOST, description="How many at most.")]
Thread = Annotated[str, Field(description="Id of the message or task that it is about.")]
Key = Annotated[
    str,
    Field(
        description="Any text of yours that names this act. The same key again is the same act, done once, with the "
        "answer of the first; the same key with other content is refused. Without one the content is the key: what "
        "you said word for word before is not said again."
    ),
]
Result = Annotated[str, Field(description="What came of it, or why not.")]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No arguments."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT


@dataclass(frozen=True, slots=True)
class InRoom:
    """A room."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: RoomId = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which messages."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: RoomId = ""
    after: After = 0
    limit: Limit = 50
    thread: Annotated[str, Field(description="Only this message or task and what was said about it.")] = ""


@dataclass(frozen=True, slots=True)
class Posting:
    """A message."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    text: Annotated[str, Field(description="What to say. `@agent` or `@company/agent` in it wakes that agent.")]
    room: RoomId = ""
    to: Annotated[
        tuple[str, ...], Field(description="Members that it is for: `company` or `company/agent`. Agents are woken.")
    ] = ()
    thread: Thread = ""
    key: Key = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which tasks."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: RoomId = ""
    state: Annotated[str, Field(description=f"Only tasks in this state: {', '.join(states.RoomTask)}.")] = ""
    to: Annotated[str, Field(description="Only tasks for this member: `company` or `company/agent`.")] = ""
    after: After = 0
    limit: Limit = 50


@dataclass(frozen=True, slots=True)
class Opening:
    """A task."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    title: Annotated[str, Field(description="What is to be done.")]
    to: Annotated[str, Field(description="Who is to do it: `company` or `company/agent`. An agent is woken.")]
    room: RoomId = ""
    thread: Thread = ""
    key: Key = ""


@dataclass(frozen=True, slots=True)
class OneTask:
    """A task that is there."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    task: TaskId
    room: RoomId = ""


@dataclass(frozen=True, slots=True)
class Completing:
    """A task, and what came of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    task: TaskId
    room: RoomId = ""
    result: Result = ""


@dataclass(frozen=True, slots=True)
class Changing:
    """A task, and what becomes of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    task: TaskId
    verb: Annotated[
        Literal["release", "decline", "cancel"],
        Field(
            description="release: give back what you claimed; decline: refuse; cancel: take back what you asked for."
        ),
    ]
    room: RoomId = ""
    result: Result = ""


@dataclass(frozen=True, slots=True)
class Remembering:
    """A line for the room's memory."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    text: Annotated[str, Field(description="The line.")]
    room: RoomId = ""
    readers: Annotated[
        tuple[str, ...], Field(description="Companies that may read it, beside your own. `*`: all in the room.")
    ] = (EVERYBODY,)
    source: Annotated[str, Field(description="Id of the message or task that it comes from.")] = ""
    key: Key = ""


@dataclass(frozen=True, slots=True)
class Recalling:
    """Which lines."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: RoomId = ""
    after: After = 0
    limit: Limit = MOST


@dataclass(frozen=True, slots=True)
class Searching:
    """What to look for."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    query: Annotated[str, Field(description="Words. What has more of them, and the rarer ones, comes first.")]
    room: RoomId = ""
    kinds: Annotated[
        tuple[SearchKind, ...], Field(description=f"Only these: {', '.join(KINDS)}. Empty: all of them.")
    ] = ()
    limit: Annotated[int, Field(ge=1, le=MOST_FOUND, description="How many at most.")] = 20
    cursor: Annotated[str, Field(description="`cursor` of the last call with this query, to go on.")] = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What to wait for, and how long."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: RoomId = ""
    about: Annotated[
        str,
        Field(
            description="Id of your message or task: wait for what is said about it, or for the task to be closed. "
            "Empty: for any message."
        ),
    ] = ""
    after: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_INT,
            description="`seq` of what you wrote, or `next_after` of the last call: what has a higher seq is news.",
        ),
    ] = 0
    seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS - 10, description="How long to wait at most. Then call again.")
    ] = 25.0


# -- what tools give ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rooms:
    """Rooms that one's company is in, or may join."""

    rooms: tuple[RoomView, ...]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages, the oldest first."""

    messages: tuple[MessageView, ...]
    next_after: int
    """Where to go on."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks, the oldest first."""

    tasks: tuple[RoomTaskView, ...]
    next_after: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of memory, the oldest first."""

    lines: tuple[MemoryView, ...]
    next_after: int


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an act."""

    id: str
    """Of what was written."""
    seq: int
    """Its number in the room's ledger; 0 if nothing had to be done."""
    created: bool
    """False: the same was there before."""
    woken: tuple[str, ...]
    """Executions of agents that it woke."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """What came while one waited."""

    messages: tuple[MessageView, ...]
    task: RoomTaskView | None
    """What was waited for, if that is a task."""
    next_after: int
    again: bool
    """Nothing came yet: call again with `after` at `next_after`."""
