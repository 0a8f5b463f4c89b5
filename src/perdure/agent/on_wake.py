"""`@on_wake`: a function in place of a model, for an agent that lives in a room. A worker of its company runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

from perdure.agent.agent import Agent
from perdure.agent.tool import definition_of, tool
from perdure.core.delivery import Delivery
from perdure.core.work import DEFAULT_QUEUE
from perdure.errors import InvalidInput

BY_FUNCTION = "on_wake/function"
"""What stands where others name their model."""
ON_WAKE = "on_wake"
"""By what name workers know the function."""
RETRIES = 5
"""How many more tries follow a failed one, within a minute: a worker that dies has failed, and three in a row must not
cost a wake."""
_ROOM = "room"


@overload
def on_wake(function: Callable[..., Any], /) -> Agent: ...


@overload
def on_wake(
    *, name: str | None = None, queue: str = DEFAULT_QUEUE, timeout_seconds: float | None = None
) -> Callable[[Callable[..., Any]], Agent]: ...


def on_wake(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = DEFAULT_QUEUE,
    timeout_seconds: float | None = None,
) -> Any:
    """Declare an agent of a room whose wakes a function decides. Returns the agent: register it, and have it served.

    The function takes `room`, the room as a model would be shown it, and may take a `ToolContext`. It returns what is
    to be done: `{"reply": text, "remember": {...}, "update_task": {...}, "create_task": {...}, "share_file": {...}}`,
    each one or a list, all of it optional; or `{"recall": True}`, to be called again with the lines that not all may
    read. It only decides: all is done afterwards, once, under the rights of the room, and it may be called again for
    the same wake: six times at most, if it raises or its worker dies. `name`: the agent's, else the function's. Raises
    `InvalidInput` (`bad_tool`, `bad_schema`, `bad_agent`).
    """

    def declare(function: Callable[..., Any]) -> Agent:
        options: dict[str, Any] = {} if timeout_seconds is None else {"timeout_seconds": timeout_seconds}
        definition = definition_of(
            tool(delivery=Delivery.REPEATABLE, queue=queue, retries=RETRIES, **options)(function)
        )
        found: Any = definition.schema.get("properties", {})
        if list(found) != [_ROOM]:
            raise InvalidInput(
                f"@on_wake {definition.name!r} takes {', '.join(found) or 'nothing'}; it should take `room` alone, and "
                "a ToolContext if it wants one.",
                code="bad_tool",
            )
        return Agent(name=name or definition.name, model=BY_FUNCTION, tools=[replace(definition, name=ON_WAKE)])

    return declare if function is None else declare(function)
