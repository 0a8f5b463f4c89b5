"""The incident report agent of the crash runs: the demo's two tools and two that act on the world outside.

Every tool's first act is a call to the world, so that the world counts how often each body started. Skills run in the
tool's own process, unless `processes` asks for the programs that users run: a sweep of hundreds of runs has no time
for an interpreter's start in each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import perdure
from perdure import Agent, ToolContext, tool
from perdure.testing.world_client import World
from perdure.toolbox.skills import run_skill as run_in_a_process

NAME = "incident_report_agent"
ROOT = Path(__file__).parents[2]
CSV = ROOT / "examples" / "incident_report" / "incidents.csv"
PROMPT = f"Create a PDF summary report of {CSV}. Then have the premium skill pdf-to-markdown read it back."

for _skill in ("read-csv", "pdf-generate", "pdf-to-markdown"):
    sys.path.append(str(Path(perdure.__file__).parent / "skills" / _skill / "scripts"))

pdf_generate: Any = import_module("pdf_generate")
pdf_to_markdown: Any = import_module("pdf_to_markdown")
read_csv: Any = import_module("read_csv")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tools find around them."""

    world: World
    out: Path
    """Where skills leave their files."""
    linger_seconds: float = 0.0
    """How long `announce` takes, the first time in a run."""
    processes: bool = False
    """Run each skill as a program of its own."""
    through_server: bool = False
    """The server has a script of the model's name, in place of an address in the agent."""


def agent(surroundings: Surroundings) -> Agent:
    """Return the agent, its model behind the world's address."""
    return Agent(
        name=NAME,
        model="scripted/incident",
        base_url=None if surroundings.through_server else surroundings.world.url,
        instructions="You make PDF reports from CSV exports of incidents.",
        tools=[run_skill, run_premium_skill, file_ticket, announce],
        dependencies=surroundings,
    )


MANY = 50
"""The death of a worker uses up a try, and here workers die more often than users give tries."""


@tool(retries=MANY)
def run_skill(skill: str, args: list[str], ctx: ToolContext) -> dict[str, Any]:
    """Run a skill that is free."""
    act(ctx, skill=skill)
    return _run(ctx.dependencies, skill, args)


@tool(approval_required=True, delivery="at_most_once", settle_seconds=0)
def run_premium_skill(skill: str, args: list[str], ctx: ToolContext) -> dict[str, Any]:
    """Run a skill that costs money: at most once, and only after somebody said yes."""
    act(ctx, skill=skill)
    return _run(ctx.dependencies, skill, args)


@tool(delivery="at_most_once", settle_seconds=0)
def file_ticket(title: str, pdf: str, ctx: ToolContext) -> dict[str, Any]:
    """File a ticket: at most once."""
    return {"ticket": act(ctx, title=title, pdf=pdf)["n"]}


@tool(retries=MANY)
async def announce(text: str, ctx: ToolContext) -> dict[str, Any]:
    """Tell everybody: at least once, each time with the same key."""
    done = await asyncio.to_thread(partial(act, ctx, text=text))
    await _linger(ctx.dependencies)
    return {"announcement": done["n"]}


async def _linger(surroundings: Surroundings) -> None:
    lingered = surroundings.out / "lingered"
    if surroundings.linger_seconds and not lingered.exists():
        lingered.touch()
        await asyncio.sleep(surroundings.linger_seconds)


def act(ctx: ToolContext, **args: object) -> dict[str, Any]:
    """Do it to the world, in the name of the call."""
    world: World = ctx.dependencies.world
    return world.act(
        ctx.tool_name,
        key=ctx.idempotency_key,
        execution=ctx.execution_id,
        step=ctx.step_id,
        attempt=ctx.attempt,
        **args,
    )


def _run(surroundings: Surroundings, skill: str, args: list[str]) -> dict[str, Any]:
    """Return the record of a run, as `perdure skills run --json` prints it."""
    if surroundings.processes:
        record = run_in_a_process(skill, args, out=surroundings.out).to_json()
        record.pop("stdout")
        return record
    output = _SCRIPTS[skill](args)
    return {"id": "run_here", "skill": skill, "status": "completed", "exitCode": 0, "output": json.loads(output)}


def _read(args: list[str]) -> str:
    return json.dumps(read_csv.read(Path(args[0]), 500, [], None))


def _generate(args: list[str]) -> str:
    given = dict(zip(args[::2], args[1::2], strict=True))
    return json.dumps(pdf_generate.make(given["--content"], given["--title"], None, "a4"))


def _read_back(args: list[str]) -> str:
    return json.dumps(pdf_to_markdown.convert(Path(args[0]), None))


_SCRIPTS: dict[str, Callable[[list[str]], str]] = {
    "read-csv": _read,
    "pdf-generate": _generate,
    "pdf-to-markdown": _read_back,
}
