"""Agents that are reached by A2A, in-process: the verbs about them, and what the door asks of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import TYPE_CHECKING

from perdure.agent.spec import spec_digest, spec_from_json
from perdure.core import codec
from perdure.core.a2a import (
    A2aMessage,
    A2aPage,
    A2aQuery,
    A2aTask,
    Accepted,
    PublishedView,
    PushConfig,
    PushView,
    check_description,
    check_message,
    check_push,
)
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.ids import check_named, new_id
from perdure.engine.a2a import (
    Accept,
    Publish,
    Withdraw,
    accept_message,
    publish_agent,
    withdraw_agent,
)
from perdure.engine.a2a_push import DeletePush, SetPush, delete_push, pushes_on, pushes_view, set_push
from perdure.engine.a2a_read import a2a_task, a2a_tasks, published_agent, published_agents
from perdure.server.bridge import Bridge

if TYPE_CHECKING:
    from perdure.server.node import Node


class DirectA2a:
    """`A2aApi` of one company."""

    def __init__(self, bridge: Bridge, company: str) -> None:
        self._bridge, self._company = bridge, company

    async def published_agents(self) -> list[PublishedView]:
        return await self._bridge.read(lambda reads: published_agents(reads, self._company))

    async def publish_agent(self, spec: dict[str, Json], *, description: str = "", by: str = "") -> PublishedView:
        text = codec.encode_json(spec)
        name, definition = spec_from_json(spec).name, spec_digest(spec)
        check_description(description)
        row = Publish(self._company, name, definition, text, description, by)
        return PublishedView(name, description, definition, by, await self._bridge.run(publish_agent, row))

    async def withdraw_agent(self, agent: str) -> None:
        # Before: the store may run the withdrawal twice, and the second time there is none.
        await self._bridge.read(lambda reads: published_agent(reads, self._company, agent))
        await self._bridge.run(withdraw_agent, Withdraw(self._company, agent))

    async def pushes(self, *, execution: str | None = None) -> list[PushView]:
        check_named(execution=execution or "")
        return await self._bridge.read(lambda reads: pushes_view(reads, self._company, execution or ""))


class DirectA2aTasks:
    """`doors.a2a_seat.A2aTasks` of one company."""

    def __init__(self, node: Node, company: str) -> None:
        self._node, self._company = node, company
        self._bridge = node.bridge

    async def published(self, agent: str) -> PublishedView:
        return await self._bridge.read(lambda reads: published_agent(reads, self._company, agent))

    async def accept(self, agent: str, message: A2aMessage, *, by: str) -> Accepted:
        check_message(message)
        check_named(taskId=message.execution)
        codec.encode(message.text, "message")
        id = new_id("exe", self._node.parts.clock, self._node.parts.random)
        context = message.context or _context_of(self._company, agent, message.id)
        return await self._bridge.ask(accept_message, Accept(self._company, agent, message, id, context, by))

    async def task(self, agent: str, execution: str) -> A2aTask:
        check_named(taskId=execution)
        return await self._bridge.read(lambda reads: a2a_task(reads, self._company, agent, execution))

    async def tasks(self, agent: str, query: A2aQuery) -> A2aPage:
        return await self._bridge.read(lambda reads: a2a_tasks(reads, self._company, agent, query))

    def follow(self, execution: str, *, after: int) -> AsyncIterator[Event]:
        return self._node.api(self._company).follow(execution, after=after)

    async def cancel(self, execution: str, *, by: str) -> None:
        await self._node.api(self._company).cancel(execution, by=by)

    async def set_push(self, agent: str, execution: str, push: PushConfig) -> None:
        check_push(push)
        check_named(taskId=execution)
        await self._bridge.ask(set_push, SetPush(self._company, agent, execution, push))

    async def pushes(self, agent: str, execution: str) -> list[PushConfig]:
        await self.task(agent, execution)
        return await self._bridge.read(lambda reads: pushes_on(reads, execution))

    async def delete_push(self, agent: str, execution: str, id: str) -> None:
        check_named(taskId=execution, id=id)
        await self._bridge.ask(delete_push, DeletePush(self._company, agent, execution, id))


def _context_of(company: str, agent: str, message: str) -> str:
    """Return the context of a task whose message named none: the same however often it is sent."""
    return "ctx_" + sha256("\0".join((company, agent, message)).encode()).hexdigest()[:26]
