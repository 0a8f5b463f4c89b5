"""What `perdure server` says when it is ready, to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perdure.cli.terminal import console, home_short

if TYPE_CHECKING:
    from perdure.cli.server import Plan
    from perdure.server.node import Node
    from perdure.server.serve import Ready


def show_ready(plan: Plan, node: Node, ready: Ready) -> None:
    """Say where it listens, what it stands on, where the key is, and what to type next."""
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("store", home_short(plan.store))
    facts.add_row("key", _key(plan, ready))
    facts.add_row(
        "web", f"{ready.login}\n(signs one browser in, once, within ten minutes)" if ready.login else ready.url
    )
    if plan.agents:
        facts.add_row("serves", ", ".join(agent.name for agent in plan.agents))
    out = console()
    out.print(Text.assemble(("Perdure ", "bold"), (node.info().version, "dim"), " at ", (ready.url, "bold cyan")))
    out.print(facts)
    out.print(Text("Next, in another terminal:", style="dim"))
    out.print("  perdure worker MODULE:AGENT   run an agent's tools")
    out.print("  perdure executions list       see what runs")


def _key(plan: Plan, ready: Ready) -> str:
    if not plan.options.auth:
        return "none is asked for: whoever reaches this port may do anything"
    kept = home_short(str(Path(str(plan.options.state_file))))
    if ready.key_is_new:
        return f"{ready.key}\n(new, shown this once; commands of this user find it in {kept})"
    return f"in {kept}; commands of this user find it themselves"
