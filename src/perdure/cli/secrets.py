"""`perdure secrets`: keys of models and tools, sealed in the store. A value is typed unseen or piped in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Server, Yes, ask

if TYPE_CHECKING:
    from perdure.core.secrets import SecretView

app = typer.Typer(help="Keep keys of models and tools, sealed in the store.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name, as OPENAI_API_KEY.", show_default=False)]


@app.command("set")
def set_command(name: Name, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Keep a secret, in place of the one of its name. Its value is asked for; where stdin is no terminal, read from it.

    One with the name of a provider's key is what the company's agents ask their models with; headers of http_tool and
    mcp_tool name any as ${secret:NAME}.
    """
    from perdure.cli.terminal import console, print_json, whoami
    from perdure.core.secrets import check_secret, check_secret_name

    check_secret_name(name)
    value = _value(name)
    check_secret(name, value)
    kept = ask(server, lambda api: api.set_secret(name, value, by=by or whoami()))
    if as_json:
        print_json(kept)
    else:
        console().print(f"Secret {kept.name} is set. It counts from the next request on.", markup=False)


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the secrets: their names, who set them and when. Their values are not told."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.secrets())
    print_items(found, _show, as_json=as_json)


@app.command()
def delete(name: Name, yes: Yes = False, server: Server = None, as_json: AsJson = False) -> None:
    """Take a secret away. What refers to it fails from then on."""
    from perdure.cli.terminal import console, print_json

    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete the secret {name}? Its value cannot be had back.", abort=True, err=True)
    ask(server, lambda api: api.delete_secret(name))
    if as_json:
        print_json({"deleted": name})
    else:
        console().print(f"Secret {name} is gone.", markup=False)


@app.command()
def rotate(
    all_companies: Annotated[
        bool, typer.Option("--all-companies", help="Those of every company; for whoever has the server's admin key.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Seal all secrets under a new data key, and that under the server's first key. Values stay as they are.

    After the server was given another first key, this is what puts the secrets under it: then the old one can go.
    """
    from perdure.cli.terminal import console, print_json

    done = ask(server, lambda api: api.rotate_secrets(all_companies=all_companies))
    if as_json:
        print_json(done)
    elif not done.companies:
        console().print("There are no secrets to rotate.", markup=False)
    else:
        whose = f" of {done.companies} companies" if all_companies else ""
        console().print(f"{done.secrets} secrets{whose} are under server key {done.server_key}.", markup=False)


def _value(name: str) -> str:
    """Return what was typed or piped in, without the end of its line."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"Value of {name}", hide_input=True, err=True))
    text = sys.stdin.read(1_000_000)
    return text.removesuffix("\n").removesuffix("\r")


def _show(found: list[SecretView]) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    if not found:
        console().print(Text("There are no secrets. `perdure secrets set NAME` keeps one.", style="dim"))
        return
    table = grid("SECRET", "SET BY", "SET")
    now_ms = moments.now_ms()
    for one in found:
        table.add_row(Text(one.name), Text(one.set_by), phrases.ago(one.set_ms, now_ms))
    console().print(table)
