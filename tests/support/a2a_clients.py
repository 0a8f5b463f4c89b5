"""Programs that speak A2A: the official SDK's client of today, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.types import a2a_pb2 as pb

from http_server import spec
from perdure.client.http import HttpApi


@dataclass
class Asker:
    """One client of one agent."""

    client: Client
    streaming: Client
    """The same, for what comes bit by bit."""

    async def send(self, text: str, id: str, **more: Any) -> pb.Task:
        """Send a message; return the last thing that is said of its task."""
        found = [one async for one in self.client.send_message(request_of(text, id, **more))]
        assert found[-1].HasField("task"), found
        return found[-1].task

    def stream(self, text: str, id: str, **more: Any) -> Any:
        """Send a message; return what is said of its task as it comes."""
        return self.streaming.send_message(request_of(text, id, **more))

    def again(self, task: str) -> Any:
        """Listen to a task once more."""
        return self.streaming.subscribe(pb.SubscribeToTaskRequest(id=task))

    async def get(self, task: str, history: int | None = None) -> pb.Task:
        return await self.client.get_task(pb.GetTaskRequest(id=task, history_length=history))

    async def cancel(self, task: str) -> pb.Task:
        return await self.client.cancel_task(pb.CancelTaskRequest(id=task))


def request_of(
    text: str, id: str, *, task: str = "", context: str = "", parts: Sequence[pb.Part] = (), at_once: bool = False
) -> pb.SendMessageRequest:
    """Return a message as it is sent."""
    said = parts or [pb.Part(text=text)]
    message = pb.Message(message_id=id, role=pb.ROLE_USER, parts=said, task_id=task, context_id=context)
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(return_immediately=at_once))


@asynccontextmanager
async def asker(url: str, key: str, agent: str = "tester") -> AsyncGenerator[Asker]:
    """Come to an agent with a company's key, as the SDK does: by its card."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
        made = [ClientFactory(ClientConfig(streaming=one, httpx_client=http)).create(card) for one in (False, True)]
        yield Asker(*made)


async def publish(url: str, key: str, script: str, name: str = "tester") -> None:
    """Let an agent be reached that plays a script of `http_server`."""
    api = HttpApi(url, key)
    try:
        await api.publish_agent(spec(script, name=name), description="It tests.")
    finally:
        await api.aclose()


def state(task: pb.Task) -> str:
    return pb.TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def answer(task: pb.Task) -> str:
    [artifact] = task.artifacts
    return artifact.parts[0].text


def seq_of(update: pb.StreamResponse) -> int:
    """Return how far the log had gone that an update tells of."""
    kind = update.WhichOneof("payload")
    assert kind is not None
    return int(getattr(update, kind).metadata["seq"])
