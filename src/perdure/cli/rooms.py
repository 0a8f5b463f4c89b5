"""`perdure rooms`: write and read in the rooms that one's company is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from perdure.cli import rooms_files, rooms_hooks, rooms_ledger, rooms_rights, rooms_schedules, rooms_search
from perdure.cli.connect import AsJson, By, Server, ask
from perdure.cli.rooms_ledger import After, Limit, Room

if TYPE_CHECKING:
    from perdure.core.room_views import MemoryView, MessageView, RoomTaskView, RoomView, WakeView
    from perdure.core.rooms import Act, Written

app = typer.Typer(help="Rooms that several companies share: write, read, ask, remember.", no_args_is_help=True)
rooms_rights.add_to(app)

Key = Annotated[
    str, typer.Option("--key", metavar="TEXT", help="The same key again is the same, once.", show_default=False)
]
About = Annotated[
    str, typer.Option("--thread", metavar="ID", help="The message or task that it is about.", show_default=False)
]
TaskVerb = Literal["claim", "release", "complete", "decline", "cancel"]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.", show_default=False)],
    key: Key = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a room. Your company is its host, and invites others."""
    from perdure.cli.terminal import whoami

    _show_written(ask(server, lambda api: api.create_room(name, key=key, by=by or whoami())), as_json)


@app.command("list")
def list_command(server: Server = None, as_json: AsJson = False) -> None:
    """List the rooms that your company is in, and those that it may join."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.rooms())
    print_items(found, _show_rooms, as_json=as_json)


@app.command()
def show(room: Room, server: Server = None, as_json: AsJson = False) -> None:
    """Show a room and who is in it."""
    from perdure.cli.terminal import console, grid, print_json, state_text

    found: RoomView = ask(server, lambda api: api.room(room))
    if as_json:
        print_json(found)
        return
    table = grid("MEMBER", "", "ON A CRASH")
    for one in found.members:
        table.add_row(f"{one.company}/{one.name}" if one.name else one.company, state_text(one.state), one.on_crash)
    console().print(f"{found.name} ({found.id}), host {found.host}", markup=False, highlight=False)
    console().print(table)


@app.command()
def invite(
    room: Room,
    company: Annotated[str, typer.Argument(metavar="COMPANY", help="Who may join.", show_default=False)],
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Let a company join: the host's right."""
    from perdure.core.rooms import Invite

    write(server, room, Invite(company), by, as_json)


