"""What is tested: the user's module, its agent, the replies it is given, and how its effects are counted.

The module is imported in children only, never in the process that forks them: it may start threads, or break.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from perdure.agent.agent import Agent
from perdure.core.delivery import Delivery
from perdure.errors import InvalidInput
from perdure.testing.family import Family
from perdure.worker.target import ENDS_ITSELF, load_module, load_target, raised

INSPECT_SECONDS = 60.0
DEFAULT_INPUT = "Go."


@dataclass(frozen=True, slots=True)
class Subject:
    """What to test, as it was named."""

    target: str
    """`agent.py`, `agent.py:name` or `package.module:name`."""
    script: str = ""
    """`module:name` of a function or a list. Empty: the module's own `script`."""
    replies: str = ""
    """A file of recorded replies, as `replies.py` writes it."""
    observe: str = ""
    """`module:function`. Empty: the module's own `observe`, if it has one."""
    input: str = DEFAULT_INPUT
    """What the agent is given."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What is known of a tool beforehand."""

    name: str
    delivery: str
    by_worker: bool
    """False: the server calls it itself, and nobody counts how often."""
    probe: bool = False
    isolated: bool = False
    counts_as: str = ""
    """What its author's policy takes an unknown outcome for, after some time; empty is nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What importing the user's module told."""

    agent: str
    spec: dict[str, Any]
    """The agent, compiled."""
    tools: dict[str, ToolFacts]
    observes: bool
    """There is a function that counts effects."""
    replies_from: str
    """Where the model's replies come from, in words."""

    @property
    def has_worker(self) -> bool:
        return any(tool.by_worker for tool in self.tools.values())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Facts:
        given: dict[str, Any] = {**data}
        given["tools"] = {name: ToolFacts(**facts) for name, facts in data["tools"].items()}
        return cls(**given)


@dataclass(frozen=True, slots=True)
class _Problem:
    """A mistake in the user's module, on its way to the process that tells it."""

    code: str
    message: str


def inspect_subject(subject: Subject, folder: Path) -> Facts:
    """Import the user's module in a child and return what it says. Raises `InvalidInput` for what is wrong with it."""
    told = folder / "facts.json"
    family = Family(folder)
    family.start("inspect", partial(_inspect, subject, told))
    try:
        waited = 0.0
        while family.pid("inspect") and waited < INSPECT_SECONDS:
            family.wait(0.1)
            waited += 0.1
    finally:
        family.end()
    if not told.exists():
        said = (folder / "inspect.out").read_text(encoding="utf-8", errors="replace").strip()[-500:]
        raise _bad(subject.target, f"ended the process that imported it, or took too long: {said or 'it said nothing'}")
    found = json.loads(told.read_text(encoding="utf-8"))
    if "code" in found:
        raise InvalidInput(found["message"], code=found["code"])
    return Facts.from_json(found)


def _inspect(subject: Subject, told: Path) -> None:
    found = json.dumps(_look(subject))
    told.write_text(found, encoding="utf-8")


def _look(subject: Subject) -> dict[str, Any]:
    try:
        agent = load_agent(subject)
        observe = load_observe(subject)
        source = _source(subject)
        if not subject.replies:
            load_script(subject)
        return asdict(Facts(agent.name, agent.compile(), tools_of(agent), observe is not None, source))
    except InvalidInput as error:
        return asdict(_Problem(error.code, error.message))


def tools_of(agent: Agent) -> dict[str, ToolFacts]:
    """Return the tools of an agent with the delivery that holds for them."""
    declared = {one.name: one for one in agent.definitions().values()}
    found: dict[str, ToolFacts] = {}
    for entry in cast("list[dict[str, Any]]", agent.compile()["tools"]):
        own = declared.get(entry["name"])
        found[entry["name"]] = ToolFacts(
            name=entry["name"],
            delivery=str(entry.get("delivery") or Delivery.AT_LEAST_ONCE),
            by_worker=own is not None,
            probe=own is not None and own.probe is not None,
            isolated=own is not None and own.options.isolated,
            counts_as=str(entry["rules"].get("rule_as", "")),
        )
    return found


# In a child.


