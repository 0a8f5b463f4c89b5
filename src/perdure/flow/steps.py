"""`step`: run a function inside a durable function, record what it returns, and never run it again.

What the first run gets is what a re-run would decode. A failed attempt is a record, the pause after it a stored timer:
a crash forgets neither, and a long pause holds no process.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from types import FunctionType
from typing import Any, Literal, TypeVar, overload

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.events import Event, Kind
from perdure.core.items import BeginStep
from perdure.core.retry import next_pause
from perdure.core.rules import TaskRules
from perdure.core.witness import expect_record
from perdure.errors import InvalidInput, LimitExceeded, PermanentError, RetryLater, Terminal
from perdure.flow.context import Acting, Try, Unsuccessful
from perdure.flow.large import Large, kept, opened
from perdure.flow.scope import HERE, Scope, StepContext, here, variant

T = TypeVar("T")
DeliveryName = Literal["repeatable", "at_least_once", "at_most_once", "transactional"]
MOST_RETRIES = 1_000
_PLAIN = frozenset({str, int, float, bool, type(None), dict, list})
"""What most bodies return, and nobody awaits."""


def milliseconds(delay: timedelta) -> int:
    """Return a duration in milliseconds, rounded up, or raise `InvalidInput` (`bad_duration`) below 0."""
    if delay < timedelta(0):
        raise InvalidInput(f"a duration should be 0 or more, found {delay}.", code="bad_duration")
    return -(-delay // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """What follows a failed attempt of a step. Raises `InvalidInput` (`bad_step`) for values out of bounds."""

    retries: int = 2
    """How many more attempts follow a failed one."""
    pause: timedelta = timedelta(seconds=2)
    """Before the second attempt."""
    factor: float = 2.0
    """By which each further pause is longer than the one before it."""
    ceiling: timedelta = timedelta(minutes=1)
    """No pause is longer, unless the body itself raises `RetryLater`."""
    jitter: float = 0.2
    """Each pause is cut by a random part of itself, from nothing up to this."""
    no_retry: tuple[type[Exception], ...] = ()
    """Exceptions after which another attempt cannot help."""

    def __post_init__(self) -> None:
        if not 0 <= self.retries <= MOST_RETRIES:
            raise InvalidInput(f"retries should be 0 to {MOST_RETRIES:,}, found {self.retries!r}.", code="bad_step")
        self.rules()

    def rules(self) -> TaskRules:
        """Return the pauses as the rest of the code reckons with them."""
        return TaskRules(
            pause_ms=milliseconds(self.pause),
            factor=self.factor,
            ceiling_ms=milliseconds(self.ceiling),
            jitter=self.jitter,
        )


_THREE_TRIES = Retry()
_ONE_TRY = Retry(retries=0)


class StepFailed(Terminal):
    """A step ended without a value, for good. It is recorded so: run again, the step fails in the same way.

    `code` is that of the error, or `raised`; `error_type` the name of its class; `attempts` how many were made.
    """

    default_code = "raised"

    def __init__(self, message: str, *, code: str, address: str, error_type: str, attempts: int) -> None:
        super().__init__(message, code=code, address=address, error_type=error_type, attempts=attempts)
        self.address = address
        self.error_type = error_type
        self.attempts = attempts


@dataclass(slots=True)
class Call:
    """One step: what to run, under which name, and what may follow a failure. Not frozen, which would take as long as
    all else of it; nobody changes one."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    name: str
    digest: str
    delivery: Delivery
    retry: Retry
    timeout_ms: int
    simulate: Callable[..., Any] | None = None
    """Stands in for the function in a fork that may not act."""

    def simulated(self) -> Call | None:
        """Return the call that stands in for this one."""
        if self.simulate is None:
            return None
        return dataclasses.replace(self, function=self.simulate, delivery=Delivery.REPEATABLE)

    async def run(self) -> Any:
        """Call the function as it is, an `async def` on this loop, anything else in a thread of the loop's pool."""
        if _is_async(self.function):
            work: Awaitable[Any] = self.function(*self.args, **self.options)
        else:
            bound = functools.partial(self.function, *self.args, **self.options)
            work = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, bound)
        if not self.timeout_ms:
            return await _all_of(work)
        async with asyncio.timeout(self.timeout_ms / 1000):
            return await _all_of(work)


async def _all_of(work: Awaitable[Any]) -> Any:
    """Wait for a value, and for that of the value: a plain function may return a coroutine."""
    value = await work
    return value if value.__class__ in _PLAIN or not inspect.isawaitable(value) else await value


def _is_async(function: Callable[..., Any]) -> bool:
    """Say what `inspect.iscoroutinefunction` says, at once of what is a plain function: each step asks."""
    if function.__class__ is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return inspect.iscoroutinefunction(function)


@overload
async def step(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    name: str | None = None,
    delivery: DeliveryName | Delivery | None = None,
    retries: int | Retry | None = None,
    timeout: timedelta | None = None,
    simulate: Callable[..., Any] | None = None,
    **options: Any,
) -> T: ...


