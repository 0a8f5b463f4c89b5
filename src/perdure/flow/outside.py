"""What durable code waits for from outside: tokens handed out, signals sent in, executions that it begins itself."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.credentials import hash_of
from perdure.core.events import Event
from perdure.core.functions import function_spec
from perdure.core.items import OpenToken, StartChild
from perdure.core.states import Execution
from perdure.core.work import FunctionLane
from perdure.errors import Terminal, UserError
from perdure.flow.context import Pending
from perdure.flow.durable import DurableDefinition, durable_definition
from perdure.flow.large import kept, opened
from perdure.flow.meter import Wait
from perdure.flow.scope import Scope, checked, here
from perdure.flow.steps import milliseconds


class TokenFailed(Terminal):
    """Whoever held the token said that what was waited for failed."""

    default_code = "token_failed"


class ChildFailed(Terminal):
    """An execution that was begun here failed or was cancelled; `execution` is its id, `state` how it ended."""

    default_code = "child_failed"


class Token:
    """A wait that whoever holds its secret may end, once. Await it for the value: as often as needed, by any branch."""

    def __init__(self, scope: Scope, opened: Event, pending: Pending) -> None:
        self.name: str = opened.data["name"]
        self.id: str = opened.data["id"]
        """For people of one's own company: `perdure tokens complete ID`."""
        issuer = scope.context.issuer
        self.secret = issuer.secret(self.id) if issuer else ""
        """The right to end the wait; give it only to who shall have that. In no log and no table."""
        self.url = issuer.url(self.id, opened.data["base"]) if issuer else ""
        """Where a result may be posted; empty where the server was not told its public address."""
        self._pending = pending
        self._listening: list[Wait] = []
        pending.then = self._heard

    def __await__(self) -> Generator[Any, None, Any]:
        """Return the value. Raises `TokenFailed`, or `TimeoutError` when it expired."""
        return self._value().__await__()

    async def _value(self) -> Json:
        context = here().context
        context.check_open()
        if not self._pending.wait.done():
            self._listening.append(wait := Wait())
            await wait
        answer: Event = self._pending.wait.result()
        match answer.data["decision"]:
            case "complete":
                return await opened(context, answer.data["value"])
            case "fail":
                raise TokenFailed(f"token {self.name!r} failed: {answer.data['error']}", token=self.id)
            case _:
                raise TimeoutError(f"token {self.name!r} expired")

    def _heard(self, _answer: Event) -> None:
        for wait in self._listening:
            wait.give(None)
        self._listening.clear()


async def token(name: str, *, timeout: timedelta | None = None) -> Token:
    """Open a wait that anybody may end who is given its `url` or `secret`; await the token for the value.

    `timeout`: from now, by the store's clock; then awaiting it raises `TimeoutError`. Without one it waits for ever.
    """
    scope = here()
    context = scope.context
    if context.issuer is None:
        raise UserError(
            "tokens cannot be made here: whoever runs this execution has no key for them.", code="no_tokens"
        )
    timeout_ms = None if timeout is None else milliseconds(timeout)
    id = context.new_id("tok")
    item = OpenToken(
        address=scope.address(f"token {checked(name)}"),
        digest=codec.digest(name, timeout_ms),
        id=id,
        name=name,
        hash=hash_of(context.issuer.secret(id)),
        base=context.issuer.base,
        timeout_ms=timeout_ms,
    )
    return Token(scope, *await context.open(item))


async def signal(name: str) -> Json:
    """Wait for the oldest signal of this name that nobody took, and return its value. An abandoned wait takes none."""
    scope = here()
    event = await scope.context.signal(scope.address(f"signal {checked(name)}"), name)
    return await opened(scope.context, event.data["value"])


class Compiled(Protocol):
    """What an agent is to durable code."""

    @property
    def name(self) -> str: ...
    def compile(self) -> dict[str, Json]: ...


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How an execution ended that was begun here."""

    execution: str
    """Its id."""
    output: Any
    """What its agent answered, or its function returned."""
    finish_reason: str = ""
    """Of an agent's last reply."""


async def run_agent(agent: Compiled, input: Json, *, name: str | None = None) -> ChildResult:
    """Run an agent as an execution of its own, and return what it came to. It is begun once, whatever crashes.

    It is cancelled with this one. `name` (default: the agent's) makes the address. Raises `ChildFailed`.
    """
    spec = agent.compile()
    child = await _run(spec, agent.name, input, name, FunctionLane("", ""))
    output: dict[str, Any] = child.data["output"] or {}
    return ChildResult(child.data["execution"], output.get("result"), output.get("finish_reason", ""))


async def run_function(
    function: DurableDefinition | Callable[..., Any], input: Json = None, *, name: str | None = None
) -> ChildResult:
    """Run a durable function as an execution of its own, on any worker that serves it. Otherwise like `run_agent`."""
    definition = durable_definition(function)
    lane = FunctionLane(definition.name, definition.build)
    child = await _run(function_spec(lane), definition.name, input, name, lane)
    return ChildResult(child.data["execution"], await opened(here().context, child.data["output"]))


async def _run(spec: dict[str, Json], agent: str, input: Json, name: str | None, lane: FunctionLane) -> Event:
    scope = here()
    text = await kept(scope.context.large, input, f"the input of {agent}")
    item = StartChild(
        address=scope.address(name or agent),
        digest=codec.digest(agent, codec.decode(text)),
        id=scope.context.new_id("exe"),
        spec=spec,
        agent=agent,
        definition=codec.digest(spec),
        input=text,
        lane=lane.name,
        build=lane.build,
    )
    ended = await scope.context.child(item)
    if ended.data["state"] != Execution.COMPLETED:
        failure: dict[str, Any] = ended.data.get("failure") or {}
        raise ChildFailed(
            f"{agent} {ended.data['state']} as execution {ended.data['execution']}"
            + (f": {failure['error']}" if failure else "."),
            code=failure.get("code"),
            execution=ended.data["execution"],
            state=ended.data["state"],
        )
    return ended
