"""What the client does beside seeing the report through: one function an errand, which begins, nudges and ends it.

A client that is killed anywhere in one and started again does it once more, from its start: whatever it asks for was
done, or is done now. What it waits for, it finds in the public API.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from crash_agent import PROMPT
from crash_side import LARGE, PLEASE, family, handing, renaming, side_agent
from perdure import Agent, AgentHandle, Conflict, NotFound
from perdure.client.http import HttpApi
from perdure.client.stream_events import ExecutionPaused, ToolFailed, ToolScheduled
from perdure.core.queues import DeadFilter
from perdure.wire import routes

if TYPE_CHECKING:
    from crash_client import Client
    from perdure.core.views import ChildView

PATIENCE_SECONDS = 40.0
CROWD_SECONDS = 90.0
TICK_SECONDS = 80.0
"""Where no clock is set, a minute has to pass."""
LOOK_SECONDS = 0.03
ENDED = frozenset({"completed", "failed", "cancelled"})
SCHEDULE = "every minute"
QUEUE = "unused"
SECRET = "UNUSED"
COMPANY = "errand"
CROWD = 3
"""Reports at once, beside the one."""


class Impatient(Exception):
    """What an errand waits for did not come about: the run has gone wrong."""


def tokens(client: Client) -> None:
    """Complete one token, fail another, let a third expire."""
    handle = client.begin("tokens", handing)
    note = client.setup.folder / "tokens"
    until(lambda: note.exists() or ended(client, handle), "tokens to be handed out")
    given, refused = json.loads(note.read_text(encoding="utf-8"))
    quietly(lambda: client.runtime.complete_token(given, "here it is", by="ops"))
    quietly(lambda: client.runtime.fail_token(refused, "there is none", by="ops"))
    must_be("completed", client, handle)


def children(client: Client) -> None:
    """Cancel an execution whose child waits for ever."""
    handle = client.begin("family", family)
    until(lambda: _children(client, handle) or ended(client, handle), "a child")
    client.ask("cancel", handle, lambda: handle.cancel("enough", by="ops"))
    must_be("cancelled", client, handle)
    for child in _children(client, handle):  # the worker that has to let it end may live in this process
        must_be("cancelled", client, AgentHandle(child.id, client.runtime))


def rename(client: Client) -> None:
    """Map a step of a function whose code changed while it waited."""
    handle = client.begin("renaming", renaming)
    until(lambda: (client.setup.folder / "renamed").exists(), "the step before the change")
    until(lambda: state(client, handle) == "stuck" or ended(client, handle), "log and code to disagree")
    if not ended(client, handle):
        api = client.runtime.api
        quietly(lambda: client.runtime.wait(api.map_step(handle.execution_id, "old name", "new name", by="ops")))
        client.ask("resume", handle, lambda: handle.resume(by="ops"))
        quietly(lambda: handle.signal("go on", dedupe="go"))
    must_be("completed", client, handle)


def unheard(client: Client) -> None:
    """Ask for what nobody approves in time."""
    must_be("completed", client, client.begin("unheard", side(client), f"{PLEASE}ask_nobody"))


def doubt(client: Client) -> None:
    """Ask for what ends in doubt, which its policy resolves."""
    must_be("completed", client, client.begin("doubt", side(client), f"{PLEASE}half_done"))


def overdue(client: Client) -> None:
    """Pause a run while a call of it waits for its next try, until its deadline has passed."""
    handle = client.begin("overdue", side(client), f"{PLEASE}knock")
    for event in handle.stream():
        match event:
            case ToolScheduled():
                until(lambda: any(task.attempt for task in handle.tasks()) or ended(client, handle), "its first try")
                client.ask("pause", handle, lambda: handle.pause("a moment", by="ops"))
            case ExecutionPaused():
                (client.setup.folder / "knocked").touch()
                until(lambda: _failed(client, handle), "the deadline of all tries")
                client.ask("resume", handle, lambda: handle.resume(by="ops"))
            case ToolFailed():
                break
            case _:
                pass
    client.ask("resume", handle, lambda: handle.resume(by="ops"))
    must_be("completed", client, handle)


def revive(client: Client) -> None:
    """Put a call back that has failed for good, after what was wrong is mended."""
    handle = client.begin("revive", side(client), f"{PLEASE}mend say_so")
    for event in handle.stream():
        match event:
            case ToolFailed():
                (client.setup.folder / "mended").touch()
                client.runtime.wait(client.runtime.api.dead_tasks(DeadFilter(agent="nobody")))
                retry = client.runtime.api.retry_task(handle.execution_id, event.address, by="ops", reason="mended")
                quietly(lambda retry=retry: client.runtime.wait(retry))
                break
            case _:
                pass
    for one in handle.get_status().approvals:
        client.approve(handle, one.id)
    must_be("completed", client, handle)


def fork(client: Client) -> None:
    """Begin an execution anew from the middle of one that has ended."""
    handle = client.begin("forked", side(client), f"{PLEASE}remark")
    handle.result()
    log = client.runtime.wait(client.runtime.api.events(handle.execution_id))
    at = next(event.seq for event in log if event.kind == "step_recorded")
    made = handle.fork(at, by="ops", idempotency_key="again")
    must_be("completed", client, made)
    same = handle.fork(at, by="ops", idempotency_key="again")
    assert same.execution_id == made.execution_id, f"{same.execution_id} and {made.execution_id} of one key"


def schedule(client: Client) -> None:
    """Make a schedule, look at it, have it begin one now, pause it, take it away."""
    _make(client)
    schedules = client.runtime.schedules
    schedules.list()
    quietly(lambda: schedules.get(SCHEDULE))
    quietly(lambda: schedules.run_now(SCHEDULE, nonce="now"))
    quietly(lambda: schedules.pause(SCHEDULE))
    quietly(lambda: schedules.resume(SCHEDULE))
    quietly(lambda: schedules.delete(SCHEDULE))


def queues(client: Client) -> None:
    """Look at the queues; limit, pause and resume one that holds nothing. Each may be said again."""
    queues = client.runtime.queues
    queues.set(QUEUE, concurrency=5, rate=100, per_seconds=60)
    queues.pause(QUEUE)
    queues.list()
    queues.get(QUEUE)
    queues.resume(QUEUE)
    found = queues.set(QUEUE)
    assert (found.paused, found.concurrency, found.rate) == (False, None, None)


def rooms(client: Client) -> None:
    """Make a room, do there what one can, and read it all. Each may be said again."""
    room = client.runtime.rooms.create("errand", key="room")
    quietly(lambda: room.join())
    room.start()  # it may have died while the room was stopped
    room.add_agent(Agent(name="idle", model="scripted/nothing"))
    room.post("hello", key="1")
    task = room.open_task("sweep", to="default", key="2").id
    room.change_task(task, "complete")
    room.remember("swept", key="3")
    file = room.upload("swept.txt", b"all of it", key="4").id
    assert (room.download(file), room.download("swept.txt")) == (b"all of it", b"all of it")
    assert [one.text for one in room.file_text(file)] == ["all of it"]
    assert client.runtime.wait(client.runtime.api.room_file(room.id, file)).text_state == "text"
    room.set_rights({"rules": [{"name": "all", "then": "allow"}]})
    assert room.rights().revision == 1
    room.stop(reason="an errand")
    assert [stop.member for stop in room.stops()] == ["the room"]
    room.start()
    client.runtime.rooms.set_budget(tokens=1_000_000)
    assert [one.tokens for one in client.runtime.rooms.budgets()] == [1_000_000]
    client.runtime.rooms.list()
    room.view()
    room.wakes()
    counted = (len(room.messages()), len(room.tasks()), len(room.memory()))
    assert counted == (1, 1, 1), counted
    assert client.runtime.wait(client.runtime.api.room_task(room.id, task)).state == "done"
    assert {one.kind for one in room.search("hello swept all").items} == {"message", "memory", "file"}
    assert room.ledger()[1].broken_at is None


def companies(client: Client) -> None:
    """Make a company by a key, take the key back, stop the company and let it go on. Each may be said again."""
    api, wait = client.runtime.api, client.runtime.wait
    with contextlib.suppress(Conflict):  # an earlier life came as far as revoking it
        wait(api.add_company_key(COMPANY, "ann", f"pdk_{'e' * 43}"))
    [key] = next(one.keys for one in wait(api.companies()) if one.company == COMPANY)
    assert wait(api.revoke_company_key(COMPANY, key.id)).revoked_ms is not None
    wait(api.stop_company(COMPANY, reason="an errand"))
    assert not wait(api.stop_company(COMPANY)).changed
    wait(api.start_company(COMPANY))
    room = client.runtime.rooms.create("hooks", key="hooks")
    wait(api.add_room_hook(room.id, "errand", "default", f"pdh_{'e' * 43}"))
    assert [one.name for one in wait(api.room_hooks())] == ["errand"]
    with contextlib.suppress(NotFound):
        wait(api.remove_room_hook("errand"))
    assert wait(api.room_hooks()) == []


def secrets(client: Client) -> None:
    """Keep two secrets, rotate them and take one away. Each may be said again; who deletes twice is told so."""
    secrets = client.runtime.secrets
    for name in (SECRET, f"{SECRET}_TOO"):
        secrets.set(name, "a value that nobody uses")
    secrets.rotate()
    with contextlib.suppress(NotFound):
        secrets.delete(SECRET)
    assert [one.name for one in secrets.list()] == [f"{SECRET}_TOO"]


def browser(client: Client) -> None:
    """Sign a browser in and out. A link is good once, so whoever hears no answer takes another."""
    until(partial(_in_and_out, client), "a browser to be signed in and out")


def _in_and_out(client: Client) -> bool:
    page = client.setup.address(client.setup.server)
    api = client.runtime.api
    assert isinstance(api, HttpApi)
    link = client.runtime.wait(api.new_link()).path.partition("#")[2]
    try:
        signed = _of_a_page(page, "POST", json.dumps({"link": link}).encode())
        cookie = signed.headers["set-cookie"].partition(";")[0]
        return _of_a_page(page, "DELETE", None, cookie=cookie).status == HTTPStatus.NO_CONTENT
    except (OSError, HTTPException):  # the server died, or had taken the link before it did
        return False


def _of_a_page(page: str, method: str, body: bytes | None, **headers: str) -> HTTPResponse:
    given = {"origin": page, "content-type": "application/json", **headers}
    asked = Request(page + routes.SESSION, body, given, method=method)
    with urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
        return answer


def values(client: Client) -> None:
    """Have a tool give what is too large for a log, and fetch it."""
    handle = client.begin("values", side(client), f"{PLEASE}fill_up")
    must_be("completed", client, handle)
    assert len(client.runtime.wait(client.runtime.api.values(handle.execution_id))) == 1
    [value] = [call.value for call in handle.result().tool_calls]
    assert handle.load(value) == LARGE


def later(client: Client) -> None:
    """Begin one that is to wait for its start, longer than it takes to look for what is due."""
    must_be("completed", client, client.begin("later", side(client), f"{PLEASE}nothing", delay_seconds=1.5))


def tick(client: Client) -> None:
    """Let a schedule begin one by itself. Whoever drives the run has the server's clock skip when it sees the note."""
    _make(client)
    (client.setup.folder / "ticking").touch()
    schedules = client.runtime.schedules
    until(lambda: any(one.last_tick_ms for one in schedules.list()), "a tick", TICK_SECONDS)
    quietly(lambda: schedules.delete(SCHEDULE))


