"""The conversation of one execution as its log tells it, and the running sums that limits are held against. Pure."""

from __future__ import annotations

from perdure.agent.large import shown
from perdure.agent.spec import AgentSpec
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.models.port import Message, ModelReply, ModelRequest, ToolCall, ToolSpec
from perdure.models.retry import Replied


class Conversation:
    """Grows turn by turn. Owner: the agent loop of one run."""

    def __init__(self, execution: str, spec: AgentSpec, first: Json) -> None:
        self._execution = execution
        self._spec = spec
        self._tools = tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in spec.tools)
        self._messages: list[Message] = []
        self._digest = codec.digest(spec.model, spec.name)
        self.turn = 0
        """The turn in progress; 1 is the first."""
        self.requests = 0
        self.tokens = 0
        self.cost_usd = 0.0
        """What is known of it."""
        self.text = ""
        """The model's last words."""
        self.uncertain: dict[str, ToolCall] = {}
        """Calls whose outcome nobody knows, by address."""
        self.failed: dict[str, ToolCall] = {}
        """Calls that failed for good."""
        self.revived: dict[str, ToolCall] = {}
        """Those of them that somebody has tried anew."""
        self.repairs = 0
        """How often the final answer had to be asked for again."""
        self.user(first if isinstance(first, str) else shown(first, "input"))

    def user(self, text: str) -> None:
        """Add something said to the model."""
        self._add(Message("user", text))

    def answer(self, call: ToolCall, text: str, *, failed: bool = False) -> None:
        """Add the answer to a tool call."""
        self._add(Message("tool", text, call_id=call.id, tool_name=call.name, failed=failed))

    def reply(self, replied: Replied) -> ModelReply:
        """Add a reply and count it."""
        reply = replied.reply
        self._add(Message("assistant", reply.text, reply.tool_calls, native=reply.native))
        self.tokens += reply.usage.input_tokens + reply.usage.output_tokens
        self.cost_usd += reply.cost_usd or 0.0
        self.text = reply.text
        return reply

    def request(self, address: str) -> ModelRequest:
        """Return the next request: everything said so far."""
        return ModelRequest(
            model=self._spec.model,
            instructions=self._spec.instructions,
            messages=tuple(self._messages),
            tools=self._tools,
            base_url=self._spec.base_url,
            settings=self._spec.settings,
            output_schema=self._spec.output_schema,
            call=f"{self._execution}/{address}",
        )

    @property
    def digest(self) -> str:
        """Fingerprint of everything said so far; each message is hashed once, however long the conversation."""
        return self._digest

    def told(self, events: list[Event]) -> None:
        """Add messages and what became of uncertain effects, in the order they came."""
        for event in events:
            if event.kind is Kind.MESSAGE:
                self.user(event.data["text"])
            elif event.kind is Kind.TASK_REVIVED:
                self._put_back(event)
            elif event.address in self.revived:
                self._ended_anew(event)
            elif event.kind is Kind.EFFECT_CONTRADICTED:
                self.user(_contradiction(event))
            elif event.address in self.uncertain:
                self._resolved(event)

    def _put_back(self, event: Event) -> None:
        call = self.failed.pop(event.address)
        self.revived[event.address] = call
        who = event.data["by"] or "a person"
        reason = f" ({event.data['reason']})" if event.data["reason"] else ""
        self.user(
            f"Your call {call.id} of {call.name}, which had failed, is being tried again at the wish of {who}{reason}. "
            "Do not make it again yourself; you will be told how it ended."
        )

    def _ended_anew(self, event: Event) -> None:
        call = self.revived.pop(event.address)
        about = f"About your call {call.id} of {call.name}, which was tried again"
        match event.kind:
            case Kind.TASK_COMPLETED:
                self.user(f"{about}: it was done now. Result: {shown(event.data['value'], 'result')}")
            case Kind.TASK_UNCERTAIN:
                self.uncertain[event.address] = call
                self.user(f"{about}: OUTCOME UNKNOWN ({event.data['why']}). Do not repeat it; you will be told.")
            case _:
                self.failed[event.address] = call
                self.user(f"{about}: it failed once more: {event.data['error']}")

    def _resolved(self, event: Event) -> None:
        call = self.uncertain[event.address]
        known = _resolution(event)
        if known is not None:
            del self.uncertain[event.address]
            if not _was_done(event):
                self.failed[event.address] = call  # and may be put back, as any other
            self.user(f"About your call {call.id} of {call.name}, whose outcome was unknown: {known}")

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        calls: list[Json] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
        self._digest = codec.digest([self._digest, message.role, message.text, message.call_id, calls])


def _was_done(event: Event) -> bool:
    return event.kind is Kind.TASK_COMPLETED or event.data.get("ruling") == "happened"


def _contradiction(event: Event) -> str:
    said = f"it was done, with the result {shown(event.data['value'], 'result')}" if "value" in event.data else None
    return (
        f"About the step {event.address!r}: what you were told of its outcome was wrong. Whoever ran it says now that "
        f"{said or 'nothing happened: ' + str(event.data['error'])}. If it was begun a second time, it may have been "
        "done twice. Take that into account, and do not undo anything on your own."
    )


def _resolution(event: Event) -> str | None:
    """Return in words what is known now; None while it still runs."""
    match event.kind:
        case Kind.TASK_COMPLETED:
            return f"it was done. Result: {shown(event.data['value'], 'result')}"
        case Kind.TASK_FAILED:
            return f"it was not done: {event.data['error']}"
        case Kind.EFFECT_RULED if event.data["ruling"] == "happened":
            return f"it was done. Result: {shown(event.data.get('value'), 'result')}"
        case Kind.EFFECT_RULED if event.data["ruling"] == "give_up":
            return "nobody could find out, and it will not be tried again. Do not repeat it."
        case _:
            return None
