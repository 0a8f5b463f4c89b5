"""Find the agents that `module:attribute` names. Imports the user's module; each mistake is told in one message."""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from perdure.agent.agent import Agent
from perdure.errors import InvalidInput
from perdure.flow.durable import DurableDefinition, durable_definition, is_durable

ENDS_ITSELF = 'it is a program that ends while it is imported. Put what it does under `if __name__ == "__main__":`'
_NOT_THEIRS = ("<", str(Path(__file__).parents[1]) + os.sep, os.path.dirname(importlib.__file__) + os.sep)
"""Where lines of ours and of Python's importing stand: none of them is the user's to mend."""


def load_agents(targets: Sequence[str]) -> list[Agent]:
    """Return the agent of each target. Raises `InvalidInput` (`bad_target`) for what is not there or not an agent."""
    return [_agent(target, load_target(target)) for target in targets]


def load_declared(targets: Sequence[str]) -> list[Agent | DurableDefinition]:
    """As `load_agents`, for durable functions too."""
    return [_declared(target, load_target(target)) for target in targets]


def load_target(target: str) -> object:
    """Import `package.module:attribute` and return the attribute. The working directory is searched first.

    Raises `InvalidInput` (`bad_target`) naming what is missing and what is near it.
    """
    name, colon, attribute = target.partition(":")
    if not (name and colon and attribute) or name.endswith(".py") or "/" in name:
        stem = name.removesuffix(".py").strip("./").replace("/", ".") or "my_module"
        raise _bad(target, f"is not of the form module:attribute; for example {stem}:{attribute or 'agent'}")
    found: object = _import(target, name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise _bad(target, f"names nothing: {_say(found)} has no {part!r}{_near(part, _names(found))}")
        found = getattr(found, part)
    return found


def load_module(name: str) -> ModuleType:
    """Import a module. The working directory is searched first. Raises `InvalidInput` (`bad_target`)."""
    if not name or ":" in name or name.endswith(".py") or "/" in name:
        stem = name.partition(":")[0].removesuffix(".py").strip("./").replace("/", ".") or "my_module"
        raise _bad(name, f"is not the name of a module; for example {stem}")
    return _import(name, name)


def _declared(target: str, found: object) -> Agent | DurableDefinition:
    if callable(found) and is_durable(found):
        return durable_definition(found)
    if callable(found) and not isinstance(found, Agent):
        raise _bad(target, f"is {_say(found)}, which is neither an Agent nor declared: put `@durable` above it")
    return _agent(target, found)


def _agent(target: str, found: object) -> Agent:
    if isinstance(found, Agent):
        return found
    raise _bad(target, f"is a {type(found).__name__}, not an Agent; point to what `Agent(...)` returned")


def _import(target: str, name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise _bad(target, f"cannot be imported: {name} {raised(error)}") from error
        parent, _, last = error.name.rpartition(".")
        raise _bad(target, f"names no module: there is no {error.name!r}{_near(last, _modules(parent))}") from None
    except SystemExit:
        raise _bad(target, f"cannot be imported: {ENDS_ITSELF}") from None
    except Exception as error:  # importing runs the user's code
        raise _bad(target, f"cannot be imported: {name} {raised(error)}") from error


def raised(error: Exception) -> str:
    """Say what importing a user's module raised, and at which of their lines: the last that is not ours or Python's."""
    said, where = str(error), ""
    if isinstance(error, SyntaxError) and error.filename:
        said, where = error.msg, f" ({error.filename}:{error.lineno})"
    else:
        lines = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_NOT_THEIRS)]
        where = f" ({lines[-1].filename}:{lines[-1].lineno})" if lines else ""
    return f"raised {type(error).__name__}: {said.rstrip('.')}{where}"


def _modules(parent: str) -> list[str]:
    package = sys.modules.get(parent)
    path: Iterable[str] = [os.getcwd()] if not parent else getattr(package, "__path__", [])
    return [module.name for module in pkgutil.iter_modules(list(path))]


def _names(found: object) -> list[str]:
    names = [name for name in dir(found) if not name.startswith("_")]
    agents = [name for name in names if isinstance(getattr(found, name, None), Agent)]
    return agents or names


def _near(wanted: str, names: list[str]) -> str:
    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5) or (names if len(names) <= 3 else [])
    return f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def _say(found: object) -> str:
    return f"module {found.__name__}" if isinstance(found, ModuleType) else f"{found!r:.60}"


def _bad(target: str, why: str) -> InvalidInput:
    return InvalidInput(f"{target!r} {why.rstrip('.?')}{'?' if why.endswith('?') else '.'}", code="bad_target")
