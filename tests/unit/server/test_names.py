"""A name that is none is refused at the door of every verb, on either store and over HTTP, and nobody else notices."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from node_bench import node_over, spec
from perdure.client.http import HttpApi
from perdure.core.queues import QueueLimits
from perdure.core.schedules import ScheduleRequest
from perdure.core.views import ForkEdits
from perdure.errors import InternalError, PerdureError, StoreFailed, Unreachable
from perdure.models.scripted import say
from perdure.wire.api import Api

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]

Ask = Callable[[Any, Any], Coroutine[Any, Any, Any]]

NO_NAMES = [None, 7, b"x", ["x"], "nul\0", "\ud800"]
VERBS: dict[str, Ask] = {
    "execution": lambda api, name: api.execution(name),
    "events": lambda api, name: api.events(name),
    "follow": lambda api, name: anext(api.follow(name)),
    "follow_live": lambda api, name: anext(api.follow_live(name)),
    "wait": lambda api, name: api.wait(name),
    "send": lambda api, name: api.send(name, "hi"),
    "pause": lambda api, name: api.pause(name),
    "resume": lambda api, name: api.resume(name),
    "stop": lambda api, name: api.stop(name),
    "cancel": lambda api, name: api.cancel(name),
    "decide": lambda api, name: api.decide(name, "approve"),
    "tasks": lambda api, name: api.tasks(name),
    "retry_task": lambda api, name: api.retry_task(name, "tool"),
    "log": lambda api, name: api.log(name),
    "rule": lambda api, name: api.rule(name, "tool", "run"),
    "fork": lambda api, name: api.fork(name, 1, ForkEdits()),
    "diagnose": lambda api, name: api.diagnose(name),
    "signal": lambda api, name: api.signal(name, "go"),
    "map_step": lambda api, name: api.map_step(name, "a", "b"),
    "complete_token": lambda api, name: api.complete_token(name),
    "fail_token": lambda api, name: api.fail_token(name, "no"),
    "schedule": lambda api, name: api.schedule(name),
    "pause_schedule": lambda api, name: api.pause_schedule(name),
    "resume_schedule": lambda api, name: api.resume_schedule(name),
    "delete_schedule": lambda api, name: api.delete_schedule(name),
    "trigger_schedule": lambda api, name: api.trigger_schedule(name),
    "queue": lambda api, name: api.queue(name),
    "set_queue": lambda api, name: api.set_queue(name, QueueLimits(concurrency=1)),
    "pause_queue": lambda api, name: api.pause_queue(name),
    "resume_queue": lambda api, name: api.resume_queue(name),
    "set_secret": lambda api, name: api.set_secret(name, "a value of a secret"),
    "delete_secret": lambda api, name: api.delete_secret(name),
    "add_company_key": lambda api, name: api.add_company_key(name, "ann", "a key"),
    "revoke_company_key": lambda api, name: api.revoke_company_key(name, "a key"),
    "stop_company": lambda api, name: api.stop_company(name),
    "start_company": lambda api, name: api.start_company(name),
    "withdraw_agent": lambda api, name: api.withdraw_agent(name),
    "values": lambda api, name: api.values(name),
    "blob_chunk": lambda api, name: api.blob_chunk(name, "0" * 64, 0),
}
"""The verbs whose first argument names something."""
WITHIN: dict[str, Ask] = {
    "retry_task": lambda api, name: api.retry_task("exe_1", name),
    "rule": lambda api, name: api.rule("exe_1", name, "run"),
    "signal": lambda api, name: api.signal("exe_1", name),
    "map_step": lambda api, name: api.map_step("exe_1", name, "b"),
    "create_schedule": lambda api, name: api.create_schedule(ScheduleRequest(name, spec(), "go", "0 * * * *")),
}
"""Those that take a name in another place."""


async def refusal(work: Coroutine[Any, Any, Any]) -> PerdureError:
    with pytest.raises(PerdureError) as refused:
        await work
    assert not isinstance(refused.value, InternalError | StoreFailed | Unreachable), refused.value
    return refused.value


async def test_what_is_no_name_is_refused_and_the_store_goes_on(tmp_path: Path) -> None:
    async with node_over(tmp_path, [say("done")]) as node:
        for (verb, ask), name in product([*VERBS.items(), *WITHIN.items()], NO_NAMES):
            found = await refusal(ask(node.api, name))
            assert str(name)[:3] in found.message or repr(name) in found.message, f"{verb}: {found.message}"
        assert (await node.result(await node.start())).state == "completed"


async def test_over_http_it_is_refused_before_anything_is_sent() -> None:
    nobody = HttpApi("http://127.0.0.1:9", "key")
    for (verb, ask), name in product(VERBS.items(), NO_NAMES):
        found = await refusal(ask(nobody, name))
        assert "should be a name" in found.message, f"{verb}: {found.message}"
    await nobody.aclose()


def test_no_verb_that_takes_a_name_is_left_out() -> None:
    """A verb that is added belongs here too, unless what it takes first is no name. Rooms have tests of their own."""
    asked = {name for name in dir(Api) if not name.startswith("_")}
    others = {"info", "start", "executions", "approvals", "effects", "workers", "aclose", "queues", "dead_tasks"}
    others |= {"schedules", "companies", "secrets", "rotate_secrets", "create_schedule", "offer_blob", "put_chunk"}
    others |= {"published_agents", "publish_agent", "pushes", "search_executions"}
    assert {name for name in asked - others if "room" not in name} == set(VERBS)
