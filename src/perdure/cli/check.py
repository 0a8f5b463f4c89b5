"""`perdure check`: does durable code keep to what can be recorded, and does it go with the executions that live?"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connect import AsJson, Server

if TYPE_CHECKING:
    from types import ModuleType

    from perdure.client.http import HttpApi
    from perdure.core.events import Event

_PAGE = 1000


def check(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="Where durable functions are: `shop.functions`.")],
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Also run the executions that live against this code.")
    ] = True,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Check durable functions: what they use outside steps, and whether they go with the executions that live.

    Names time, chance, environment and IO outside steps, with line and cure. Then runs every execution that has not
    ended against the code, without its steps' bodies and without writing anything. Exit code 1 if it finds something.
    """
    from perdure.cli import failure
    from perdure.cli.phrases import plural
    from perdure.cli.terminal import print_json
    from perdure.worker.declared import durable_functions
    from perdure.worker.target import load_module

    found = load_module(module)
    uses = _uses(found)
    mismatches, looked = _live(found, server) if live else ([], 0)
    if as_json:
        print_json({"outside_steps": uses, "mismatches": mismatches, "executions": looked})
    else:
        for one in uses:
            typer.echo(f"{one['path']}:{one['line']}: {one['function']} uses {one['what']} ({one['kind']}) outside a")
            typer.echo(f"    step: {one['cure']}.")
        for one in mismatches:
            typer.echo(f"{one['execution']} ({one['function']}): {one['why']}")
        functions = len(durable_functions(found))
        counted = (plural(functions, "durable function"), plural(looked, "live execution"))
        typer.echo(f"{', '.join(counted)}, {plural(len(uses) + len(mismatches), 'finding')}.")
    if uses or mismatches:
        failure.stop(failure.FAILED)


def _uses(module: ModuleType) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from perdure.worker.outside_steps import find_outside_steps

    path = Path(inspect.getsourcefile(module) or module.__name__)
    source = inspect.getsource(module)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return [{"path": str(shown), **asdict(one)} for one in find_outside_steps(source)]


def _live(module: ModuleType, server: str | None) -> tuple[list[dict[str, Any]], int]:
    """Return the executions that do not go with the code, and how many were looked at. Without a server, none."""
    from perdure.cli.connect import ask
    from perdure.errors import Unreachable
    from perdure.worker.declared import durable_functions
    from perdure.worker.rerun import rerun_all

    definitions = durable_functions(module)
    try:
        logs = ask(server, lambda api: _logs(api, list(definitions)))
    except Unreachable:
        if server is not None:
            raise
        typer.echo("No server runs here, so no executions were looked at. --no-live leaves them out.", err=True)
        return [], 0
    told = rerun_all([(definitions[name], log) for _, name, log in logs])
    found = [
        {"execution": execution, "function": name, "why": why}
        for (execution, name, _), why in zip(logs, told, strict=True)
        if why is not None
    ]
    return found, len(logs)


async def _logs(api: HttpApi, names: list[str]) -> list[tuple[str, str, list[Event]]]:
    """Return the logs of all executions of these functions that have not ended."""
    from perdure.core import states

    logs: list[tuple[str, str, list[Event]]] = []
    for name in names:
        cursor: str | None = None
        while True:
            page = await api.executions(agent=name, cursor=cursor, limit=500)
            lives = [one.id for one in page.items if one.state not in states.TERMINAL]
            logs += [(execution, name, await _log(api, execution)) for execution in lives]
            cursor = page.cursor
            if cursor is None:
                break
    return logs


async def _log(api: HttpApi, execution: str) -> list[Event]:
    events: list[Event] = []
    while page := await api.events(execution, after=len(events), limit=_PAGE):
        events += page
    return events
