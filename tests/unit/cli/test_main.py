"""How the command line ends: codes, errors for people and for programs, and no traceback for anybody's mistake."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

from perdure import errors
from perdure.cli import failure, main
from perdure.cli.examine import EXTRAS
from perdure.cli.terminal import confirmed, path_typed
from perdure.errors import PerdureError
from perdure.version import VERSION

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("x"), 3),
        (errors.Unreachable("x"), 5),
        (failure.NeedsApproval("x"), 4),
        (errors.Conflict("x", code="ambiguous"), 4),
        (errors.Conflict("x"), 1),
        (errors.InvalidInput("x"), 2),
        (errors.Unauthorized("x"), 1),
        (errors.StoreInUse("x"), 1),
        (errors.StoreFailed("x"), 1),
        (errors.InternalError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: PerdureError, code: int) -> None:
    assert failure.exit_code(error) == code
    assert code in failure.MEANINGS


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert [main.run(["version"]), main.run(["--version"]), main.run(["version", "--json"])] == [0, 0, 0]
    assert capsys.readouterr().out.splitlines() == [
        VERSION,
        VERSION,
        json.dumps({"version": VERSION}, separators=(",", ":")),
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["frobnicate"],
        ["executions", "frobnicate"],
        ["executions", "show"],
        ["executions", "list", "--limit", "0"],
        ["executions", "list", "--state", "sleeping"],
        ["effects", "rule", "exe_1", "turn 1/tool/x", "maybe"],
        ["effects", "rule", "exe_1", "turn 1/tool/x", "happened", "--value", "{"],
        ["server", "--port", "70000"],
        ["server", "--retention", "a month"],
        ["server", "--store", "mysql://x/y"],
        ["server", "--log-level", "loud"],
        ["worker"],
    ],
)
def test_a_command_line_that_is_wrong_ends_with_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(args) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error[usage]:")
    assert "--help" in told.err
    assert main.run([*args[:1], "--json", *args[1:]] if len(args) == 1 else [*args, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_a_noun_alone_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["executions"]) == 2
    told = capsys.readouterr()
    assert "watch" in told.out + told.err
    assert "error" not in told.err


def test_a_bug_is_told_in_a_line_and_kept_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(main, "build_app", lambda with_skills: broken)
    assert main.run(["executions", "list"]) == 1
    told = capsys.readouterr()
    kept = tmp_path / "perdure" / "last-error.log"
    assert "error[internal]: ZeroDivisionError: by nothing" in told.err
    assert str(kept) in told.err
    assert "Traceback" not in told.err
    assert "in broken" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0

    monkeypatch.setenv("PERDURE_DEBUG", "1")
    assert main.run(["executions", "list", "--json"]) == 1
    told = capsys.readouterr()
    assert "in broken" in told.err
    assert json.loads(told.out)["error"]["code"] == "internal"


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "build_app", lambda with_skills: interrupted)
    assert main.run(["executions", "list"]) == 130


@pytest.mark.parametrize(("typed", "code"), [(KeyboardInterrupt, 130), (EOFError, 1)])
def test_a_question_that_nobody_answers_ends_in_what_was_typed(
    typed: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Left(io.StringIO):
        def readline(self, _size: int | None = -1, /) -> str:
            raise typed

    monkeypatch.setattr(sys, "stdin", Left())
    monkeypatch.setattr(main, "build_app", lambda with_skills: lambda **_: confirmed("Cancel them?"))
    assert main.run(["executions", "cancel"]) == code
    assert capsys.readouterr().err == "\nNothing was done.\n"


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("said", "coloured"), [("", True), ("1", False)])
def test_no_color_takes_the_colour_of_errors(said: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", said)
    monkeypatch.setattr(sys, "stderr", Terminal())
    failure.tell(errors.NotFound("no such thing: \x1b[2J"), as_json=False)
    told = cast("Terminal", sys.stderr).getvalue()
    assert r"no such thing: \x1b[2J" in told, "nothing that others wrote moves the cursor"
    assert ("\x1b[" in told) is coloured


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_bug(closed: str, tmp_path: Path) -> None:
    program = f'exec "$0" -m perdure secrets set SHOP {closed}'
    done = subprocess.run(
        ["sh", "-c", program, sys.executable],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 2, done  # the empty secret is refused
    assert list(tmp_path.iterdir()) == [], "no traceback was kept"


@pytest.mark.parametrize(("option", "name"), [("--keep", "kept"), ("--junit", "report.xml")])
def test_what_a_crash_test_cannot_write_is_told_before_it_runs(option: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    typed = [sys.executable, "-m", "perdure", "crashtest", "agent.py", option, str(tmp_path / "file" / name)]
    done = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("error[usage]:"), name in done.stderr) == (2, True, True), done


def test_a_path_is_quoted_where_a_shell_would_cut_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    typed = [path_typed(path) for path in ("/tmp/p.db", "/home/ann/p.db", "/tmp/my store/p.db", "/home/ann/my store/p")]
    assert typed == ["/tmp/p.db", "~/p.db", "'/tmp/my store/p.db'", "'/home/ann/my store/p'"]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from perdure.cli.main import run; run(['--help']); "
        "print(*[m for m in ('asyncio', 'rich', 'pydantic', 'httpx2', 'yaml', 'perdure.runtime') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stderr.split() == []
    assert "executions" in done.stdout


def test_a_worker_loads_nothing_of_a_server() -> None:
    program = (
        "import sys; from perdure.cli.main import run; code = run(['worker', 'no_such_module:x']); "
        "servers = ('fastapi', 'uvicorn', 'psycopg', 'perdure.server', 'perdure.engine', 'perdure.store'); "
        "print(code, 'perdure.worker.main' in sys.modules, *[name for name in servers if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "True"], done.stderr


def test_completion_knows_every_noun(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "--show-completion", "bash"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, "complete" in done.stdout) == (0, True)


def test_the_doctor_knows_every_extra() -> None:
    declared = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert EXTRAS.keys() == declared["optional-dependencies"].keys() - {"all", "testing"}


OWN_FORM = {"perdure mcp", "perdure rooms download", "perdure rooms export"}
"""Commands whose output has a form of its own."""


def leaves(command: Any, words: str = "perdure") -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, one in command.commands.items():
        yield from leaves(one, f"{words} {name}")


def test_commands_take_json() -> None:
    without = {
        words
        for words, one in leaves(get_command(main.build_app()))
        if "--json" not in str([p.opts for p in one.params])
    }
    assert without == OWN_FORM


INTERNAL = {"PERDURE_COMPLETE", "PERDURE_CRASHTEST_WORLD", "PERDURE_FAILPOINTS", "PERDURE_FAILPOINTS_LOG"}


def test_the_reference_page_names_every_variable() -> None:
    page = (TOOLS.parent / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    sources = (TOOLS.parent / "src" / "perdure").rglob("*.py")
    read = {name for file in sources for name in re.findall(r"PERDURE_[A-Z_]+", file.read_text(encoding="utf-8"))}
    assert {name for name in read - INTERNAL if f"`{name}` |" not in page} == set()


def test_the_reference_page_is_what_the_commands_say() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOLS / "cli_reference.py"), "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
