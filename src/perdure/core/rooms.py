"""Rooms: what may be done in one, and by whom. The same for people, for agents and over HTTP. Seen: `room_views`.

Pure shapes and checks. A member is named `company`, or `company/agent`; who writes in a company's name is a text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from perdure.core.codec import Json
from perdure.core.ids import id_of
from perdure.core.rights import rights_from_text
from perdure.errors import InvalidInput

LEDGER_COMPANY = "?rooms"
"""Whose the logs of rooms are: a name that no company can have."""
WAKE = "wake"
"""What `kind` says in the definition of an agent that lives in a room."""
ROOM_ACT = "room."
"""What the name begins with under which an act is shown to whoever is asked for a yes. No tool's name has a dot."""
EVERYBODY = "*"
"""As a reader: every company in the room, those to come included."""
PRIVATE = "private:"
"""What the label begins with of a line that an agent kept for some companies after it had read another company's line
of that kind; then the name of that company, whose yes it still takes to tell it to others."""
MAX_TEXT = 32_000
"""Characters of a message, a task's title or result, a memory line."""
MAX_NAME = 200
"""Characters of a room's name, a company's, an author's, a key."""
MAX_NAMED = 50
"""Members that one message or line may name."""
MAX_COMPANIES = 200
"""Of one room, those that were invited included."""
MAX_AGENTS = 100
"""Of one company in one room."""
MOST_HOPS = 16
"""Wakes that may lead to each other without a person's word between."""
MAX_WAIT_SECONDS = 60.0
"""How long one call may wait for news of a room."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""Of an agent, and of a company."""
_MENTION = re.compile(r"(?<![\w@/.])@([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)")

Verb = Literal["claim", "release", "complete", "decline", "cancel"]
OnCrash = Literal["resume", "abandon"]
AuthorKind = Literal["person", "agent"]


class RoomKind(StrEnum):
    """What a room's ledger tells of. Stored; renaming one is a change of log format."""

    CREATED = "room_created"
    INVITED = "room_invited"
    JOINED = "room_joined"
    LEFT = "room_left"
    AGENT_REGISTERED = "room_agent_registered"
    AGENT_REMOVED = "room_agent_removed"
    POSTED = "room_posted"
    TASK_OPENED = "room_task_opened"
    TASK_CHANGED = "room_task_changed"
    REMEMBERED = "room_remembered"
    FILE_PUT = "room_file_put"
    TOOL_CALLED = "room_tool_called"
    """An agent's own tool is called, by its company's worker. About the tool; `call`: where in the wake's log."""
    RIGHTS_SET = "room_rights_set"
    """A company said what may be done, and on whose word. `revision`."""
    HELD = "room_act_held"
    """An agent declared an act that waits for a yes. `act`, `approval`, `for`, `rule`."""
    REFUSED = "room_act_refused"
    """An agent declared an act that could not, or may not, be done. `act`, `why`, and `rule` if one says so."""
    STOPPED = "room_stopped"
    """Somebody is to do nothing for now; about whom, if it is not the room."""
    STARTED = "room_started"
    """They may go on."""
    WAKE_HALTED = "room_wake_halted"
    """A wake was paused by a stop or a budget. `why`."""
    WAKE_ENDED = "room_wake_ended"


# -- acts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Post:
    """Say something. Agents named in `to`, or in the text as `@name` or `@company/name`, are woken."""

    text: str
    to: tuple[str, ...] = ()
    thread: str = ""
    """Id of the message or task that it is about."""
    key: str = ""
    """The same key of the same author is the same message, however often and wherever it is sent."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Ask a company, or one of its agents, to do something. An agent is woken."""

    title: str
    to: str
    thread: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Claim, release, complete, decline or cancel a task."""

    task: str
    verb: Verb
    result: str = ""
    """What came of it, or why not."""


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep a line in the room's memory."""

    text: str
    readers: tuple[str, ...] = (EVERYBODY,)
    """Companies that may read it, beside the owner."""
    source: str = ""
    """Id of the message or task that it comes from."""
    key: str = ""
    salt: str = ""
    """Chance: keeps its fingerprint from being guessed by whoever may not read it."""


@dataclass(frozen=True, slots=True)
class Invite:
    """Let a company join. The host's right."""

    company: str


@dataclass(frozen=True, slots=True)
class Join:
    """Accept an invitation."""


@dataclass(frozen=True, slots=True)
class Leave:
    """See the room no more, with all agents of one's company."""


@dataclass(frozen=True, slots=True)
class PutAgent:
    """Register an agent of one's company, or change the one of that name. Wakes keep the definition they began with."""

    name: str
    definition: str
    """Fingerprint of `spec`."""
    spec: str
    """JSON text: `{"kind": "wake", …}`."""
    on_crash: OnCrash = "resume"


@dataclass(frozen=True, slots=True)
class RemoveAgent:
    """Take an agent of one's company out: it is not woken any more, and what still runs of it acts no more."""

    name: str


