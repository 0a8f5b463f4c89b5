"""Time, chance, threads, sockets and processes stay at named edges; everything else asks a port, so that the
simulation can run the real code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import source_tree
from source_tree import Module, dotted, fail_on, imports_of

GUARDED_MODULES = {
    "time": "time",
    "sched": "time",
    "random": "chance",
    "secrets": "chance",
    "uuid": "chance",
    "threading": "threads",
    "_thread": "threads",
    "concurrent": "threads",
    "multiprocessing": "processes",
    "subprocess": "processes",
    "socket": "sockets",
    "socketserver": "sockets",
    "ssl": "sockets",
    "select": "sockets",
    "selectors": "sockets",
}
GUARDED_NAMES = {
    "datetime.now": "time",
    "datetime.utcnow": "time",
    "datetime.today": "time",
    "date.today": "time",
    "datetime.datetime.now": "time",
    "datetime.datetime.utcnow": "time",
    "datetime.date.today": "time",
    "asyncio.sleep": "time",
    "anyio.sleep": "time",
    "os.urandom": "chance",
    "os.getrandom": "chance",
    "os.fork": "processes",
    "asyncio.to_thread": "threads",
    "anyio.to_thread.run_sync": "threads",
}

EDGES: dict[str, tuple[str, str]] = {
    "system.py": ("time chance", "it is the port's implementation over the operating system"),
    "failpoints.py": ("time threads", "it delays and hangs on purpose, from any thread"),
    "store/writer.py": ("threads time", "the one thread that writes; it gives way, for no time at all"),
    "models/catalog.py": ("threads", "importing a provider's package takes a second, which a loop must not wait for"),
    "toolbox/skills_process.py": ("processes sockets", "a skill is a process whose pipes it watches"),
    "server/": ("threads sockets", "the edge: the executor's loop thread, the listening socket"),
    "worker/isolated.py": ("processes", "an isolated tool is a process"),
    "worker/child.py": (
        "processes",
        "the process of an isolated tool finds its main program as the standard library's do",
    ),
    "worker/": ("threads", "the edge: slots are threads, and async tools may have a loop of their own"),
    "mailbox.py": ("threads", "calls come from any thread"),
    "service_loop.py": ("threads", "the loop that serves Perdure alone has a thread of its own"),
    "shared_store.py": ("threads", "a store is taken over away from the loop that serves"),
    "runtime.py": ("threads", "verbs may come from any thread, and one waits for the end of the program"),
    "cli/": ("time threads", "it says how long ago something was, and closes a node away from its loop"),
    "demo/": ("time threads processes", "a program for people: it starts, watches and kills processes"),
    "testing/": ("time chance threads sockets processes", "clocks, schedulers and worlds are made here"),
}
"""Files, or folders by a trailing slash: what they may touch and why. Skills' scripts are programs: they may."""


def test_time_chance_threads_and_sockets_stay_at_the_edges() -> None:
    fail_on(
        f"{module.at(node)}: {name} ({what}); take Clock or Random from core/ports.py, or name the edge in EDGES"
        for module in source_tree.library()
        if module.name
        for node, name, what in touched(module)
        if what not in allowed(module.inner)
    )


def test_every_edge_is_used() -> None:
    def used(edge: str) -> set[str]:
        files = [
            m for m in source_tree.library() if m.inner == edge or (edge.endswith("/") and m.inner.startswith(edge))
        ]
        return {what for module in files for _, _, what in touched(module)} if files else set(EDGES[edge][0].split())

    fail_on(
        f"{edge} may touch {what}, and does not: take it out of EDGES"
        for edge, (whats, _) in EDGES.items()
        for what in set(whats.split()) - used(edge)
    )


def test_threads_have_names_and_ends() -> None:
    def loose(module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "Thread":
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                if "name" not in given:
                    yield f"{module.at(node)}: a thread without name="
                if isinstance(daemon := given.get("daemon"), ast.Constant) and daemon.value is True:
                    yield f"{module.at(node)}: a daemon thread has no end; give it one and join it"

    fail_on(
        line for module in source_tree.library() if not module.inner.startswith("testing/") for line in loose(module)
    )


def touched(module: Module) -> Iterator[tuple[ast.AST, str, str]]:
    for found in imports_of(module):
        what = GUARDED_MODULES.get(found.target.split(".")[0]) or GUARDED_NAMES.get(found.target)
        if what:
            yield found.node, found.target, what
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and (what := GUARDED_NAMES.get(dotted(node))):
            yield node, dotted(node), what


def allowed(inner: str) -> set[str]:
    return {
        what
        for edge, (whats, _) in EDGES.items()
        if inner == edge or (edge.endswith("/") and inner.startswith(edge))
        for what in whats.split()
    }
