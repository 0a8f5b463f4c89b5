"""The errand with `a2a-sdk` 0.3: `on_a2a_0_3.py URL KEY WORD`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

sys.path.insert(0, str(Path(__file__).parent))

from a2a_errand import Refused, Seen, run


class Client:
    """The verbs of one client per agent."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url, self._http = url, http

    async def _card(self, agent: str) -> Any:
        return await A2ACardResolver(self._http, f"{self._url}/a2a/{agent}").get_agent_card()

    async def _client(self, agent: str, *, streaming: bool = False, polling: bool = False) -> Any:
        config = ClientConfig(streaming=streaming, polling=polling, httpx_client=self._http)
        return ClientFactory(config).create(await self._card(agent))

    async def name(self, agent: str) -> str:
        return (await self._card(agent)).name

    async def send(self, agent: str, text: str, id: str, *, at_once: bool = False) -> Seen:
        client = await self._client(agent, polling=at_once)
        try:
            [found] = [one async for one in client.send_message(_message(text, id))]
        except A2AClientError as error:
            raise Refused(str(error)) from None
        return _task(found[0])

    async def get(self, agent: str, task: str) -> Seen:
        try:
            return _task(await (await self._client(agent)).get_task(TaskQueryParams(id=task)))
        except A2AClientError as error:
            raise Refused(str(error)) from None

    async def cancel(self, agent: str, task: str) -> Seen:
        try:
            return _task(await (await self._client(agent)).cancel_task(TaskIdParams(id=task)))
        except A2AClientError as error:
            raise Refused(str(error)) from None

    async def stream(self, agent: str, text: str, id: str) -> AsyncIterator[Seen]:
        client = await self._client(agent, streaming=True)
        async for found in client.send_message(_message(text, id)):
            yield _seen(found)

    async def again(self, agent: str, task: str) -> AsyncIterator[Seen]:
        client = await self._client(agent, streaming=True)
        async for found in client.resubscribe(TaskIdParams(id=task)):
            yield _seen(found)

    async def push(self, agent: str, task: str, url: str) -> str:
        client = await self._client(agent)
        push = PushNotificationConfig(id="p1", url=url)
        await client.set_task_callback(TaskPushNotificationConfig(task_id=task, push_notification_config=push))
        wanted = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id="p1")
        return (await client.get_task_callback(wanted)).push_notification_config.url


def _message(text: str, id: str) -> Message:
    return Message(message_id=id, role=Role.user, parts=[Part(root=TextPart(text=text))])


def _task(task: Any) -> Seen:
    answer = task.artifacts[0].parts[0].root.text if task.artifacts else ""
    return Seen(task.id, task.status.state.value, answer)


def _seen(found: Any) -> Seen:
    """Return what one update says; an artifact says nothing of how the task stands."""
    task, update = found
    if update is not None and update.kind == "artifact-update":
        return Seen(task.id, "")
    return _task(task)


async def main(url: str, key: str, word: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        await run(Client(url, http), word)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
