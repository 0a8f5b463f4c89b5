"""`@tool`: declare a function that agents may call. Checked at once, and the function stays a plain function.

Nothing global is touched: a tool exists for an agent only when it is in the agent's list.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from perdure.agent.approval import Approval, read_approval
from perdure.agent.companion import Companion, read_companion
from perdure.agent.doubt import IfUnknown, Intent, read_intent, with_doubt
from perdure.agent.probe import probe_body, redact_answer
from perdure.agent.schema import InvalidArguments, Signature, read_signature
from perdure.agent.tool_rules import (
    Redact,
    bad_tool,
    check_importable,
    milliseconds,
    read_memory,
    read_no_retry,
    read_redact,
    read_rules,
)
from perdure.core.approval import DEFAULT_APPROVAL, ApprovalRules, approval_to_json
from perdure.core.codec import Json
from perdure.core.delivery import Delivery, probe_tool, simulation_tool
from perdure.core.rules import DEFAULT_RULES, TaskRules, rules_to_json
from perdure.core.work import DEFAULT_QUEUE
from perdure.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])

DeliveryName = Literal["repeatable", "at_least_once", "at_most_once", "transactional"]

RETRIES = 2
MAX_RETRIES = 1_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_QUEUE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_ATTRIBUTE = "__perdure_tool__"


class Options(TypedDict, total=False):
    """What may be said about a tool."""

    name: str
    """What models call it. Default: the function's name."""
    description: str
    """What models are told it does. Default: the docstring."""
    approval_required: bool
    """Whether a person must say yes to each call, with its exact arguments, before the body starts."""
    approval: Approval
    """As above, by these rules: how many must agree, who, until when."""
    approval_timeout_seconds: float | None
    """How long to wait for the yes; then the call is not made, and the model is told. Default: for ever."""
    timeout_seconds: float | None
    """For one attempt. None, the default, is no limit."""
    retries: int
    """How many more tries follow a failed one: 2. Under `at_most_once` none by default, and only after one that raised
    `NotDone`."""
    queue: str
    """Which workers it is for: those that serve this queue. Default: `default`."""
    delivery: DeliveryName | Delivery
    """What a crash may lead to. `repeatable`: it changes nothing, and runs as often as it takes. `at_least_once`, the
    default: it may run again, with the same idempotency key. `at_most_once`: the body starts once or never, and
    somebody rules on what nobody saw the end of. `transactional`: it may run again, and a record in the same
    transaction (`perdure.ledger`) makes that harmless."""
    settle_seconds: float | None
    """How long after it began nobody may say that it did not happen: its request may still be on its way. Default:
    `timeout_seconds` and one lease of 30 seconds."""
    probe: Callable[..., Any] | None
    """Finds out what became of a call whose outcome nobody knows. Called on a worker, with those of the tool's
    arguments that it names and a `ToolContext` with the call's idempotency key; returns an `Outcome`."""
    simulate: Callable[..., Any] | None
    """Stands in for the body in a fork that may not act: called on a worker like a probe, with those of the tool's
    arguments that it names, it returns what the tool would have returned. Without one, such a call pauses the fork."""
    if_unknown: IfUnknown
    """What is taken to be so if nobody has found out after `ruling_deadline_seconds`: `give_up` or `happened`. Default:
    `ask`, for as long as it takes."""
    ruling_deadline_seconds: float | None
    """As above."""
    key_ttl_seconds: float | None
    """How long whoever is called remembers idempotency keys, from the start of the first try. Past it, the call is not
    tried again by itself: what became of it is unknown then. Default: for ever."""
    intent: Intent | None
    """What makes two calls of one execution the same act, whatever else differs: `lambda a: (a.order_id, a.cents)`. The
    second is not made: it gets the first one's result, when that is there. Called on a worker."""
    retry_pause_seconds: float
    """Before the second try: 2 seconds."""
    retry_factor: float
    """By which each further pause is longer than the one before it: 2."""
    retry_ceiling_seconds: float
    """No pause of the policy is longer: 60 seconds."""
    retry_jitter: float
    """Each pause is cut by a random part of itself, from nothing up to this: 0.2, so that calls that failed together
    do not come back together. 0 is none, 1 is all."""
    no_retry: tuple[type[Exception], ...]
    """Exceptions, with all that derive from them, after which trying again cannot help: the call has failed for
    good."""
    deadline_seconds: float | None
    """For all tries and the pauses between them, from the start of the first; no try begins after it. Default: none."""
    isolated: bool
    """Whether the body runs in a process of its own, which is killed when time is up, the call is cancelled or its
    lease is lost: the only way to stop a body that hangs, or to outlive one that crashes. Costs a fresh interpreter
    for each call; the function must be one that a fresh interpreter can import, and `dependencies` are not there."""
    memory_mb: float | None
    """How much memory an isolated body may ask for, in megabytes of address space. Default: no limit."""
    redact: Redact | None
    """Takes out of what a call leaves behind what must not be stored. Called on the worker with what the body, the
    probe or the stand-in gave, and with the text of an error, before any of it is written, the worker's own disk
    included. What it returns is recorded, and is all that the model, people and a run after a crash ever see. If it
    raises, nothing of the value is kept, as if it could not be stored. It is not given None, arguments, and what the
    body itself tells by `progress` and `checkpoint`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """The options of a declared tool, complete and checked."""

    approval_required: bool = False
    approval: ApprovalRules = DEFAULT_APPROVAL
    timeout_ms: int = 0
    """For one attempt; 0 is none."""
    attempts: int = RETRIES + 1
    """All tries, the first included."""
    rules: TaskRules = DEFAULT_RULES
    queue: str = DEFAULT_QUEUE
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    no_retry: tuple[type[Exception], ...] = ()
    intent: Intent | None = None
    isolated: bool = False
    memory_bytes: int = 0
    """Of an isolated body's process; 0 is no limit."""
    redact: Redact | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ToolDefinition:
    """A declared tool: what models see, what the server schedules by, and the function itself."""

    name: str
    description: str
    options: ToolOptions
    function: Callable[..., Any]
    """The very function that was declared."""
    signature: Signature = field(repr=False)
    probe: Companion | None = field(default=None, repr=False)
    simulation: Companion | None = field(default=None, repr=False)
    is_async: bool = field(init=False, repr=False)
    """Whether the body is a coroutine; anything else runs in a thread."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))

    @property
    def schema(self) -> dict[str, Json]:
        """JSON schema of the arguments. Do not change it."""
        return self.signature.schema

    def probing(self) -> ToolDefinition | None:
        """Return what workers serve to find out about calls of this tool, under a name that no tool can have."""
        redact = self.options.redact and redact_answer(self.options.redact)
        return self.probe and self._beside(probe_tool(self.name), probe_body(self.probe), redact)

    def simulating(self) -> ToolDefinition | None:
        """Return what workers serve in its place for forks that may not act, as above."""
        body = self.simulation and self.simulation.body(_as_it_is)
        return body and self._beside(simulation_tool(self.name), body, self.options.redact)

    def _beside(self, name: str, body: Callable[..., Any], redact: Redact | None) -> ToolDefinition:
        options = ToolOptions(queue=self.options.queue, delivery=Delivery.REPEATABLE, redact=redact)
        signature = dataclasses.replace(self.signature, context=None)  # the function may want it, and finds it itself
        return ToolDefinition(name, "", options, body, signature)

    def validate(self, args: Mapping[str, Json]) -> dict[str, Any]:
        """Return the keyword arguments for the function, with the types it declares; the context is not among them.

        Raises `InvalidInput` (`invalid_arguments`) in words that a model can act on: field, expected, found.
        """
        try:
            return self.signature.validate(args)
        except InvalidArguments as error:
            raise InvalidInput(
                f"The arguments of tool {self.name} do not fit its schema. {error}.",
                code="invalid_arguments",
                tool=self.name,
                errors=error.lines,
            ) from None

    def spec(self) -> dict[str, Json]:
        """Return what a server needs to know, as JSON."""
        return {
            "name": self.name,
            "description": self.description,
            "schema": self.schema,
            "delivery": str(self.options.delivery),
            "approval_required": self.options.approval_required,
            **({"approval": approval} if (approval := approval_to_json(self.options.approval)) else {}),
            "timeout_ms": self.options.timeout_ms,
            "attempts": self.options.attempts,
            "queue": self.options.queue,
            "rules": rules_to_json(self.options.rules),
        }


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(**options: Unpack[Options]) -> Callable[[F], F]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Declare a tool, bare or with options. Returns the function it was given, still callable as ever.

    The schema comes from type hints and the docstring. Raises `InvalidInput` at once: `bad_schema` for parameters that
    have none, `bad_tool` for options that make no sense.
    """
    names = _names_around(sys._getframe(1))  # pyright: ignore[reportPrivateUsage] - the names its annotations may use

    def declare(function: F) -> F:
        definition = _define(function, options, names)
        try:
            setattr(function, _ATTRIBUTE, definition)
        except AttributeError:
            raise bad_tool(definition.name, "cannot carry a declaration; wrap it in a `def`") from None
        return function

    return declare if function is None else declare(function)


