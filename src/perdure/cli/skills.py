"""`perdure skills`: show the skills that are there, and run one.

Everything is decided in `perdure.toolbox.skills`; this is its face for a terminal and for programs.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from perdure.errors import PerdureError
from perdure.toolbox.skills import DEFAULT_TIMEOUT, Catalog, RunRecord, read_catalog, refusal, run_skill
from perdure.toolbox.skills_manifest import Skill

app = typer.Typer(
    name="skills",
    help="Show the skills that are there, and run one. A skill is a folder with a SKILL.md and a script.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

EXIT_USAGE = 2
MAX_TIMEOUT_SECONDS = 7 * 86_400.0

Dirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--dir",
        help="A folder of skill folders to look into first; may be repeated. "
        "After it: PERDURE_SKILLS_PATH, ./skills, the bundled skills. The first of a name wins.",
    ),
]


@app.command("list")
def list_command(
    brief: Annotated[bool, typer.Option("--brief", help="One line a skill: name, (Free) or its price.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: skills, and folders that cannot be used.")
    ] = False,
    dirs: Dirs = None,
) -> None:
    """List the skills by name."""
    try:
        catalog = read_catalog(dirs or ())
    except PerdureError as error:
        _refuse(error, as_json)
    if as_json:
        _print_json({"skills": [_as_json(skill) for skill in catalog.skills], "problems": list(catalog.problems)})
        return
    _print_list(catalog, brief)
    for problem in catalog.problems:
        _say(f"not usable: {problem}")


@app.command("run", options_metavar="[OPTIONS]")
def run_command(
    name: Annotated[str, typer.Argument(help="The skill.")],
    args: Annotated[
        list[str] | None, typer.Argument(help="What the skill's script is given. Put `--` before the first.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the run record. Exit code 0 if there is one, also of a failed run.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where runs leave their files, each in a folder of its own.",
            envvar="PERDURE_SKILLS_OUT",
            show_default="./.skills/exports",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, max=MAX_TIMEOUT_SECONDS, help="Seconds until the script is stopped.")
    ] = DEFAULT_TIMEOUT.total_seconds(),
    dirs: Dirs = None,
) -> None:
    """Run a skill here and now: `perdure skills run read-csv -- incidents.csv`.

    Without --json its output comes as it is, and the exit code is the script's. This command never asks: a price is
    agreed to by whoever calls it.
    """
    if timeout != timeout:
        raise typer.BadParameter("nan is no number of seconds.", param_hint="--timeout")
    # So that a polite stop goes the way of Ctrl-C, which ends the script too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        record = run_skill(name, args or (), dirs=dirs or (), out=out, timeout=timedelta(seconds=timeout))
    except PerdureError as error:
        if not as_json:
            _refuse(error, as_json)
        record = refusal(name, error)
    if as_json:
        _print_json(record.to_json())
        return
    _print_record(record)
    raise typer.Exit(record.exit_code)


def _print_list(catalog: Catalog, brief: bool) -> None:
    wide = max((len(skill.name) for skill in catalog.skills), default=0)
    room = max(60, shutil.get_terminal_size((120, 24)).columns) - wide - 13
    for skill in catalog.skills:
        label = skill.price_label if skill.script else "(Text)"
        if brief:
            typer.echo(f"{skill.name:<{wide}}  {label:<8} {_first_sentence(skill.description, room)}")
        else:
            typer.echo(f"{skill.name}  {label}  {skill.category}\n  {skill.description}\n  {skill.folder}\n")


def _first_sentence(text: str, room: int) -> str:
    sentence = text.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= room else sentence[: room - 3].rstrip() + "..."


def _as_json(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "price": skill.price,
        "free": skill.free,
        "category": skill.category,
        "runnable": skill.script is not None,
        "folder": str(skill.folder),
    }


def _print_record(record: RunRecord) -> None:
    typer.echo(record.stdout, nl=False)
    typer.echo(record.stderr, nl=False, err=True)
    _say(f"{record.id} {record.status} in {record.duration_ms} ms, price ${record.price:g}")
    for artifact in record.artifacts:
        _say(f"  {artifact.path} ({artifact.bytes:,} bytes)")


def _refuse(error: PerdureError, as_json: bool) -> NoReturn:
    if as_json:
        _print_json({"error": {"code": error.code, "message": error.message}})
    else:
        _say(error.message)
    raise typer.Exit(EXIT_USAGE)


def _print_json(value: dict[str, Any]) -> None:
    # ASCII, so that no terminal, pipe or locale can stand in its way.
    typer.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def _say(line: str) -> None:
    typer.echo(f"perdure: {line}", err=True)


if __name__ == "__main__":
    app(prog_name="perdure skills")
