"""Durable functions through `AgentRuntime`: run, start, serve, and a handle on them, embedded and with a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from perdure import AgentHandle, AgentRuntime, Conflict, InvalidInput
from perdure.flow import durable, signal, step
from perdure.service_loop import ServiceLoop
from runtimes import runtime_at

done: list[str] = []


@durable(build="b1")
async def onboard(who: str, times: int = 1) -> dict[str, Any]:
    """Greet somebody a few times."""
    return {"greetings": [await step(greet, who) for _ in range(times)]}


def greet(who: str) -> str:
    done.append(who)
    return f"hello {who}"


@durable(build="b1")
async def shout(text: str) -> str:
    """Return it louder."""
    return text.upper()


@durable(build="b1")
async def patient() -> Any:
    """Wait for a signal."""
    return await signal("go")


@contextmanager
def server_in(folder: Path) -> Iterator[Server]:
    """Run a server on a loop of its own."""
    loop = ServiceLoop("server")
    loop.start()
    ready: list[Server] = []
    up, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(folder / "server.db") as server:
            ready.append(server)
            up.set()
            await stop.wait()

    future = loop.submit(serve())
    assert up.wait(60)
    try:
        yield ready[0]
    finally:
        loop.loop.call_soon_threadsafe(stop.set)
        future.result(60)
        loop.stop()


@pytest.fixture(params=["embedded", "server"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], AgentRuntime]]:
    done.clear()
    if request.param == "embedded":
        yield lambda: runtime_at(tmp_path / "p.db")
        return
    with server_in(tmp_path) as server:
        yield lambda: AgentRuntime(server.url, api_key=server.key)


def test_a_function_runs_and_its_result_is_what_it_returned(opened: Callable[[], AgentRuntime]) -> None:
    with opened() as runtime:
        result = runtime.run(onboard, "ann", times=2)
        assert (result.status, result.output) == ("completed", {"greetings": ["hello ann"] * 2})
        assert done == ["ann"] * 2
        assert runtime.run(shout, "hi").output == "HI"


def test_a_handle_holds_it_from_anywhere(opened: Callable[[], AgentRuntime]) -> None:
    with opened() as runtime:
        started = runtime.start(patient)
        handle = AgentHandle(started.execution_id, runtime)
        assert not handle.get_status().is_complete
        handle.cancel("changed my mind")
        assert handle.result().status == "cancelled"
        assert "ExecutionStarted" in [type(event).__name__ for event in handle.stream()]


def test_what_ran_when_the_runtime_closed_goes_on_with_the_next(opened: Callable[[], AgentRuntime]) -> None:
    with opened() as runtime:
        execution = runtime.start(patient).execution_id
    with opened() as runtime:
        runtime.serve(patient, blocking=False)
        handle = runtime.attach(execution)
        runtime.wait(runtime.api.signal(execution, "go", 5))
        assert handle.result().output == 5


def test_a_start_key_begins_one_execution(opened: Callable[[], AgentRuntime]) -> None:
    with opened() as runtime:
        first = runtime.start(onboard, "ann", idempotency_key="k")
        assert runtime.start(onboard, "ann", idempotency_key="k").execution_id == first.execution_id
        with pytest.raises(Conflict):
            runtime.start(onboard, "bob", idempotency_key="k")
        assert first.result().status == "completed"
        assert done == ["ann"]


def test_arguments_that_do_not_fit_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with runtime_at(tmp_path / "p.db") as runtime:
        wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {}),
            (("ann", 1, 2), {}),
            (("ann",), {"colour": "red"}),
        ]
        for args, named in wrong:
            with pytest.raises(InvalidInput) as caught:
                runtime.start(onboard, *args, **named)
            assert caught.value.code == "bad_input"
        with pytest.raises(InvalidInput) as caught:
            runtime.start(greet, "ann")  # type: ignore[arg-type]
        assert caught.value.code == "bad_function"
        assert runtime.executions() == []


class Crowd:
    """How many are inside at once; `gate` lets them out."""

    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Event()
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def stay(self, who: str) -> str:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.set()
        assert self.gate.wait(60)
        with self._lock:
            self.inside -= 1
        return who


def test_slots_say_how_many_executions_of_a_function_run_at_once(tmp_path: Path) -> None:
    crowd = Crowd()

    @durable(build="b1")
    async def visit(who: str) -> str:
        return await step(crowd.stay, who, name="stay")

    with runtime_at(tmp_path / "p.db", slots=1) as runtime:
        handles = [runtime.start(visit, who) for who in ("ann", "bob", "cid")]
        assert crowd.entered.wait(60)
        [info] = runtime.wait(runtime.api.workers())
        assert info.slots == 1
        crowd.gate.set()
        assert [handle.result().output for handle in handles] == ["ann", "bob", "cid"]
    assert crowd.most == 1


def test_no_slots_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="slots is 0; expected at least 1"):
        AgentRuntime(slots=0)
