"""`perdure db`: migrate, check, back up, restore and copy a store. Speaks to the store itself, not to a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By

if TYPE_CHECKING:
    from perdure.upkeep.checking import Report

app = typer.Typer(
    help="Migrate, check, back up, restore and copy a store. No server is asked: the store itself is opened.",
    no_args_is_help=True,
)

StoreName = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH|URL",
        envvar="PERDURE_STORE",
        help="A SQLite file, or postgresql://user@host/database. By default this user's store.",
        show_default=False,
    ),
]
TargetFile = Annotated[str, typer.Argument(metavar="FILE", help="A new file.", show_default=False)]


@app.command()
def migrate(store: StoreName = None, as_json: AsJson = False) -> None:
    """Bring a store to this release's tables. Servers do so by themselves when they start; this does it beforehand.

    Safe to run twice, to kill, and on PostgreSQL while servers run. A SQLite file must not be in use, unless nothing is
    to be done. Refuses a store that a newer release has been at.
    """
    from perdure.cli.terminal import print_json
    from perdure.upkeep.migration import migrate_store

    done = migrate_store(_store(store))
    if as_json:
        print_json(done)
    elif done.steps:
        typer.echo(f"{done.store}: from step {done.before} to {done.after} ({', '.join(done.steps)}).")
    else:
        typer.echo(f"{done.store}: at step {done.after}, this release's. Nothing was to be done.")


@app.command()
def check(
    store: StoreName = None,
    logs: Annotated[
        bool, typer.Option("--logs/--no-logs", help="Also follow the hashes of every log: reads every event.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check a store or a backup and name every row that is not what it should be. Changes nothing.

    The file as SQLite sees it, tables and columns, whether rows go with their executions and what owns what, and every
    log: its numbers without gaps, its hashes. Servers may run meanwhile. Exit code 1 if anything is wrong.
    """
    from perdure.cli import failure
    from perdure.cli.terminal import print_json
    from perdure.upkeep.checking import check_store

    report = check_store(_store(store), logs=logs)
    if as_json:
        print_json({"ok": report.ok, **_fields(report)})
    else:
        _show(report)
    if not report.ok:
        failure.stop(failure.FAILED)


@app.command()
def backup(file: TargetFile, store: StoreName = None, as_json: AsJson = False) -> None:
    """Copy a SQLite store into a new file, while it is in use, and check the copy.

    The copy is of one moment, on the disk when this ends, and marked: no server runs on it until it is restored.
    """
    from perdure.cli.terminal import print_json
    from perdure.upkeep.backup import back_up

    done = back_up(_store(store), file)
    if as_json:
        print_json({"store": done.store, "file": done.file, "made_ms": done.made_ms, **_counts(done.report)})
    else:
        typer.echo(f"{done.file}: {_said(done.report)}")


@app.command()
def restore(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The backup; none with --in-place.", show_default=False)
    ] = None,
    store: StoreName = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where there is a store: it is put aside under another name.")
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="The store was brought back by other means (pg_restore, a snapshot of its disk), or is the backup "
            "itself: only pause what goes on in it.",
        ),
    ] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Make a store of a backup. Nothing in it goes on by itself: what was done after the backup is forgotten.

    Every execution that had not ended is paused, and every call of an at_most_once tool that was still to end is
    uncertain: look outside what became of it, rule, resume. Schedules are paused too. Nobody may run on the store.
    """
    from perdure.cli.terminal import print_json, whoami
    from perdure.upkeep.restore import restore as put_back
    from perdure.upkeep.restore import restore_in_place

    if in_place == (file is not None):
        raise typer.BadParameter("name a backup, or give --in-place.", param_hint="FILE")
    who = by or whoami()
    done = (
        restore_in_place(_store(store), by=who) if file is None else put_back(file, _store(store), force=force, by=who)
    )
    if as_json:
        print_json(done)
        return
    typer.echo(
        f"{done.store}: {done.paused} executions and {done.schedules} schedules are paused, {done.uncertain} calls are "
        f"uncertain, {done.cancelled} cancelled executions lost the rest of their cleanup."
    )
    if done.kept:
        typer.echo(f"What was there before is {done.kept}.")
    typer.echo("Next: perdure server, perdure effects list --state uncertain, perdure executions resume.")


@app.command()
def copy(
    target: Annotated[
        str,
        typer.Argument(metavar="URL", help="An empty database: postgresql://user@host/database.", show_default=False),
    ],
    store: StoreName = None,
    as_json: AsJson = False,
) -> None:
    """Move a SQLite store into an empty PostgreSQL database. Nobody may run on the store meanwhile.

    Compares every row and follows every log at the end; then the file is marked, and no server runs on it any more. If
    it is interrupted, run it again: it goes on where it was.
    """
    from perdure.cli.terminal import print_json
    from perdure.upkeep.copying import copy as copy_store

    done = copy_store(_store(store), target)
    if as_json:
        print_json(done)
        return
    again = ", begun before" if done.resumed else ""
    typer.echo(
        f"{done.target} now holds {done.source}{again}: {sum(done.rows.values()):,} rows compared, {done.logs:,} logs "
        f"followed with {done.events:,} events. The file is not to be run on any more."
    )
    typer.echo("Next: perdure server --store URL")


def _store(given: str | None) -> str:
    from perdure.runtime import default_store

    return os.fspath(given or default_store())


def _fields(report: Report) -> dict[str, object]:
    return {
        "store": report.store,
        "dialect": report.dialect,
        "aside": report.aside,
        **_counts(report),
        "problems": report.problems,
    }


def _counts(report: Report) -> dict[str, object]:
    return {
        "step": report.step,
        "bytes": report.bytes,
        "rows": report.rows,
        "executions": report.executions,
        "logs": report.logs,
        "events": report.events,
    }


def _said(report: Report) -> str:
    from perdure.cli.phrases import plural

    return (
        f"{report.bytes:,} bytes, step {report.step}, {plural(sum(report.executions.values()), 'execution')}, "
        f"{plural(report.logs, 'log')} followed with {plural(report.events, 'event')}."
    )


def _show(report: Report) -> None:
    from perdure.cli.phrases import plain, plural

    typer.echo(f"{report.store} ({report.dialect}): {_said(report)}")
    if report.executions:
        typer.echo("executions: " + ", ".join(f"{count:,} {state}" for state, count in report.executions.items()))
    if any(report.rows.values()):
        typer.echo("rows: " + ", ".join(f"{name} {count:,}" for name, count in report.rows.items() if count))
    if report.aside:
        typer.echo(f"It is not to be run on: {report.aside}.")
    for one in report.problems:
        where = " ".join(filter(None, (one.table, one.row)))
        typer.echo(plain(f"✗ {where + ': ' if where else ''}{one.what}"))
    typer.echo(f"{plural(len(report.problems), 'problem')}." if report.problems else "✓ Nothing is wrong.")
