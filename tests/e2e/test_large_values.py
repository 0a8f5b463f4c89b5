"""Values too large for a log, between real processes: sent and fetched in pieces, whole again after any kill."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import signal as signals
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cli_processes import until
from http_server import Process, process, start_request
from large_worker import content
from perdure import Agent, AgentHandle, AgentRuntime, Conflict, tool
from perdure.core.blobs import hash_of, reference, reference_in
from perdure.core.events import Event, Kind
from perdure.errors import NotFound
from perdure.flow import durable, run_function, signal, step, token
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say
from perdure.wire import routes
from runtimes import runtime_at

SIZE = 50_000_000
WORKER = Path(__file__).parents[1] / "support" / "large_worker.py"


@contextmanager
def worker(server: Process, folder: Path, size: int, **env: str) -> Generator[subprocess.Popen[str]]:
    """Run a worker in a process of its own while the block lasts."""
    command = [sys.executable, str(WORKER), server.url, server.key, str(folder), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}) as popen:
        assert popen.stdout is not None
        assert popen.stdout.readline() == "connected\n"
        try:
            yield popen
        finally:
            popen.kill()


def most_memory(server: Process) -> int:
    """Return the most bytes that it ever had resident."""
    status = Path(f"/proc/{server.popen.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def streamed(url: str, key: str) -> str:
    """Read a value as one stream, as any program does; return the hash of what came."""
    asked = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    found = hashlib.sha256()
    with urllib.request.urlopen(asked) as reply:
        while piece := reply.read(1_000_000):
            found.update(piece)
    return found.hexdigest()


def events_of(runtime: AgentRuntime, execution: str) -> list[Event]:
    return runtime.wait(runtime.api.events(execution))


def test_a_result_of_50_mb_survives_the_death_of_the_server_between_its_arrival_and_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox = tmp_path / "outbox"
    with ExitStack() as stack:
        monkeypatch.setenv("PERDURE_FAILPOINTS", "complete.before_commit=kill@1")
        first = stack.enter_context(process(tmp_path / "p.db"))
        monkeypatch.delenv("PERDURE_FAILPOINTS")
        with AgentRuntime(first.url, api_key=first.key) as runtime:
            execution = runtime.wait(runtime.api.start(start_request("tool"))).id
        stack.enter_context(worker(first, outbox, SIZE))
        assert first.popen.wait() == -signals.SIGKILL
        second = stack.enter_context(process(tmp_path / "p.db", f"port={first.address[1]}"))
        runtime = stack.enter_context(AgentRuntime(second.url, api_key=first.key))
        handle = AgentHandle(execution, runtime)
        assert handle.result().output["result"] == "worked"  # the next turn of the agent
        [value] = [one.data["value"] for one in events_of(runtime, execution) if one.kind is Kind.TASK_COMPLETED]
        ref = reference_in(value)
        assert ref is not None
        at = routes.fill(routes.VALUE, execution=execution, blob=ref.hash)
        assert handle.save(value, tmp_path / "saved.json") > SIZE
        assert streamed(f"{second.url}{at}", first.key) == ref.hash
        other = AgentHandle(runtime.wait(runtime.api.start(start_request("plain"))).id, runtime)
        with pytest.raises(NotFound):  # its log does not refer to it
            other.load(value)
        most = most_memory(second)
    assert json.loads((tmp_path / "saved.json").read_bytes()) == content(SIZE)
    assert not list(outbox.glob("*.value"))
    assert most < 200_000_000
    with capsys.disabled():
        sys.stdout.write(f"\nthe server had at most {most / 1e6:.0f} MB resident\n")


LARGE = "0123456789abcdef" * 530_000
"""More than a log holds."""
read: list[int] = []


@durable(build="b1")
async def echo(text: str) -> str:
    """Return what it is given."""
    return text


@durable(build="b1")
async def relay(text: str) -> str:
    """Hand large values through a step, a signal and a child."""
    given = await step(turned, text)
    more = await signal("more")
    child = await run_function(echo, more)
    read.append(len(given) + len(child.output))
    return given + "ab"


def turned(text: str) -> str:
    """Return it from its end to its beginning."""
    return text[::-1]


def test_durable_code_gives_and_gets_large_values_as_all_others_and_again_when_it_is_run_again(tmp_path: Path) -> None:
    read.clear()
    with ExitStack() as stack:
        first = stack.enter_context(process(tmp_path / "p.db"))
        with AgentRuntime(first.url, api_key=first.key) as runtime:
            handle = runtime.start(relay, LARGE)
            until(lambda: handle.get_status().waits, "the signal to be waited for")
        first.popen.kill()
        first.popen.wait()
        second = stack.enter_context(process(tmp_path / "p.db", f"port={first.address[1]}"))
        runtime = stack.enter_context(AgentRuntime(second.url, api_key=first.key))
        runtime.serve(relay, echo, blocking=False)
        handle = AgentHandle(handle.execution_id, runtime)
        handle.signal("more", LARGE)
        output = handle.result().output
        assert reference_in(output) is not None
        assert handle.load(output) == turned(LARGE) + "ab"
        assert read == [2 * len(LARGE)]
        assert most_memory(second) < 200_000_000


handed_out: queue.Queue[str] = queue.Queue()


def hand_out(secret: str) -> None:
    handed_out.put(secret)


@durable(build="b1")
async def received(name: str) -> str:
    """Wait for a value from outside, and return its end."""
    wait = await token(name)
    await step(hand_out, wait.secret)
    text = await wait
    assert text == await wait
    return text[-5:]


@pytest.mark.parametrize("size", [1_000_000, 1_200_000, 8_500_000])
@pytest.mark.parametrize("by", ["secret", "id", "secret, in this process"])
def test_a_token_is_completed_with_a_value_of_any_size(tmp_path: Path, by: str, size: int) -> None:
    with ExitStack() as stack:
        if by.endswith("process"):
            runtime = stack.enter_context(runtime_at(tmp_path / "p.db", models=Catalog(environ={})))
        else:
            server = stack.enter_context(process(tmp_path / "p.db"))
            runtime = stack.enter_context(AgentRuntime(server.url, api_key=server.key))
        runtime.serve(received, blocking=False)
        handle = runtime.start(received, "yes")
        named = handed_out.get(timeout=60)
        if by == "id":
            named = until(lambda: [one.detail.split()[1] for one in handle.get_status().waits], "its wait")[0]
        for _ in range(2):  # the same again changes nothing
            runtime.complete_token(named, "x" * size + "words")
        assert handle.result().output == "words"
        with pytest.raises(Conflict) as refused:
            runtime.complete_token(named, "x" * size + "other")
        assert refused.value.code == "token_used"


@tool
def give() -> str:
    """Return a large text."""
    return LARGE


@tool
def measure(text: str) -> int:
    """Return how long a text is."""
    return len(text)


def test_a_model_hands_a_large_value_from_tool_to_tool_and_is_told_of_what_is_none(tmp_path: Path) -> None:
    whole = reference(hash_of(f'"{LARGE}"'.encode()), len(LARGE) + 2)
    none = reference("0" * 64, 5)
    turns = [call("give", {}), call("measure", {"text": whole}), call("measure", {"text": none}), say("measured")]
    agent = Agent(name="clerk", model="scripted/clerk", instructions="", tools=[give, measure])
    with runtime_at(tmp_path / "p.db", models=Catalog(scripted={"clerk": turns})) as runtime:
        result = runtime.run(agent, "go")
        first, second, third = result.tool_calls
        handle = AgentHandle(result.execution_id, runtime)
        assert (first.value, second.value, third.value) == (whole, len(LARGE), None)
        assert "there is no value 0000" in str(third.error)
        assert handle.load(first.value) == LARGE
        assert handle.load("small") == "small"
