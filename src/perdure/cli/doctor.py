"""`perdure doctor`: is this installation sound, is the server well, and why does an execution not move?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, Server, ask

if TYPE_CHECKING:
    from perdure.core.views import Finding


def doctor(
    execution: Annotated[
        str | None, typer.Argument(metavar="EXECUTION", help="Say why this one does not move.", show_default=False)
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Check this installation and its server, or say why an execution does not move.

    Exit code 0 if nothing is wrong, 1 if something is, 4 if an execution waits for a person's decision.
    """
    from perdure.cli import failure
    from perdure.cli.examine import examine
    from perdure.cli.terminal import print_json

    if execution is None:
        findings = examine(server)
        decision_waits = False
    else:
        findings = [*ask(server, lambda api: api.diagnose(execution)), *_refused(execution)]
        decision_waits = bool(ask(server, lambda api: api.approvals(execution=execution)))
    if as_json:
        print_json({"findings": findings})
    else:
        _show(findings)
    if decision_waits:
        failure.stop(failure.NEEDS_APPROVAL)
    if any(one.level == "problem" for one in findings):
        failure.stop(failure.FAILED)


def _refused(execution: str) -> list[Finding]:
    """Return what workers of this user on this machine said of it that the server did not take."""
    from perdure.core.views import Finding
    from perdure.wire.worker_lock import default_folder
    from perdure.worker.outbox_file import refused

    return [
        Finding(
            "note",
            f"worker {one.worker} said that {one.address!r} {one.outcome}, and was refused ({one.answer}): its effect "
            f"may have happened beside what is recorded. Its words are kept in {default_folder()}.",
            f"perdure prove {execution}",
        )
        for one in refused(default_folder(), execution)
    ]


_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "bold red")}


def _show(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console

    out = console()
    for one in findings:
        mark, style = _MARKS[one.level]
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row(Text(mark, style=style), Text(phrases.plain(one.what)))
        out.print(line)
        if one.command:  # copied: a line's end within it would run half of it
            out.print(Text(f"  {one.command}", style="cyan"), soft_wrap=True)
