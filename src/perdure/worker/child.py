"""The process of one isolated call: get ready, say so, wait for the word, run the body, tell how it ended.

Started by `worker/isolated.py` as `python -m perdure.worker.child`, never imported by it. Speaks over the pipes it was
given as standard input and output; what the body prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing.spawn
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from perdure.agent.context import ToolContext
from perdure.agent.tool import ToolDefinition, definition_of
from perdure.system import SystemClock
from perdure.worker.body import Call, Ended
from perdure.worker.frames import Word, read_frame, show_ended, write_frame
from perdure.worker.judge import Raised, describe
from perdure.worker.spool import Spool

BEAT_MS = 500
"""How often at most `heartbeat` is passed on."""


def main() -> None:
    """Serve one call and leave. The end of standard input means that the worker is gone, or wants no body."""
    orders, said = _private_pipes()
    _die_with_parent()
    request = read_frame(orders)
    if request is None:
        return
    pulse = _Pulse(said)
    call = _prepare(request, pulse)
    problem = show_ended(call) if isinstance(call, Raised) else None
    pulse.tell({"what": Word.READY, "problem": problem, "intent": call.intent if isinstance(call, Call) else None})
    order = read_frame(orders) if isinstance(call, Call) else None
    if isinstance(call, Call) and order is not None and order["what"] == Word.GO:
        pulse.tell({"what": Word.ENDED, **show_ended(_run(call))})
    _leave()


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes away from where a body would look for standard input and output."""
    orders, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _hang_up(orders, said))
    return orders, said


def _hang_up(*pipes: BinaryIO) -> None:
    """In a process that the body forked: it is not the call, and says nothing for it. Held open there, too, the pipes
    would not end with this process, and nobody would see that it crashed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in pipes:
        os.dup2(nothing, pipe.fileno(), inheritable=False)
    os.close(nothing)


def _die_with_parent() -> None:
    """Have the kernel end this process with the worker, even while it hangs in a call of C (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - only here
    import signal  # noqa: PLC0415 - only here

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _prepare(request: dict[str, Any], pulse: _Pulse) -> Call | Raised:
    try:
        _limit_memory(request["memory_bytes"])
        multiprocessing.spawn.prepare(request["main"])
        definition = _find(request["module"], request["name"])
        context = ToolContext(**request["context"], pulse=pulse)
    except _NotThere as error:
        return Raised("not_importable", str(error), permanent=True)
    except BaseException as error:  # noqa: BLE001 - importing runs the user's code
        what = f"the isolated tool could not be set up in its process: {describe(error)}"
        return Raised("tool_error", what)
    spool = None if request["spool"] is None else Spool(Path(request["spool"][0]), request["spool"][1])
    acts_once, now = request["at_most_once"], SystemClock().wall_ms
    return Call(definition, request["args"], context, acts_once, wall_ms=now, spool=spool).check()


def _limit_memory(most: int) -> None:
    if most:
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class _NotThere(Exception):
    """A fresh interpreter does not have the function: no retry finds it."""


def _find(module: str, name: str) -> ToolDefinition:
    found: Any = sys.modules["__main__"] if module == "__main__" else importlib.import_module(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise _NotThere(
                f"isolated tool {name} cannot be found in a fresh interpreter: {module} has no {part!r} there. Put it "
                "into a module of its own; what was typed into a notebook or a shell is nowhere else."
            ) from None
    return definition_of(found)


def _run(call: Call) -> Ended:
    return asyncio.run(call.on_loop()) if call.definition.is_async else call.in_thread(_wait)


def _wait(result: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await result

    return asyncio.run(run())


class _Pulse:
    """The worker, seen from here. It kills this process when the call is not wanted any more, so it never says so."""

    cancelled = False

    def __init__(self, said: BinaryIO) -> None:
        self._said = said
        self._lock = threading.Lock()
        """Of `_said`: a body may have threads."""
        self._clock = SystemClock()
        self._beaten_ms = -BEAT_MS

    def tell(self, frame: dict[str, Any]) -> None:
        with self._lock, suppress(BrokenPipeError):
            write_frame(self._said, frame)

    def beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._beaten_ms + BEAT_MS:
            self._beaten_ms = now_ms
            self.tell({"what": Word.BEAT})

    def note(self, progress: str) -> None:
        self.tell({"what": Word.NOTE, "text": progress})

    def save(self, data: str) -> None:
        self.tell({"what": Word.SAVE, "text": data})

    def charge(self, currency: str, amount: str) -> None:
        self.tell({"what": Word.COST, "currency": currency, "amount": amount})


def _leave() -> None:
    """End now: threads that the body left behind shall not keep the process, nor their last words hold the slot."""
    flushes: tuple[Callable[[], object], ...] = (sys.stdout.flush, sys.stderr.flush)
    for flush in flushes:
        with suppress(OSError, ValueError):
            flush()
    os._exit(0)


if __name__ == "__main__":
    main()
