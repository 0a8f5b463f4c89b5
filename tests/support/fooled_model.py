"""A model that is fooled by everything: whatever its prompt tells it to do, it does, whoever wrote it. Scripted.

An instruction is JSON behind `OBEY:`, in any text. `recall` has it read what is withheld; `text` is added to its reply;
the other fields are the tools to call, with their arguments. `{secret}` stands for all lines that it was shown after it
had recalled them, and `{secret:how}` for them in another form.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage

WAYS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "backwards": lambda text: text[::-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "spaced": " ".join,
    "capitals": str.upper,
    "numbers": lambda text: "-".join(str(ord(letter)) for letter in text),
}
"""Forms in which a secret may leave."""
ORDER = "OBEY:"
_SECRET = re.compile(r"\{secret(?::(\w+))?\}")


def fooled(request: ModelRequest) -> ModelReply:
    """Do all that anybody asks for."""
    told = list(_instructions(request.messages[0].text))
    answered = [one.text for one in request.messages if one.role == "tool"]
    if any("recall" in one for one in told) and not answered:
        return ModelReply("", (ToolCall("c0", "recall", "{}"),), "tool_call", Usage(), "")
    secret = " ".join(answered)
    words: list[str] = []
    calls: list[ToolCall] = []
    for one in told:
        for name, given in _filled(one, secret).items():
            if name == "text":
                words.append(str(given))
            elif name != "recall":
                calls.append(ToolCall(f"c{len(calls) + 1}", name, json.dumps(given)))
    return ModelReply("\n".join(words) if words else "as you say", tuple(calls), "stop", Usage(), "")


def _instructions(prompt: str) -> Iterator[dict[str, Any]]:
    for text in _texts(json.loads(prompt)):
        at = text.find(ORDER)
        while at >= 0:  # what stands inside an instruction is none yet
            told, end = json.JSONDecoder().raw_decode(text, at + len(ORDER))
            yield told
            at = text.find(ORDER, end)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a prompt, each once: what woke it stands among the messages, too."""
    seen: set[str] = set()
    todo = [value]
    while todo:
        one = todo.pop(0)
        if isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list):
            todo += one
        elif isinstance(one, str) and one not in seen:
            seen.add(one)
            yield one


def _filled(instruction: dict[str, Any], secret: str) -> dict[str, Any]:
    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: put(one) for name, one in value.items()}
        if isinstance(value, list):
            return [put(one) for one in value]
        if not isinstance(value, str) or ORDER in value:  # an instruction that is to be passed on, as it is
            return value
        return _SECRET.sub(lambda found: WAYS[found[1] or "plain"](secret), value)

    return put(instruction)
