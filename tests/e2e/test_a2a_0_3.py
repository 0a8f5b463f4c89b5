"""The same door in the words of A2A 0.3, through the official SDK's adapter. Its own client: `./dev doors`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from a2a_clients import publish
from a2a_receiver import receiving
from http_server import Server, serving
from perdure.wire.frames import FrameReader
from raw_http import Reply, exchange, request

pytestmark = pytest.mark.anyio


async def asked(server: Server, method: str, **params: Any) -> Reply:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    return await exchange(
        server.address, request("POST", "/a2a/tester", server.address, key=server.key, body=body, connection="close")
    )


async def done(server: Server, method: str, **params: Any) -> Any:
    reply = (await asked(server, method, **params)).json
    assert "error" not in reply, reply
    assert reply["id"] == 7
    return reply["result"]


async def refused(server: Server, method: str, **params: Any) -> int:
    reply = await asked(server, method, **params)
    assert reply.json["id"] == 7
    return reply.json["error"]["code"]


def message(id: str = "m1", text: str = "go", **more: Any) -> dict[str, Any]:
    return {"kind": "message", "messageId": id, "role": "user", "parts": [{"kind": "text", "text": text}], **more}


AT_ONCE = {"blocking": False}


async def test_a_message_is_a_task_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        task = await done(server, "message/send", message=message(), configuration={"blocking": True})
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
        assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "done"}]
        assert [one["messageId"] for one in task["history"]] == ["m1"]
        assert (await done(server, "message/send", message=message()))["id"] == task["id"]
        assert (await done(server, "tasks/get", id=task["id"]))["status"] == task["status"]


async def test_what_waits_for_a_person_is_input_required_and_a_cancel_ends_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "approval")
        task = await done(server, "message/send", message=message(), configuration={"blocking": True})
        assert task["status"]["state"] == "input-required"
        assert (await done(server, "tasks/cancel", id=task["id"]))["status"]["state"] == "canceled"


async def test_a_stream_and_its_continuation_are_frames_of_0_3(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        reply = await asked(server, "message/stream", message=message())
        assert reply.headers["content-type"].startswith("text/event-stream")
        frames = [orjson.loads(frame.data)["result"] for frame in FrameReader().feed(reply.body) if frame.data]
        assert frames[0]["kind"] == "task"
        assert [frame["kind"] for frame in frames[-2:]] == ["artifact-update", "status-update"]
        assert (frames[-1]["status"]["state"], frames[-1]["final"]) == ("completed", True)


async def test_refusals_have_the_codes_of_0_3(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await publish(server.url, server.key, "plain")
        task = await done(server, "message/send", message=message())
        await server.api().wait(task["id"])
        assert await refused(server, "tasks/get", id="exe_nothing") == -32001
        [frame] = FrameReader().feed((await asked(server, "tasks/resubscribe", id="exe_nothing")).body)
        assert orjson.loads(frame.data)["error"]["code"] == -32001
        assert await refused(server, "tasks/cancel", id=task["id"]) == -32002
        push = {"url": "https://x.example/"}
        assert (
            await refused(server, "tasks/pushNotificationConfig/set", taskId=task["id"], pushNotificationConfig=push)
            == -32003
        )
        assert await refused(server, "message/send", message=message("m2", taskId=task["id"])) == -32004
        assert await refused(server, "message/send", message=message("m1", "something else")) == -32602


async def test_who_asks_in_0_3_is_told_in_0_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ALLOW_PRIVATE_HTTP", "1")
    async with serving(tmp_path / "s.db") as server, receiving() as receiver:
        await publish(server.url, server.key, "approval")
        push = {"url": receiver.url, "token": "tok"}
        given = {**AT_ONCE, "pushNotificationConfig": push}
        task = await done(server, "message/send", message=message(), configuration=given)
        kept = await done(server, "tasks/pushNotificationConfig/list", id=task["id"])
        assert [one["pushNotificationConfig"]["url"] for one in kept] == [receiver.url]
        await receiver.until(1)
        await done(server, "tasks/cancel", id=task["id"])
        while receiver.bodies()[-1]["status"]["state"] != "canceled":
            await receiver.until(len(receiver.told) + 1)
        last = receiver.bodies()[-1]
        assert (last["kind"], last["id"], last["history"][0]["role"]) == ("task", task["id"], "user")
        assert receiver.told[-1][1]["content-type"] == "application/json"
