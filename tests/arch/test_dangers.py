"""What the library never does: run text as code, revive objects from bytes, swallow errors, import the undeclared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator

import source_tree
from source_tree import Module, dotted, fail_on, imports_of

CALLS = frozenset(
    {
        "eval",
        "exec",
        "compile",
        "__import__",
        "os.system",
        "os.popen",
        "yaml.load",
        "yaml.unsafe_load",
        "yaml.full_load",
    }
)
MODULES = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code", "runpy"})

DISTRIBUTIONS = {
    "a2a": "a2a-sdk",
    "griffe": "griffelib",
    "markdown_it": "markdown-it-py",
    "pydantic_ai": "pydantic-ai-slim",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "yaml": "pyyaml",
}
"""Import names whose distribution is called otherwise, or comes with another that is declared."""


def test_nothing_runs_text_or_revives_objects() -> None:
    def dangers(module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and dotted(node.func) in CALLS:
                yield node, dotted(node.func)
            if isinstance(node, ast.keyword) and node.arg == "shell" and not is_false(node.value):
                yield node, "shell="
        for found in imports_of(module):
            if found.target.split(".")[0] in MODULES:
                yield found.node, found.target

    fail_on(f"{module.at(node)}: {name}" for module in source_tree.library() for node, name in dangers(module))


def test_no_error_is_swallowed() -> None:
    def swallowed(module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler) and broad(node.type) and all(map(is_nothing, node.body)):
                yield f"{module.at(node)}: catches everything and does nothing"
            if isinstance(node, ast.Call) and dotted(node.func).endswith("suppress") and any(map(broad, node.args)):
                yield f"{module.at(node)}: suppresses everything"

    fail_on(line for module in source_tree.library() for line in swallowed(module))


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((source_tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    declared = {name_of(line) for line in [*project["dependencies"], *extras]}
    # an extra of pydantic-ai-slim brings the provider's own package
    declared |= {extra for line in extras for extra in re.findall(r"\[(\w+)\]", line)}
    fail_on(
        f"{module.at(found.node)}: {package} is in no dependency list of pyproject.toml"
        for module in source_tree.library()
        for found in imports_of(module)
        for package in [found.target.split(".")[0]]
        if package not in sys.stdlib_module_names and package != "perdure" and not beside(module, package)
        if name_of(DISTRIBUTIONS.get(package, package)) not in declared
    )


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def beside(module: Module, name: str) -> bool:
    """A program of several files imports its own by their bare names."""
    folder = (source_tree.ROOT / module.path).parent
    return not module.name and ((folder / f"{name}.py").is_file() or (folder / name).is_dir())


def broad(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(map(broad, kind.elts))
    return kind is None or dotted(kind) in {"Exception", "BaseException"}


def is_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
