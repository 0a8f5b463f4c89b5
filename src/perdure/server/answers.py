"""Check what a person answers to an approval before it is taken: edited arguments must be such as the tool takes."""

from __future__ import annotations

from perdure.agent.calls import call_problem
from perdure.agent.spec import spec_from_json
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.functions import is_function
from perdure.engine.resolve import Decide
from perdure.errors import InvalidInput
from perdure.rooms.spec import is_wake, wake_spec


def check_answer(row: Decide, asked: tuple[Json, str] | None) -> None:
    """See that an answer carries what its decision needs, and nothing else. `asked`: definition and tool, for an edit.

    Raises `InvalidInput`: `bad_answer`, and `invalid_arguments` in words that say where they do not fit.
    """
    for name, given, decision in (("args", row.args, "edit"), ("answer", row.answer, "respond")):
        if (given is not None) != (row.decision == decision):
            what = f"needs `{name}`" if row.decision == decision else f"takes no `{name}`: that goes with {decision!r}"
            raise InvalidInput(f"the decision {row.decision!r} {what}.", code="bad_answer", fields=[name])
    if row.answer is not None:
        codec.encode(row.answer, "answer")
    if row.args is None or asked is None:
        return
    codec.encode(row.args, "args")
    definition, name = asked
    if not isinstance(definition, dict) or is_function(definition):
        return
    spec = wake_spec(definition).agent if is_wake(definition) else spec_from_json(definition)
    tool = spec.tool(name)
    problem = call_problem(tool.schema, row.args) if tool is not None else None
    if problem is not None:
        raise InvalidInput(
            f"The edited arguments do not fit the schema of {name}: {problem}. Nothing was decided.",
            code="invalid_arguments",
            tool=name,
        )
