"""Isolated tools: real processes, ended for real, and nothing of them left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

import isolated_tools as tools
from memory_tasks import MemoryTasks
from perdure.agent.tool import definition_of, tool
from perdure.core.work import Report
from perdure.errors import InvalidInput
from perdure.system import SystemClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio

BODY = Callable[..., Any]
T = TypeVar("T")


async def report_of(body: BODY, args: dict[str, Any] | None = None, **task: Any) -> Report:
    """Have a worker make one call; return how it ended."""
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), body)):
        address = source.add(definition_of(body).name, args, **task)
        await source.reported(address)
    return source.rows[address].reports[0]


async def until(fact: Callable[[], T]) -> T:
    """Look until it holds: it is about processes, which tell nobody."""
    while not (found := fact()):  # noqa: ASYNC110 - as above
        await anyio.sleep(0.01)
    return found


def pids_in(path: Path) -> list[int]:
    """Return the process ids that a tool has written; none before that."""
    return [int(part) for part in path.read_text().split()] if path.exists() else []


async def gone(*pids: int) -> None:
    """Return once there are no such processes, or only what their parents have not looked at yet."""
    await until(lambda: not any(map(alive, pids)))


def worker_of_its_own(path: Path) -> subprocess.Popen[bytes]:
    program = "import sys, anyio, isolated_worker; anyio.run(isolated_worker.main, sys.argv[1])"
    support = Path(tools.__file__).parent
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", program, str(path)], env=env)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_arguments_and_result_are_those_of_any_tool() -> None:
    report = await report_of(tools.add, {"a": 2, "b": 3})
    assert report.outcome == "completed"
    assert isinstance(report.value, dict)
    assert report.value["sum"] == 5
    assert report.value["pid"] != os.getpid()


async def test_coroutine_functions_run_there_too() -> None:
    assert (await report_of(tools.add_slowly, {"a": 2, "b": 3})).value == 5


async def test_the_context_is_there_and_speaks_to_the_worker() -> None:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), tools.facts)):
        address = source.add("facts", saved='{"done":1}')
        await source.reported(address)
    key = source.rows[address].task.key
    assert source.rows[address].reports[0].value == ["exe_1", address, 1, key, "facts", {"done": 1}]


async def test_bad_arguments_are_refused_before_anything_runs() -> None:
    failure = (await report_of(tools.add, {"a": "two", "b": 3})).failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("invalid_arguments", True)


@pytest.mark.parametrize(
    ("how", "code", "permanent", "pause_ms"),
    [
        ("oops", "tool_error", False, None),
        ("exit", "tool_error", False, None),
        ("later", "retry_later", False, 7_000),
        ("never", "permanent", True, None),
    ],
)
async def test_errors_mean_what_they_mean_elsewhere(how: str, code: str, permanent: bool, pause_ms: int | None) -> None:
    failure = (await report_of(tools.fail, {"how": how})).failure
    assert failure is not None
    assert (failure.code, failure.permanent, failure.retry_after_ms) == (code, permanent, pause_ms)


async def test_a_result_that_cannot_be_stored_is_never_tried_again() -> None:
    failure = (await report_of(tools.unserialisable)).failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("unserialisable", True)


@pytest.mark.parametrize(
    ("body", "args", "words"),
    [
        (tools.end, {"code": 0}, "exit code 0"),
        (tools.end, {"code": 3}, "exit code 3"),
        (tools.fall_silent, {}, "closed the pipe to its worker and went on"),
        (tools.kill_itself, {"number": int(signal.SIGKILL)}, "signal 9 (SIGKILL)"),
        (tools.kill_itself, {"number": int(signal.SIGSEGV)}, "signal 11 (SIGSEGV)"),
    ],
)
async def test_a_crash_is_a_failed_attempt_that_says_how_it_ended(body: BODY, args: dict[str, Any], words: str) -> None:
    failure = (await report_of(body, args)).failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("tool_crashed", False)
    assert words in failure.message


async def test_a_crash_is_seen_while_a_fork_of_the_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    with anyio.fail_after(60):
        failure = (await report_of(tools.crash_beside_a_fork, {"path": str(path)})).failure
    assert failure is not None
    assert failure.code == "tool_crashed"
    assert "signal 9 (SIGKILL)" in failure.message
    await gone(*pids_in(path))


async def test_what_a_fork_returns_is_not_the_result() -> None:
    assert (await report_of(tools.return_twice)).value == "the call"


async def test_memory_is_bounded() -> None:
    failure = (await report_of(tools.devour)).failure
    assert failure is not None
    assert "MemoryError" in failure.message


async def test_a_call_of_c_that_hangs_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    report = await report_of(tools.hang, {"path": str(path)}, timeout_ms=1_500)
    await gone(*pids_in(path))
    assert report.failure is not None
    assert report.failure.code == "timeout"


async def test_a_cancel_kills_it(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), tools.hang, lease_ms=600)):
        address = source.add("hang", {"path": str(path)})
        pids = await until(lambda: pids_in(path))
        source.cancelling = True
        await source.reported(address)
        await gone(*pids)
    assert source.outcomes(address) == ["cancelled"]


async def test_a_lost_lease_kills_it_and_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), tools.hang, lease_ms=600)):
        address = source.add("hang", {"path": str(path)})
        pids = await until(lambda: pids_in(path))
        source.rows[address].fence += 1
        source.rows[address].state = "dead"
        await gone(*pids)
    assert source.sent("report") == []


async def test_what_it_leaves_behind_ends_with_the_call(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    assert (await report_of(tools.leave_child, {"path": str(path)})).value == "left"
    await gone(*pids_in(path))


async def test_threads_left_behind_do_not_keep_the_slot() -> None:
    assert (await report_of(tools.thread_left_behind)).value == "done"


async def test_all_of_it_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    worker = worker_of_its_own(path)
    try:
        pids = await until(lambda: pids_in(path))
    finally:
        worker.kill()
        worker.wait()
    await gone(*pids)


async def test_under_at_most_once_the_process_is_ready_before_begin(tmp_path: Path) -> None:
    path = tmp_path / "acted"
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), tools.charge)):
        refused = source.add("charge", {"cents": "much", "path": str(path)}, delivery="at_most_once")
        await source.reported(refused)
        assert source.sent("begin") == []
        done = source.add("charge", {"cents": 5, "path": str(path)}, delivery="at_most_once")
        await source.reported(done)
    assert len(source.sent("begin")) == 1
    assert source.rows[done].reports[0].value == "charged 5"


async def test_what_act_it_is_is_found_out_before_it_begins() -> None:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), tools.ship)):
        address = source.add("ship", {"order": 7})
        await source.reported(address)
    assert [begin.intent is not None for begin in source.sent("begin")] == [True]
    assert source.rows[address].reports[0].value == "shipped 7"


async def test_under_at_most_once_a_crash_after_begin_is_told_as_a_failure(tmp_path: Path) -> None:
    report = await report_of(tools.charge, {"cents": 0, "path": str(tmp_path / "acted")}, delivery="at_most_once")
    assert report.failure is not None
    assert (report.failure.code, bool(pids_in(tmp_path / "acted"))) == ("tool_crashed", True)


MAIN = """
from perdure import AgentRuntime, Agent, tool
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say

