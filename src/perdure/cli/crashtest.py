"""`perdure crashtest`: kill the processes of the user's own agent at every boundary, and see what was done twice."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connect import AsJson
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.testing.crashtest.session import Options, Result
    from perdure.testing.crashtest.subject import Subject

TIMEOUT = 30.0
PAGE = 1000

Target = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        help="Where the agent is: `agent.py`, `agent.py:name` or `package.module:name`.",
        show_default=False,
    ),
]
Script = Annotated[
    str,
    typer.Option(
        metavar="MODULE:NAME",
        help="What answers in the model's place: a list of replies, or a function of the request. By default `script` "
        "of the agent's module.",
        show_default=False,
    ),
]
Replies = Annotated[
    str,
    typer.Option(
        metavar="EXECUTION|FILE",
        help="Answer with what an execution has on record: its id, or a file of its events "
        "(`perdure effects list --execution ID --jsonl`).",
        show_default=False,
    ),
]
Given = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="TEXT",
        help="What the agent is given. By default what the recorded one was.",
        show_default=False,
    ),
]
Observe = Annotated[
    str,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="A function that counts what was done: effect to number. By default `observe` of the agent's module.",
        show_default=False,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="BOUNDARY[@N]", help="Only this boundary, or only its N-th pass. May be repeated."),
]
Timeout = Annotated[float, typer.Option(min=1, max=3600, metavar="SECONDS", help="How long one run may take.")]
AtOnce = Annotated[
    int,
    typer.Option(
        min=1,
        max=64,
        metavar="N",
        help="Runs at a time. Above 1 only if the tools share nothing between runs but what is in their own folder.",
    ),
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML there.", show_default=False)]
Keep = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep the files of all runs in this new folder. By default only of those that broke something.",
    ),
]

From = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="PERDURE_URL",
        help="Where --replies finds an execution. By default the server that this user runs on this machine.",
    ),
]


def crashtest(
    agent: Target,
    script: Script = "",
    replies: Replies = "",
    given: Given = "",
    observe: Observe = "",
    only: Only = None,
    timeout: Timeout = TIMEOUT,
    at_once: AtOnce = 1,
    junit: Junit = None,
    keep: Keep = None,
    server: From = None,
    as_json: AsJson = False,
) -> None:
    """Kill your agent's server and worker at every boundary, and see whether anything was lost or done twice.

    The agent runs in real processes of its own, on a store in a temporary folder, with scripted or recorded replies:
    no model is asked, but tools act, so give them stand-ins. Each run kills or stops one process at one boundary.
    Exit code 0: every promise held. 1: one was broken; what happened and what to change is said. 2: it could not be
    tested.
    """
    from perdure.cli import failure
    from perdure.cli.terminal import print_json
    from perdure.testing.crashtest.report import as_json as document
    from perdure.testing.crashtest.report import write_junit
    from perdure.testing.crashtest.session import Options

    _refuse_other_systems()
    for name in ("SIGTERM", "SIGHUP"):  # a polite end and a closed terminal go the way of Ctrl-C, which ends everything
        signal.signal(getattr(signal, name), signal.default_int_handler)
    if script and replies:
        raise typer.BadParameter("--script and --replies: give one of them.", param_hint="--replies")
    if junit is not None:
        _refuse_unwritable(junit)
    typed = Typed(agent, script, replies, given, observe, timeout, server)
    folder, kept = _folder(keep), keep is not None
    options = Options(folder, tuple(only or ()), timeout, at_once, kept)
    try:
        result = _test(_subject(typed, folder), options, typed, as_json)
        kept = kept or not result.ok
    except InvalidInput as error:
        kept = kept or error.code == "baseline_broken"  # it names files to look at
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    if junit is not None:
        write_junit(result, typed, junit)
    if as_json:
        print_json(document(result, typed))
    if not result.ok:
        failure.stop(failure.FAILED)


@dataclass(frozen=True, slots=True)
class Typed:
    """The command line as it was typed; called with a strike's name, what to type for that run alone."""

    agent: str
    script: str
    replies: str
    given: str
    observe: str
    timeout: float
    server: str | None

    def __call__(self, strike: str) -> str:
        named = {
            "--script": self.script,
            "--replies": self.replies,
            "--input": self.given,
            "--observe": self.observe,
            "--server": (self.server or "") if self.replies and not Path(self.replies).exists() else "",
            "--timeout": "" if self.timeout == TIMEOUT else f"{self.timeout:g}",
        }
        options = [word for name, value in named.items() if value for word in (name, value)]
        return shlex.join(["perdure", "crashtest", self.agent, *options, "--only", strike])


def _test(subject: Subject, options: Options, typed: Typed, as_json: bool) -> Result:
    from perdure.testing.crashtest.session import crash_test

    if as_json:
        return crash_test(subject, options)
    from perdure.cli.crashtest_screen import Screen

    screen = Screen(typed)
    result = crash_test(subject, options, screen)
    screen.tell(result, options.folder)
    return result


def _subject(typed: Typed, folder: Path) -> Subject:
    from perdure.testing.crashtest.subject import DEFAULT_INPUT, Subject

    kept, recorded = "", None
    if typed.replies:
        from perdure.testing.crashtest.model import read_events, replies_of, write_replies

        file = Path(typed.replies)
        events = read_events(file) if file.exists() else _events(typed)
        replies, recorded = replies_of(events)
        if not replies:
            raise InvalidInput(f"execution {typed.replies} has no model's reply on record.", code="bad_replies")
        write_replies(folder / "replies.json", replies)
        kept = str(folder / "replies.json")
    given = typed.given or recorded or DEFAULT_INPUT
    return Subject(typed.agent, typed.script, kept, typed.observe, given)


def _events(typed: Typed) -> list[dict[str, Any]]:
    """Return the log of the execution that was named, from the server."""
    from dataclasses import asdict

    from perdure.cli.connect import ask

    async def read(api: HttpApi) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := await api.events(typed.replies, after=len(found), limit=PAGE):
            found += [asdict(event) for event in page]
        return found

    return ask(typed.server, read)


def _folder(keep: Path | None) -> Path:
    try:
        if keep is None:
            return Path(tempfile.mkdtemp(prefix="perdure-crashtest-"))
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except OSError as error:
        named = "a temporary folder" if keep is None else repr(str(keep))
        raise typer.BadParameter(f"{named} cannot be used: {error.strerror or error}.", param_hint="--keep") from None
    if taken:
        raise typer.BadParameter(f"{str(keep)!r} is not empty.", param_hint="--keep")
    return keep.resolve()


def _refuse_unwritable(junit: Path) -> None:
    """Refuse it before a minute of runs, not after."""
    try:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.open("ab").close()
    except OSError as error:
        raise typer.BadParameter(f"{str(junit)!r} cannot be written: {error.strerror}.", param_hint="--junit") from None


def _refuse_other_systems() -> None:
    if not hasattr(os, "fork"):
        raise InvalidInput("a crash test forks and stops processes: it needs Linux or macOS.", code="not_supported")
