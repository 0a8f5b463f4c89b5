"""What passes between the store and the A2A door: published agents, messages, who is told of what a task does.

A task of A2A is an execution, and nothing besides: what the protocol shows of it is read from the execution's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from perdure.core.events import Event, Kind
from perdure.core.ids import check_named
from perdure.errors import InvalidInput

MOST_LETTERS = 200
"""In the id of a message, of a context or of a push configuration."""
MOST_DESCRIPTION = 2_000
"""Letters in what is said of a published agent."""
MOST_URL = 2_000
MOST_CREDENTIALS = 4_000
MOST_PUSHES = 10
"""Push configurations of one task."""

TOLD_KINDS = (
    Kind.STARTED,
    Kind.MESSAGE,
    Kind.WAIT_OPENED,
    Kind.WAIT_RESOLVED,
    Kind.PAUSED,
    Kind.STUCK,
    Kind.RESUMED,
    Kind.CANCEL_REQUESTED,
    Kind.COMPLETED,
    Kind.FAILED,
    Kind.CANCELLED,
)
"""The events that a task's standing is read from. None of them holds what a model or a tool said on the way."""


@dataclass(frozen=True, slots=True)
class PublishedView:
    """An agent that a company lets be reached by A2A."""

    agent: str
    description: str
    definition: str
    """Fingerprint of the definition that a new task begins with."""
    published_by: str
    published_ms: int


@dataclass(frozen=True, slots=True)
class PushConfig:
    """Whom to tell of what a task does, and how whoever is told knows us."""

    id: str
    url: str
    token: str = ""
    """Sent back in a header."""
    scheme: str = ""
    credentials: str = ""
    """With the scheme, what the `Authorization` header says."""
    version: str = "1.0"
    """Of the protocol that it was asked for in, and that is spoken to it."""


@dataclass(frozen=True, slots=True)
class PushView:
    """One of those who are to be told, without what they know us by."""

    execution: str
    agent: str
    id: str
    url: str
    told_seq: int
    """The last event of the task that they are known to have been told of."""
    last_seq: int
    """The last event that there is."""
    tries: int
    """How often it failed since it last went well."""
    due_ms: int | None
    """When it is tried next, if there is something to tell; None: never again."""
    given_up_ms: int | None
    """When it was given up."""
    error: str
    """What went wrong the last time."""


@dataclass(frozen=True, slots=True)
class A2aMessage:
    """A message for a published agent."""

    id: str
    """Its author's: the same is taken once, however often and wherever it is sent."""
    text: str
    context: str = ""
    """As its author says it; empty: none was given."""
    execution: str = ""
    """The task that it goes on with; empty begins one."""
    push: PushConfig | None = None
    """Whom to tell, from the beginning."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a message came to."""

    execution: str
    created: bool
    """False where the same message had begun it before, and where it went into a task that was there."""


@dataclass(frozen=True, slots=True)
class A2aTask:
    """A task as the log has it at one moment."""

    execution: str
    agent: str
    context: str
    message: str
    """The id of the message that began it."""
    last_seq: int
    updated_ms: int
    events: tuple[Event, ...]
    """Those of `TOLD_KINDS`, in their order."""


@dataclass(frozen=True, slots=True)
class A2aPage:
    """A page of tasks, those that changed last first."""

    items: tuple[A2aTask, ...]
    cursor: str
    """Give it back to get the next page; empty on the last."""
    total: int


@dataclass(frozen=True, slots=True)
class A2aQuery:
    """Which tasks are meant."""

    context: str = ""
    ended: str = ""
    """How they ended; empty: whether they did or not."""
    going_on: bool = False
    """Only such as have not ended."""
    since_ms: int = 0
    cursor: str = ""
    limit: int = 50


def check_message(message: A2aMessage) -> None:
    """Raise `InvalidInput` (`bad_message`) for what can be no message."""
    _check_id("messageId", message.id, "bad_message")
    if message.context:
        _check_id("contextId", message.context, "bad_message")
    if message.push is not None:
        check_push(message.push)


def check_push(push: PushConfig) -> None:
    """Raise `InvalidInput` (`bad_push`) for who cannot be told. Where it leads is judged when it is gone to."""
    _check_id("id of the push configuration", push.id, "bad_push")
    try:
        parts = urlsplit(push.url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _bad("its url is none: there is no such host or port", push.url, "bad_push") from None
    fit = len(push.url) <= MOST_URL and push.url.isascii() and push.url.isprintable()
    if not known or not fit or "@" in parts.netloc:
        raise _bad(
            f"its url should be http or https, at most {MOST_URL} printable letters, without a password",
            push.url,
            "bad_push",
        )
    for what, text in (("token", push.token), ("scheme", push.scheme), ("credentials", push.credentials)):
        if len(text) > MOST_CREDENTIALS or not (text.isascii() and text.isprintable()) or text != text.strip():
            raise InvalidInput(
                f"push configuration: its {what} should be what a header can carry: at most {MOST_CREDENTIALS} "
                f"printable letters of ASCII, no space around them; found {len(text)} letters of something else.",
                code="bad_push",
            )


def check_description(text: str) -> None:
    """Raise `InvalidInput` (`bad_description`)."""
    check_named(description=text)
    if len(text) > MOST_DESCRIPTION:
        raise InvalidInput(
            f"description should be at most {MOST_DESCRIPTION} letters, found {len(text)}.", code="bad_description"
        )


def _check_id(what: str, text: str, code: str) -> None:
    if not 0 < len(text) <= MOST_LETTERS or not text.isprintable():
        raise _bad(f"{what} should be 1 to {MOST_LETTERS} printable letters", text, code)
    check_named(**{what: text})


def _bad(why: str, found: str, code: str) -> InvalidInput:
    return InvalidInput(f"{why}; found {found[:80]!r}.", code=code)
