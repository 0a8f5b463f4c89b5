"""Told by push: at least once and in order, whatever the receiver does, and whoever is killed in between."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError

from a2a_clients import Asker, asker, publish, request_of
from a2a_receiver import BROKEN, OK, Receiver, receiving
from http_server import Server, process, serving
from node_bench import COMPANY, Hold, Script, node_over, spec
from perdure.core.a2a import A2aMessage, PushConfig, PushView
from perdure.models.scripted import say
from perdure.server import a2a_outbox
from perdure.server.a2a_outbox import Outbox, Outside
from perdure.system import SystemClock
from perdure.testing.clock import SeededRandom
from perdure.toolbox.guarded_http import Outbound

pytestmark = pytest.mark.anyio

ACME = f"pdk_acme{'0' * 40}"
PATIENCE = 50.0
"""Seconds that something may take. No measure: a loaded machine takes its time."""


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers make requests, to this machine too, and wait for little between two tries."""
    monkeypatch.setenv("PERDURE_ALLOW_PRIVATE_HTTP", "1")
    monkeypatch.setattr(a2a_outbox, "PAUSE_MS", 10)


def told_at(receiver: Receiver, **more: Any) -> pb.TaskPushNotificationConfig:
    known_by = pb.AuthenticationInfo(scheme="Bearer", credentials="let-me-in")
    return pb.TaskPushNotificationConfig(url=receiver.url, token="tok", authentication=known_by, **more)


async def begin(one: Asker, push: pb.TaskPushNotificationConfig, id: str = "m1") -> str:
    """Send a message that says whom to tell; return its task."""
    request = request_of("go", id, at_once=True)
    request.configuration.task_push_notification_config.CopyFrom(push)
    [found] = [update async for update in one.client.send_message(request)]
    return found.task.id


async def until(server: Server, wanted: Any) -> PushView:
    """Return the one push once it is as wanted. Nothing tells of it."""
    with anyio.fail_after(PATIENCE):
        while True:
            [found] = await server.api().pushes()
            if wanted(found):
                return found
            await anyio.sleep(0.02)


@pytest.fixture
def alone(tmp_path: Path, outside: None) -> Path:
    """Where a store may be."""
    return tmp_path / "s.db"


async def test_each_change_is_told_in_its_order_and_with_what_they_know_us_by(alone: Path) -> None:
    async with serving(alone) as server, receiving() as receiver:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            task = await begin(one, told_at(receiver))
            await receiver.until_told("COMPLETED")
            assert receiver.states()[-1] == "COMPLETED"
            assert "artifactUpdate" in receiver.bodies()[-2]
            for line, headers, body in receiver.told:
                assert line == "POST /told HTTP/1.1"
                assert headers["x-a2a-notification-token"] == "tok"
                assert headers["authorization"] == "Bearer let-me-in"
                assert headers["content-type"] == "application/a2a+json"
                assert next(iter(body.values()))["taskId"] == task
            found = await until(server, lambda push: push.due_ms is None)
            assert (found.told_seq, found.given_up_ms, found.tries) == (found.last_seq, None, 0)


async def test_who_does_not_take_it_is_told_again(alone: Path) -> None:
    huge = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 200_000
    async with serving(alone) as server, receiving() as receiver:
        moved = b"HTTP/1.1 307 Moved\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % receiver.url.encode()
        receiver.answers = [BROKEN, moved, huge]
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            await begin(one, told_at(receiver))
            await receiver.until_told("COMPLETED")
            await until(server, lambda push: push.due_ms is None and push.error == "")
        assert receiver.answers == []


async def test_what_was_taken_is_not_told_again_because_of_what_comes_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a_outbox, "PAUSE_MS", 10)
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("done")], gate=hold)) as bench, receiving() as receiver:
        await bench.api.publish_agent(spec())
        push = PushConfig("p1", receiver.url)
        begun = await bench.node.a2a(COMPANY).accept("clerk", A2aMessage("m1", "go", push=push), by="ann")
        await hold.reached()
        await bench.api.pause(begun.execution, by="ann")
        await bench.api.resume(begun.execution, by="ann")
        hold.open()
        await bench.result(begun.execution)
        receiver.answers = [OK, OK, BROKEN]
        outside = Outside(Outbound(allow_private=True))
        outbox = Outbox(bench.node.bridge, bench.node.hub, SystemClock(), SeededRandom(), outside)
        async with anyio.create_task_group() as group:
            group.start_soon(outbox.run)
            await receiver.until_told("COMPLETED")
            group.cancel_scope.cancel()
        assert receiver.states() == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
        assert ["artifactUpdate" in body for body in receiver.bodies()] == [False, False, True, True, False]


