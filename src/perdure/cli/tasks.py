"""`perdure tasks`: the tool calls of an execution, and one more round for one that has failed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Execution, OneOf, Server, Yes, ask
from perdure.cli.moments import moment_ms
from perdure.core import states

if TYPE_CHECKING:
    from perdure.core.queues import DeadPage
    from perdure.core.views import TaskView

OfAgent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only of this agent.", show_default=False)]
OfTool = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only of this tool.", show_default=False)]
OfQueue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only of this queue.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Only those that failed since: 2h, 3d, a date.", show_default=False),
]

app = typer.Typer(help="See the tool calls of an execution; retry one that has failed for good.", no_args_is_help=True)


@app.command("list")
def list_command(execution: Execution, server: Server = None, as_json: AsJson = False) -> None:
    """List the tool calls of an execution in the order they were asked for: tries, workers, how far they are."""
    from perdure.cli.terminal import print_items
    from perdure.wire.pages import all_tasks

    found = ask(server, lambda api: all_tasks(api, execution))
    print_items(found, _show, as_json=as_json)


@app.command()
def dead(
    agent: OfAgent = None,
    tool: OfTool = None,
    queue: OfQueue = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="How many.")] = 50,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the calls of all executions that have failed for good and may be tried anew, the newest first.

    Those of executions that have ended, or are being cancelled, are not among them, nor those of durable functions.
    """
    from perdure.cli.terminal import print_json
    from perdure.core.queues import DeadFilter

    wanted = DeadFilter(agent, tool, queue, moment_ms(since, "--since"))
    page = ask(server, lambda api: api.dead_tasks(wanted, limit=limit))
    if as_json:
        print_json(page)
    else:
        _show_dead(page)


@app.command()
def retry(
    execution: OneOf = None,
    address: Annotated[
        str | None, typer.Argument(metavar="ADDRESS", help="The step: 'turn 2/tool/call_1'.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that `tasks dead` lists with these options.")] = False,
    agent: OfAgent = None,
    tool: OfTool = None,
    queue: OfQueue = None,
    since: Since = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why now; the model is told.", show_default=False)
    ] = "",
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Put a call that has failed for good back on its queue, with all its tries anew and the same idempotency key.

    What the model was told stays told: it hears of the retry, and of how it ended, as news, and the run does not end
    before that. Refused once the execution has ended or is being cancelled, for a durable function, whose code has gone
    on from the failure, and for an at_most_once call that had begun: `perdure effects rule` is for those. With --all:
    those that are there now, counted and asked about once; what is refused is counted and left as it is.
    """
    from perdure.cli import many, phrases
    from perdure.cli.terminal import console, print_json, state_text, whoami
    from perdure.core.queues import DeadFilter

    filters = {"--agent": agent, "--tool": tool, "--queue": queue, "--since": since}
    many.only_one("execution", execution, everything, filters)
    said = {"by": whoami(), "reason": reason}
    if execution is not None:
        if address is None:
            raise typer.BadParameter("which step of it? `perdure tasks list` shows them.", param_hint="ADDRESS")
        task = ask(server, lambda api: api.retry_task(execution, address, **said))
        if as_json:
            print_json(task)
        else:
            console().print(phrases.call(task.tool, task.args), state_text(task.state))
        return
    wanted = DeadFilter(agent, tool, queue, moment_ms(since, "--since"))
    found = ask(server, lambda api: many.all_dead(api, wanted))
    if found and not many.agreed(f"Retry {len(found)} calls?", yes=yes):
        raise typer.Abort
    outcome = ask(server, lambda api: many.each(found, lambda one: api.retry_task(one.execution, one.address, **said)))
    many.tell(outcome, "calls are back on their queues", as_json=as_json)


def _show_dead(page: DeadPage) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    out = console()
    if not page.items:
        out.print(Text("No call has failed for good.", style="dim"))
        return
    table = grid("EXECUTION", "ADDRESS", "AGENT", "TOOL", "QUEUE", "TRIES", "FAILED", "WHY")
    now_ms = moments.now_ms()
    for one in page.items:
        names = (one.execution, one.address, one.agent, one.tool, one.queue)
        why = Text(phrases.plain(phrases.clip(one.error)))
        table.add_row(*map(phrases.clip, names), str(one.attempt), phrases.ago(one.failed_ms, now_ms), why)
    out.print(table)
    more = " There are more." if page.cursor else ""
    out.print(Text(f"To try them anew: perdure tasks retry --all.{more}", style="dim"))


def _show(found: list[TaskView]) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid, state_text

    out = console()
    if not found:
        out.print(Text("No tool calls yet.", style="dim"))
        return
    table = grid("STATE", "CALL", "ADDRESS", "TRIES", "SCHEDULED", "WHAT")
    now_ms = moments.now_ms()
    for one in found:
        tries = f"{one.attempt}/{max(one.max_attempts, one.attempt)}"
        table.add_row(
            state_text(one.state),
            Text(phrases.call(one.tool, one.args, 40)),
            one.address,
            tries,
            phrases.ago(one.scheduled_ms, now_ms),
            Text(phrases.plain(_what(one, now_ms))),
        )
    out.print(table)
    dead = next((one for one in found if one.state == states.Task.DEAD), None)
    if dead is not None:
        out.print(
            Text(f"To try one anew: perdure tasks retry {dead.execution} '{dead.address}'", style="dim"), soft_wrap=True
        )


def _what(task: TaskView, now_ms: int) -> str:
    """Return the one thing about a call that is worth a column, and whether it only stands in for one."""
    said = _said(task, now_ms)
    return " · ".join(filter(None, ("simulated", said))) if task.simulated else said


def _said(task: TaskView, now_ms: int) -> str:
    from perdure.cli import phrases

    if task.failure is not None:
        return phrases.clip(task.failure.message)
    if task.run_at_ms is not None and task.run_at_ms > now_ms:
        return f"next try in {phrases.duration(task.run_at_ms - now_ms)}"
    if task.progress is not None and task.state in states.TASK_HELD:
        return phrases.progress(task.progress)
    return ""