def crowd(client: Client) -> None:
    """See several reports through at once, and one run of calls that need no claim."""
    reports = [client.begin(f"crowd {number}", client.agent, PROMPT) for number in range(CROWD)]
    handles = [*reports, client.begin("books", side(client), f"{PLEASE}look_up book")]
    until(lambda: all(list(map(partial(_tended, client), handles))), "a crowd to come to its end", CROWD_SECONDS)
    for handle in handles:
        must_be("completed", client, handle)


def _tended(client: Client, handle: AgentHandle) -> bool:
    """Do what a run asks of people; return whether it has ended."""
    for one in handle.get_status().approvals:
        client.approve(handle, one.id)
    client.rule(handle)
    return ended(client, handle)


def _make(client: Client) -> None:
    client.runtime.schedules.create(SCHEDULE, side(client), f"{PLEASE}nothing", cron="* * * * *")


ERRANDS: dict[str, Callable[[Client], None]] = {
    "crowd": crowd,
    "tokens": tokens,
    "children": children,
    "rename": rename,
    "unheard": unheard,
    "doubt": doubt,
    "overdue": overdue,
    "revive": revive,
    "fork": fork,
    "queues": queues,
    "rooms": rooms,
    "companies": companies,
    "secrets": secrets,
    "browser": browser,
    "values": values,
    "later": later,
    "schedule": schedule,
    "tick": tick,
}
OF_FUNCTIONS = frozenset({"tokens", "children", "rename"})
"""Those for which workers serve durable functions."""
BEFORE = frozenset({"tick"})
"""Those that are done before the report is begun: they move the clock."""


