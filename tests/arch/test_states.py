"""States are spelled in core/states.py and nowhere else: everything else names the enum's member."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import product

import pytest

import source_tree
from perdure.core import states
from source_tree import Module, fail_on

COLUMNS = frozenset({"state", "status", "ownership"})
"""Names whose values are states, whatever the word."""

KINDS: tuple[type[StrEnum], ...] = (
    *(states.Execution, states.Ownership, states.Task, states.Waitpoint),
    *(states.RoomTask, states.Membership),
)
WORDS = frozenset(str(state) for kind in KINDS for state in kind)
EVERYDAY = frozenset(
    {"ready", "open", "done", "dead", "owned", "parked", "running", "completed", "failed", "cancelled"}
)
"""States that are also ordinary words, or words for something else (an event, an outcome): judged by what they meet."""

ELSEWHERE: dict[str, str] = {
    "core/states.py": "the one place",
    "core/events.py": "kinds of events, stored under names of their own",
    "server/app.py": "whether a server is ready, for probes",
    "testing/rules.py": "the checker shares no code with what it checks",
    "toolbox/skills.py": "the record of a skill's run, whose words the skills runner has from its catalog",
}
"""Files that may spell these words, and why."""


def test_states_are_spelled_in_one_place() -> None:
    fail_on(
        f"{module.at(node)}: {word!r} is a state; name the member of core/states.py"
        for module in source_tree.library()
        if module.name and module.inner not in ELSEWHERE
        for node, word in spelled(module)
    )


def test_sql_compares_states_by_parameter_or_with_words_that_exist() -> None:
    literal = re.compile(r"(?<!:)\b(state|ownership)\s*(?:=|<>|!=|IN\s*\()\s*('[^)]*?')", re.IGNORECASE)
    fail_on(
        f"{path}: {word!r} is no state of core/states.py"
        for path, text in source_tree.sql_files()
        for match in literal.finditer(text)
        for word in re.findall(r"'([^']*)'", match[2])
        if word not in WORDS
    )


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (states.EXECUTION_TABLE, states.Execution),
        (states.TASK_TABLE, states.Task),
        (states.WAITPOINT_TABLE, states.Waitpoint),
        (states.ROOM_TASK_TABLE, states.RoomTask),
        (states.MEMBERSHIP_TABLE, states.Membership),
    ],
)
def test_every_pair_that_no_table_lists_is_refused(table: states.Table, kind: type[StrEnum]) -> None:
    assert {state for state, _ in table} | set(table.values()) == set(kind), "a state that nothing enters or leaves"
    for state, event in product(kind, {event for _, event in table}):
        assert states.allowed(table, state, event) == ((state, event) in table)
        if (state, event) not in table:
            with pytest.raises(states.Refused):
                states.move(table, state, event)


def spelled(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield literals that stand for a state: compared, matched, assigned, passed or defaulted."""
    for node in ast.walk(module.tree):
        for name, literal in ((name, literal) for name, value in meetings(node) for literal in literals(value)):
            if literal.value in WORDS and (literal.value not in EVERYDAY or name in COLUMNS):
                yield literal, literal.value


def meetings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (the name that a value meets, the value)."""
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            name = next((tail(side) for side in sides if tail(side) in COLUMNS), "")
            yield from ((name, side) for side in sides)
        case ast.Match(subject=subject, cases=cases):
            yield from ((tail(subject), case.pattern) for case in cases)
        case ast.Assign(targets=targets, value=value):
            yield tail(targets[0]), value
        case ast.AnnAssign(target=target, value=value, annotation=annotation):
            yield from ((tail(target), part) for part in (value, annotation) if part is not None)
        case ast.keyword(arg=name, value=value):
            yield name or "", value
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield str(key.value) if isinstance(key, ast.Constant) else "", value
        case ast.FunctionDef(args=given) | ast.AsyncFunctionDef(args=given):
            positional = [*given.posonlyargs, *given.args]
            defaulted = positional[len(positional) - len(given.defaults) :]
            yield from ((a.arg, default) for a, default in zip(defaulted, given.defaults, strict=True))
            yield from (
                (a.arg, default) for a, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default
            )
        case _:
            return


def tail(node: ast.AST) -> str:
    """Return the last name of `a.b.c` or `row["c"]`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case _:
            return ""


def literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts that a value may be: itself, an element, a branch, a case, a member of Literal[...]."""
    match node:
        case ast.Constant(value=str()):
            yield node
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.MatchOr(patterns=parts):
            for part in parts:
                yield from literals(part)
        case ast.IfExp(body=body, orelse=orelse):
            yield from literals(body)
            yield from literals(orelse)
        case ast.MatchValue(value=value) | ast.Call(func=ast.Name(id="frozenset" | "set"), args=[value]):
            yield from literals(value)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=value):
            yield from literals(value)
        case ast.BinOp(left=left, right=right):
            yield from literals(left)
            yield from literals(right)
        case _:
            return
