"""One word per idea. These are the words of other systems for things that have a name here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import source_tree
from source_tree import Module, fail_on

INSTEAD: dict[str, str] = {
    "job": "task",
    "jobs": "tasks",
    "workflow": "execution",
    "workflows": "executions",
    "orchestration": "execution",
    "orchestrator": "server",
    "activity": "step",
    "activities": "steps",
    "checkpoint": "event",
    "checkpoints": "events",
    "tenant": "company",
    "tenants": "companies",
    "organization": "company",
    "reaper": "sweep",
    "janitor": "sweep",
    "mutex": "lock",
    "visibility": "lease",
    "awakeable": "token",
    "suspend": "park",
    "suspended": "parked",
}
ELSEWHERE: dict[str, str] = {
    "store/ checkpoint": "SQLite's own word for moving its log into the file",
    "agent/context.py checkpoint": "what a tool's author saves for the next try: the word that they know",
    "worker/ checkpoint": "the same, given to the tool",
    "store/overrides/postgres/catalog.sql activity": "PostgreSQL's own word, for what its sessions do",
}
"""`file word`, or `folder/ word`: where a word means something else, and what."""

NOTHING_FILES = frozenset({"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common", "base"})
"""Names of modules that say nothing of their job."""


def test_one_word_per_idea() -> None:
    fail_on(
        f"{where}: {name}: say {INSTEAD[word]!r}, not {word!r}"
        for module in source_tree.library()
        for where, name in names(module)
        for word in parts(name)
        if word in INSTEAD and not elsewhere(module.inner, word)
    )


def test_sql_speaks_the_same_words() -> None:
    fail_on(
        f"{path}: {name}: say {INSTEAD[word]!r}, not {word!r}"
        for path, text in source_tree.sql_files()
        for name in sorted(set(re.findall(r"[a-z_]+", re.sub(r"--.*", "", text))))
        for word in parts(name)
        if word in INSTEAD and not elsewhere(path.removeprefix("src/perdure/"), word)
    )


def test_modules_are_named_after_their_job() -> None:
    fail_on(
        f"{module.path}: a name that says nothing; name the noun it is about"
        for module in source_tree.library()
        if module.path.rsplit("/", 1)[1].removesuffix(".py") in NOTHING_FILES
    )


def test_modules_say_what_they_are_for() -> None:
    fail_on(
        f"{module.path}: no docstring that says its job"
        for module in source_tree.python_files("src", "tests", "bench", "examples")
        if module.tree.body and not ast.get_docstring(module.tree)
    )


def elsewhere(inner: str, word: str) -> bool:
    single = word.removesuffix("s")
    return any(f"{place} {single}" in ELSEWHERE for place in (inner, inner.rsplit("/", 1)[0] + "/"))


def parts(name: str) -> list[str]:
    """Split `leaseJob_id` into its words, in small letters."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a file gives, and the addresses it serves. What it imports was named by others."""
    yield module.path, module.path.rsplit("/", 1)[1].removesuffix(".py")
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield module.at(node), name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield module.at(node), name
            case ast.Constant(value=str(text)) if text.startswith("/v1/"):
                yield module.at(node), text
            case _:
                pass