async def test_who_never_takes_it_is_given_up_and_that_is_seen(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_outbox, "MOST_TRIES", 3)
    async with serving(alone) as server, receiving() as receiver:
        receiver.answers = [BROKEN] * 3
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            task = await begin(one, told_at(receiver, id="p1"))
            found = await until(server, lambda push: push.given_up_ms is not None)
            assert (found.tries, found.error, found.url) == (3, "Missed: it answered 500", receiver.url)
            assert len(receiver.told) == 3
            await one.client.create_task_push_notification_config(told_at(receiver, id="p1", task_id=task))
            await receiver.until_told("COMPLETED")


async def test_who_takes_for_ever_is_cut_off(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_outbox, "REQUEST_SECONDS", 0.1)
    async with serving(alone) as server, receiving() as receiver:
        receiver.answers = [b""]
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            await begin(one, told_at(receiver))
            await receiver.until_told("COMPLETED")
            assert receiver.bodies()[0] in receiver.bodies()[1:] or receiver.states()[0] == "COMPLETED"


async def test_a_receiver_in_the_house_is_not_connected_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ALLOW_PRIVATE_HTTP", "0")
    async with serving(tmp_path / "s.db") as server, receiving() as receiver:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            await begin(one, told_at(receiver))
            found = await until(server, lambda push: push.given_up_ms is not None)
            assert (found.tries, found.error.split(":")[0]) == (1, "AddressRefused")
        assert receiver.told == []


async def test_push_configurations_are_kept_shown_and_taken_away(alone: Path) -> None:
    async with serving(alone) as server, receiving() as receiver:
        await server.node.add_key("acme", "acme-ops", ACME)
        await publish(server.url, server.key, "tool")
        await publish(server.url, ACME, "tool")
        async with asker(server.url, server.key) as one, asker(server.url, ACME) as other:
            task = (await one.send("go", "m1", at_once=True)).id
            kept = await one.client.create_task_push_notification_config(told_at(receiver, id="p1", task_id=task))
            assert (kept.id, kept.url, kept.token, kept.authentication.credentials) == ("p1", receiver.url, "tok", "")
            named = pb.GetTaskPushNotificationConfigRequest(task_id=task, id="p1")
            assert await one.client.get_task_push_notification_config(named) == kept
            listed = pb.ListTaskPushNotificationConfigsRequest(task_id=task)
            assert list((await one.client.list_task_push_notification_configs(listed)).configs) == [kept]
            gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id="p1")
            foreign = [
                other.client.get_task_push_notification_config(named),
                other.client.list_task_push_notification_configs(listed),
                other.client.create_task_push_notification_config(told_at(receiver, id="p1", task_id=task)),
                other.client.delete_task_push_notification_config(gone),
            ]
            for refused in await asyncio.gather(*foreign, return_exceptions=True):
                assert isinstance(refused, TaskNotFoundError)
            assert await server.api(ACME).pushes() == []
            bad = pb.TaskPushNotificationConfig(url="ftp://x.example/", task_id=task, id="p2")
            with pytest.raises(InvalidParamsError):
                await one.client.create_task_push_notification_config(bad)
            for _ in range(2):
                await one.client.delete_task_push_notification_config(gone)
            with pytest.raises(TaskNotFoundError):
                await one.client.get_task_push_notification_config(named)


async def test_a_server_that_makes_no_requests_tells_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server, receiving() as receiver:
        await publish(server.url, server.key, "plain")
        async with asker(server.url, server.key) as one:
            with pytest.raises(PushNotificationNotSupportedError):
                await begin(one, told_at(receiver))
            assert (await one.client.list_tasks(pb.ListTasksRequest())).total_size == 0


async def begin_somehow(url: str, receiver: Receiver) -> None:
    """Begin a task at a server that may die before it answers."""
    with suppress(A2AClientError):
        async with asker(url, ACME) as one:
            await begin(one, told_at(receiver))


async def killed_while_it_tells(place: Path, point: str, receiver: Receiver) -> None:
    """Begin a task at a server that dies at a point of telling of it."""
    os.environ["PERDURE_FAILPOINTS"] = f"{point}=kill"
    try:
        with process(place) as first:
            await begin_somehow(first.url, receiver)
            with anyio.fail_after(PATIENCE):
                await anyio.to_thread.run_sync(first.popen.wait)
    finally:
        del os.environ["PERDURE_FAILPOINTS"]


@pytest.mark.parametrize("point", ["a2a_push.send", "a2a_push.received", "told_push.before_commit"])
async def test_who_was_not_told_is_told_by_the_next_server(alone: Path, point: str) -> None:
    async with serving(alone) as server:
        await server.node.add_key("acme", "acme-ops", ACME)
        await publish(server.url, ACME, "plain")
    async with receiving() as receiver:
        await killed_while_it_tells(alone, point, receiver)
        told = len(receiver.told)
        assert (told == 0) is (point == "a2a_push.send")
        async with serving(alone) as second:
            await receiver.until(told + 1)
            await receiver.until_told("COMPLETED")
            [found] = await second.api(ACME).pushes()
            assert found.id == "default"
