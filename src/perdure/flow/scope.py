"""Scopes of a user's durable function: they follow the tree of its asyncio tasks, and give every step its address.

A task factory, on the loop that runs durable code and on no other, gives each task that durable code starts a scope of
its own: the parent's path, the coroutine function's name, and which of that name it is. Nothing in an address depends
on time or on the order in which things end, so code run again gives the same addresses. Also here: what a task of a
durable function may wait for, and what it may not, because no log could tell how it ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, cast

from perdure.errors import InvalidInput, UserError
from perdure.flow.context import Context, is_library
from perdure.flow.meter import Nature, Tracked

MAX_NAME = 200

_BARE: dict[tuple[str, str], tuple[str, str]] = {
    ("asyncio.tasks", "wait_for"): ("asyncio.wait_for", "timeout"),
    ("asyncio.tasks", "_wait"): ("asyncio.wait", "first` or `completed"),
    ("asyncio.tasks", "_wait_for_one"): ("asyncio.as_completed", "completed"),
    ("asyncio.locks", ""): ("a lock, event or semaphore of asyncio", "first` or `gather"),
    ("asyncio.queues", ""): ("a queue of asyncio", "completed` or `signal"),
}
"""What may not be used bare, by module and function that the waiting stands in: how it is called, and what is ours."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the body of a step may know of itself."""

    execution: str
    address: str
    key: str
    """The idempotency key: equal on every attempt, different for every other step. Give it to whoever is called."""
    attempt: int
    """1 for the first try."""
    takeovers: int
    """How often another process may have begun this try before, without anybody having recorded its end."""


class Root:
    """One run of one durable function: its context, its live tasks, and how long to wait until it is dry."""

    def __init__(self, context: Context, ring: Callable[[], None]) -> None:
        self.context = context
        self.ring = ring
        self._loop = asyncio.get_running_loop()
        self._depth = 1
        self._turns = 0
        """Turns of the loop for which the run still counts as awake."""

    @property
    def here(self) -> bool:
        """Whether this is the loop that the run lives on."""
        return asyncio.get_running_loop() is self._loop

    def tracked(self, coroutine: Coroutine[Any, Any, Any]) -> Tracked:
        """Return a branch's coroutine, counted."""
        return Tracked(coroutine, self.context.meter, self._ended)

    def judge(self, tracked: Tracked, waits_for: object) -> Nature:
        """Say what a task waits for. Raises `UserError` (`bare_construct`) for what no log can tell the end of."""
        if waits_for is None:
            return "yield"
        if (depth := _depth_of(waits_for)) or _in_task_group(tracked):
            # What it waits for may have ended in this very turn, and then wakes it only in a later one.
            self._depth = max(self._depth, depth)
            self._stay_awake()
            return "join"
        if (bare := _bare_in(tracked)) is not None:
            raise bare_construct(*bare)
        return "io"

    def _ended(self) -> None:
        self._stay_awake()
        self.ring()

    def _stay_awake(self) -> None:
        """A task that ends wakes those that wait for it some turns of the loop later: as many as futures stand between.

        Until then nobody may take the run for dry. One turn more than needed costs microseconds; one less, the order.
        """
        if not self._turns:
            self.context.meter.add(1)
            self._loop.call_soon(self._turn)
        self._turns = self._depth + 3

    def _turn(self) -> None:
        self._turns -= 1
        if self._turns:
            self._loop.call_soon(self._turn)
        else:
            self.context.meter.add(-1)


@dataclass(slots=True, eq=False)
class Scope:
    """Where in the tree of tasks durable code stands. Owner: the task of that place."""

    root: Root
    path: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])

    @property
    def context(self) -> Context:
        return self.root.context

    def address(self, name: str) -> str:
        """Return the address of the next step of this name."""
        return _join(self.path, checked(name), self._count(name))

    def child(self, name: str) -> Scope:
        """Return the next scope of this name."""
        return Scope(self.root, _join(self.path, name, self._count(f"{name}/")))

    def _count(self, name: str) -> int:
        self.counts[name] += 1
        return self.counts[name]


HERE: contextvars.ContextVar[Scope | StepContext | None] = contextvars.ContextVar("perdure_scope", default=None)
"""Durable code has a scope here; the body of a step, which is closed to durable calls, what it may know of itself."""


class BranchTask(asyncio.Task[Any]):
    """A task of a durable function."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it; if time itself does, through `asyncio.timeout`, an error is raised in it that names our form."""
        tracked = self.get_coro()
        caller = sys._getframe(1).f_globals.get("__name__")  # pyright: ignore[reportPrivateUsage] - who cancels decides
        if caller == "asyncio.timeouts" and isinstance(tracked, Tracked):
            tracked.instead = bare_construct("asyncio.timeout", "timeout")
        return super().cancel(msg)


