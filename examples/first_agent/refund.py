"""An agent that outlives its process, without a key and without a server: `python refund.py`, kill it, run it again.

The model is a script and says so; the store, the kills and the guarantees are real. Each body that starts leaves a line
in `started.txt`, so that you can count.
"""

from __future__ import annotations

import time
from pathlib import Path

from perdure import Agent, AgentEvent, AgentHandle, AgentRuntime, tool
from perdure.client.stream_events import ApprovalRequested, ToolCompleted, ToolScheduled, ToolUncertain
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say


@tool
def read_order(order_id: str) -> dict:
    """Look an order up. It only reads, so after a kill it may be tried again."""
    note(f"read_order {order_id}")
    time.sleep(3)  # time for you to kill it
    return {"order": order_id, "paid_cents": 4200}


@tool(approval_required=True, delivery="at_most_once", timeout_seconds=60)
def send_refund(order_id: str, cents: int) -> str:
    """Send money back. A person says yes first, and its body starts once or never."""
    note(f"send_refund {order_id} {cents}")
    time.sleep(3)
    return f"money sent, receipt {order_id}-R"


def note(line: str) -> None:
    """Write down that a body started."""
    with Path("started.txt").open("a", encoding="utf-8") as started:
        started.write(f"{line}\n")
    print(f"  started: {line}", flush=True)


def script(request: ModelRequest) -> ModelReply:
    """Answer in the model's place, by what the conversation has come to."""
    match sum(message.role == "assistant" for message in request.messages):
        case 0:
            return call("read_order", {"order_id": "1234"})
        case 1:
            return call("send_refund", {"order_id": "1234", "cents": 4200})
        case _:
            return say(f"Order 1234: {request.messages[-1].text}")


agent = Agent(
    name="refunds",
    model="scripted/refunds",  # with a key and perdure[openai]: "openai/gpt-5.5", and no script
    instructions="You handle refund requests.",
    tools=[read_order, send_refund],
)


def main() -> None:
    """Begin the run, or go on with it, and answer what it asks."""
    with AgentRuntime(store="refunds.db", models=Catalog(scripted={"refunds": script})) as runtime:
        # The same key again is the same execution, wherever its last process was killed.
        handle = runtime.start(agent, "Refund order 1234, the parcel never came.", idempotency_key="order-1234")
        print(handle.execution_id, flush=True)
        for event in handle.stream():
            hear(handle, event)
        print(handle.result().output["result"])


def hear(handle: AgentHandle, event: AgentEvent) -> None:
    """Say what was recorded, and ask the person what only a person knows."""
    match event:
        case ToolScheduled(tool=name):
            print(f"  recorded: the model wants {name}", flush=True)
        case ToolCompleted(value=value):
            print(f"  recorded: it gave {value}", flush=True)
        case ApprovalRequested() if handle.get_status().is_waiting:
            if input("  send_refund waits for you. Kill me, or answer [y/n]: ").startswith("y"):
                handle.approve()
            else:
                handle.reject("not this time")
        case ToolUncertain(address=address) if any(one.address == address for one in handle.get_status().waits):
            print("  send_refund began, and nobody knows how it ended. started.txt says that it started.")
            match input("  Did the money go? [y/n/unknown]: "):
                case "y":
                    handle.rule(address, "happened", value="refund seen at the bank", reason="asked the bank")
                case "n":
                    handle.rule(address, "run", reason="asked the bank")
                case _:
                    handle.rule(address, "give_up")


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, EOFError):  # Ctrl-C, or nobody is there to answer
        print("\n  Left. Run me again: it goes on.")