@overload
async def step(
    function: Callable[..., T],
    /,
    *args: Any,
    name: str | None = None,
    delivery: DeliveryName | Delivery | None = None,
    retries: int | Retry | None = None,
    timeout: timedelta | None = None,
    simulate: Callable[..., Any] | None = None,
    **options: Any,
) -> T: ...


async def step(
    function: Callable[..., Any],
    /,
    *args: Any,
    name: str | None = None,
    delivery: DeliveryName | Delivery | None = None,
    retries: int | Retry | None = None,
    timeout: timedelta | None = None,
    simulate: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Run `function(*args, **options)`, record what it returns, and return that; run again, return what is recorded.

    A recorded step is never run again. `delivery` says what a crash in the middle may lead to: `at_least_once`, the
    default, and `repeatable`: it may run again, with the same `this_step().key` on every attempt. `at_most_once`: its
    body starts once or never, and somebody rules on what nobody saw the end of; the step returns after that.
    `transactional`: it may run again, and a record under `this_step().key` in its own transaction (`perdure.ledger`)
    makes that harmless; without one it fails for good (`no_ledger_record`).

    `name` (default: the function's) makes the address; `retries` (default 2; 0 under `at_most_once`) or a `Retry` says
    how often it is tried again; `timeout` is for one attempt. Arguments are JSON, for a re-run compares them with the
    recorded ones: bind anything else with `functools.partial`. Plain functions run in a thread. The value is what JSON
    makes of it: tuples become lists, dataclasses objects.

    `simulate` is called in its place, with the same arguments, in a fork that may not act (default: that of a `@tool`);
    without one, such a step pauses the fork until somebody resumes it.

    Raises `StepFailed` when no attempt is left, `InvalidInput` (`bad_step`, `unserialisable`).
    """
    scope = here()
    call = _call(function, args, options, name=name, delivery=delivery, retries=retries, timeout=timeout)
    if simulate is not None:
        if call.delivery is Delivery.REPEATABLE:
            raise InvalidInput(
                f"step {call.name!r} has simulate with delivery='repeatable', which changes nothing: forks run it.",
                code="bad_step",
            )
        call = dataclasses.replace(call, simulate=simulate)
    address = scope.address(call.name)
    if call.delivery is Delivery.AT_MOST_ONCE:
        return await _once(scope, call, address)
    return await _try(scope, call, address)


async def _try(scope: Scope, call: Call, address: str) -> Any:
    """Make attempts until one brings a value or none is left."""
    base = address
    for attempt in count(1):
        at = address if attempt == 1 else variant(address, f"try-{attempt}")
        acting = _acting(call, base, attempt, scope.context.large)
        event = await scope.context.record(
            at, call.digest, _body(call, base, attempt, scope.context.large), acting=acting
        )
        base = event.address if attempt == 1 else base  # the log may call it by another name
        error = event.data.get("error")
        if error is None:
            return await opened(scope.context, event.data["value"])
        if error["retry_ms"] is None:
            raise failed(event, base, attempt)
        await scope.context.sleep(variant(address, f"pause-{attempt}"), error["retry_ms"])
    raise AssertionError("the last attempt has no pause after it")  # pragma: no cover


async def _once(scope: Scope, call: Call, address: str) -> Any:
    """Claim it, run it once at most, and return what it is known to have come to, whoever knows."""
    item = BeginStep(
        address=address,
        digest=call.digest,
        nonce=scope.context.new_id("cla"),
        name=call.name,
        args={"args": list(call.args), **call.options},
        timeout_ms=call.timeout_ms,
    )
    instead = call.simulated()
    large = scope.context.large
    ended = await scope.context.claim(item, _claimed_body(call, large), instead and _claimed_body(instead, large))
    match ended.kind:
        case Kind.TASK_COMPLETED | Kind.EFFECT_RULED if ended.data.get("ruling") != "give_up":
            return await opened(scope.context, ended.data["value"])
        case _:
            why = ended.data.get("error") or f"given up by {ended.data.get('by') or 'a person'}"
            code = ended.data.get("code") or "given_up"
            raise StepFailed(f"step {address!r} failed: {why}", code=code, address=address, error_type=code, attempts=1)


def _acting(call: Call, base: str, attempt: int, large: Large | None) -> Acting | None:
    """Return what a fork has to know of it before it begins; None of what changes nothing."""
    if call.delivery is Delivery.REPEATABLE:
        return None
    instead = call.simulated()
    first = "" if attempt == 1 else base
    return Acting("step", call.name, first, instead and _body(instead, base, attempt, large))


def _claimed_body(call: Call, large: Large | None) -> Callable[[Try], Awaitable[str]]:
    async def body(given: Try) -> str:
        execution, _, at = given.key.partition("/")
        HERE.set(StepContext(execution, at, given.key, 1, 0))
        value = await call.run()
        try:
            return await kept(large, value, f"what step {at!r} returned")
        except (InvalidInput, LimitExceeded):  # it was done, and must not look as if it were not
            return codec.encode({"repr": f"{value!r:.2000}"})

    return body


def failed(event: Event, address: str, attempts: int) -> StepFailed:
    """Return the error that a recorded failure stands for."""
    error = event.data["error"]
    message = f"step {address!r} failed: {error['message']}"
    return StepFailed(message, code=error["code"], address=address, error_type=error["type"], attempts=attempts)


def _body(call: Call, address: str, attempt: int, large: Large | None) -> Callable[[Try], Awaitable[str]]:
    async def body(given: Try) -> str:
        execution, _, at = given.key.partition("/")
        first = at if attempt == 1 else address  # the key of the first attempt is that of the step
        HERE.set(StepContext(execution, first, f"{execution}/{first}", attempt, given.takeovers))
        witness = expect_record(f"{execution}/{first}") if call.delivery is Delivery.TRANSACTIONAL else None
        try:
            value = await call.run()
            if witness is not None:
                witness.demand(f"step {address!r}")
        except Exception as error:
            raise Unsuccessful(codec.encode({"value": None, "error": _facts(call, error, attempt)})) from error
        return await kept(large, value, f"what step {address!r} returned")

    return body


def _facts(call: Call, error: Exception, attempt: int) -> dict[str, Json]:
    """Return what is recorded of a failed attempt, with the pause that follows it, if any does."""
    text = str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
    code = getattr(error, "code", None)
    permanent = isinstance(error, (PermanentError, *call.retry.no_retry))
    pause_ms = None
    if attempt <= call.retry.retries and not permanent:
        after = error.after_seconds if isinstance(error, RetryLater) else None
        asked = None if after is None else round(after * 1000)
        pause_ms = next_pause(call.retry.rules(), attempt + 1, _chance(call, attempt), asked)
    return {
        "code": code if isinstance(code, str) else "raised",
        "type": type(error).__name__,
        "message": text[:4_000],
        "attempt": attempt,
        "retry_ms": pause_ms,
    }


def _chance(call: Call, attempt: int) -> float:
    """Return a number from 0 to 1 that differs from step to step, for the jitter of a pause."""
    step_context = HERE.get()
    key = step_context.key if isinstance(step_context, StepContext) else call.name
    return int(codec.digest(key, attempt)[:8], 16) / 0xFFFFFFFF


def _call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
    *,
    name: str | None,
    delivery: DeliveryName | Delivery | None,
    retries: int | Retry | None,
    timeout: timedelta | None,
) -> Call:
    tool = getattr(function, "__perdure_tool__", None)
    declared = getattr(tool, "options", None)  # a `@tool` keeps its guarantee
    found = (
        name
        if name is not None
        else str(getattr(getattr(function, "func", function), "__name__", type(function).__name__))
    )
    if declared is not None and getattr(declared, "redact", None) is not None:
        raise InvalidInput(
            f"step {found!r}: the tool has redact, which a step would not ask: what it hides would be recorded. Give "
            "`step` a function that hides it in what it returns.",
            code="bad_step",
        )
    mode = Delivery(delivery) if delivery else getattr(declared, "delivery", Delivery.AT_LEAST_ONCE)
    retry = _retry(retries, mode)
    timeout_ms = getattr(declared, "timeout_ms", 0) if timeout is None else max(milliseconds(timeout), 1)
    try:
        digest = codec.digest(found, list(args), options)
    except (InvalidInput, LimitExceeded) as error:
        raise InvalidInput(
            f"step {found!r}: its arguments are not JSON, so a re-run could not compare them: {error.message} Bind "
            "what is none with functools.partial.",
            code="unserialisable",
        ) from None
    simulate = None if tool is None or mode is Delivery.REPEATABLE else _simulation_of(function, tool)
    return Call(function, args, options, found, digest, mode, retry, timeout_ms, simulate)


def _simulation_of(function: Callable[..., Any], tool: object) -> Callable[..., Any] | None:
    """Return what stands in for a `@tool`, called like it. None if there is nothing, or it wants a worker's context."""
    known = getattr(tool, "simulation", None)
    if known is None or known.context is not None:
        return None

    def simulate(*args: Any, **options: Any) -> Any:
        given = inspect.signature(function).bind(*args, **options).arguments
        return known.function(**{name: value for name, value in given.items() if name in known.wanted})

    return simulate


def _retry(retries: int | Retry | None, delivery: Delivery) -> Retry:
    if isinstance(retries, Retry):
        retry = retries
    elif retries is None:
        retry = _ONE_TRY if delivery is Delivery.AT_MOST_ONCE else _THREE_TRIES
    else:
        retry = Retry(retries=retries)
    if retry.retries and delivery is Delivery.AT_MOST_ONCE:
        raise InvalidInput(
            f"retries={retry.retries} with delivery='at_most_once', whose body never starts twice: leave retries out, "
            "or choose 'at_least_once'.",
            code="bad_step",
        )
    return retry
