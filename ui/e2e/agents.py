"""What runs in the tests of the UI: agents with scripted models, whose tools wait, fail, act or die as they are told.

`perdure server --script` and `perdure worker` find them here by name.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

from perdure import Agent, Approval, ToolContext, durable, tool
from perdure.flow import run_agent, sleep, step
from perdure.models.port import ModelReply, ModelRequest, Usage
from perdure.models.scripted import call, say, together, turns

GATES = Path(os.environ.get("UI_TEST_GATES", "/nowhere"))
"""A file in it lets a tool go on that waits for it."""
USAGE = Usage(input_tokens=1_840, output_tokens=212)


@tool
def look_up(order: str) -> dict[str, object]:
    """Look an order up.

    Args:
        order: Its number.
    """
    return {"order": order, "placed": "2026-11-21", "status": "never arrived", "paid_eur": 89.9, "carrier": "Parcelway"}


@tool(approval=Approval(expires_seconds=6 * 3600), delivery="at_most_once")
def refund(order: str, amount_eur: float, to: str, note: str = "") -> str:
    """Pay money back.

    Args:
        order: The order to refund.
        amount_eur: Euros to give back.
        to: Whose account.
        note: What the customer reads.
    """
    return f"refunded {amount_eur:.2f} EUR for {order} to {to}"


@tool(delivery="at_most_once")
def ship(order: str) -> str:
    """Send a parcel, in a process that dies half way: nobody knows whether it left."""
    os.kill(os.getpid(), signal.SIGKILL)
    return order


@tool
def pack(box: str, ctx: ToolContext) -> str:
    """Pack a box. Takes until somebody opens its gate."""
    (GATES / f"{box}.begun-{ctx.attempt}").touch()
    while not (GATES / box).exists():
        time.sleep(0.02)
    return f"packed {box}"


@tool(retries=0, delivery="repeatable")
def weigh(box: str) -> str:
    """Weigh a box, on scales that are broken."""
    raise ValueError(f"the scales do not answer for {box}")


HOSTILE = """\
# <script>window.hacked = 1</script>

