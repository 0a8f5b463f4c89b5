"""What is run on Perdure: a module as its users write one, which is all that a worker loads beside Perdure itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from step_log import STEPS, TURNS, body, did, ended

from perdure import Agent, durable, tool
from perdure.flow import signal, step
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage

CALLS_AT_ONCE = 50
"""In `tasks-http`: tool calls of the one reply, so that nearly all work is that of tasks."""


@durable
async def w1_function(execution: str) -> str:
    """Ask a model and call a tool, five times."""
    for number in range(STEPS):
        await step(body, execution, number, name="tool" if number % 2 else "model")
    ended(execution)
    return "done"


@durable
async def once_function(execution: str) -> str:
    """The same, and no tool's body ever starts twice."""
    for number in range(STEPS):
        if number % 2:
            await step(body, execution, number, name="tool", delivery="at_most_once")
        else:
            await step(body, execution, number, name="model")
    ended(execution)
    return "done"


@durable
async def w4_function(execution: str) -> Any:
    """Ask a model, wait for a signal, call a tool."""
    await step(body, execution, 0, name="model")
    said = await signal("go")
    await step(body, execution, 1, name="tool")
    return said


@tool
async def look(execution: str, n: int) -> str:
    """Look something up."""
    return await body(execution, n)


agent = Agent(name="w1", model="scripted/w1", tools=[look])
many = Agent(name="many", model="scripted/many", tools=[look])


def w1_script(request: ModelRequest) -> ModelReply:
    """Call the tool five times, one call a reply, then answer."""
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn == TURNS:
        return ModelReply("done", (), "stop", Usage(1, 2), "scripted/w1", 0.0)
    return _reply(request, [2 * turn + 1], 2 * turn)


def many_script(request: ModelRequest) -> ModelReply:
    """Make all calls in one reply, then answer."""
    if len(request.messages) > 1:
        return ModelReply("done", (), "stop", Usage(1, 2), "scripted/many", 0.0)
    return _reply(request, range(1, 2 * CALLS_AT_ONCE, 2), 0)


def _reply(request: ModelRequest, calls: Sequence[int], number: int) -> ModelReply:
    execution = request.messages[0].text
    made = tuple(ToolCall(f"c{n}", "look", f'{{"execution":"{execution}","n":{n}}}') for n in calls)
    return ModelReply(did(execution, number), made, "tool_call", Usage(1, 2), request.model, 0.0)


SCRIPTS = {"w1": w1_script, "many": many_script}
SERVED: dict[str, tuple[str, Any]] = {
    "function": ("w1_function", w1_function),
    "agent": ("agent", agent),
    "tasks": ("many", many),
    "pair": ("w1_function", w1_function),
    "once": ("once_function", once_function),
}
"""By the first word of a mode: what is run, and its name in this module."""
