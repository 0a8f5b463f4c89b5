"""The errand with `a2a-sdk` 1.x: `on_a2a_1.py URL KEY WORD`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError

sys.path.insert(0, str(Path(__file__).parent))

from a2a_errand import Refused, Seen, run


class Client:
    """The verbs of one client per agent."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url, self._http = url, http

    async def _client(self, agent: str, *, streaming: bool = False) -> Any:
        config = ClientConfig(streaming=streaming, httpx_client=self._http)
        return await ClientFactory(config).create_from_url(f"{self._url}/a2a/{agent}")

    async def name(self, agent: str) -> str:
        from a2a.client import A2ACardResolver  # noqa: PLC0415 - for this alone

        return (await A2ACardResolver(self._http, f"{self._url}/a2a/{agent}").get_agent_card()).name

    async def send(self, agent: str, text: str, id: str, *, at_once: bool = False) -> Seen:
        client = await self._client(agent)
        try:
            [found] = [one async for one in client.send_message(_message(text, id, at_once))]
        except A2AError as error:
            raise Refused(str(error)) from None
        return _task(found.task)

    async def get(self, agent: str, task: str) -> Seen:
        try:
            return _task(await (await self._client(agent)).get_task(pb.GetTaskRequest(id=task)))
        except A2AError as error:
            raise Refused(str(error)) from None

    async def cancel(self, agent: str, task: str) -> Seen:
        try:
            return _task(await (await self._client(agent)).cancel_task(pb.CancelTaskRequest(id=task)))
        except A2AError as error:
            raise Refused(str(error)) from None

    async def stream(self, agent: str, text: str, id: str) -> AsyncIterator[Seen]:
        client = await self._client(agent, streaming=True)
        async for update in client.send_message(_message(text, id, at_once=False)):
            yield _seen(update)

    async def again(self, agent: str, task: str) -> AsyncIterator[Seen]:
        client = await self._client(agent, streaming=True)
        async for update in client.subscribe(pb.SubscribeToTaskRequest(id=task)):
            yield _seen(update)

    async def push(self, agent: str, task: str, url: str) -> str:
        client = await self._client(agent)
        given = pb.TaskPushNotificationConfig(id="p1", task_id=task, url=url)
        await client.create_task_push_notification_config(given)
        wanted = pb.GetTaskPushNotificationConfigRequest(task_id=task, id="p1")
        return (await client.get_task_push_notification_config(wanted)).url


def _message(text: str, id: str, at_once: bool) -> pb.SendMessageRequest:
    message = pb.Message(message_id=id, role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(return_immediately=at_once))


def _state(number: int) -> str:
    return pb.TaskState.Name(number).removeprefix("TASK_STATE_").lower().replace("_", "-")


def _task(task: pb.Task) -> Seen:
    answer = task.artifacts[0].parts[0].text if task.artifacts else ""
    return Seen(task.id, _state(task.status.state), answer)


def _seen(update: pb.StreamResponse) -> Seen:
    if update.HasField("task"):
        return _task(update.task)
    if update.HasField("status_update"):
        return Seen(update.status_update.task_id, _state(update.status_update.status.state))
    return Seen(update.artifact_update.task_id, "")


async def main(url: str, key: str, word: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        await run(Client(url, http), word)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
