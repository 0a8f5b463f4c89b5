"""`perdure server`: own or share a store, answer on a port, run executions; with `--serve` also their tools."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from perdure.cli.connect import AsJson, LogLevel
from perdure.errors import StoreInUse

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.agent.agent import Agent
    from perdure.demo.parcels import ParcelsDemo
    from perdure.models.scripted import Script
    from perdure.server.node import Node, Parts
    from perdure.server.options import ServeOptions
    from perdure.server.serve import Ready
    from perdure.server.tool_source import ServerTools


Host = Annotated[str, typer.Option(metavar="NAME", help="Where to listen.")]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="On which port; 0 takes a free one.")]
StorePath = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL",
        envvar="PERDURE_STORE",
        help="The SQLite file, by default perdure/perdure.db in the user's state folder; or a PostgreSQL database that "
        "any number of servers share: postgresql://user@host/database. A password is better kept in PGPASSWORD or "
        "~/.pgpass.",
        show_envvar=True,
    ),
]
Serve = Annotated[
    list[str] | None, typer.Option(metavar="MODULE:AGENT", help="Run this agent's tools here too. May be repeated.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A further name that clients may use for this server. May be repeated."),
]
AllowOrigin = Annotated[
    list[str] | None, typer.Option(metavar="URL", help="A web page that may call this server. May be repeated.")
]
PublicUrl = Annotated[
    str,
    typer.Option(
        "--public-url",
        metavar="URL",
        envvar="PERDURE_PUBLIC_URL",
        help="Where the outside reaches this server: what callback addresses begin with. By default its own address.",
        show_default=False,
    ),
]
AllowPrivate = Annotated[
    bool,
    typer.Option(
        "--allow-private-http",
        help="Let the tools that this server calls, and models at addresses that agents of other companies name, be at "
        "addresses that are not public: an intranet, this machine.",
    ),
]
ToolEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A variable that headers of such tools may refer to as ${env:NAME}. May be repeated."
    ),
]
NoDemo = Annotated[
    bool,
    typer.Option(
        "--no-demo",
        help="Offer no crash demo in the web UI. Only a server on loopback that shares its store with no other offers "
        "one, to the admin key.",
    ),
]
NoAuth = Annotated[bool, typer.Option("--insecure-no-auth", help="Ask for no key. Only on loopback.")]
Retention = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        envvar="PERDURE_RETENTION",
        help="How long executions are kept after they ended: 30d, 12h, 90m, or off to keep all. The store remembers "
        "it, for every server and program on it; where nobody ever said anything it is 30d.",
        show_default=False,
        show_envvar=True,
    ),
]
MaxValue = Annotated[
    int,
    typer.Option(
        "--max-value-mb",
        min=8,
        max=1024,
        metavar="N",
        envvar="PERDURE_MAX_VALUE_MB",
        help="The largest value that is taken, in MB of JSON text. From 8 MB on a value is kept beside the log.",
        show_envvar=True,
    ),
]
LeaseSeconds = Annotated[
    float,
    typer.Option(min=0.2, metavar="N", help="How long an execution stays with a server that gives no sign of life."),
]

DeliveryFloor = Annotated[
    Literal["at_least_once", "at_most_once"],
    typer.Option(
        metavar="MODE",
        help="A policy for the tools of all agents, only ever stricter than what they say. at_most_once: what would be "
        "tried again after a crash is not; a person rules on it.",
    ),
]


def server(
    host: Host = "127.0.0.1",
    port: Port = 6767,
    store: StorePath = None,
    serve: Serve = None,
    insecure_no_auth: NoAuth = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    public_url: PublicUrl = "",
    lease_seconds: LeaseSeconds = 30.0,
    delivery_floor: DeliveryFloor = "at_least_once",
    retention: Retention = None,
    max_value_mb: MaxValue = 64,
    allow_private_http: AllowPrivate = False,
    tool_env: ToolEnv = None,
    no_demo: NoDemo = False,
    log_level: LogLevel = "info",
    as_json: AsJson = False,
    script: Annotated[list[str] | None, typer.Option(hidden=True, metavar="NAME=MODULE:SCRIPT")] = None,
    lease_ms: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a server until Ctrl-C or SIGTERM.

    What it accepted survives its death: start it again, and every execution goes on. --json prints one line when it
    is ready, with its url, pid and store, and its key if that is new.
    """
    from perdure import log
    from perdure.runtime import default_store
    from perdure.server.options import ServeOptions
    from perdure.server.tool_source import tools_by
    from perdure.worker.target import load_agents

    log.configure(log_level)
    plan = Plan(
        store=_place(store) if store else str(default_store()),
        options=ServeOptions(
            host=host,
            port=port,
            hosts=tuple(allow_host or ()),
            origins=tuple(allow_origin or ()),
            public_url=_public(public_url),
            auth=not insecure_no_auth,
        ),
        agents=load_agents(serve or ()),
        scripts=_scripts(script or ()),
        lease_ms=lease_ms or round(lease_seconds * 1000),
        delivery_floor=delivery_floor,
        retention_ms=_retention(retention),
        max_value_bytes=max_value_mb * 1024 * 1024,
        tools=tools_by(os.environ, tool_env or (), allow_private=allow_private_http),
        as_json=as_json,
        no_demo=no_demo,
    )
    _leave(_run(plan, *_open(plan)))


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    store: str
    options: ServeOptions
    agents: Sequence[Agent]
    scripts: dict[str, Script]
    lease_ms: int
    delivery_floor: str
    retention_ms: int | None
    max_value_bytes: int
    tools: ServerTools
    as_json: bool
    no_demo: bool


