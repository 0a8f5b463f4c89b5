"""`@durable`: declare a function of one's own that lasts. Checked at once, and the function stays a plain function.

Nothing global is touched: a worker runs the durable functions that it is given, and no others.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar, overload

from perdure.core.codec import Json
from perdure.errors import InvalidInput, PerdureError
from perdure.flow.context import Context, Failed
from perdure.flow.large import fit_for_log, opened
from perdure.flow.replay import Mismatch
from perdure.flow.scope import HERE, Root, Scope

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

MAX_NAME = 200
CLEANUP = timedelta(minutes=5)
_ATTRIBUTE = "__perdure_durable__"


@lru_cache(maxsize=1_024)
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a durable function. Each start and each run asks, and to read it anew costs as much as a
    step."""
    return inspect.signature(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableOptions:
    """The options of a durable function, complete and checked."""

    cleanup_ms: int = CLEANUP // timedelta(milliseconds=1)
    """How long its cleanup may take after a cancel, by the store's clock, waits included."""


@dataclass(frozen=True, slots=True, eq=False)
class DurableDefinition:
    """A declared durable function: what executions of it are started and claimed by, and the function itself."""

    name: str
    function: Callable[..., Coroutine[Any, Any, Any]]
    """The very function that was declared."""
    build: str
    """Says which code it is. An execution goes on under the build that it began with, and no other."""
    options: DurableOptions = field(default_factory=DurableOptions)

    def arguments(self, input: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with.

        A function of one parameter gets the input as it is; one of several gets an object's fields by name; one of
        none is started without input. Raises `InvalidInput` (`bad_input`).
        """
        signature = signature_of(self.function)
        parameters = list(signature.parameters.values())
        if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
            return ((), {}) if input is None and _optional(parameters[0]) else ((input,), {})
        if input is None:
            input = {}
        if not isinstance(input, dict):
            names = ", ".join(parameter.name for parameter in parameters) or "no parameters"
            raise self._bad_input(f"takes {names}: start it with an object that names them, found {input!r:.80}")
        try:
            signature.bind(**input)
        except TypeError as error:
            raise self._bad_input(f"cannot be called with this input: {error}") from None
        return (), dict(input)

    def _bad_input(self, why: str) -> InvalidInput:
        return InvalidInput(f"durable function {self.name} {why}.", code="bad_input", function=self.name)


@overload
def durable(function: F, /) -> F: ...


@overload
def durable(
    *, name: str | None = None, build: str | None = None, cleanup_timeout: timedelta = CLEANUP
) -> Callable[[F], F]: ...


def durable(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    build: str | None = None,
    cleanup_timeout: timedelta = CLEANUP,
) -> Any:
    """Declare a durable function, bare or with options. Returns the function it was given.

    Its steps are recorded; after a crash it is run again from the record, on any worker that serves this build of it.
    `name` (default: the function's own) is what it is started by. `build` (default: a fingerprint of its source) is
    what its executions are bound to: give one to say that changed code may go on with them. `cleanup_timeout` is how
    long its `finally` and `except CancelledError` blocks may take after a cancel.

    Raises `InvalidInput` (`bad_function`) for what is no `async def`, or cannot be named.
    """

    def declare(function: F) -> F:
        setattr(function, _ATTRIBUTE, _define(function, name, build, cleanup_timeout))
        return function

    return declare if function is None else declare(function)


async def run_durable(ctx: Context, definition: DurableDefinition, input: Json) -> Any:
    """Run a durable function under a context: what a `Run` of it is given as its function.

    On a loop that `flow.scope.scoped_tasks` was called for. Whatever the function raises ends the execution as failed;
    `Failed` with a code of its own.
    """
    root = Root(ctx, ctx.ring)
    ctx.meter.judge = root.judge
    ctx.cleanup_ms = definition.options.cleanup_ms
    HERE.set(Scope(root))
    try:
        args, options = definition.arguments(await opened(ctx, input))
        output = await fit_for_log(ctx, await definition.function(*args, **options))
    except (Failed, Mismatch):
        raise
    except asyncio.CancelledError:
        if ctx.cancel_requested or ctx.closed:
            raise
        raise Failed("cancelled_itself", f"durable function {definition.name} cancelled its own task.") from None
    except PerdureError as error:
        raise Failed(error.code, error.message) from error
    except Exception as error:
        raise Failed("raised", f"{type(error).__name__}: {error}") from error
    if left := sorted(task.get_name() for task in ctx.branches if not task.done()):
        raise Failed(
            "live_tasks",
            f"durable function {definition.name} returned while {len(left)} of its tasks were still running: "
            f"{', '.join(left[:5])}. Await them, or cancel them and await that.",
        )
    return output


def durable_definition(declared: DurableDefinition | Callable[..., Any]) -> DurableDefinition:
    """Return the definition of a declared durable function. Raises `InvalidInput` (`bad_function`) for any other."""
    if isinstance(declared, DurableDefinition):
        return declared
    known = getattr(declared, _ATTRIBUTE, None)
    if not isinstance(known, DurableDefinition):
        raise _bad(_name_of(declared), "is not declared: put `@durable` above it")
    return known


def is_durable(declared: object) -> bool:
    """Say whether something is a declared durable function, or its definition."""
    return isinstance(declared, DurableDefinition) or isinstance(getattr(declared, _ATTRIBUTE, None), DurableDefinition)


def build_of(function: Callable[..., Any]) -> str:
    """Return a fingerprint of a function's source, or of its code where there is no source. Comments count too."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = function.__code__
        text = f"{code.co_code.hex()} {code.co_names} {[const for const in code.co_consts if _plain(const)]}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _define(function: Any, name: str | None, build: str | None, cleanup_timeout: timedelta) -> DurableDefinition:
    found = name or _name_of(function)
    if not inspect.iscoroutinefunction(function):
        raise _bad(found, "is no `async def` function")
    if not 0 < len(found) <= MAX_NAME:
        raise _bad(found, f"should have a name of 1 to {MAX_NAME} characters")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise _bad(found, f"takes *{parameter.name}: give each parameter a name")
    build = build_of(function) if build is None else build
    if not 0 < len(build) <= MAX_NAME:
        raise _bad(found, f"should have a build of 1 to {MAX_NAME} characters")
    if cleanup_timeout < timedelta(0):
        raise _bad(found, f"has cleanup_timeout={cleanup_timeout!r}; expected a duration of 0 or more")
    return DurableDefinition(
        found, function, build, DurableOptions(cleanup_ms=cleanup_timeout // timedelta(milliseconds=1))
    )


def _optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _plain(const: object) -> bool:
    return const is None or isinstance(const, (str, bytes, int, float, bool))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", None) or f"{function!r:.80}")


def _bad(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"durable function {name} {why}.", code="bad_function", function=name)
