"""What `perdure server` says when it is ready, to people. Links, keys and paths stay on one line: they are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.cli.terminal import console, home_short

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.cli.server import Plan
    from perdure.server.node import Node
    from perdure.server.serve import Ready


def show_ready(plan: Plan, node: Node, ready: Ready) -> None:
    """Say where it listens, what it stands on, where the key is, how to sign in, and what to type next."""
    from rich.text import Text

    out = console()
    out.print(Text.assemble(("Perdure ", "bold"), (node.info().version, "dim"), " at ", (ready.url, "bold cyan")))
    _fact(out, "store", home_short(plan.store))
    _show_key(out, plan, ready)
    if plan.agents:
        _fact(out, "serves", ", ".join(agent.name for agent in plan.agents))
    _fact(out, "web", ready.login or ready.url)
    if ready.login:
        _fact(out, "", "(signs one browser in, once, within ten minutes)")
    out.print(Text("Next, in another terminal:", style="dim"))
    out.print("  perdure worker MODULE:AGENT   run an agent's tools")
    out.print("  perdure executions list       see what runs")


def _show_key(out: Console, plan: Plan, ready: Ready) -> None:
    kept = home_short(str(plan.options.state_file))
    if not plan.options.auth:
        _fact(out, "key", "none is asked for: whoever reaches this port may do anything")
    elif ready.key_is_new:
        _fact(out, "key", ready.key)
        _fact(out, "", f"(new, shown this once; commands of this user find it in {kept})")
    else:
        _fact(out, "key", f"in {kept}; commands of this user find it themselves")


def _fact(out: Console, name: str, said: str) -> None:
    from rich.text import Text

    out.print(Text.assemble((f"{name:<8}", "dim"), said), soft_wrap=True)
