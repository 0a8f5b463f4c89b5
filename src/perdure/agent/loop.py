"""The agent loop: plain Python, run again from its log after a crash. Read it top to bottom; nothing else decides.

A turn is one request to the model and the handling of its reply. Model calls are steps of this function; tool calls
are tasks for workers, side by side, each behind its own approval if it needs one. What goes wrong with a call is told
to the model, and the run goes on; what goes wrong with the run ends it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from perdure.agent.calls import Call, CallProblem, names_of, problem_of, read_call, unstorable
from perdure.agent.conversation import Conversation
from perdure.agent.discovery import with_discovered
from perdure.agent.large import shown
from perdure.agent.spec import AgentSpec
from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.core.items import ScheduleTask
from perdure.core.ports import Clock
from perdure.flow.context import Context, Failed, Paused, Try
from perdure.models.port import ModelError, ModelReply, Models, ToolCall
from perdure.models.recorded import outcome_from_json, outcome_to_text
from perdure.models.retry import ModelOutcome, PauseFor, Refused, Replied, RetryLater, call_model

Gate = Callable[[Call], Awaitable["str | None"]]
"""Says why a call may not be made, or nothing."""
REPAIRS = 2
"""How often a final answer that is not of the declared type is asked for again."""


async def agent_loop(ctx: Context, spec: AgentSpec, first: Json, *, models: Models, clock: Clock) -> dict[str, Json]:
    """Run an agent until it has answered, or a limit or a stop ends it. Returns the execution's output."""
    spec = await with_discovered(ctx, spec)
    talk = Conversation(ctx.execution, spec, first)
    try:
        return await _turns(ctx, spec, talk, models, clock)
    except Failed:
        while (talk.uncertain or talk.revived) and not ctx.stop_requested:
            await wait_for_news(ctx, talk)  # no run ends while it is unknown what it did
        raise


async def _turns(ctx: Context, spec: AgentSpec, talk: Conversation, models: Models, clock: Clock) -> dict[str, Json]:
    while True:
        take_told(ctx, talk)
        if ctx.stop_requested:
            return _output(talk.text, "stopped")
        hold_limits(spec, talk)
        talk.turn += 1
        reply = await ask_model(ctx, talk, models, clock)
        if reply.tool_calls:
            calls = reply.tool_calls
            addresses = [f"turn {talk.turn}/tool/{name}" for name in names_of(calls)]
            running = (run_call(ctx, spec, talk, *one) for one in zip(addresses, calls, strict=True))
            for call, (text, failed) in zip(calls, await ctx.gather(*running), strict=True):
                talk.answer(call, text, failed=failed)
        elif talk.uncertain or talk.revived:
            await wait_for_news(ctx, talk)
        else:
            output = _final(spec, talk, reply)
            if output is not None and await ctx.finish(output):
                return output


async def wait_for_news(ctx: Context, talk: Conversation) -> None:
    """Wait until there is something to tell the model, or a stop was asked for."""
    known = talk.digest
    while talk.digest == known and not ctx.stop_requested:
        await ctx.news()
        take_told(ctx, talk)


def take_told(ctx: Context, talk: Conversation) -> None:
    """Give the conversation what the execution was told since."""
    events, ctx.told = ctx.told, []
    talk.told(events)


def hold_limits(spec: AgentSpec, talk: Conversation) -> None:
    """Raise `Failed` where one more turn would pass a limit. Counts only what is recorded, so a re-run agrees."""
    limits = spec.limits
    for name, used, limit in (
        ("max_turns", talk.turn, limits.turns),
        ("limits.requests", talk.requests, limits.requests),
        ("limits.tokens", talk.tokens, limits.tokens),
        ("limits.cost_usd", talk.cost_usd, limits.cost_usd),
    ):
        if limit is not None and used >= limit:
            raise Failed(
                "limit_exceeded",
                f"agent {spec.name!r} reached {name} ({used} of {limit}) before it had answered. "
                "Raise the limit, or make the task smaller.",
            )


async def ask_model(ctx: Context, talk: Conversation, models: Models, clock: Clock) -> ModelReply:
    """Get the reply of this turn, recorded once; wait for it by a stored timer where the provider asks for long."""
    tried = 0
    for occurrence in range(1, 100):
        address = f"turn {talk.turn}/model" + ("" if occurrence == 1 else f"/{occurrence}")

        async def body(attempt: Try, tried: int = tried, address: str = address) -> str:
            return outcome_to_text(await _request(talk, models, clock, address, tried + attempt.takeovers))

        outcome = outcome_from_json(await ctx.step(address, talk.digest, body))
        talk.requests += outcome.requests - tried
        match outcome:
            case Replied():
                return talk.reply(outcome)
            case RetryLater():
                tried = outcome.requests
                await ctx.sleep(f"{address}/wait", round(outcome.after_seconds * 1000))
            case Refused():
                code = "model_unavailable" if outcome.kind == "transient" else outcome.kind
                raise Failed(code, outcome.message)
            case PauseFor():  # never recorded: the body pauses instead
                raise Paused(outcome.kind, outcome.message)
    raise Failed("model_unavailable", "the model's provider asked to wait a hundred times.")


