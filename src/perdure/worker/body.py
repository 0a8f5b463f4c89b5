"""Run one tool's body, in the thread or on the loop it belongs to, and say how it ended.

Nothing a body raises gets past here: `SystemExit` and `KeyboardInterrupt` in a tool end the attempt, not the worker.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from perdure import failpoints
from perdure.agent.context import ToolContext, enter_tool
from perdure.agent.doubt import intent_of
from perdure.agent.tool import ToolDefinition
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.witness import Witness, expect_record
from perdure.errors import InvalidInput, LimitExceeded, PermanentError
from perdure.worker.judge import MAX_TEXT_BYTES, Raised, Stopped, describe, judge, shorten
from perdure.worker.redacting import NotRedacted, redacted, redacted_text
from perdure.worker.spool import Spool


def _no_clock() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Returned:
    """It returned; `value` is what the log will give back."""

    value: Json
    size: int
    """Of the encoded value, in bytes."""


Ended = Returned | Raised | Stopped


class Process(Protocol):
    """A process that is ready to run one call."""

    def go(self) -> None:
        """Let the body start."""
        ...

    def cancel(self) -> None:
        """Kill it, whether its body started or not."""
        ...

    @property
    def ended(self) -> asyncio.Future[Ended]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, ready to run."""

    definition: ToolDefinition
    args: Mapping[str, Json]
    context: ToolContext
    at_most_once: bool = False
    checked: dict[str, Any] | None = None
    """The validated arguments, when that was done before."""
    intent: str | None = None
    """What act it is, in its author's terms; found out by `check`."""
    wall_ms: Callable[[], int] = _no_clock
    """This process's clock, for the dates that servers send."""
    spool: Spool | None = None
    """Where a result goes that is too large for a log; None refuses it."""
    process: Process | None = None
    """What runs it, if it is isolated and was checked: there, so that its process waits for the word."""

    def drop(self) -> None:
        """It is not to be run after all."""
        if self.process is not None:
            self.process.cancel()

    def in_thread(self, wait: Callable[[Awaitable[Any]], Any]) -> Ended:
        """Run it here, blocking. `wait` runs to its end what a synchronous wrapper of a coroutine function returns."""
        witness = self._enter()
        try:
            kwargs = self._kwargs()
            failpoints.hit("tool.before_body")
            value = self.definition.function(**kwargs)
            if inspect.isawaitable(value):
                value = wait(value)
            failpoints.hit("tool.after_body")
            if witness is not None:
                witness.demand(f"tool {self.definition.name}")
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises ends the attempt and no more
            return self._judge(error)
        return self._keep(value)

    async def on_loop(self) -> Ended:
        """Run it as a coroutine of the calling loop."""
        witness = self._enter()
        try:
            kwargs = self._kwargs()
            failpoints.hit("tool.before_body")
            value = await self.definition.function(**kwargs)
            failpoints.hit("tool.after_body")
            if witness is not None:
                witness.demand(f"tool {self.definition.name}")
        except BaseException as error:  # noqa: BLE001 - as above, and a loop that sees SystemExit stops for good
            return self._judge(error)
        return self._keep(value)

    def check(self) -> Call | Raised:
        """Validate the arguments, and ask what act it is, without running the function; returns a call that need not
        do it again."""
        try:
            checked = self.definition.validate(self.args)
            return dataclasses.replace(self, checked=checked, intent=self._intent(checked))
        except BaseException as error:  # noqa: BLE001 - validators are the user's code too
            ended = self._judge(error)
            return ended if isinstance(ended, Raised) else Raised("tool_error", ended.message)

    def _intent(self, checked: dict[str, Any]) -> str | None:
        intent = self.definition.options.intent
        try:
            return None if intent is None else intent_of(intent, checked)
        except (InvalidInput, LimitExceeded) as error:  # before the body: its code must not say that a result was bad
            raise PermanentError(error.message, code="bad_intent") from None

    def _enter(self) -> Witness | None:
        enter_tool(self.context)
        if self.definition.options.delivery is not Delivery.TRANSACTIONAL:
            return None
        return expect_record(self.context.idempotency_key)

    def _kwargs(self) -> dict[str, Any]:
        definition = self.definition
        kwargs = definition.validate(self.args) if self.checked is None else self.checked
        if definition.signature.context is not None:
            kwargs = {**kwargs, definition.signature.context: self.context}
        return kwargs

    def _judge(self, error: BaseException) -> Raised | Stopped:
        tool = self.definition
        hide = partial(redacted_text, tool)
        return judge(error, tool.name, no_retry=tool.options.no_retry, now_ms=self.wall_ms(), hide=hide)

    def _keep(self, value: object) -> Ended:
        """Encode here, not on the worker's loop: it may take long, and runs what the user's types bring along."""
        try:
            value = redacted(self.definition, value)
        except NotRedacted as error:
            if self.at_most_once:
                return Returned({"unserialisable": str(error)}, MAX_TEXT_BYTES)
            return Raised("unserialisable", str(error), permanent=True)
        try:
            return self._kept(value, f"the result of tool {self.definition.name}")
        except BaseException as error:  # noqa: BLE001 - `model_dump` and the like are the user's code
            if self.at_most_once:
                # It acted, and that must not look like a failure; its repr is the receipt.
                return Returned({"unserialisable": shorten(_repr(value))}, MAX_TEXT_BYTES)
            if isinstance(error, (InvalidInput, LimitExceeded)):
                return Raised(error.code, shorten(error.message), permanent=True)
            return Raised("unserialisable", describe(error), permanent=True)

    def _kept(self, value: object, what: str) -> Returned:
        try:
            text, plain = codec.round_trip(value, what)
        except LimitExceeded:
            if self.spool is None:
                raise
            return Returned(self.spool.keep(value, what), 0)
        return Returned(plain, len(text))


def _repr(value: object) -> str:
    try:
        return repr(value)
    except BaseException:  # noqa: BLE001 - `__repr__` is the user's code
        return f"<{type(value).__qualname__}, whose repr raises>"
