"""Play the demo: start, kill, start again, ask, and see it end. Everything here is done to real processes.

What is killed when is decided by facts that the server or the model endpoint tells. Two tool calls are held by a
failpoint in the client that runs them, so that on any machine the kill lands in their middle.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack

from perdure.client.handle import AgentHandle
from perdure.core import states
from perdure.core.codec import Json
from perdure.core.views import ApprovalView, TaskView
from perdure.demo.plan import Kill, Plan, lay_out
from perdure.demo.processes import POLL_SECONDS, START_SECONDS, Process, Processes, now_ms, start_server, surroundings
from perdure.demo.story import Endpoint, Stage, Story
from perdure.demo.watch import Facts, Watch
from perdure.errors import UserError
from perdure.runtime import AgentRuntime
from perdure.testing.evidence import MODEL_REPLY, Entry, read_world_log
from perdure.testing.world_client import World, running_world

MODEL_DELAY_MS = 500
"""How long the scripted model thinks."""
LATE_REPLY_SECONDS = 10.0
"""How long the reply that is to be lost is under way: the server is dead long before."""
WAIT_SECONDS = 30.0
REAL_WAIT_SECONDS = 300.0

HELD = "tool.before_body=hang"
"""The first client never gets beyond the start of its first tool."""
SLOWED = "tool.before_body=delay:1@2"
"""The second client's second tool takes a second longer, in which the server dies."""


class Undecided(UserError):
    """The run waits for a person, and there was nobody to ask."""

    default_code = "needs_approval"
    status = 409


def play(plan: Plan, stage: Stage, by: str) -> Story:
    """Play it and return what happened. Nothing that was started is left when this returns or raises.

    `by` is who decides. Raises `Undecided`; `UserError` (`demo_stopped`) if the run itself could not go on, as with
    a refused key; `InternalError` (`demo_broken`) if a process did what it should not.
    """
    stage.opens(plan)
    lay_out(plan)
    with ExitStack() as ends:
        world = None
        if plan.scripted:
            late = f"model=slow:{LATE_REPLY_SECONDS}@2" if plan.kill is Kill.MID_CALL else ""
            script = "perdure.demo.incident_script:reply"
            world = ends.enter_context(
                running_world(plan.logs, faults=late, script=script, model_delay_ms=MODEL_DELAY_MS)
            )
            stage.endpoint(Endpoint(world.pid, world.url, str(world.log)))
        processes = ends.enter_context(Processes(plan.logs, plan.folder))
        return _Play(plan, stage, by, processes, world).run()


