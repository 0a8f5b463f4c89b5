"""Roll a running system from the version before to this one, under load and kills: nothing lost, stuck or done twice.

    ./dev crash upgrade [--from COMMIT] [--minutes N] [--seed N]

One roll: an old server and old workers under load; then the server and the workers, one by one, are replaced on the
same file, by SIGTERM or SIGKILL, with more kills in between: the server first, or the workers first. At the end
everything has to have ended, and the old version has to refuse the file. Judged by the world and the checker. Exit 1 if
a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash_counts import count, resolved
from perdure import AgentRuntime, Conflict
from perdure.errors import Retryable
from perdure.testing.checker import ClientLog, Expect, History, check
from perdure.testing.rules import TERMINAL
from perdure.testing.world_client import running_world
from perdure.wire import codec
from rolling_house import PATIENCE_SECONDS, ROOT, House, Version, previous, unpacked

LOOK_SECONDS = 0.05
MOST_BETWEEN = 0.3
ORDERS = ("server first", "workers first")
REFUSAL = "Upgrade perdure"
"""What an old version has to say of a newer file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one roll goes."""

    old: Version
    new: Version
    seed: int
    order: str
    workers: int = 2
    clients: int = 2
    strikes: int = 3
    """Kills before each step, and after the last one."""
    acts: int = 12
    """What the world has to see between two steps."""


@dataclass
class Outcome:
    """What one roll came to."""

    plan: Plan
    problems: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    resolved: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0


def roll(plan: Plan, folder: Path) -> Outcome:
    """Do one roll in `folder` and judge it."""
    outcome, began = Outcome(plan), time.monotonic()
    with running_world(folder, script="rolling_agent:reply") as world:
        house = House(folder, world)
        try:
            _Roll(plan, house).run()
            (folder / "stop").touch()
            histories = _finished(house, outcome)
            _judge(house, histories, outcome)
            _look_back(house, plan, outcome)
        except (RuntimeError, TimeoutError) as error:
            outcome.problems.append(str(error))
        finally:
            house.close()
    outcome.seconds = time.monotonic() - began
    return outcome


class _Roll:
    """The steps of one roll."""

    def __init__(self, plan: Plan, house: House) -> None:
        self._plan, self._house = plan, house
        self._dice = random.Random(plan.seed)
        self._workers = [f"worker-{number}" for number in range(plan.workers)]

    def run(self) -> None:
        """Take the system from the old version to the new one, under load."""
        house, old, new = self._house, self._plan.old, self._plan.new
        house.serve(old)
        for name in self._workers:
            house.work(name, old)
        for number in range(self._plan.clients):
            house.ask(f"client-{number}", old)
        self._go_on()
        steps = [self._replace_server, self._replace_workers]
        for step in steps if self._plan.order == ORDERS[0] else steps[::-1]:
            self._strike()
            step()
        if self._plan.strikes:
            house.ask("client-new", new)
            self._strike()

    def _replace_server(self) -> None:
        self._house.end("server", self._blow())
        self._house.serve(self._plan.new)
        self._go_on()

    def _replace_workers(self) -> None:
        for name in self._workers:
            self._house.end(name, self._blow())
            self._house.work(name, self._plan.new)
            self._go_on()

    def _strike(self) -> None:
        for _ in range(self._plan.strikes):
            time.sleep(self._dice.uniform(0, MOST_BETWEEN))  # anywhere in what they do
            self._house.strike(self._dice.choice(["server", *self._workers]))
            self._go_on()

    def _blow(self) -> signal.Signals:
        return self._dice.choice([signal.SIGTERM, signal.SIGKILL])

    def _go_on(self) -> None:
        """Return once the world has seen more."""
        world = self._house.world
        due = len(world.entries()) + self._plan.acts
        _until(lambda: self._house.fell() or len(world.entries()) >= due, f"{self._plan.acts} more acts on the world")
        if fell := self._house.fell():
            raise RuntimeError(fell)


def _finished(house: House, outcome: Outcome) -> list[History]:
    """See everything to its end: say yes, rule by what the world saw. Return all histories."""
    with AgentRuntime(house.url, api_key=house.key, serve_tools=False) as runtime:
        api, wait = runtime.api, runtime.wait
        found: list[Any] = []

        def ended() -> bool:
            nonlocal found
            try:
                _decide(runtime, house)
                found = _all(runtime)
            except (Retryable, Conflict):
                return False
            return bool(found) and all(str(view.state) in TERMINAL for view in found)

        try:
            _until(ended, "the end of all executions")
        except TimeoutError:
            stuck = [f"{view.id} is {view.state} ({view.reason})" for view in found if str(view.state) not in TERMINAL]
            outcome.problems.append(f"{len(stuck)} executions have not ended: {'; '.join(stuck[:5])}")
            outcome.counts["stuck"] += len(stuck)
        lines = [(json.loads(codec.dump(view)), json.loads(codec.dump(wait(api.events(view.id))))) for view in found]
    return [History.parse(view, events) for view, events in lines]


def _all(runtime: AgentRuntime) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = runtime.wait(runtime.api.executions(cursor=cursor, limit=200))
        found += page.items
        cursor = page.cursor
        if not cursor:
            return found


def _decide(runtime: AgentRuntime, house: House) -> None:
    api, wait = runtime.api, runtime.wait
    log = ClientLog(house.folder / "client.jsonl")
    for one in wait(api.approvals()):
        about = {"approval": one.id, "decision": "approve"}
        with log.asking("decide", execution=one.execution, refusals=(Conflict,), **about):
            wait(api.decide(one.id, "approve", by="ops"))
    for effect in wait(api.effects(state="uncertain")):
        seen = [one for one in house.world.entries() if (one.execution, one.step) == (effect.execution, effect.address)]
        ruling = "happened" if seen else "run"
        value: Any = {"seen": seen[-1].n} if seen else None
        about = {"address": effect.address, "ruling": ruling}
        with log.asking("rule", execution=effect.execution, refusals=(Conflict,), **about):
            wait(api.rule(effect.execution, effect.address, ruling, by="ops", reason="the world's log", value=value))


def _judge(house: House, histories: list[History], outcome: Outcome) -> None:
    entries = house.world.entries()
    report = check(entries, ClientLog(house.folder / "client.jsonl"), histories, Expect(late_attempts=True))
    outcome.problems += map(str, report.violations)
    outcome.counts += count(histories, entries, house.struck_at_ms)
    outcome.counts["kills"] = len(house.struck_at_ms)
    outcome.counts["uncertain"] = report.summary().uncertain
    outcome.resolved += resolved(histories)


def _look_back(house: House, plan: Plan, outcome: Outcome) -> None:
    """See that the logs are whole across the versions, and that the old one does not touch the file any more."""
    whole = house.command(plan.new, "effects", "verify", "--server", house.url)
    if whole.returncode:
        outcome.problems.append(f"the logs' chains do not hold: {whole.stdout[-500:]}{whole.stderr[-500:]}")
    house.end("server", signal.SIGTERM)
    if plan.old.migrations == plan.new.migrations:
        return
    refused = house.command(plan.old, "server", "--port", "0", "--store", str(house.store))
    if not refused.returncode or REFUSAL not in refused.stderr or "Traceback" in refused.stderr:
        outcome.problems.append(f"{plan.old.name} does not refuse the file clearly: {refused.stderr[-500:]!r}")


def _until(fact: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} in {PATIENCE_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)


COLUMNS = ("executions", "steps", "effects", "kills", "kills in flight", "uncertain", "stuck")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev crash upgrade", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", dest="commit", help="the old version; default: the last tag, or the one before tags")
    parser.add_argument("--minutes", type=float, default=1.0, help="rolls are begun for so long; one at least")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    commit = previous(given.commit)
    if commit is None:
        parser.error("this clone's history does not reach the old version; fetch it, or name one with --from")
    base = Path(tempfile.mkdtemp(prefix="perdure-upgrade-"))
    old, new = unpacked(commit, base), Version("this version", ROOT / "src")
    until, outcomes = time.monotonic() + given.minutes * 60, list[Outcome]()
    while not outcomes or time.monotonic() < until:
        folder = base / f"roll-{len(outcomes)}"
        folder.mkdir()
        outcomes.append(roll(Plan(old, new, given.seed + len(outcomes), ORDERS[len(outcomes) % 2]), folder))
    sys.stdout.write(table(commit, outcomes))
    broken = [problem for outcome in outcomes for problem in outcome.problems]
    sys.stdout.writelines(f"{line}\n" for line in broken)
    if broken:
        sys.stdout.write(f"What they left is in {base}\n")
    else:
        shutil.rmtree(base)
    return 1 if broken else 0


def table(commit: str, outcomes: list[Outcome]) -> str:
    """Return what the rolls of each order came to, as a table."""
    lines = [f"from {commit[:7]}\n", f"{'order':<16}{'rolls':>6}" + "".join(f"{name:>17}" for name in COLUMNS) + "\n"]
    for order in ORDERS:
        mine = [outcome for outcome in outcomes if outcome.plan.order == order]
        counts = sum((outcome.counts for outcome in mine), Counter[str]())
        lines.append(f"{order:<16}{len(mine):>6}" + "".join(f"{counts[name]:>17,}" for name in COLUMNS) + "\n")
    ways = sum((outcome.resolved for outcome in outcomes), Counter[str]())
    lines.append(f"uncertain, by how each was resolved: {dict(ways)}\n")
    twice = sum(outcome.counts["at_most_once bodies started twice"] for outcome in outcomes)
    lines.append(f"at_most_once bodies started twice: {twice}\n")
    lines.append(f"{sum(outcome.seconds for outcome in outcomes):.0f} s\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
