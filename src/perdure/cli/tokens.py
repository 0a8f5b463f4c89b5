"""`perdure tokens`: end the waits that code handed out tokens for."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.connect import AsJson, By, Server, Value, ask, value_of

app = typer.Typer(help="Complete or fail what code waits for from outside.", no_args_is_help=True)

Token = Annotated[
    str,
    typer.Argument(metavar="TOKEN", help="The token, its callback address, or its id.", show_default=False),
]


@app.command()
def complete(token: Token, value: Value = "null", by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """End the wait with a value. The same answer again changes nothing; another one is refused."""
    given = value_of(value)
    ask(server, lambda api: api.complete_token(_named(token), given, by=by or _who()))
    _say("completed", as_json)


@app.command()
def fail(
    token: Token,
    error: Annotated[
        str, typer.Option(metavar="TEXT", help="What went wrong; the code that waits meets it.", show_default=False)
    ],
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End the wait with an error."""
    ask(server, lambda api: api.fail_token(_named(token), error, by=by or _who()))
    _say("failed", as_json)


def _named(token: str) -> str:
    from perdure.core.tokens import token_of

    return token_of(token)


def _say(what: str, as_json: bool) -> None:
    from perdure.cli.terminal import console, print_json

    if as_json:
        print_json({"decision": "complete" if what == "completed" else "fail"})
    else:
        console().print(f"The token is {what}.")


def _who() -> str:
    from perdure.cli.terminal import whoami

    return whoami()