![pixel](http://127.0.0.1:1/pixel.png) and <img src=x onerror="window.hacked = 1">

Read [the policy](javascript:window.hacked=1), or [our site](https://evil.example/?q=secret).

<a href="https://evil.example">click</a> <iframe src="https://evil.example"></iframe>

Pay to \u202egro.live\u202c now, at pay\u200bpal.com.

| a | b |
|---|---|
| <b>x</b> | `<svg onload=alert(1)>` |

```html
</code></pre><script>window.hacked = 1</script>
```
"""


@tool(delivery="repeatable")
def read_mail() -> str:
    """Read a mail that somebody wrote who means no good, of five megabytes."""
    return HOSTILE + "".join(f"line {number} <img src=x onerror=window.hacked=1>\n" for number in range(110_000))


@tool(delivery="repeatable")
def measure(place: str) -> dict[str, object]:
    """Measure the weather.

    Args:
        place: Where.
    """
    return {"place": place, "degrees": 12, "wind": "north-west", "rain": False}


ANSWER = """\
## Order 1234

The parcel **never arrived**; the refund went out.

| what | value |
|---|---|
| Paid | 89.90 EUR |
| Refunded | 89.90 EUR |
| Carrier | Parcelway |

1. The carrier has no scan after *Hamburg*.
2. A claim is open; see `claims/1234`.
"""

desk_script = [
    call("look_up", {"order": "1234"}, text="I look the order up first."),
    call(
        "refund",
        {"order": "1234", "amount_eur": 89.9, "to": "DE02 1203 0000 0000 2020 51", "note": "Sorry. It is on its way."},
        text="It never arrived, so a refund is due. I ask for it.",
    ),
    say(ANSWER, usage=USAGE, cost_usd=0.0061),
]
ship_script = [
    call("ship", {"order": "77"}),
    say("The parcel is on its way, or not."),
    say("Thank you for telling me."),
]
hostile_script = [call("read_mail", {}, text=HOSTILE), say(HOSTILE)]


def forecaster(request: ModelRequest) -> ModelReply:
    """Measure in the places that the first message names, and say how warm it is in each."""
    places = request.messages[0].text.split(" and ")
    if turns(request) == 0:
        return together(*(call("measure", {"place": place}, text=f"I measure in {place}. ") for place in places))
    told = [json.loads(one.text) for one in request.messages if one.role == "tool"]
    return say("; ".join(f"{one['place']} has {one['degrees']} degrees" for one in told), usage=USAGE, cost_usd=0.0021)


def packer(request: ModelRequest) -> ModelReply:
    """Pack the box that the first message names."""
    box = request.messages[0].text.split()[-1]
    replies = [
        call("look_up", {"order": box}, text="First the order."),
        together(call("pack", {"box": box}), call("weigh", {"box": box})),
        say(f"Box {box} is packed. The scales did not answer.", usage=USAGE, cost_usd=0.0019),
    ]
    return replies[min(turns(request), len(replies) - 1)]


def scribe(request: ModelRequest) -> ModelReply:
    """Answer in a room, keep a line, and ask the other company for something, which waits for a yes."""
    acts = [
        call("remember", {"text": "The river is 80 m wide."}, text="I keep that, and ask globex for the plan."),
        call("create_task", {"title": "Draw up the plan of the bridge.", "to": "globex"}),
    ]
    declared = together(*acts)
    return ModelReply(acts[0].text, declared.tool_calls, "stop", USAGE, "")


async def speaker(request: ModelRequest) -> AsyncIterator[str]:
    """Say a line, and the last one when the gate of this attempt is open."""
    yield f"The **first** line of attempt {request.attempt}. <img src=x onerror=window.hacked=1>"
    while not (GATES / f"speech-{request.attempt}").exists():  # noqa: ASYNC110 - opened by another process
        await asyncio.sleep(0.02)
    yield f"\n\nThe last line of attempt {request.attempt}."


desk = Agent(name="refund-desk", model="scripted/desk", tools=[look_up, refund], instructions="Help customers.")
desk_two = Agent(
    name="refund-desk", model="scripted/desk", tools=[look_up, refund], instructions="Help customers.\nBe brief."
)
shipping = Agent(name="shipping", model="scripted/ship", tools=[ship], instructions="Ship parcels.")
packing = Agent(name="packing", model="scripted/pack", tools=[look_up, pack, weigh], instructions="Pack boxes.")
mailbox = Agent(name="mailbox", model="scripted/hostile", tools=[read_mail], instructions="Read mail.")
weather = Agent(name="weather", model="scripted/weather", tools=[measure], instructions="Tell the weather.")
speaking = Agent(name="speaking", model="scripted/speech", instructions="Speak.")
writer = Agent(name="scribe", model="scripted/scribe", instructions="Keep the minutes of the bridge.")


async def lay_out(place: str) -> str:
    """Lay out what to take along."""
    return f"a coat for {place}"


async def close_bag(coat: str, told: str) -> str:
    """Close the bag."""
    return f"{coat}, as {told}"


@durable
async def trip(place: str) -> str:
    """Ask for the weather while things are laid out, wait a little, close the bag."""
    coat, report = await asyncio.gather(step(lay_out, place, delivery="repeatable"), run_agent(weather, place))
    await sleep(0.05)
    return await step(close_bag, coat, str(report.output), delivery="repeatable")


AGENTS = {
    "scribe": writer,
    "desk": desk,
    "desk-two": desk_two,
    "shipping": shipping,
    "packing": packing,
    "mailbox": mailbox,
    "weather": weather,
    "speaking": speaking,
    "trip": trip,
}
SCRIPTS = {
    "scribe": "scribe",
    "desk": "desk_script",
    "ship": "ship_script",
    "pack": "packer",
    "hostile": "hostile_script",
    "weather": "forecaster",
    "speech": "speaker",
}
