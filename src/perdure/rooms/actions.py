"""What an agent may declare beside its reply: memory lines, changes of tasks, new tasks. Read strictly here."""

from __future__ import annotations

from typing import Any, cast

from perdure.agent.calls import CallProblem, read_call
from perdure.agent.spec import AgentSpec, ToolEntry
from perdure.core.codec import Json
from perdure.core.rooms import EVERYBODY, MAX_TEXT, Act, ChangeTask, OpenTask, Remember, check_act
from perdure.errors import InvalidInput
from perdure.models.port import ToolCall

_TEXT: dict[str, Json] = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_NAME: dict[str, Json] = {"type": "string", "minLength": 1, "maxLength": 200}


def _schema(required: list[Json], **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_REMEMBER = ToolEntry(
    "remember",
    "Keep a line in the room's memory, for later wakes and for others. `readers`: companies that may read it; without, "
    "all in the room. `source`: id of the message or task that it comes from.",
    _schema(["text"], text=_TEXT, readers={"type": "array", "items": _NAME, "maxItems": 50}, source=_NAME),
)
_UPDATE_TASK = ToolEntry(
    "update_task",
    "Claim, release, complete or decline a task that is meant for you, or cancel one that your company asked for. "
    "`result`: what came of it, or why not.",
    _schema(
        ["task", "verb"],
        task=_NAME,
        verb={"enum": ["claim", "release", "complete", "decline", "cancel"]},
        result={"type": "string", "maxLength": MAX_TEXT},
    ),
)
_CREATE_TASK = ToolEntry(
    "create_task",
    "Ask a company in the room, `to` its name, or one of its agents, `company/agent`, to do something.",
    _schema(["title", "to"], title=_TEXT, to=_NAME),
)
ACTIONS = (_REMEMBER, _UPDATE_TASK, _CREATE_TASK)
RECALL = ToolEntry(
    "recall",
    "Read the lines of memory that not all in the room may read; `withheld` says how many there are. Only if you need "
    "them: what you tell others after that has to wait for a person.",
    _schema([]),
)


def read_action(
    spec: AgentSpec, address: str, call: ToolCall, *, key: str, thread: str, salt: str
) -> Act | CallProblem:
    """Return the act that a call declares, or what is wrong with it in words for the model."""
    read = read_call(spec, address, call)
    if isinstance(read, CallProblem):
        return read
    args = cast("dict[str, Any]", read.args)
    match call.name:
        case "remember":
            readers = tuple(args["readers"]) if "readers" in args else (EVERYBODY,)
            act = Remember(args["text"], readers, args.get("source", ""), key, salt)
        case "update_task":
            act = ChangeTask(args["task"], args["verb"], args.get("result", ""))
        case _:
            act = OpenTask(args["title"], args["to"], thread, key)
    try:
        check_act(act)
    except InvalidInput as refusal:
        return CallProblem(refusal.message)
    return act