def load_agent(subject: Subject) -> Agent:
    """Return the agent. Raises `InvalidInput` (`bad_target`)."""
    module, _, attribute = subject.target.partition(":")
    if not module.endswith(".py"):
        if attribute:
            return _as_agent(subject, load_target(subject.target))
        return _only_agent(subject, load_module(module))
    found = _module_at(Path(module))
    if not attribute:
        return _only_agent(subject, found)
    if not hasattr(found, attribute):
        raise _bad(subject.target, f"names nothing: {module} has no {attribute!r}")
    return _as_agent(subject, getattr(found, attribute))


def load_script(subject: Subject) -> Any:
    """Return the script: a function or a list. Raises `InvalidInput` (`bad_script`, `no_replies`)."""
    found: Any = _part(subject, subject.script, "script")
    if found is None:
        raise InvalidInput(
            f"{subject.target!r} has nothing that answers in the model's place. Define `script` there (a list of "
            "replies, or a function of the request: see `perdure.models.scripted`), or give --script MODULE:NAME, or "
            "--replies with an execution or a file of one.",
            code="no_replies",
        )
    if not (callable(found) or type(found) in (list, tuple)):
        raise InvalidInput(
            f"script {subject.script or 'script'!r} is a {type(found).__name__}; expected a list or a function.",
            code="bad_script",
        )
    return found


def load_observe(subject: Subject) -> Callable[[], object] | None:
    """Return the function that counts effects, if there is one. Raises `InvalidInput` (`bad_observe`)."""
    found: Any = _part(subject, subject.observe, "observe")
    if found is None or callable(found):
        return cast("Callable[[], object] | None", found)
    name = subject.observe or "observe"
    raise InvalidInput(f"{name!r} is a {type(found).__name__}; expected a function.", code="bad_observe")


def observed(subject: Subject) -> dict[str, int]:
    """Call it. Raises `InvalidInput` (`bad_observe`) if what it returns is no mapping of keys to counts."""
    observe = load_observe(subject)
    if observe is None:
        return {}
    found: object = observe()
    if isinstance(found, Mapping):
        counts = cast("Mapping[object, object]", found)
        if all(isinstance(count, int) for count in counts.values()):
            return {str(key): cast("int", count) for key, count in counts.items()}
    raise InvalidInput(f"observe returned {found!r:.120}; expected a mapping of keys to counts.", code="bad_observe")


def takes_json(script: Callable[..., Any]) -> bool:
    """Say whether a script wants the request as JSON: its first parameter is declared as a dict."""
    try:
        first = next(iter(inspect.signature(script).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    return first is not None and str(first.annotation).removeprefix("<class '").startswith("dict")


def _source(subject: Subject) -> str:
    if subject.replies:
        return "recorded"
    return f"by {subject.script}" if subject.script else f"by `script` of {subject.target.partition(':')[0]}"


def _part(subject: Subject, named: str, own: str) -> Any:
    """Return what was named, or what the user's module has under its usual name, or None."""
    module = subject.target.partition(":")[0]
    home = _module_at(Path(module)) if module.endswith(".py") else load_module(module)
    return load_target(named) if named else getattr(home, own, None)


def _module_at(path: Path) -> Any:
    """Import the very file that was named, with its neighbours within reach. Raises `InvalidInput` (`bad_target`)."""
    if not path.is_file():
        raise _bad(str(path), "is no file here")
    if (known := sys.modules.get(path.stem)) is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except InvalidInput:
        raise
    except SystemExit:
        raise _bad(str(path), f"cannot be imported: {ENDS_ITSELF}") from None
    except Exception as error:  # importing runs the user's code
        raise _bad(str(path), f"cannot be imported: it {raised(error)}") from error
    return module


def _only_agent(subject: Subject, module: Any) -> Agent:
    names = cast("dict[str, object]", vars(module))
    agents = {name: one for name, one in names.items() if isinstance(one, Agent)}
    if len({id(agent) for agent in agents.values()}) == 1:
        return next(iter(agents.values()))
    if not agents:
        raise _bad(subject.target, "has no agent at its top level: put what `Agent(...)` returns into a name there")
    raise _bad(subject.target, f"has several agents: say which, {subject.target}:{next(iter(agents))} for example")


def _as_agent(subject: Subject, found: object) -> Agent:
    if isinstance(found, Agent):
        return found
    raise _bad(subject.target, f"is a {type(found).__name__}; what is tested is an Agent")


def _bad(target: str, why: str) -> InvalidInput:
    return InvalidInput(f"{target!r} {why}.", code="bad_target")
