"""Find what durable code does outside its steps that a re-run would see otherwise: time, chance, environment, IO.

Reads source, runs nothing. Follows calls to functions of the same module; what other modules do it cannot see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_NOW = "use `now()` of perdure.flow, which is recorded"
_CHANCE = "use `random()` or `uuid()` of perdure.flow, which a re-run gives again"
_ENVIRONMENT = "read it in a step, or pass it in as an argument"
_IO = "do it in a step: `await step(function, ...)`"
_SLEEP = "use `sleep()` of perdure.flow, which holds no process"
_RACE = "use `first`, `completed` or `timeout` of perdure.flow: how this ends depends on time and is not recorded"

CURES: dict[str, tuple[str, str]] = {
    "time.sleep": ("time", _SLEEP),
    "asyncio.sleep": ("time", _SLEEP),
    "anyio.sleep": ("time", _SLEEP),
    "time": ("time", _NOW),
    "datetime.datetime.now": ("time", _NOW),
    "datetime.datetime.utcnow": ("time", _NOW),
    "datetime.datetime.today": ("time", _NOW),
    "datetime.date.today": ("time", _NOW),
    "random": ("chance", _CHANCE),
    "secrets": ("chance", _CHANCE),
    "uuid.uuid1": ("chance", _CHANCE),
    "uuid.uuid4": ("chance", _CHANCE),
    "os.urandom": ("chance", _CHANCE),
    "numpy.random": ("chance", _CHANCE),
    "os.environ": ("environment", _ENVIRONMENT),
    "os.environb": ("environment", _ENVIRONMENT),
    "os.getenv": ("environment", _ENVIRONMENT),
    "os.getcwd": ("environment", _ENVIRONMENT),
    "os.getpid": ("environment", _ENVIRONMENT),
    "os.cpu_count": ("environment", _ENVIRONMENT),
    "sys.argv": ("environment", _ENVIRONMENT),
    "platform": ("environment", _ENVIRONMENT),
    "socket": ("IO", _IO),
    "subprocess": ("IO", _IO),
    "shutil": ("IO", _IO),
    "tempfile": ("IO", _IO),
    "sqlite3": ("IO", _IO),
    "urllib.request": ("IO", _IO),
    "http.client": ("IO", _IO),
    "smtplib": ("IO", _IO),
    "requests": ("IO", _IO),
    "httpx": ("IO", _IO),
    "aiohttp": ("IO", _IO),
    "psycopg": ("IO", _IO),
    "asyncpg": ("IO", _IO),
    "boto3": ("IO", _IO),
    "open": ("IO", _IO),
    "input": ("IO", _IO),
    "os.remove": ("IO", _IO),
    "os.rename": ("IO", _IO),
    "os.replace": ("IO", _IO),
    "os.mkdir": ("IO", _IO),
    "os.makedirs": ("IO", _IO),
    "os.listdir": ("IO", _IO),
    "os.scandir": ("IO", _IO),
    "os.system": ("IO", _IO),
    "asyncio.to_thread": ("IO", _IO),
    "asyncio.open_connection": ("IO", _IO),
    "asyncio.create_subprocess_exec": ("IO", _IO),
    "asyncio.create_subprocess_shell": ("IO", _IO),
    "asyncio.wait": ("a race", _RACE),
    "asyncio.wait_for": ("a race", _RACE),
    "asyncio.timeout": ("a race", _RACE),
    "asyncio.as_completed": ("a race", _RACE),
    "asyncio.Queue": ("a race", _RACE),
    "asyncio.Lock": ("a race", _RACE),
    "asyncio.Event": ("a race", _RACE),
    "asyncio.Semaphore": ("a race", _RACE),
    "asyncio.Condition": ("a race", _RACE),
}
"""A name, or all that stands below it, and what it is."""

_FILE_VERBS = frozenset(
    "read_text read_bytes write_text write_bytes unlink mkdir rmdir touch iterdir rglob exists is_file is_dir".split()
)
"""What a path of `pathlib` does."""
_STEP = "perdure.flow.step"
_DURABLE = "perdure.flow.durable"
_HARMLESS = frozenset({"random.Random", "datetime.datetime", "datetime.date", "datetime.timedelta", "time.struct_time"})


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """One thing that durable code does outside a step."""

    line: int
    function: str
    """The durable function."""
    what: str
    """`time.time`, as it would be written in full."""
    kind: str
    """time, chance, environment, IO or a race."""
    cure: str


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_outside_steps(source: str) -> list[Found]:
    """Return what the durable functions of a module's source do outside steps, by line, each line's once."""
    tree = ast.parse(source)
    names = _Names(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, Function)}
    found: set[Found] = set()
    for node in ast.walk(tree):
        if isinstance(node, Function) and any(names.full(_called(one)) == _DURABLE for one in node.decorator_list):
            found.update(_Walk(node.name, names, functions).of(node))
    return sorted(found)


class _Names:
    """What the names of a module stand for: its imports, under whatever name."""

    def __init__(self, tree: ast.Module) -> None:
        self._aliases: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    name = one.asname or one.name.partition(".")[0]
                    self._aliases[name] = one.name if one.asname else name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for one in node.names:
                    self._aliases[one.asname or one.name] = _home(f"{node.module}.{one.name}")

    def full(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; empty if it is none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return _home(".".join([self._aliases.get(node.id, node.id), *reversed(parts)]))


def _home(name: str) -> str:
    """Our own names are exported in more than one place."""
    last = name.rpartition(".")[2]
    return f"perdure.flow.{last}" if name.startswith("perdure.") and last in ("step", "durable") else name


class _Walk:
    """One durable function, and the functions of its module that it calls."""

    def __init__(self, durable: str, names: _Names, functions: dict[str, Function]) -> None:
        self._durable = durable
        self._names = names
        self._functions = functions
        self._seen: set[str] = set()

    def of(self, function: Function) -> Iterator[Found]:
        bodies = self._step_bodies(function)
        local = {node.name: node for node in ast.walk(function) if isinstance(node, Function) and node is not function}
        for statement in function.body:
            yield from self._visit(statement, bodies | local.keys(), local.keys() - bodies, local)

    def _step_bodies(self, function: Function) -> set[str]:
        """Return the names of functions that are only given to `step`."""
        return {
            node.args[0].id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and self._is_step(node) and node.args and isinstance(node.args[0], ast.Name)
        }

    def _visit(self, node: ast.AST, skipped: set[str], called: set[str], local: dict[str, Function]) -> Iterator[Found]:
        if isinstance(node, Function):
            if node.name in called:
                for statement in node.body:
                    yield from self._visit(statement, skipped, called, local)
            return
        if isinstance(node, ast.Call) and self._is_step(node):
            for argument in [*node.args[1:], *(keyword.value for keyword in node.keywords)]:
                yield from self._visit(argument, skipped, called, local)
            return
        if isinstance(node, ast.Call):
            told = list(self._call(node))
            yield from told
            if told:
                node = ast.Tuple([*node.args, *(keyword.value for keyword in node.keywords)])
        elif isinstance(node, ast.Attribute | ast.Subscript):
            yield from self._known(node, self._names.full(node.value if isinstance(node, ast.Subscript) else node))
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child, skipped, called, local)

    def _call(self, node: ast.Call) -> Iterator[Found]:
        name = self._names.full(node.func)
        yield from self._known(node, name)
        verb = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if verb in _FILE_VERBS and not name.startswith("perdure."):
            yield Found(node.lineno, self._durable, f"….{verb}", "IO", _IO)
        helper = self._functions.get(name)
        if helper is not None and name not in self._seen:
            self._seen.add(name)
            if not any(self._names.full(_called(one)) == _DURABLE for one in helper.decorator_list):
                yield from self.of(helper)

    def _known(self, node: ast.expr, name: str) -> Iterator[Found]:
        if name in _HARMLESS or (isinstance(node, ast.Attribute) and not name.startswith(("os.environ", "sys.argv"))):
            return
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            known = CURES.get(".".join(parts[:length]))
            if known is not None:
                yield Found(node.lineno, self._durable, name, *known)
                return

    def _is_step(self, node: ast.Call) -> bool:
        return self._names.full(node.func) == _STEP


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator
