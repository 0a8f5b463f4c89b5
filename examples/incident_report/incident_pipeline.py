"""The incident report agent: it reads a CSV export, writes a summary, and has a PDF made of it.

Both tools run skills, through `perdure skills` or any other program with the same two verbs (SKILLS_COMMAND).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from functools import cache
from typing import Any

from perdure import Agent, tool


def run(skill: str, args: list[str]) -> dict[str, Any]:
    """Run a skill and return its record. Raises `RuntimeError` if it failed, so that the runtime tries again."""
    done = subprocess.run(
        [*skills_command(), "run", "--json", skill, "--", *args], capture_output=True, text=True, check=False
    )
    try:
        record: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"{skill} left no record: {done.stderr.strip()[-500:] or 'no output'}") from None
    if record["exitCode"] != 0:
        raise RuntimeError(f"{skill} failed: {record['stderr']}")
    if record.get("output") is not None:
        # The same thing as text; the model would read it twice, and somebody would pay for that.
        record.pop("stdout", None)
    return record


def skills_command() -> list[str]:
    """Return the program that runs skills: SKILLS_COMMAND (such as `skills`), else the one of this Python."""
    chosen = os.environ.get("SKILLS_COMMAND", "")
    return shlex.split(chosen) or [sys.executable, "-m", "perdure.cli.skills"]


@cache
def free_skills() -> frozenset[str]:
    """Return the skills that cost nothing: the lines of `list --brief` that say `(Free)`."""
    listing = subprocess.run([*skills_command(), "list", "--brief"], capture_output=True, text=True, check=True)
    lines = [line.strip(" -*\t") for line in listing.stdout.splitlines() if "(Free)" in line]
    return frozenset(line.split()[0] for line in lines if line)


@tool
def run_skill(skill: str, args: list[str]) -> dict[str, Any]:
    """Run a skill that is free, such as run_skill("read-csv", ["/data/export.csv"]). Returns the record of the run.

    Args:
        skill: Its name.
        args: What its script is given, one text for each argument.
    """
    if skill not in free_skills():
        # Otherwise a model could spend money without asking, by choosing this tool.
        return {"refused": f"{skill} is not one of the free skills ({', '.join(sorted(free_skills()))})."}
    return run(skill, args)


@tool(approval_required=True)
def run_premium_skill(skill: str, args: list[str]) -> dict[str, Any]:
    """Run a skill that costs money. A person is asked first, and nothing runs before they say yes.

    Args:
        skill: Its name.
        args: What its script is given, one text for each argument.
    """
    return run(skill, args)


report_agent = Agent(
    name="incident_report_agent",
    model=os.environ.get("INCIDENT_MODEL", "openai/gpt-5.5"),
    base_url=os.environ.get("INCIDENT_BASE_URL"),
    tools=[run_skill, run_premium_skill],
    instructions="""\
You make PDF reports from CSV exports of incidents.

1. Read the export: run_skill("read-csv", [PATH, "--group-by", "service,opened_at:weekday"]). Take the figures from
   `summary`, `durations` and `groups` of its output; do not count rows yourself.
2. Write a short summary in markdown: how many incidents of each severity there were (a table), which one took
   longest to resolve, and one pattern that somebody should act on.
3. Make the PDF: run_skill("pdf-generate", ["--content", MARKDOWN, "--title", TITLE]).
4. Use run_premium_skill only if you are asked for a premium skill by name or by that word. If it is turned down, go on
   without it and say so.

Answer with the path that pdf-generate gave as `pdfFile`, and nothing you have not been told by a tool.
""",
)