def _open(plan: Plan) -> tuple[Node, str]:
    """Return a node over the store, and the store's name as it may be shown."""
    from functools import partial

    from perdure.core.delivery import floor_of
    from perdure.database import is_address, open_database
    from perdure.models.catalog import Catalog
    from perdure.models.guarded import ANSWER_BYTES
    from perdure.models.vectors import installed_embedder
    from perdure.server.executor import ExecutorOptions
    from perdure.server.node import Parts
    from perdure.server.server_keys import keys_by
    from perdure.system import SystemClock, SystemRandom
    from perdure.toolbox.guarded_http import GuardedTransport

    guard = partial(GuardedTransport, plan.tools.outbound, max_bytes=ANSWER_BYTES)
    models = Catalog(scripted=_demo_scripts(plan) | plan.scripts, guard=guard)
    options = ExecutorOptions(lease_ms=plan.lease_ms, delivery_floor=floor_of(plan.delivery_floor))
    parts = Parts(
        models,
        SystemClock(),
        SystemRandom(),
        options,
        plan.tools,
        retention_ms=plan.retention_ms,
        max_value_bytes=plan.max_value_bytes,
        server_keys=keys_by(os.environ),
        embedder=installed_embedder(),
    )
    if is_address(plan.store):
        return open_database(plan.store, parts)
    return _open_file(plan, parts), plan.store


def _run(plan: Plan, node: Node, shown: str) -> int:
    """Serve until a signal; return how many tools could not be stopped. However it ends, the node is closed."""
    from perdure.service_loop import run

    try:
        options = replace(plan.options, state_file=_state_file(node))
        return run(_serve(replace(plan, store=shown, options=options), node))
    except BaseException:
        node.stop()  # else its threads would keep the process, and the process the store
        raise


def _open_file(plan: Plan, parts: Parts) -> Node:
    import asyncio

    from perdure.shared_store import open_node, owner_check

    try:
        return open_node(plan.store, parts.models, parts, ask=owner_check(plan.store, asyncio.run))
    except StoreInUse as error:
        address = error.details.get("address")
        if error.code != StoreInUse.default_code or not address:
            raise
        if error.details.get("kind") == "runtime":
            raise StoreInUse(
                f"store {plan.store} belongs to a program of yours with an embedded runtime: process "
                f"{error.details.get('pid')}. Programs join it there by themselves; for a server on this file end that "
                "program, or name another --store. Started first, a server has them join it.",
                **error.details,
            ) from None
        raise StoreInUse(
            f"a server runs already on store {plan.store}: process {error.details.get('pid')}, at {address}. Use that "
            "one (commands of this user find it), stop it, or name another --store.",
            **error.details,
        ) from None