@tool(isolated=True)
def add(a: int, b: int) -> int:
    "Add."
    return a + b

if __name__ == "__main__":
    agent = Agent(name="clerk", model="scripted/sums", instructions="", tools=[add])
    script = [call("add", {"a": 2, "b": 3}), say("five")]
    with AgentRuntime(store=STORE, models=Catalog(scripted={"sums": script})) as runtime:
        result = runtime.run(agent, "add")
        print(result.status, [use.value or use.error for use in result.tool_calls])
"""


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_a_tool_of_the_main_script_is_found(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MAIN.replace("STORE", repr(str(tmp_path / "perdure.db"))))
    done = run_python(str(script))
    assert (done.returncode, done.stdout) == (0, "completed [5]\n"), done.stderr


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_what_was_typed_into_a_shell_is_not_and_is_never_tried_again(tmp_path: Path) -> None:
    done = run_python("-c", MAIN.replace("STORE", repr(str(tmp_path / "perdure.db"))))
    assert "isolated tool add cannot be found in a fresh interpreter: __main__ has no 'add' there" in done.stdout


def run_python(*args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_what_a_fresh_interpreter_cannot_find_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:

        @tool(isolated=True)
        def inside() -> None:
            """Cannot be imported."""

    assert refused.value.code == "bad_tool"
    with pytest.raises(InvalidInput):
        tool(memory_mb=128)(tools.add_slowly)