def side(client: Client) -> Any:
    """Return the agent of the errands."""
    return side_agent(client.setup.surroundings())


def state(client: Client, handle: AgentHandle) -> str:
    """Return where an execution stands."""
    return client.runtime.wait(client.runtime.api.execution(handle.execution_id)).state


def ended(client: Client, handle: AgentHandle) -> bool:
    """Say whether an execution has ended: an earlier life came this far."""
    return state(client, handle) in ENDED


def must_be(wanted: str, client: Client, handle: AgentHandle) -> None:
    """Wait for the end of an execution. Raises if it ended in another way."""
    client.runtime.wait(client.runtime.api.wait(handle.execution_id))
    if (found := state(client, handle)) != wanted:
        raise AssertionError(f"execution {handle.execution_id} should be {wanted} and is {found}")


def until(fact: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so. Raises `Impatient`."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            raise Impatient(f"waited {seconds:g} s for {what}")
        time.sleep(LOOK_SECONDS)


def quietly(verb: Callable[[], object]) -> None:
    """Ask, and take no for an answer: an earlier life asked it already."""
    try:
        verb()
    except (Conflict, NotFound):
        return


def _children(client: Client, handle: AgentHandle) -> tuple[ChildView, ...]:
    return client.runtime.wait(client.runtime.api.execution(handle.execution_id)).children


def _failed(client: Client, handle: AgentHandle) -> bool:
    return any(task.state == "dead" for task in handle.tasks()) or ended(client, handle)
