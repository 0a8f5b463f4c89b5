"""What requests and replies about rooms hold beside the shapes of `core`. Unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.core import codec
from perdure.core.budgets import Budget, BudgetView
from perdure.core.codec import Json
from perdure.core.room_views import MemoryView, MessageView, RoomTaskView, RoomView, StopView, WakeView
from perdure.core.rooms import EVERYBODY, ChangeTask, Invite, OnCrash, OpenTask, Post, Remember, SetRights, Stop, Verb

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class RoomBody:
    """`POST /v1/rooms`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    key: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class InviteBody:
    """A company that may join."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    company: str
    by: str = ""

    @property
    def act(self) -> Invite:
        return Invite(self.company)


@dataclass(frozen=True, slots=True)
class AgentBody:
    """`PUT /v1/rooms/{room}/agents`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    spec: dict[str, Json]
    """The agent, compiled to JSON."""
    on_crash: OnCrash = "resume"
    by: str = ""


@dataclass(frozen=True, slots=True)
class PostBody:
    """A message."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    text: str
    to: tuple[str, ...] = ()
    thread: str = ""
    key: str = ""
    by: str = ""

    @property
    def act(self) -> Post:
        return Post(self.text, self.to, self.thread, self.key)


@dataclass(frozen=True, slots=True)
class RoomTaskBody:
    """A task for a company or one of its agents."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    title: str
    to: str
    thread: str = ""
    key: str = ""
    by: str = ""

    @property
    def act(self) -> OpenTask:
        return OpenTask(self.title, self.to, self.thread, self.key)


@dataclass(frozen=True, slots=True)
class TaskChangeBody:
    """What becomes of a task."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    verb: Verb
    result: str = ""
    by: str = ""

    def act(self, task: str) -> ChangeTask:
        return ChangeTask(task, self.verb, self.result)


@dataclass(frozen=True, slots=True)
class RememberBody:
    """A line for the room's memory."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    text: str
    readers: tuple[str, ...] = (EVERYBODY,)
    source: str = ""
    key: str = ""
    by: str = ""

    @property
    def act(self) -> Remember:
        return Remember(self.text, self.readers, self.source, self.key)


@dataclass(frozen=True, slots=True)
class RightsBody:
    """`PUT /v1/rooms/{room}/rights`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    document: dict[str, Json]
    """`rules` and `roles`."""
    by: str = ""

    @property
    def act(self) -> SetRights:
        return SetRights(codec.encode_json(self.document, "document"))


@dataclass(frozen=True, slots=True)
class StopBody:
    """Whom to stop, or to let go on; without a member, the room."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    member: str = ""
    reason: str = ""
    by: str = ""

    @property
    def act(self) -> Stop:
        return Stop(self.member, self.reason)


@dataclass(frozen=True, slots=True)
class StartBody:
    """Whom to let go on; without a member, the room."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    member: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class BudgetBody:
    """`PUT /v1/room-budgets`: a cap on a day. Without `usd` and `tokens` it is taken away."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    room: str = ""
    agent: str = ""
    usd: float | None = None
    tokens: int | None = None
    unpriced_usd: float | None = None
    by: str = ""

    @property
    def budget(self) -> Budget:
        return Budget(self.room, self.agent, self.usd, self.tokens, self.unpriced_usd)


@dataclass(frozen=True, slots=True)
class StopList:
    """Who does nothing in a room for now."""

    items: tuple[StopView, ...]


@dataclass(frozen=True, slots=True)
class BudgetList:
    """A company's caps, and how they stand today."""

    items: tuple[BudgetView, ...]


@dataclass(frozen=True, slots=True)
class RoomList:
    """Rooms that a company is in or may join."""

    items: tuple[RoomView, ...]


@dataclass(frozen=True, slots=True)
class MessageList:
    """Messages, in order."""

    items: tuple[MessageView, ...]


@dataclass(frozen=True, slots=True)
class RoomTaskList:
    """Tasks of a room, in order."""

    items: tuple[RoomTaskView, ...]


@dataclass(frozen=True, slots=True)
class MemoryList:
    """Lines of a room's memory, in order."""

    items: tuple[MemoryView, ...]


@dataclass(frozen=True, slots=True)
class WakeList:
    """Who was woken by what, the newest first."""

    items: tuple[WakeView, ...]
