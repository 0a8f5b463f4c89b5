"""Named places where a test may make this process die, stall or fail. Unset, a point costs one `if`.

`PERDURE_FAILPOINTS="complete.before_commit=kill@3;http.begin.received=raise"`: at the third pass, at every pass.
Actions: `kill` (SIGKILL to this process), `exit`, `raise`, `hang` (for ever), `delay:SECONDS`, `stop` (SIGSTOP).
Every commit passes `OPERATION.before_commit` and `OPERATION.after_commit`; every external send passes
`NAME.send` and `NAME.received`. With `PERDURE_FAILPOINTS_LOG` each first pass of a point is written to that file,
so that a sweep can say which points it never reached.
"""

from __future__ import annotations

import os
import signal
import threading
import time

_plan: dict[str, tuple[str, int]] = {}
_passes: dict[str, int] = {}
_lock = threading.Lock()
_log: str | None = None
active = False
"""Read before calling `hit` on hot paths."""


class InjectedFault(Exception):
    """Raised at a point whose action is `raise`."""


def arm(spec: str, log: str | None = None) -> None:
    """Replace the plan. `spec` is `POINT=ACTION[@N]` joined by `;`; an empty one disarms."""
    global active, _log  # noqa: PLW0603 - one plan per process, by nature
    with _lock:
        _plan.clear()
        _passes.clear()
        for part in filter(None, spec.split(";")):
            point, _, action = part.partition("=")
            action, _, nth = action.partition("@")
            _plan[point] = (action, int(nth or 0))
        _log = log
        active = bool(_plan) or log is not None


def hit(point: str) -> None:
    """Pass a point: count it, and do what the plan says for this pass."""
    if not active:
        return
    with _lock:
        count = _passes[point] = _passes.get(point, 0) + 1
        if _log and count == 1:
            with open(_log, "a", encoding="utf-8") as out:
                out.write(point + "\n")
    action, nth = _plan.get(point, ("", -1))
    if action and nth in (0, count):
        _act(point, action)


def passes() -> dict[str, int]:
    """Return how often each point was passed since `arm`, while a plan or a log was there."""
    with _lock:
        return dict(_passes)


def _act(point: str, action: str) -> None:
    verb, _, argument = action.partition(":")
    match verb:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            # To this thread: one that is sent to the process stops the others first, and this one goes on meanwhile.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case "exit":
            os._exit(1)
        case "raise":
            raise InjectedFault(f"failpoint {point}")
        case "hang":
            threading.Event().wait()
        case "delay":
            time.sleep(float(argument))
        case _:
            raise ValueError(f"failpoint {point}: unknown action {action!r}")


arm(os.environ.get("PERDURE_FAILPOINTS", ""), os.environ.get("PERDURE_FAILPOINTS_LOG"))
