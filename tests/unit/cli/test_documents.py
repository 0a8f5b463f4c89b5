"""What the documents have people type is true: commands exist, and Python runs up to where the outside begins."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import perdure
from perdure.cli.main import build_app

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
DOCUMENTS = sorted({ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")} - {ROOT / "docs" / "reference" / "cli.md"})
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMANDS = get_command(build_app())
TYPED = re.compile(r"`(perdure(?: [^`]+)?)`|^ {4}(perdure .*)$|^(perdure .*)$", re.MULTILINE)


def commands() -> Iterator[Any]:
    for document in [*DOCUMENTS, *EXAMPLES]:
        for match in TYPED.finditer(document.read_text(encoding="utf-8")):
            text = next(filter(None, match.groups()))
            yield pytest.param(text, id=f"{document.relative_to(ROOT)}: {text}")


def helps() -> Iterator[Any]:
    """What the help of one command says of another."""
    ahead: list[tuple[str, Any]] = [("perdure", COMMANDS)]
    while ahead:
        name, command = ahead.pop()
        ahead += [(f"{name} {word}", one) for word, one in getattr(command, "commands", {}).items()]
        for match in re.finditer(r"`(perdure [^`]+)`", " ".join((command.help or "").split())):
            yield pytest.param(match[1], id=f"{name} --help: {match[1]}")


@pytest.mark.parametrize("text", [*commands(), *helps()])
def test_a_command_of_the_documents_exists(text: str) -> None:
    words = shlex.split(re.split(r"  #| > ", text)[0].replace("[", "").replace("]", ""))[1:]
    command: Any = COMMANDS
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        (word, *words) = words
        names = word.split("|")
        assert all(name in command.commands for name in names), f"{text}: there is no {word!r}"
        command = command.commands[names[0]]
    words = words[: words.index("--")] if "--" in words else words
    known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
    used = {re.split("=", word)[0] for word in words if word.startswith("-")}
    assert used <= known | {"--help"}, f"{text}: there is no {used - known}"


def blocks() -> Iterator[Any]:
    for document in DOCUMENTS:
        for number, match in enumerate(PYTHON.finditer(document.read_text(encoding="utf-8")), 1):
            yield pytest.param(match[1], id=f"{document.name}-{number}")


class Anything:
    """Stands for what a reader would have: a bank, a file of their own, an agent."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: Any, **_named: Any) -> Any:
        return self


@pytest.mark.parametrize("block", list(blocks()))
def test_python_of_the_documents_declares_what_it_says(block: str) -> None:
    """Imports, decorators and declarations are run; what would reach a server or a model is only compiled."""
    block = textwrap.dedent(block)
    compile(block, "a document", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    tree = ast.parse(block)
    tree.body = [one for one in tree.body if isinstance(one, DECLARING) or _declares(one)]
    declared = {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - declared - set(dir(builtins))
    given = {name: getattr(perdure, name) if name in perdure.__all__ else Anything() for name in used}
    exec(compile(tree, "a document", "exec"), {"__name__": "document", **given})


DECLARING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _declares(one: ast.stmt) -> bool:
    return isinstance(one, ast.Assign) and not any(isinstance(node, ast.Await) for node in ast.walk(one))


KNOWN = {"runtime": perdure.AgentRuntime, "handle": perdure.AgentHandle, "ctx": perdure.ToolContext}
VERB = re.compile(rf"(?<!/)\b({'|'.join(KNOWN)})\.(\w+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_verbs_of_the_documents_exist(document: Path) -> None:
    for name, verb in VERB.findall(document.read_text(encoding="utf-8")):
        kind: Any = KNOWN[name]
        assert verb in dir(kind) or verb in kind.__init__.__code__.co_names, f"{document.name}: no {name}.{verb}"