@app.command()
def join(room: Room, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Accept an invitation."""
    from perdure.core.rooms import Join

    write(server, room, Join(), by, as_json)


@app.command()
def leave(room: Room, by: By = "", server: Server = None, as_json: AsJson = False) -> None:
    """Leave a room, with all agents of your company."""
    from perdure.core.rooms import Leave

    write(server, room, Leave(), by, as_json)


@app.command("add-agent")
def add_agent(
    room: Room,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="Where the agent is declared.", show_default=False)
    ],
    on_crash: Annotated[
        Literal["resume", "abandon"], typer.Option(help="What becomes of a wake whose server dies.")
    ] = "resume",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Have an agent live in a room: what is meant for it wakes it, on the server."""
    from perdure.cli.terminal import whoami
    from perdure.worker.target import load_agents

    [agent] = load_agents([target])
    spec = agent.compile()
    done = ask(server, lambda api: api.put_room_agent(room, spec, on_crash=on_crash, by=by or whoami()))
    _show_written(done, as_json)


@app.command("remove-agent")
def remove_agent(
    room: Room,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Take an agent out of a room: it acts no more."""
    from perdure.core.rooms import RemoveAgent

    write(server, room, RemoveAgent(name), "", as_json)


@app.command()
def post(
    room: Room,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="MEMBER", help="`company` or `company/agent`; may be repeated.", show_default=False),
    ] = None,
    thread: About = "",
    key: Key = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Say something. Agents in --to, or in the text as @agent, are woken."""
    from perdure.core.rooms import Post

    write(server, room, Post(text, tuple(to or ()), thread, key), by, as_json)


@app.command()
def read(
    room: Room,
    after: After = 0,
    limit: Limit = 200,
    thread: About = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Read the messages of a room, the oldest first."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_messages(room, after=after, limit=limit, thread=thread))
    print_items(found, _show_messages, as_json=as_json)


@app.command()
def tasks(
    room: Room,
    state: Annotated[str, typer.Option(metavar="STATE", help="Only of this state.", show_default=False)] = "",
    to: Annotated[str, typer.Option(metavar="MEMBER", help="Only for this member.", show_default=False)] = "",
    after: After = 0,
    limit: Limit = 200,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a room."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_tasks(room, after=after, limit=limit, state=state, to=to))
    print_items(found, _show_tasks, as_json=as_json)


@app.command("ask")
def ask_command(
    room: Room,
    to: Annotated[str, typer.Argument(metavar="MEMBER", help="`company` or `company/agent`.", show_default=False)],
    title: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done.", show_default=False)],
    thread: About = "",
    key: Key = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Open a task for a company or an agent. It stays until somebody closes it."""
    from perdure.core.rooms import OpenTask

    write(server, room, OpenTask(title, to, thread, key), by, as_json)


@app.command()
def task(
    room: Room,
    id: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.", show_default=False)],
    verb: Annotated[TaskVerb, typer.Argument(metavar="VERB", help="What becomes of it.", show_default=False)],
    result: Annotated[str, typer.Option(metavar="TEXT", help="What came of it, or why not.", show_default=False)] = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Claim, release, complete, decline or cancel a task."""
    from perdure.core.rooms import ChangeTask

    write(server, room, ChangeTask(id, verb, result), by, as_json)


@app.command()
def remember(
    room: Room,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The line.", show_default=False)],
    reader: Annotated[
        list[str] | None,
        typer.Option(metavar="COMPANY", help="Who may read it; may be repeated. Default: all.", show_default=False),
    ] = None,
    key: Key = "",
    by: By = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Keep a line in the room's memory."""
    from perdure.core.rooms import EVERYBODY, Remember

    write(server, room, Remember(text, tuple(reader or (EVERYBODY,)), "", key), by, as_json)


@app.command()
def memory(room: Room, after: After = 0, limit: Limit = 200, server: Server = None, as_json: AsJson = False) -> None:
    """List the lines of the room's memory that your company may read."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_memory(room, after=after, limit=limit))
    print_items(found, _show_memory, as_json=as_json)


@app.command()
def wakes(room: Room, limit: Limit = 50, server: Server = None, as_json: AsJson = False) -> None:
    """List who was woken by what, the newest first."""
    from perdure.cli.terminal import print_items

    found = ask(server, lambda api: api.room_wakes(room, limit=limit))
    print_items(found, _show_wakes, as_json=as_json)


app.command()(rooms_search.search)
app.command("schedule")(rooms_schedules.schedule)
rooms_hooks.add_to(app)
for _verb in (rooms_files.upload, rooms_files.files, rooms_files.download):
    app.command()(_verb)
for _verb in (rooms_ledger.ledger, rooms_ledger.export, rooms_ledger.verify):
    app.command()(_verb)


def write(server: str | None, room: str, act: Act, by: str, as_json: bool) -> None:
    """Do it, and say what became of it."""
    from perdure.cli.terminal import whoami

    _show_written(ask(server, lambda api: api.write_in_room(room, act, by=by or whoami())), as_json)


def _show_written(done: Written, as_json: bool) -> None:
    from perdure.cli.terminal import console, print_json

    if as_json:
        print_json(done)
        return
    what = f"{done.id} (ledger {done.seq})" if done.seq else done.id
    known = "" if done.created else "; it was so before"
    woken = f"; woke {', '.join(done.woken)}" if done.woken else ""
    console().print(f"{what}{known}{woken}", markup=False, highlight=False)


def _show_wakes(found: list[WakeView]) -> None:
    from perdure.cli import moments, phrases
    from perdure.cli.terminal import console, grid, state_text

    table = grid("AGENT", "WOKEN BY", "EXECUTION", "", "WHEN")
    now_ms = moments.now_ms()
    for one in found:
        state = state_text(one.state) if one.state else ""
        table.add_row(f"{one.company}/{one.agent}", one.cause, one.execution, state, phrases.ago(one.at_ms, now_ms))
    console().print(table)


def _show_rooms(found: list[RoomView]) -> None:
    from perdure.cli.terminal import console, grid, state_text

    if not found:
        console().print("There are no rooms. `perdure rooms create NAME` makes one.", style="dim")
        return
    table = grid("ROOM", "NAME", "HOST", "", "LEDGER")
    for one in found:
        table.add_row(one.id, one.name, one.host, state_text(one.state), str(one.last_seq or ""))
    console().print(table)


def _show_messages(found: Sequence[MessageView]) -> None:
    from perdure.cli.terminal import print_said

    for one in found:
        about = f" in {one.thread}" if one.thread else ""
        print_said(f"{one.seq} {one.company}/{one.author}{about}  {one.id}", one.text)


def _show_tasks(found: Sequence[RoomTaskView]) -> None:
    from rich.text import Text

    from perdure.cli import phrases
    from perdure.cli.terminal import console, grid, state_text

    table = grid("TASK", "FROM", "TO", "", "HOLDER", "WHAT", "RESULT")
    for one in found:
        title, result = Text(phrases.clip(one.title)), Text(phrases.clip(one.result))
        table.add_row(one.id, f"{one.company}/{one.author}", one.to, state_text(one.state), one.holder, title, result)
    console().print(table)


def _show_memory(found: Sequence[MemoryView]) -> None:
    from rich.text import Text

    from perdure.cli.terminal import console, grid

    table = grid("LINE", "FROM", "READERS", "TEXT")
    for one in found:
        table.add_row(one.id, f"{one.company}/{one.author}", ", ".join(one.readers), Text(one.text))
    console().print(table)
