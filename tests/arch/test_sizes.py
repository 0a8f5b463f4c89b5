"""What a stranger can hold in mind: lengths, nesting, parameters. Numbers are hard; the exceptions have reasons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import source_tree
from source_tree import Module, fail_on

FILE_LINES = 600
TEST_FILE_LINES = 500
SQL_LINES = 500
FUNCTION_LINES = 60
CLASS_LINES = 250
NESTING = 3
PARAMETERS = 7

EXCEPTIONS: dict[str, str] = {
    "src/perdure/cli/server.py::server parameters": "Typer makes each parameter an option of the command line",
    "src/perdure/cli/crashtest.py::crashtest parameters": "likewise",
    "src/perdure/cli/worker.py::worker parameters": "likewise",
    "src/perdure/cli/effects.py::list_command parameters": "likewise",
    "src/perdure/cli/schedules.py::create parameters": "likewise",
    "src/perdure/cli/demo.py::demo parameters": "likewise",
    "src/perdure/cli/rooms.py::post parameters": "likewise",
    "src/perdure/cli/rooms_schedules.py::schedule parameters": "likewise",
    "src/perdure/cli/rooms.py::ask_command parameters": "likewise",
    "src/perdure/cli/rooms_rights.py::budget parameters": "likewise",
    "src/perdure/cli/executions.py::cancel parameters": "likewise",
    "src/perdure/cli/executions.py::list_command parameters": "likewise",
    "src/perdure/server/routes/control.py::executions parameters": "FastAPI makes each parameter one of the query",
    "src/perdure/server/routes/screen.py::search parameters": "likewise",
    "src/perdure/cli/tasks.py::retry parameters": "likewise",
    "tests/unit/engine/test_machine.py::Engine length": "hypothesis wants all rules of one machine in one class",
}
"""`path::name what` -> reason. An entry that is no longer needed fails."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_sizes() -> None:
    found = {
        key: text
        for module in source_tree.python_files("src", "tests", "bench", "examples")
        for key, text in over(module)
    }
    for path, text in source_tree.sql_files():
        if (lines := text.count("\n")) > SQL_LINES:
            found[f"{path} length"] = f"{lines} lines, at most {SQL_LINES}"
    fail_on(
        [f"{key}: {text}" for key, text in found.items() if key not in EXCEPTIONS]
        + [f"{key}: an exception that nothing needs" for key in EXCEPTIONS.keys() - found.keys()]
    )


def test_ignores_name_their_rule_and_reason() -> None:
    fail_on(line for module in source_tree.python_files("src") for line in bare_ignores(module))


IGNORE = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)(?P<rest>.*)")
RULE = r"(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[\w, -]+\])"


def bare_ignores(module: Module) -> Iterator[str]:
    """Yield ignores without `rule - reason`. In a row of lines that ignore the same, the first says why for all."""
    above = ""
    for number, line in enumerate(module.text.splitlines(), 1):
        match = IGNORE.search(line)
        rule = match and re.match(RULE, match["rest"])
        reason = match and rule and re.match(r"\s+[-#]\s*\S", match["rest"][rule.end() :])
        if match and not reason and not (rule and rule[0] == above):
            yield f"{module.path}:{number}: write `rule - reason` after the ignore: {line.strip()}"
        above = rule[0] if rule else ""


def over(module: Module) -> Iterator[tuple[str, str]]:
    limit = TEST_FILE_LINES if module.path.startswith("tests/") else FILE_LINES
    if (lines := module.text.count("\n")) > limit:
        yield f"{module.path} length", f"{lines} lines, at most {limit}"
    for name, node in named(module.tree):
        where = f"{module.path}::{name}"
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if isinstance(node, ast.ClassDef):
            if lines > CLASS_LINES:
                yield f"{where} length", f"{lines} lines, at most {CLASS_LINES}"
            continue
        if lines > FUNCTION_LINES:
            yield f"{where} length", f"{lines} lines, at most {FUNCTION_LINES}"
        if (deep := nesting(node.body)) > NESTING:
            yield f"{where} nesting", f"{deep} blocks deep, at most {NESTING}"
        if not module.path.startswith("tests/") and (wide := parameters(node)) > PARAMETERS:
            yield f"{where} parameters", f"{wide} parameters, at most {PARAMETERS}: use a frozen options dataclass"


def named(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function):
            yield prefix + child.name, child
            yield from named(child, f"{prefix}{child.name}.")
        else:
            yield from named(child, prefix)


def nesting(body: Sequence[ast.stmt], level: int = 0) -> int:
    """Return how deep blocks stand in each other. `elif` and `except` add nothing; a function inside starts anew."""
    deepest = level
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=[ast.If() as other]):
                parts, same = [inner], [[other]]
            case ast.Match(cases=cases):
                parts, same = [case.body for case in cases], []
            case ast.Try() | ast.TryStar():
                handlers = [handler.body for handler in statement.handlers]
                parts, same = [statement.body, *handlers, statement.orelse, statement.finalbody], []
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                parts, same = [statement.body, statement.orelse], []
            case ast.With() | ast.AsyncWith():
                parts, same = [statement.body], []
            case _:
                continue
        deepest = max([deepest, *(nesting(p, level + 1) for p in parts), *(nesting(p, level) for p in same)])
    return deepest


def parameters(function: Function) -> int:
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))
