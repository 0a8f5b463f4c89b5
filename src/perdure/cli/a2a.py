"""`perdure a2a`: which agents programs that speak A2A may reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Server, ask

if TYPE_CHECKING:
    from perdure.core.a2a import PublishedView, PushView

app = typer.Typer(help="Let agents be reached by A2A, the protocol between agents.", no_args_is_help=True)


@app.command()
def publish(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="Where the agent is declared.", show_default=False)
    ],
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="What its card says of it.", show_default=False)
    ] = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Let an agent be reached under its name, by who has a key of your company.

    What was published under the name before is replaced: new tasks begin with this definition, those that began go on
    with theirs. Its tools are called by your workers, as ever.
    """
    from perdure.cli.terminal import console, print_json, whoami
    from perdure.worker.target import load_agents

    [agent] = load_agents([target])
    spec = agent.compile()
    done = ask(server, lambda api: api.publish_agent(spec, description=description, by=by or whoami()))
    if as_json:
        print_json(done)
    else:
        console().print(f"Agent {done.agent} is reached at /a2a/{done.agent} of the server.", markup=False)


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the agents that are reached."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.published_agents())
    print_items(found, _show, as_json=as_json)


@app.command()
def withdraw(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Let an agent be reached no more. What it does goes on, and is seen as ever by the other commands."""
    from perdure.cli.terminal import console, print_json

    ask(server, lambda api: api.withdraw_agent(name))
    if as_json:
        print_json({"withdrawn": name})
    else:
        console().print(f"Agent {name} is not reached any more.", markup=False)


@app.command("pushes")
def pushes_command(
    execution: Annotated[
        str | None, typer.Argument(metavar="EXECUTION", help="Of one task only.", show_default=False)
    ] = None,
    given_up: Annotated[bool, typer.Option("--given-up", help="Those alone that are not tried any more.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show who is told of what tasks do, how far they were, and what went wrong."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.pushes(execution=execution))
    print_items([one for one in found if one.given_up_ms is not None or not given_up], _show_pushes, as_json=as_json)


def _show_pushes(found: list[PushView]) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid

    if not found:
        console().print(Text("Nobody is told.", style="dim"))
        return
    table = grid("TASK", "PUSH", "TO", "TOLD", "TRIES", "")
    for one in found:
        over = phrases.plain(f"given up: {one.error}" if one.given_up_ms is not None else one.error)
        told = f"{one.told_seq} of {one.last_seq}"
        table.add_row(one.execution, Text(one.id), Text(one.url), told, str(one.tries or ""), Text(over))
    console().print(table)


def _show(found: list[PublishedView]) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    if not found:
        console().print(Text("No agent is published. `perdure a2a publish MODULE:AGENT` adds one.", style="dim"))
        return
    table = grid("AGENT", "ADDRESS", "PUBLISHED BY", "")
    now_ms = moments.now_ms()
    for one in found:
        ago = phrases.ago(one.published_ms, now_ms)
        table.add_row(Text(one.agent), Text(f"/a2a/{one.agent}"), Text(one.published_by), ago)
    console().print(table)
