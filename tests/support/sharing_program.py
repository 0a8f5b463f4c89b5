"""A program with an embedded runtime, one of several on a file. It obeys lines of JSON and answers each with one.

`sharing_program.py STORE FOLDER`: its tools write into FOLDER that they acted, and wait while FOLDER/hold is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from perdure.agent.agent import Agent
from perdure.agent.tool import tool
from perdure.client.handle import AgentHandle
from perdure.client.room_files import upload
from perdure.errors import PerdureError
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say
from perdure.runtime import AgentRuntime

FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()


class Program:
    """The parent's side: one process."""

    def __init__(self, store: Path, failpoints: str = "", **options: Any) -> None:
        folder = store.parent
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "PERDURE_FAILPOINTS": failpoints,
            "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(store), str(folder), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, verb: str, *given: Any) -> None:
        stdin = cast("IO[str]", self.process.stdin)
        stdin.write(json.dumps([verb, *given]) + "\n")
        stdin.flush()

    def answer(self) -> Any:
        """Return the next answer; None if the process is gone."""
        line = cast("IO[str]", self.process.stdout).readline()
        return json.loads(line) if line.endswith("\n") else None

    def ask(self, verb: str, *given: Any) -> Any:
        self.send(verb, *given)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what it did not live to read
                cast("IO[str]", pipe).close()


@contextmanager
def program(store: Path, failpoints: str = "", **options: Any) -> Iterator[Program]:
    """Have a program while the block lasts, and its runtime opened."""
    one = Program(store, failpoints, **options)
    try:
        yield one
    finally:
        one.close()


@tool
def work(n: int) -> str:
    """Act."""
    with (FOLDER / "acts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    while (FOLDER / "hold").exists():
        time.sleep(0.01)
    return "done"


@tool(delivery="at_most_once", approval_required=True)
def pay(cents: int) -> str:
    """Act once."""
    return f"paid {cents}"


@tool(delivery="at_most_once")
def lose() -> str:
    """Begin, and never say how it ended."""
    raise RuntimeError("half way")


AGENTS = {
    name: Agent(name=name, model=f"scripted/{name}", instructions="x", tools=[work, pay, lose])
    for name in ("work", "pay", "lose", "say")
}
MODELS = {
    "work": [call("work", {"n": 1}), say("worked")],
    "pay": [call("pay", {"cents": 5}), say("paid")],
    "lose": [call("lose"), say("unknown"), say("ruled")],
    "say": [say("said")],
}


class Child:
    """The child's side: what the verbs do."""

    def __init__(self, store: str, options: dict[str, Any]) -> None:
        self.runtime = AgentRuntime(store=store, models=Catalog(scripted=MODELS), **options)

    def open(self) -> Any:
        began = time.perf_counter()
        self.runtime.__enter__()
        return {"role": self.role(), "seconds": time.perf_counter() - began}

    def role(self) -> str:
        shared = vars(self.runtime)["_shared"]
        return "owner" if shared.node is not None else "joined"

    def loaded(self, module: str) -> bool:
        return module in sys.modules

    def start(self, agent: str, key: str | None = None) -> str:
        return self.runtime.start(AGENTS[agent], "go", idempotency_key=key).execution_id

    def serve(self) -> None:
        self.runtime.serve(*AGENTS.values(), blocking=False)

    def run(self, agent: str, key: str | None = None) -> Any:
        result = self.runtime.run(AGENTS[agent], "go", idempotency_key=key)
        return [result.status, (result.output or {}).get("result")]

    def result(self, execution: str) -> Any:
        result = self.handle(execution).result()
        return [result.status, (result.output or {}).get("result")]

    def follow(self, execution: str) -> Any:
        return [event.seq for event in self.handle(execution).stream()]

    def state(self, execution: str) -> str:
        return self.handle(execution).get_status().status

    def events(self, execution: str) -> Any:
        events = self.runtime.wait(self.runtime.api.events(execution))
        return [[event.seq, str(event.kind)] for event in events]

    def executions(self) -> Any:
        return [one.id for one in self.runtime.executions(limit=500)]

    def approve(self, execution: str) -> Any:
        return self.handle(execution).approve(by="me").decision

    def cancel(self, execution: str) -> None:
        self.handle(execution).cancel()

    def pause(self, execution: str) -> None:
        self.handle(execution).pause()

    def message(self, execution: str) -> int:
        return self.handle(execution).send("hello")

    def signal(self, execution: str) -> int:
        return self.handle(execution).signal("paid")

    def room(self) -> str:
        return self.runtime.rooms.create("shop").id

    def put_file(self, room: str) -> str:
        return self.runtime.wait(upload(self.runtime.api, room, "a.txt", b"words")).id

    def files(self, room: str) -> Any:
        return [one.id for one in self.runtime.wait(self.runtime.api.room_files(room, versions=True))]

    def rule(self, execution: str, address: str) -> Any:
        return self.handle(execution).rule(address, "give_up", by="me").ruling

    def schedule(self) -> None:
        self.runtime.schedules.create("nightly", AGENTS["say"], "go", cron="0 3 * * *")

    def unschedule(self) -> None:
        self.runtime.schedules.delete("nightly")

    def trigger(self) -> str:
        return self.runtime.schedules.run_now("nightly").execution_id

    def scheduled(self) -> Any:
        return [one.name for one in self.runtime.schedules.list()]

    def tasks(self, execution: str) -> Any:
        return [[one.address, one.state, one.attempt] for one in self.handle(execution).tasks()]

    def close(self) -> None:
        self.runtime.close()

    def handle(self, execution: str) -> AgentHandle:
        return AgentHandle(execution, self.runtime)


def main() -> None:
    child = Child(sys.argv[1], json.loads(sys.argv[3]))
    for line in sys.stdin:
        verb, *given = json.loads(line)
        try:
            found = getattr(child, verb)(*given)
        except PerdureError as error:
            found = {"code": error.code, "message": error.message}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
