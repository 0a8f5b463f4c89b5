"""`perdure tasks`: the tool calls of an execution, and one more round for one that has failed for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Execution, Server, ask
from perdure.core import states

if TYPE_CHECKING:
    from perdure.core.views import TaskView

app = typer.Typer(help="See the tool calls of an execution; retry one that has failed for good.", no_args_is_help=True)


@app.command("list")
def list_command(execution: Execution, server: Server = None, as_json: AsJson = False) -> None:
    """List the tool calls of an execution in the order they were asked for: tries, workers, how far they are."""
    found = ask(server, lambda api: api.tasks(execution))
    if as_json:
        from perdure.cli.terminal import print_json

        print_json({"items": found})
    else:
        _show(found)


@app.command()
def retry(
    execution: Execution,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The step: 'turn 2/tool/call_1'.", show_default=False)
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why now; the model is told.", show_default=False)
    ] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Put a call that has failed for good back on its queue, with all its tries anew and the same idempotency key.

    What the model was told stays told: it hears of the retry, and of how it ends, as news, and the run does not end
    before that. Refused once the execution has ended or is being cancelled, for a durable function, whose code has gone
    on from the failure, and for an at_most_once call that had begun: `perdure effects rule` is for those.
    """
    from perdure.cli import phrases
    from perdure.cli.terminal import console, print_json, state_text, whoami

    task = ask(server, lambda api: api.retry_task(execution, address, by=whoami(), reason=reason))
    if as_json:
        print_json(task)
    else:
        console().print(phrases.call(task.tool, task.args), state_text(task.state))


def _show(found: list[TaskView]) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid, state_text

    out = console()
    if not found:
        out.print(Text("No tool calls yet.", style="dim"))
        return
    table = grid("STATE", "CALL", "ADDRESS", "TRIES", "SCHEDULED", "WHAT")
    now_ms = round(time.time() * 1000)
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
        out.print(Text(f"To try one anew: perdure tasks retry {dead.execution} '{dead.address}'", style="dim"))


def _what(task: TaskView, now_ms: int) -> str:
    """Return the one thing about a call that is worth a column."""
    from perdure.cli import phrases

    if task.failure is not None:
        return phrases.clip(task.failure.message)
    if task.run_at_ms is not None and task.run_at_ms > now_ms:
        return f"next try in {phrases.duration(task.run_at_ms - now_ms)}"
    if task.progress is not None and task.state in states.TASK_HELD:
        return phrases.progress(task.progress)
    return ""
