"""Read the project's own source for the structure tests. Parses only; imports nothing of it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "perdure"


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: str
    """From the root of the repository, with slashes."""
    text: str
    tree: ast.Module

    @property
    def inner(self) -> str:
        """The path inside `src/perdure`."""
        return self.path.removeprefix("src/perdure/")

    @property
    def name(self) -> str:
        """`perdure.core.states`; empty for a program that nothing can import, such as a skill's script."""
        parts = self.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").split("/")
        return ".".join(parts) if all(part.isidentifier() for part in parts) else ""

    def at(self, node: ast.AST) -> str:
        """Say where `node` stands."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Import:
    """One imported thing: `target` is a module or a name in one, whichever was written."""

    target: str
    node: ast.AST


@cache
def python_files(*folders: str) -> tuple[Module, ...]:
    """Return the Python files below folders of the repository. One that does not parse is the compiler's to report."""
    paths = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    gc.disable()  # trees are millions of objects, and none of them goes: looking for those that do takes longest
    try:
        return tuple(module for path in paths if (module := _parsed(path)) is not None)
    finally:
        gc.enable()


@cache
def _parsed(path: Path) -> Module | None:
    try:
        text = path.read_text(encoding="utf-8")
        return Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text))
    except (FileNotFoundError, SyntaxError):
        return None


def library() -> tuple[Module, ...]:
    """Return all of `src/perdure`, skills' scripts included."""
    return python_files("src/perdure")


def imports_of(module: Module) -> Iterator[Import]:
    """Yield every import, those inside functions and under `TYPE_CHECKING` too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield Import(f"{node.module}.{alias.name}", node)


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for an attribute chain, the empty text for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@cache
def sql_files() -> tuple[tuple[str, str], ...]:
    """Return (path from the root, text) of every SQL file of the library."""
    return tuple(
        (p.relative_to(ROOT).as_posix(), p.read_text(encoding="utf-8")) for p in sorted(PACKAGE.rglob("*.sql"))
    )


def fail_on(violations: Iterable[str]) -> None:
    """Fail the test with all violations, one a line."""
    if found := sorted(violations):
        pytest.fail("\n".join(found), pytrace=False)