@dataclass(frozen=True, slots=True)
class SetRights:
    """Say what members may do, as far as it concerns one's company. Takes the place of what it said before."""

    document: str
    """JSON text, as `core.rights` reads it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Have somebody do nothing in the room for now. One's own company may, and the host."""

    member: str = ""
    """`company/agent` or `company`; empty: the room."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ShareFile:
    """Put a text into the room as a file: what an agent may declare. People send bytes."""

    name: str
    text: str
    media: str = "text/plain"
    key: str = ""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool of the agent's own. Here it is judged and written down; a worker of its company runs it."""

    tool: str
    args: dict[str, Json]
    call: str
    """Its address in the wake's log."""


@dataclass(frozen=True, slots=True)
class EndWake:
    """The last thing that a wake does."""

    outcome: str
    """`ended`, `abandoned`, or the code of its failure."""
    done: int = 0
    refused: int = 0


Act = (
    Post
    | OpenTask
    | ChangeTask
    | Remember
    | Invite
    | Join
    | Leave
    | PutAgent
    | RemoveAgent
    | SetRights
    | Stop
    | ShareFile
    | CallTool
    | EndWake
)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something in a room, in whose name."""

    company: str
    name: str
    kind: AuthorKind = "person"
    execution: str = ""
    """The wake that does it."""
    cause: str = ""
    """What woke it."""
    asked_by: str = ""
    """Who wrote that."""
    hops: int = 0
    """How many wakes led here, itself included; 0 for people."""
    steered: tuple[str, ...] = ()
    """Whose text was before it, its own company's apart."""
    secrets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Owners and readers of the lines before it that are for some companies alone."""
    word: str = ""
    """On whose yes it acts, where it needed one."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an act."""

    id: str
    """Of what was written: a message, a task, a line; else the room's."""
    seq: int
    """Its number in the room's ledger; 0 if nothing had to be done."""
    created: bool = True
    """False: the same was there before."""
    woken: tuple[str, ...] = ()
    """Executions that it began."""


# -- checks ------------------------------------------------------------------------------------------------------------


def check_act(act: Act) -> None:
    """Raise `InvalidInput` (`bad_act`) naming the field, what was expected and what was found."""
    match act:
        case Post(text, to, thread, key):
            _check_text("text", text)
            _check_names("to", to)
            _check_short(thread=thread, key=key)
        case OpenTask(title, to, thread, key):
            _check_text("title", title)
            _check_names("to", (to,))
            _check_short(thread=thread, key=key)
        case ChangeTask(task, _, result):
            _check_short(task=task)
            _check_text("result", result, least=0)
        case Remember(text, readers, source, key):
            _check_text("text", text)
            _check_names("readers", readers)
            _check_short(source=source, key=key)
        case Invite(company):
            if not _NAME.fullmatch(company):  # with a `/` in it, it would pass for an agent of another company
                raise _bad("company", "a company's name: 1 to 128 letters, digits, `_`, `.` and `-`", company)
        case PutAgent(name) | RemoveAgent(name):
            if not _NAME.fullmatch(name):
                raise _bad("name", "1 to 128 letters, digits, `_`, `.` and `-`", name)
        case SetRights(document):
            rights_from_text(document)
        case Stop(member, reason):
            _check_short(member=member, reason=reason)
        case ShareFile(name, text, media, key):
            _check_text("text", text)
            _check_names("name", (name,))
            _check_short(media=media, key=key)
        case Join() | Leave() | CallTool() | EndWake():
            pass


def check_name(name: str) -> None:
    """Raise `InvalidInput` (`bad_act`) if this can be no room's name."""
    _check_names("name", (name,))


def _check_text(field: str, text: str, least: int = 1) -> None:
    if not least <= len(text) <= MAX_TEXT or (least and not text.strip()):
        raise _bad(field, f"{least} to {MAX_TEXT:,} characters, not only spaces", f"{len(text):,} characters")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _bad(field, "text without NUL and half surrogate pairs", text[:40])


def _check_names(field: str, names: Sequence[str]) -> None:
    if len(names) > MAX_NAMED:
        raise _bad(field, f"at most {MAX_NAMED} names", f"{len(names)}")
    for name in names:
        if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
            raise _bad(field, f"1 to {MAX_NAME} printable characters and no space around them", name)


def _check_short(**given: str) -> None:
    for field, text in given.items():
        if len(text) > MAX_NAME or not (text.isprintable() or not text):
            raise _bad(field, f"at most {MAX_NAME} printable characters", text)


def _bad(field: str, expected: str, found: str) -> InvalidInput:
    return InvalidInput(f"{field} should have {expected}; found {found[:80]!r}.", code="bad_act", fields=[field])


# -- names and ids -----------------------------------------------------------------------------------------------------


def written_id(prefix: str, *parts: str) -> str:
    """Return the id of what is written once: the same for the same parts, in every process and release."""
    raw = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return f"{prefix}_{base64.b32encode(raw).decode().rstrip('=').lower()}"


def wake_id(room: str, company: str, agent: str, cause: str, now_ms: int) -> str:
    """Return the id of the execution that a claim owns."""
    chance = hashlib.blake2b("\0".join((room, company, agent, cause)).encode(), digest_size=10).digest()
    return id_of("exe", now_ms, chance)


def mentions(text: str) -> list[str]:
    """Return the names that a text mentions, as they stand there, without a full stop behind."""
    return list(dict.fromkeys(found.rstrip(".-") for found in _MENTION.findall(text)))
