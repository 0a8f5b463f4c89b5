"""`perdure companies`: keys for companies that share this server, and the stop of a company in all rooms."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, By, Reason, Server, Yes, ask

if TYPE_CHECKING:
    from perdure.core.companies import CompanyStopped, CompanyView

app = typer.Typer(help="Keys for the companies that share a server; stop a company in all rooms.", no_args_is_help=True)

Company = Annotated[str, typer.Argument(metavar="COMPANY", help="The company's name.", show_default=False)]
Own = Annotated[str, typer.Argument(metavar="[COMPANY]", help="The company; your own if left out.")]


@app.command()
def add(
    company: Company,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Which person or program is to have the key.", show_default=False)
    ],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key for somebody of a company; the company too, if it is new. For the server's admin key.

    The key alone is written to the output, once: only its hash is kept. Whoever has it is that person, in rooms and in
    decisions.
    """
    from perdure.cli.terminal import print_json
    from perdure.core.companies import new_key
    from perdure.system import SystemRandom

    key = new_key(SystemRandom())
    made = ask(server, lambda api: api.add_company_key(company, name, key))
    if as_json:
        print_json({"company": company, "name": made.name, "id": made.id, "key": key})
        return
    typer.echo(key)
    typer.echo(f"This is the key {made.id} of {company}/{made.name}. It is shown only now.", err=True)


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the companies and their keys: whose they are, not the keys themselves. For the server's admin key."""
    from perdure.cli.terminal import print_items

    print_items(ask(server, lambda api: api.companies()), _show, as_json=as_json)


@app.command()
def revoke(
    company: Company,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `list` shows it.", show_default=False)],
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Have a key open nothing any more, within five seconds, nor its owner's browsers. For the server's admin key."""
    from perdure.cli.terminal import console, print_json

    if not yes and sys.stdin.isatty():
        typer.confirm(f"Revoke the key {key} of {company}? It cannot be had back.", abort=True, err=True)
    done = ask(server, lambda api: api.revoke_company_key(company, key))
    if as_json:
        print_json(done)
    else:
        console().print(f"Key {done.id} of {company}/{done.name} is revoked.", markup=False, highlight=False)


@app.command()
def stop(company: Own = "", reason: Reason = "", by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Have a company do nothing in any room for now: no act, no further request to a model.

    Your own with any key of it, another with the server's admin key. What its agents do outside of rooms goes on:
    `perdure executions pause` and `perdure executions cancel --all` are for that.
    """
    from perdure.cli.terminal import whoami

    done = ask(server, lambda api: api.stop_company(company, reason=reason, by=by or whoami()))
    _show_stop(done, "does nothing in any room", as_json)


@app.command()
def start(company: Own = "", by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Lift such a stop: wakes that it had paused go on where they were."""
    from perdure.cli.terminal import whoami

    done = ask(server, lambda api: api.start_company(company, by=by or whoami()))
    _show_stop(done, f"goes on; wakes that go on: {done.wakes}", as_json)


def _show_stop(done: CompanyStopped, what: str, as_json: bool) -> None:
    from perdure.cli import phrases
    from perdure.cli.terminal import console, print_json

    if as_json:
        print_json(done)
        return
    told = f"; told in {phrases.plural(done.rooms, 'room')}" if done.changed else "; it was so before"
    console().print(f"{done.company} {what}{told}", markup=False, highlight=False)


def _show(found: list[CompanyView]) -> None:
    from rich.text import Text

    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid

    table = grid("COMPANY", "KEY", "BEGINS WITH", "OF", "MADE", "")
    now_ms = moments.now_ms()
    for one in found:
        if not one.keys:
            table.add_row(one.company, "", "", "", phrases.ago(one.made_ms, now_ms), "no key")
        for key in one.keys:
            revoked = "" if key.revoked_ms is None else f"revoked {phrases.ago(key.revoked_ms, now_ms)}"
            known = (one.company, key.id, Text(key.begins), Text(key.name))
            table.add_row(*known, phrases.ago(key.made_ms, now_ms), revoked)
    console().print(table)
