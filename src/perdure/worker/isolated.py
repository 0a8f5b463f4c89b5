"""Run one call in a process of its own, which can be killed for real: a hanging call of C, a crash, a memory hog.

A fresh interpreter each time, never a fork. It is in a process group of its own, together with a watch that ends the
whole group when this process dies; so nothing that the body started in its group outlives the call.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any

from perdure.agent.context import Cancelled
from perdure.errors import LeaseLost
from perdure.log import get_log
from perdure.worker.body import Call, Ended
from perdure.worker.frames import Word, read_ended, read_frame, write_frame
from perdure.worker.judge import Raised, Stopped

log = get_log(__name__)

_WATCH = ("/bin/sh", "-c", "read word; kill -9 0")
"""Waits for the end of a pipe that only this process holds open, then kills its whole process group."""


SILENT_SECONDS = 5.0
"""How long a process may take to end once it has closed its pipe."""


class Isolated:
    """One call in one process. Made on the worker's loop, where its futures are; a thread serves its pipes."""

    def __init__(self, call: Call, name: str, deliver: Callable[[Callable[[], None]], object]) -> None:
        """`deliver` runs something on the worker's loop, from any thread."""
        loop = asyncio.get_running_loop()
        self.call = call
        self.ready: asyncio.Future[Ended | None] = loop.create_future()
        """None once it waits for `go`; else how it ended before that."""
        self.intent: str | None = None
        """What act it is, in its author's terms; known once it is ready."""
        self.ended: asyncio.Future[Ended] = loop.create_future()
        self._deliver = deliver
        self._lock = threading.Lock()
        """Of the three below: killing must never reach a process id that was given to somebody else."""
        self._group: int | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._wanted = self._asked = False
        """Whether the body may start, and whether its process was told what it is about."""
        threading.Thread(target=self._serve, name=f"{name} isolated {call.definition.name}").start()

    def go(self) -> None:
        """Let the body start. Without it, it never does."""
        with self._lock:
            self._wanted = True
            if self._asked:
                self._order({"what": Word.GO})

    def cancel(self) -> None:
        """Kill it, and all it started in its process group."""
        with self._lock:
            self._killed = True
            self._kill()

    def _kill(self) -> None:
        if self._group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        if self._child is not None:
            self._child.kill()

    def _order(self, order: dict[str, Any]) -> None:
        child = self._child
        if child is not None and child.stdin is not None:
            with suppress(OSError, ValueError):  # it is gone: how it ended is told elsewhere
                write_frame(child.stdin, order)

    # On the thread.

    def _serve(self) -> None:
        try:
            ended = self._watched()
        except OSError as error:
            ended = Raised("tool_error", f"no process could be started for the tool: {error}")
        except Exception as error:  # a bug of ours must not leave the slot taken for ever
            log.exception("worker.isolated_broke", tool=self.call.definition.name)
            ended = Raised("tool_error", f"the process of the tool could not be served: {error}")
        self._deliver(lambda: self._conclude(ended))

    def _watched(self) -> Ended:
        """Run the process beside its watch, and see both gone."""
        watch = _watch()
        try:
            return self._run(None if watch is None else watch.pid)
        finally:
            with self._lock:
                if watch is not None:
                    self._kill()  # what the body left behind, and the watch itself; without one, the group may be gone
                self._group = self._child = None
            if watch is not None:
                with suppress(OSError):
                    watch.communicate()

    def _run(self, group: int | None) -> Ended:
        with self._lock:
            if self._killed:
                self._group = group
                return Stopped("stopped before it started")
            child = self._child = _child(group)
            self._group = group if group is not None or os.name != "posix" else child.pid
        assert child.stdin is not None
        assert child.stdout is not None
        with child.stdin, child.stdout:
            self._order(_request(self.call))
            with self._lock:
                self._asked = True
                if self._wanted:
                    self._order({"what": Word.GO})
            said = self._listen(child.stdout)
        status = self._see_off(child)
        if said is not None:
            return said
        return Stopped("its process was killed") if self._killed else _crashed(status, self.call)

    def _see_off(self, child: subprocess.Popen[bytes]) -> int | None:
        """Wait until the process is gone and return its status; None if it had to be killed, having gone silent."""
        try:
            return child.wait(SILENT_SECONDS)
        except subprocess.TimeoutExpired:
            with self._lock:
                self._kill()
            child.wait()
            return None

    def _listen(self, said: IO[bytes]) -> Ended | None:
        """Pass on what the process says; return how the body ended, or None if it broke off."""
        pulse = self.call.context.pulse
        while (frame := read_frame(said)) is not None:
            match frame["what"]:
                case Word.READY:
                    problem = None if frame["problem"] is None else read_ended(frame["problem"])
                    self.intent = frame["intent"]
                    self._deliver(partial(_resolve, self.ready, problem))
                    if problem is not None:
                        return problem
                case Word.BEAT:
                    with suppress(LeaseLost, Cancelled):  # the worker kills this process by itself then
                        pulse.beat()
                case Word.NOTE:
                    pulse.note(frame["text"])
                case Word.SAVE:
                    pulse.save(frame["text"])
                case Word.COST:
                    pulse.charge(frame["currency"], frame["amount"])
                case Word.ENDED:
                    return read_ended(frame)
                case _:
                    return None
        return None

    def _conclude(self, ended: Ended) -> None:
        _resolve(self.ready, ended)
        _resolve(self.ended, ended)


def _watch() -> subprocess.Popen[bytes] | None:
    if os.name != "posix":
        return None
    try:
        return subprocess.Popen(_WATCH, stdin=subprocess.PIPE, process_group=0)
    except OSError:  # no shell here: on Linux, the kernel ends the process itself with this one
        return None


def _child(group: int | None) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-P", "-m", "perdure.worker.child")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=group or 0)


def _request(call: Call) -> dict[str, Any]:
    function, context = call.definition.function, call.context
    facts = ("execution_id", "step_id", "attempt", "idempotency_key", "agent_name", "tool_name", "last_checkpoint")
    return {
        "module": function.__module__,
        "name": function.__qualname__,
        "main": _main() if function.__module__ == "__main__" else _surroundings(),
        "args": dict(call.args),
        "at_most_once": call.at_most_once,
        "spool": None if call.spool is None else [str(call.spool.folder), call.spool.worker],
        "memory_bytes": call.definition.options.memory_bytes,
        "context": {name: getattr(context, name) for name in facts},
    }


def _surroundings() -> dict[str, Any]:
    return {"sys_path": [path or os.getcwd() for path in sys.path], "sys_argv": list(sys.argv), "dir": os.getcwd()}


def _main() -> dict[str, Any]:
    """Return how the process finds what this one runs as its main program, as `multiprocessing` does."""
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is not None:
        return {**_surroundings(), "init_main_from_name": name}
    path = getattr(main, "__file__", None)
    return {**_surroundings(), "init_main_from_path": os.path.abspath(path)} if path else _surroundings()


def _crashed(status: int | None, call: Call) -> Raised:
    """Say how a process ended that did not say so itself."""
    tool = f"the process of isolated tool {call.definition.name}"
    if status is None:
        return Raised("tool_crashed", f"{tool} closed the pipe to its worker and went on; it was killed")
    if status >= 0:
        return Raised("tool_crashed", f"{tool} ended with exit code {status} before the tool had returned")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    hint = "; the system may have run out of memory" if -status == signal.SIGKILL else ""
    return Raised("tool_crashed", f"{tool} was killed by signal {-status} ({name}){hint}")


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