def _state_file(node: Node) -> Path:
    """Return where to say how this user's clients find this server: where several share a store, not in another's."""
    import asyncio

    from perdure.client.discover import free_place
    from perdure.wire import state_file

    if not node.shared:
        return state_file.path_of(node.info().store)
    return asyncio.run(free_place(node.info().store))


async def _serve(plan: Plan, node: Node) -> int:
    """Serve until a signal; return how many tools could not be stopped. The node is closed in the end."""
    import asyncio

    from perdure.runtime import local_worker
    from perdure.server.serve import serve
    from perdure.system import settle_memory

    worker = local_worker(node, plan.agents) if plan.agents else None
    demo: ParcelsDemo | None = None

    def on_ready(ready: Ready) -> None:
        node.public_url = plan.options.public_url or ready.url
        node.announce(ready.url, key=ready.key or None, kind="server")
        if demo:
            demo.open(ready.url, ready.key)
        settle_memory()
        _tell_ready(plan, node, ready)

    node.public_url = plan.options.public_url
    node.start()
    try:
        demo = _demo(plan, node)
        work = asyncio.create_task(worker.run(), name="worker") if worker else None
        try:
            await serve(node, plan.options, on_ready=on_ready, demo=demo)
        finally:
            if demo:
                await demo.aclose()
            if worker and work:
                worker.stop(plan.options.drain_seconds if node.failure is None else 0)
                await work
    finally:
        await asyncio.to_thread(node.stop)
    return worker.left_running if worker else 0


def _leave(left_running: int) -> None:
    """End the process if threads that cannot be stopped would keep it, and the store with it."""
    if left_running:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _tell_ready(plan: Plan, node: Node, ready: Ready) -> None:
    if not sys.stderr.isatty():  # a person reads it below
        from perdure.log import get_log

        get_log(__name__).info("server.ready", url=ready.url, store=plan.store, pid=os.getpid())
    if plan.as_json:
        facts = {
            "url": ready.url,
            "pid": os.getpid(),
            "store": plan.store,
            "state_file": str(plan.options.state_file),
            "key": ready.key if ready.key_is_new else None,
            "login": ready.login or None,
        }
        print(json.dumps(facts), flush=True)  # noqa: T201 - the one line that programs wait for
        return
    from perdure.cli.show_server import show_ready

    show_ready(plan, node, ready)


def _demo(plan: Plan, node: Node) -> ParcelsDemo | None:
    """Return the crash demo that browsers are offered. Other servers of a shared store would know no script of ours."""
    from perdure.demo.parcels import ParcelsDemo
    from perdure.server.auth import ADMIN
    from perdure.server.listen import stays_here

    if plan.no_demo or node.shared or not stays_here(plan.options):
        return None
    return ParcelsDemo(node.api(ADMIN.company))


def _demo_scripts(plan: Plan) -> dict[str, Script]:
    from perdure.demo.parcels_script import NAME, reply

    return {} if plan.no_demo else {NAME: reply}


def _scripts(given: Sequence[str]) -> dict[str, Script]:
    from perdure.worker.target import load_target

    scripts: dict[str, Script] = {}
    for one in given:
        name, equals, target = one.partition("=")
        if not equals:
            raise typer.BadParameter(f"{one!r} is not of the form NAME=MODULE:SCRIPT.", param_hint="--script")
        scripts[name] = load_target(target)  # pyright: ignore[reportArgumentType] - a script is any callable or list
    return scripts


def _public(given: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(given)
    if given and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise typer.BadParameter(f"{given!r} is no address like https://example.com.", param_hint="--public-url")
    return given.rstrip("/")


def _retention(given: str | None) -> int | None:
    from perdure.errors import InvalidInput
    from perdure.server.retention import parse_retention

    try:
        return parse_retention(given) if given else None
    except InvalidInput as error:
        raise typer.BadParameter(error.message, param_hint="--retention") from None


def _place(given: str) -> str:
    from perdure.database import is_address

    if "://" in given and not is_address(given):
        kind = given.partition("://")[0]
        raise typer.BadParameter(
            f"{kind}:// is no kind of store: a SQLite file or postgresql://user@host/database is expected.",
            param_hint="--store",
        )
    return given