def definition_of(declared: ToolDefinition | Callable[..., Any]) -> ToolDefinition:
    """Return the definition of a tool; a plain function counts as a tool with default options.

    Raises `InvalidInput` (`bad_tool`, `bad_schema`).
    """
    if isinstance(declared, ToolDefinition):
        return declared
    known = getattr(declared, _ATTRIBUTE, None)
    if not isinstance(known, ToolDefinition):
        return _define(declared, {}, None)
    if known.function is declared:
        return known
    # Another decorator stands around the tool and took its attributes over: the outermost one is what runs.
    return dataclasses.replace(known, function=declared)


def _as_it_is(value: Any) -> Any:
    return value


def _names_around(frame: Any) -> dict[str, Any] | None:
    return None if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _define(function: Callable[..., Any], options: Options, names: Mapping[str, Any] | None) -> ToolDefinition:
    name = _name(function, options)
    if not callable(function) or isinstance(function, type):
        raise bad_tool(name, f"is {function!r:.80}, not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise bad_tool(name, "is a generator; a tool returns one value, so collect the items into a list")
    checked = check_options(name, options)
    if checked.isolated:
        check_importable(name, function)
    signature = read_signature(function, names)
    beside = {
        option: None if given is None else read_companion(name, option, given, signature, names)
        for option, given in (("probe", options.get("probe")), ("simulate", options.get("simulate")))
    }
    description = options.get("description", signature.description)
    return ToolDefinition(name, description, checked, function, signature, beside["probe"], beside["simulate"])


def _name(function: object, options: Options) -> str:
    name = options.get("name") or getattr(function, "__name__", None)
    if name is None:
        raise bad_tool(f"{function!r:.80}", "has no name; give it one with `@tool(name=...)`, or wrap it in a `def`")
    return check_name(name)


def check_name(name: str) -> str:
    """Return a name that models accept. Raises `InvalidInput` (`bad_tool`)."""
    if not _NAME.fullmatch(name):
        raise bad_tool(name, "has a name that models do not accept: letters, digits, `_` and `-`, at most 64 of them")
    return name


def check_options(name: str, options: Options) -> ToolOptions:
    """Return complete options for the tool `name`. Raises `InvalidInput` (`bad_tool`)."""
    if unknown := options.keys() - Options.__annotations__.keys():
        first = sorted(unknown)[0]
        near = difflib.get_close_matches(first, Options.__annotations__, n=1)
        raise bad_tool(name, f"has no option {first!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    delivery = _delivery(name, options.get("delivery", Delivery.AT_LEAST_ONCE))
    queue = options.get("queue", DEFAULT_QUEUE)
    if not _QUEUE.fullmatch(queue):
        raise bad_tool(name, f"has queue={queue!r}; a queue's name is 1 to 64 letters, digits, `_`, `.`, `:` and `-`")
    timeout = options.get("timeout_seconds")
    required, approval = read_approval(name, options)
    return ToolOptions(
        approval_required=required,
        approval=approval,
        timeout_ms=0 if timeout is None else max(milliseconds(name, "timeout_seconds", timeout, least=0.001), 1),
        attempts=_attempts(name, options.get("retries"), delivery),
        rules=with_doubt(name, options, delivery, read_rules(name, options)),
        intent=read_intent(name, options.get("intent")),
        queue=queue,
        delivery=delivery,
        no_retry=read_no_retry(name, options.get("no_retry", ())),
        isolated=bool(options.get("isolated", False)),
        memory_bytes=read_memory(name, options.get("memory_mb"), isolated=bool(options.get("isolated", False))),
        redact=read_redact(name, options.get("redact")),
    )


def _delivery(name: str, value: str) -> Delivery:
    try:
        return Delivery(value)
    except ValueError:
        known = ", ".join(repr(str(one)) for one in Delivery)
        raise bad_tool(name, f"has delivery={value!r}; expected one of {known}") from None


def _attempts(name: str, retries: object, delivery: Delivery) -> int:
    if retries is None:
        return 1 if delivery is Delivery.AT_MOST_ONCE else RETRIES + 1
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MAX_RETRIES:
        raise bad_tool(name, f"has retries={retries!r}; expected a whole number from 0 to {MAX_RETRIES}")
    return retries + 1


__all__ = ["Options", "ToolDefinition", "ToolOptions", "check_name", "check_options", "definition_of", "tool"]