def scoped_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have tasks that durable code starts on this loop be its branches. For loops that run durable code alone."""
    loop.set_task_factory(_make_task)


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    if isinstance(coro, Tracked):
        return BranchTask(coro, loop=loop, **options)
    context: contextvars.Context | None = options.pop("context", None)
    context = contextvars.copy_context() if context is None else context.copy()
    scope = context.get(HERE)
    if not isinstance(scope, Scope):
        return asyncio.Task(coro, loop=loop, context=context, **options)
    context.run(HERE.set, scope.child(_name_of(coro)))
    task = BranchTask(scope.root.tracked(coro), loop=loop, context=context, **options)
    scope.context.branches.add(task)
    task.add_done_callback(scope.context.branches.discard)
    return task


def here() -> Scope:
    """Return where durable code stands. Raises `UserError` (`not_durable`, `inside_step`) anywhere else."""
    scope = HERE.get()
    if isinstance(scope, StepContext):
        raise UserError(
            f"step {scope.address!r}: its body made a durable call. A body is run whole or not at all, so nothing in "
            "it is recorded; make the call outside, and give the body what it needs as an argument.",
            code="inside_step",
        )
    if scope is None or not scope.root.here:
        raise UserError(
            "a durable call was made outside a durable function, or in a thread of its own. Declare the function with "
            "`@durable`, and start it: `AgentRuntime().run(function, input)`.",
            code="not_durable",
        )
    return scope


def this_step() -> StepContext:
    """Return what the running body of a step may know of itself: its key and which attempt it is.

    Raises `UserError` (`not_in_step`) outside the body of a step.
    """
    found = HERE.get()
    if not isinstance(found, StepContext):
        raise UserError("`this_step()` was called outside the body of a step.", code="not_in_step")
    return found


def named(name: str, branch: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """Name a branch for `gather`, `TaskGroup`, `first` and the like: its steps' addresses then begin with it.

    Without a name a branch is called like its coroutine function, and counted. Names keep addresses where they are
    when branches are added, left out or reordered. Raises `InvalidInput` (`bad_name`).
    """
    cast("Any", branch).__name__ = checked(name)
    return branch


def checked(name: str) -> str:
    """Return a name that addresses can be made of, or raise `InvalidInput` (`bad_name`)."""
    if not 0 < len(name) <= MAX_NAME or "/" in name or ":" in name or name.isdigit():
        raise InvalidInput(
            f"step name {name!r:.100} should be 1 to {MAX_NAME} characters without `/` and `:`, and no number.",
            code="bad_name",
        )
    return name


def variant(address: str, suffix: str) -> str:
    """Return the address of something that belongs to a step: `charge/2` and `pause-1` make `charge:pause-1/2`."""
    head, slash, last = address.rpartition("/")
    return f"{head}:{suffix}{slash}{last}" if last.isdigit() else f"{address}:{suffix}"


def bare_construct(what: str, ours: str) -> UserError:
    """Return the error for a construct whose end depends on time, or on who ends first, which no log can tell."""
    return UserError(
        f"{what} was used bare in durable code: how it ends depends on time or on who ends first, which is not "
        f"recorded. Use `{ours}` of `perdure.flow`.",
        code="bare_construct",
    )


def _join(path: str, name: str, count: int) -> str:
    address = f"{path}/{name}" if path else name
    return address if count == 1 else f"{address}/{count}"


def _name_of(coro: Any) -> str:
    name = str(getattr(coro, "__name__", None) or type(coro).__name__).replace("/", "_").replace(":", "_")
    return f"_{name}" if name.isdigit() else name[:MAX_NAME]


def _depth_of(waits_for: object) -> int:
    """Return how many futures stand between a wait and the branches it is for; 0 if it is for anything else."""
    if isinstance(waits_for, BranchTask):
        return 1
    children: Any = getattr(waits_for, "_children", None)  # of what `asyncio.gather` returns
    if not isinstance(waits_for, asyncio.Future) or not children:
        return 0
    depths = [_depth_of(child) for child in children if not child.done() or isinstance(child, BranchTask)]
    return 1 + max(depths, default=1) if all(depths) else 0


def _in_task_group(tracked: Tracked) -> bool:
    frame = _innermost(tracked)
    return frame is not None and frame.f_globals.get("__name__") == "asyncio.taskgroups"


def _innermost(tracked: Tracked) -> FrameType | None:
    coroutine: Any = tracked.inner
    frame: FrameType | None = None
    while (deeper := getattr(coroutine, "cr_frame", None)) is not None:
        frame, coroutine = deeper, coroutine.cr_await
    return frame


def _bare_in(tracked: Tracked) -> tuple[str, str] | None:
    """Return the construct that user code itself waits in, if it is one of those; inside libraries it is their IO."""
    coroutine: Any = tracked.inner
    caller = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        module = frame.f_globals.get("__name__", "")
        found = _BARE.get((module, frame.f_code.co_name)) or _BARE.get((module, ""))
        if found is not None and caller and not is_library(caller):
            return found
        if not module.startswith("asyncio."):  # its own functions call each other
            caller = frame.f_code.co_filename
        coroutine = coroutine.cr_await
    return None
