"""Write docs/reference/cli.md from the command line itself. `--check` only says whether it is up to date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from perdure.cli.failure import MEANINGS
from perdure.cli.main import build_app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = """\
# The command line

<!-- Written by tools/cli_reference.py. Change the commands, then run it. -->

`perdure NOUN VERB`; `python -m perdure` is the same. `--help` after any word explains it, `--install-completion` sets
up the shell. Commands take `--json`: one JSON document on stdout, in the form of the HTTP API; `executions watch`
prints one event a line, `server` and `worker` one line when they are ready. Only `mcp`, `rooms download` and `rooms
export` do not: their output has a form of its own.

Which server: `--server URL`, else `PERDURE_URL`, else the one that this user runs on this machine; where several run,
one has to be named. Its key: `PERDURE_API_KEY`, else, for a server of this user, its state file.
"""

VARIABLES = {
    "PERDURE_URL": "The server's address.",
    "PERDURE_API_KEY": "The key for it.",
    "PERDURE_STORE": "The SQLite file of `perdure server` and of embedded runtimes; for servers also `postgresql://…`.",
    "PERDURE_RETENTION": "How long a server or an embedded runtime has its store keep what ended: `30d`, `12h`, `off`.",
    "PERDURE_MAX_VALUE_MB": "As `perdure server --max-value-mb`, for an embedded runtime, too.",
    "PERDURE_PUBLIC_URL": "As `perdure server --public-url`.",
    "PERDURE_ALLOW_PRIVATE_HTTP": "`1`: as `perdure server --allow-private-http`, for an embedded runtime, too.",
    "PERDURE_TOOL_ENV": "Names, by commas: as `perdure server --tool-env`, for an embedded runtime, too.",
    "PERDURE_BASE_URL_KEYS": "Which key goes to a model's address that an agent names: `host[:port]=VARIABLE,...`.",
    "PERDURE_SECRETS_KEY": "The server's key for secrets; several by commas.",
    "PERDURE_SECRETS_KEY_FILE": "A file with the same.",
    "PERDURE_ALLOW_NETWORK_STORE": "`1`: have a SQLite file on a network file system all the same. Data can be lost.",
    "PERDURE_CRASHTEST_DIR": "Set by `perdure crashtest`: a folder for stand-ins, new for each run.",
    "PERDURE_SKILLS_PATH": "Folders of skills, separated as in `PATH`.",
    "PERDURE_SKILLS_OUT": "Where runs of skills leave their files.",
    "PERDURE_DEBUG": "`1`: show the traceback of an unexpected error.",
    "XDG_STATE_HOME": "Where store, state file and error log are: below `perdure/`. By default `~/.local/state`.",
    "NO_COLOR": "Set to anything: no colours.",
}


def main(arguments: list[str]) -> int:
    """Write the page, or compare it, and return the exit code."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{PAGE} is not what the commands say. Run: python tools/cli_reference.py\n")
    return 1


def page() -> str:
    """Return the whole page."""
    root: Any = get_command(build_app())
    parts = [HEAD, *exit_codes(), *variables()]
    for command, words in commands(root, "perdure"):
        parts += section(command, words)
    return "\n".join(parts).rstrip() + "\n"


def exit_codes() -> Iterator[str]:
    """Yield the table of exit codes."""
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    for code, meaning in MEANINGS.items():
        yield f"| {code} | {meaning} |"
    yield (
        '\nAn error is one line on stderr, `error[code]: message`; with `--json` it is `{"error": {"code", '
        '"message", "details"}}` on stdout. Codes are stable, and the same over HTTP and in Python.\n'
    )


def variables() -> Iterator[str]:
    """Yield the table of what is read from the environment."""
    yield "## Environment\n"
    yield "| variable | meaning |\n|---|---|"
    for name, meaning in VARIABLES.items():
        yield f"| `{name}` | {meaning} |"
    yield ""


def commands(command: Any, words: str) -> Iterator[tuple[Any, str]]:
    """Yield every command that does something, in the order of the help."""
    inner = getattr(command, "commands", None)
    if inner is None or command.invoke_without_command:
        yield command, words
    if inner is None:
        return
    for name, one in inner.items():
        if not one.hidden:
            yield from commands(one, f"{words} {name}")


def section(command: Any, words: str) -> Iterator[str]:
    """Yield the section of one command."""
    context = command.context_class(command, info_name=words)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"## {words}\n"
    yield f"```\n{words} {pieces}\n```\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    rows = [row for param in command.params if (row := described(param, context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from rows
        yield ""


def described(param: Any, context: Any) -> str | None:
    """Return the row of one option or argument; None if it is hidden or says nothing."""
    record = param.get_help_record(context)
    if param.name == "help" or getattr(param, "hidden", False) or not record:
        return None
    given = (param.metavar, record[1]) if param.param_type_name == "argument" and param.metavar else record
    name, meaning = (" ".join(str(text).split()).replace("|", "\\|") for text in given)
    return f"| `{name}` | {meaning} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