class _Play:
    """One performance. Its acts are in the order in which they are played."""

    def __init__(self, plan: Plan, stage: Stage, by: str, processes: Processes, world: World | None) -> None:
        self._plan = plan
        self._stage = stage
        self._by = by
        self._processes = processes
        self._world = world
        self._began_ms = now_ms()
        self._url = self._key = ""
        self._server: Process | None = None

    def run(self) -> Story:
        self._start_server()
        first = self._start_client("start.py", "--premium", failpoints=HELD)
        execution = self._id_from(first)
        with AgentRuntime(self._url, api_key=self._key, serve_tools=False) as runtime:
            seconds = WAIT_SECONDS if self._plan.scripted else REAL_WAIT_SECONDS
            watch = Watch(runtime, execution, self._stage.happened, self._processes.check, seconds)
            self._kill_the_client(watch, first)
            last = self._resume(watch, execution)
            if self._plan.kill is not Kill.WHILE_WAITING:
                self._kill_the_server(watch, self._moment(watch))
            self._to_the_end(watch, AgentHandle(execution_id=execution, runtime=runtime))
            last.wait(START_SECONDS)
            facts = watch.look()
            executions = len(runtime.executions())
        return Story(
            plan=self._plan,
            execution=execution,
            view=facts.view,
            events=tuple(watch.events),
            lives=self._processes.lives,
            asked=self._asked(),
            executions=executions,
            printed=last.output(),
            began_ms=self._began_ms,
            ended_ms=now_ms(),
        )

    # -- acts ----------------------------------------------------------------------------------------------------------

    def _kill_the_client(self, watch: Watch, first: Process) -> None:
        """Kill it in the middle of the first tool call, and hear what the server says, at once and a moment later."""
        facts = watch.until("the first tool call to run", lambda facts: facts.parked and _running(facts) is not None)
        first.kill(_during(_running(facts)))
        self._stage.killed(first.life)
        self._stage.seen(watch.look())
        self._stage.seen(watch.until("the call to be on its queue again", _on_its_queue))

    def _resume(self, watch: Watch, execution: str) -> Process:
        """Start another client, which knows nothing but the id."""
        slowed = SLOWED if self._plan.kill is Kill.AFTER_FIRST_TURN else ""
        client = self._start_client("resume.py", execution, failpoints=slowed)
        watch.until("the new client's worker", lambda facts: any(one.pid == client.life.pid for one in facts.workers))
        client.ready()
        self._stage.started(client.life)
        return client

    def _moment(self, watch: Watch) -> str:
        """Wait for the moment in which the server is to die, and say what it is in the middle of."""
        if self._plan.kill is Kill.MID_CALL:
            return self._mid_call(watch)
        facts = watch.until("the next tool call to run", lambda facts: facts.parked and _running(facts, 1) is not None)
        return _during(_running(facts, 1))

    def _mid_call(self, watch: Watch) -> str:
        facts = watch.until(
            "the tool to end", lambda facts: any(task.state == states.Task.DONE for task in facts.tasks)
        )
        turn = facts.view.usage.model_calls + 1
        if self._world is None:
            # Only the provider knows when a request is under way; half a second is sooner than any reply.
            time.sleep(0.5)
        while self._world is not None and not any(
            entry.name == MODEL_REPLY and entry.step == f"turn {turn}/model" for entry in self._asked() or ()
        ):
            self._processes.check()
            time.sleep(POLL_SECONDS)
        return f"the model's reply of turn {turn} was on its way"

    def _kill_the_server(self, watch: Watch, during: str) -> None:
        """Kill it, and start another one on the same store and port."""
        assert self._server is not None
        self._server.kill(during)
        self._stage.killed(self._server.life)
        self._start_server()
        self._stage.seen(watch.look())

    def _to_the_end(self, watch: Watch, handle: AgentHandle) -> None:
        """Have a person decide whatever they are asked, until the execution has ended."""
        if self._plan.kill is Kill.WHILE_WAITING:
            watch.until("a decision to be asked for", lambda facts: facts.parked and _asks(facts))
            self._kill_the_server(watch, "a person was asked")
        while True:
            facts = watch.until("a decision to be asked for", lambda facts: facts.ended or _asks(facts))
            if facts.ended:
                return
            self._decide(handle, facts.view.approvals[0])

    def _decide(self, handle: AgentHandle, approval: ApprovalView) -> None:
        match self._stage.decide(approval):
            case "approve":
                handle.approve(approval.id, by=self._by)
            case "reject":
                handle.reject("declined in the demo", approval_id=approval.id, by=self._by)
            case None:
                asked = f"{approval.tool}({_plain(approval.args)})"
                raise Undecided(
                    f"{handle.execution_id} waits for a person to decide on {asked}, and nobody can be asked here: run "
                    "the demo in a terminal, or approve beforehand with --yes. Nothing is left running; the files are "
                    f"in {self._plan.folder}.",
                    execution=handle.execution_id,
                    approval=approval.id,
                    tool=approval.tool,
                    args=approval.args,
                    folder=str(self._plan.folder),
                )

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start_server(self) -> None:
        """Start the first server, or another one where the last one was."""
        server, self._url, key = start_server(
            self._processes, str(self._plan.store), self._url, self._environ(), shown=self._plan.store.name
        )
        self._key = key or self._key
        self._server = server
        self._stage.started(server.life)

    def _start_client(self, program: str, *arguments: str, failpoints: str) -> Process:
        own = {
            "PERDURE_URL": self._url,
            "PERDURE_API_KEY": self._key,
            "PERDURE_FAILPOINTS": failpoints,
            "PERDURE_SKILLS_OUT": str(self._plan.folder / "made"),
            "INCIDENT_MODEL": self._plan.model,
            **({"INCIDENT_BASE_URL": self._world.url} if self._world else {}),
        }
        command = [sys.executable, str(self._plan.example / program), *arguments]
        shown = " ".join(["python", program, *arguments])
        client = self._processes.start("client", command, shown, self._environ() | own)
        self._stage.started(client.life)
        return client

    def _id_from(self, client: Process) -> str:
        execution = client.first_line(START_SECONDS).strip()
        client.ready()
        self._stage.begun(execution)
        return execution

    def _environ(self) -> dict[str, str]:
        return surroundings(self._plan.folder)

    def _asked(self) -> tuple[Entry, ...] | None:
        return tuple(read_world_log(self._world.log)) if self._world and self._world.log else None


def _running(facts: Facts, nth: int = 0) -> TaskView | None:
    """Return the n-th tool call, or a later one, if a worker runs it."""
    return next((task for task in facts.tasks[nth:] if task.state == states.Task.LEASED), None)


def _asks(facts: Facts) -> bool:
    return bool(facts.view.approvals)


def _on_its_queue(facts: Facts) -> bool:
    return facts.parked and any(task.state == states.Task.READY for task in facts.tasks)


def _during(task: TaskView | None) -> str:
    """Say which call runs, by what its reader would call it: the skill, or else the tool."""
    assert task is not None
    return f"{task.args.get('skill') or task.tool} was running"


def _plain(args: dict[str, Json]) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
