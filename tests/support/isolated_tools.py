"""Tools that a fresh interpreter can import, and that do what only a process of their own survives."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from perdure import PermanentError, RetryLater, ToolContext, tool


@tool(isolated=True)
def add(a: int, b: int) -> dict[str, Any]:
    """Add."""
    sys.stdout.write("what a body prints is no message of its process\n")
    return {"sum": a + b, "pid": os.getpid()}


@tool(isolated=True)
async def add_slowly(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(isolated=True, redact=lambda told: told.replace("4000-0012-3456-7899", "(card)"))
def card() -> str:
    """Return what is not to be stored."""
    return "card 4000-0012-3456-7899"


@tool(isolated=True)
def facts(ctx: ToolContext) -> list[Any]:
    """Say what it knows."""
    ctx.heartbeat()
    ctx.progress(0.5)
    ctx.checkpoint({"done": 3})
    return [ctx.execution_id, ctx.step_id, ctx.attempt, ctx.idempotency_key, ctx.tool_name, ctx.last_checkpoint]


@tool(isolated=True)
def hang(path: str) -> None:
    """Hang in a call of C that lets nobody else run, with a child of its own."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    ctypes.PyDLL(None).sleep(3600)


@tool(isolated=True)
def leave_child(path: str) -> str:
    """Return, and leave a child of its own behind."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    return "left"


@tool(isolated=True)
def end(code: int) -> None:
    """End the process without a word."""
    os._exit(code)


@tool(isolated=True)
def fall_silent() -> None:
    """Close every pipe, as daemons do, and go on."""
    os.closerange(3, 256)
    time.sleep(3600)


@tool(isolated=True)
def crash_beside_a_fork(path: str) -> None:
    """Fork, as pools of processes do, and be killed while the other one goes on."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
    Path(path).write_text(f"{os.getpid()} {child}")
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


@tool(isolated=True)
def return_twice() -> str:
    """Fork, and have both return."""
    child = os.fork()
    if child == 0:
        return "the fork"
    os.waitpid(child, 0)
    return "the call"


@tool(isolated=True)
def kill_itself(number: int) -> None:
    """End by a signal."""
    os.kill(os.getpid(), number)
    signal.pause()


@tool(isolated=True)
def fail(how: str) -> None:
    """Raise."""
    match how:
        case "later":
            raise RetryLater("busy", after=7)
        case "never":
            raise PermanentError("no such order")
        case "exit":
            sys.exit(3)
        case _:
            raise ValueError(how)


@tool(isolated=True)
def unserialisable() -> Any:
    """Return what cannot be stored."""
    return object()


@tool(isolated=True, memory_mb=512)
def devour() -> int:
    """Ask for more memory than it may have."""
    return len(bytearray(2**30))


@tool(isolated=True, delivery="at_most_once")
def charge(cents: int, path: str) -> str:
    """Act."""
    Path(path).write_text(f"{os.getpid()}")
    if cents == 0:
        os._exit(9)
    return f"charged {cents}"


@tool(isolated=True, intent=lambda args: f"order {args.order}")
def ship(order: int) -> str:
    """Act, once for each order."""
    return f"shipped {order}"


@tool(isolated=True)
def thread_left_behind() -> str:
    """Return while a thread goes on."""
    import threading

    threading.Thread(target=time.sleep, args=(3600,)).start()
    return "done"


@tool(isolated=True)
def costly(ctx: ToolContext) -> str:
    """Say what it cost."""
    ctx.cost("0.25")
    return "done"
