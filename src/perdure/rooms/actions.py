"""What an agent may declare beside its reply: memory lines, changes of tasks, new tasks, files. Read strictly here."""

from __future__ import annotations

from typing import Any, cast

from perdure.agent.calls import CallProblem, read_call
from perdure.agent.spec import AgentSpec, ToolEntry
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.rooms import EVERYBODY, MAX_TEXT, Act, ChangeTask, OpenTask, Remember, ShareFile, check_act
from perdure.errors import InvalidInput
from perdure.flow.context import Failed
from perdure.models.port import ModelReply, ToolCall, Usage

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
_SHARE_FILE = ToolEntry(
    "share_file",
    "Put a text into the room as a file that all in it may read. `name` without folders; the same name again is its "
    "next version. `media`: what it is, as text/markdown; without, text/plain.",
    _schema(["name", "text"], name=_NAME, text=_TEXT, media=_NAME),
)
ACTIONS = (_REMEMBER, _UPDATE_TASK, _CREATE_TASK, _SHARE_FILE)
RECALL = ToolEntry(
    "recall",
    "Read the lines of memory that not all in the room may read; `withheld` says how many there are. Only if you need "
    "them: what you tell others after that has to wait for a person.",
    _schema([]),
)
REPLY = "reply"
"""Under what name a function says what is to be posted."""
OWN_NAMES = frozenset(one.name for one in (*ACTIONS, RECALL))
"""Names that no tool of an agent's own may have."""


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
        case "share_file":
            act = ShareFile(args["name"], args["text"], args.get("media", "text/plain"), key)
        case _:
            act = OpenTask(args["title"], args["to"], thread, key)
    try:
        check_act(act)
    except InvalidInput as refusal:
        return CallProblem(refusal.message)
    return act


def read_decision(agent: str, value: Json) -> ModelReply:
    """Return what a company's function has decided, in the form of a model's answer. Raises `Failed`.

    `{"reply": text, "remember": {...} or [{...}], ...}`; `{"recall": true}` wants to be called again with what is
    withheld.
    """
    names = [REPLY, *sorted(OWN_NAMES)]
    expected = f"an object is expected, with any of {', '.join(names)}"
    if not isinstance(value, dict):
        raise _undecided(agent, f"what it returned is {codec.encode(value)[:80]}; {expected}")
    if unknown := sorted(value.keys() - set(names)):
        raise _undecided(agent, f"what it returned has {unknown[0]!r:.80}; {expected}")
    calls: list[ToolCall] = []
    for name, given in value.items():
        if name == REPLY or (name == RECALL.name and not given):
            continue
        wanted: list[Json] = [{}] if name == RECALL.name else given if isinstance(given, list) else [given]
        calls += (ToolCall(f"{name} {number}", name, codec.encode(one)) for number, one in enumerate(wanted, 1))
    reply = value.get(REPLY) or ""
    if not isinstance(reply, str):
        raise _undecided(agent, f"its reply is {codec.encode(reply)[:80]}; a text is expected")
    return ModelReply(reply, tuple(calls), "stop", Usage(), "")


def _undecided(agent: str, why: str) -> Failed:
    return Failed("on_wake_failed", f"the function of agent {agent!r}: {why}.")