async def _request(talk: Conversation, models: Models, clock: Clock, address: str, already_tried: int) -> ModelOutcome:
    request = talk.request(address)
    try:
        port = models.port(request.model, request.base_url)
    except ModelError as error:
        return Refused(error.kind, error.message, 0)
    outcome = await call_model(port, request, clock=clock, already_tried=already_tried)
    if isinstance(outcome, PauseFor):
        raise Paused(outcome.kind, outcome.message)
    return outcome


async def run_call(
    ctx: Context, spec: AgentSpec, talk: Conversation, address: str, call: ToolCall, gate: Gate | None = None
) -> tuple[str, bool]:
    """Do one tool call; return what to tell the model, and whether it is an error.

    `gate` is asked last, with the arguments as they are by then: what it says instead of None is told to the model.
    """
    checked = read_call(spec, address, call)
    if isinstance(checked, CallProblem):
        return checked.text, True
    approval = f"{checked.address}/approval" if checked.tool.approval_required else None
    note = ""
    if approval is not None:
        decided = await ctx.approval(approval, call.name, checked.args, checked.tool.approval)
        match decided.data["decision"]:
            case "approve":
                pass
            case "edit":
                checked = replace(checked, args=decided.data["args"])
                note = _edit(decided)
            case "respond":
                return _response(decided), False
            case _:
                return _rejection(decided), True
    if gate is not None and (refusal := await gate(checked)) is not None:
        return refusal, True
    text, failed = _told(await ctx.task(task_of(spec, checked, approval)), talk, call)
    return note + text, failed


def task_of(spec: AgentSpec, call: Call, approval: str | None = None) -> ScheduleTask:
    """Return a call as what a worker takes. `approval`: where the yes to it was asked for."""
    tool = call.tool
    return ScheduleTask(
        address=call.address,
        digest=codec.digest(tool.name, call.args),
        agent=spec.name,
        tool=tool.name,
        queue=tool.queue,
        args=call.args,
        delivery=tool.delivery,
        max_attempts=tool.attempts,
        timeout_ms=tool.timeout_ms,
        approval=approval,
        rules=tool.rules,
    )


def _told(ended: Event, talk: Conversation, call: ToolCall) -> tuple[str, bool]:
    match ended.kind:
        case Kind.TASK_COMPLETED:
            value = ended.data["value"]
            return value if isinstance(value, str) else shown(value, f"result of {call.name}"), False
        case Kind.TASK_UNCERTAIN:
            talk.uncertain[ended.address] = call
            return (
                f"OUTCOME UNKNOWN: {call.name} had begun when contact was lost ({ended.data['why']}). It may or may "
                "not have happened. Do not repeat it. Somebody is looking into it, and you will be told.",
                True,
            )
        case _:
            talk.failed[ended.address] = call
            return f"{call.name} failed: {ended.data['error']}", True


def _rejection(decided: Event) -> str:
    word = "NOT APPROVED" if decided.data["decision"] == states.Waitpoint.EXPIRED else f"REJECTED by {_who(decided)}"
    return f"{word}{_reason(decided)}. The call was not made. Do not make it again unless you are told to."


def _edit(decided: Event) -> str:
    args = codec.encode(decided.data["args"])
    return f"EDITED by {_who(decided)}{_reason(decided)}: the call was made with {args} instead. Its result:\n"


def _response(decided: Event) -> str:
    return f"ANSWERED by {_who(decided)}; the call was not made: {decided.data['answer']}"


def _who(decided: Event) -> str:
    return decided.data["by"] or "a person"


def _reason(decided: Event) -> str:
    return f": {decided.data['reason']}" if decided.data["reason"] else ""


def _final(spec: AgentSpec, talk: Conversation, reply: ModelReply) -> dict[str, Json] | None:
    """Return the output, or None after asking the model to mend an answer that is not of the declared type."""
    if spec.output_schema is None:
        return _output(reply.text, reply.finish_reason)
    problem = "it is not JSON"
    try:
        value = codec.decode(reply.text)
        problem = unstorable(value, "it") or problem_of(spec.output_schema, value)
    except ValueError:
        value = None
    if problem is None:
        return _output(value, reply.finish_reason)
    if talk.repairs >= REPAIRS:
        raise Failed("bad_output", f"the final answer is not of the declared type: {problem}.")
    talk.repairs += 1
    talk.user(f"Your answer cannot be used: {problem}. Answer again, with JSON of the schema only.")
    return None


def _output(result: Json, finish_reason: str) -> dict[str, Json]:
    return {"result": result, "finish_reason": finish_reason}
