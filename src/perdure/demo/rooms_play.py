"""Play the rooms demo: two companies in one room, a server killed in the middle of a wake, and a person who decides.

Everything here is done to real processes, over HTTP, with each person's own key. That the kill lands where it is meant
to is seen to by a failpoint, at which the server stands still: the agent's reply is in the store, and nothing after it.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from perdure.agent.agent import Agent
from perdure.client.rooms import Room
from perdure.core import states
from perdure.core.companies import new_key
from perdure.core.room_views import WakeView
from perdure.core.views import ApprovalView
from perdure.demo import rooms_script
from perdure.demo.plan import copy_example
from perdure.demo.play import Undecided
from perdure.demo.processes import POLL_SECONDS, Process, Processes, now_ms, start_server, surroundings
from perdure.demo.rooms_story import (
    ACME,
    ANN,
    BOB,
    GLOBEX,
    SUPPLIER,
    Line,
    RoomsPlan,
    RoomsStage,
    RoomsStory,
    Verified,
    line_of,
)
from perdure.errors import InternalError
from perdure.rooms import verify
from perdure.runtime import AgentRuntime
from perdure.system import SystemRandom
from perdure.testing.evidence import read_world_log
from perdure.testing.world_client import World, running_world

T = TypeVar("T")

MODEL_DELAY_MS = 400
"""How long a scripted model thinks: the planner's wake has ended long before the supplier's model answers."""
WAIT_SECONDS = 60.0
LEASE_SECONDS = "3"
"""How long a wake stays with a server that is dead, where several servers share a database."""
STANDS_STILL = "act_in_room.after_commit=hang@4"
"""After the planner's reply, its two acts and its end comes the supplier's reply: committed, and told to nobody."""
END_SECONDS = 10.0


def play_rooms(plan: RoomsPlan, stage: RoomsStage) -> RoomsStory:
    """Play it and return what happened. Nothing that was started is left when this returns or raises.

    Raises `Undecided`; `InternalError` (`demo_broken`) if a process did what it should not, or something did not come
    about.
    """
    stage.opens(plan)
    plan.logs.mkdir(exist_ok=True)
    copy_example("two_companies", plan.example)
    with ExitStack() as ends:
        script = f"{rooms_script.__name__}:reply"
        world = ends.enter_context(running_world(plan.logs, script=script, model_delay_ms=MODEL_DELAY_MS))
        processes = ends.enter_context(Processes(plan.logs, plan.folder))
        return _Play(plan, stage, processes, world).run()


class _Play:
    """One performance. Its acts are in the order in which they are played."""

    def __init__(self, plan: RoomsPlan, stage: RoomsStage, processes: Processes, world: World) -> None:
        self._plan, self._stage, self._processes, self._world = plan, stage, processes, world
        self._began_ms = now_ms()
        self._url = ""
        self._seen: list[Line] = []
        """The room's ledger, as far as it was read."""

    def run(self) -> RoomsStory:
        first, admin_key = self._start_server(PERDURE_FAILPOINTS=STANDS_STILL)
        with ExitStack() as clients:
            with self._client(admin_key) as admin:
                self._acme = clients.enter_context(self._client(_key_of(admin, ACME, ANN)))
                self._globex = clients.enter_context(self._client(_key_of(admin, GLOBEX, BOB)))
            self._set_up()
            self._ann.post(f"@planner {rooms_script.ASKED}", key="asked")
            self._kill(first)
            at_death = tuple(self._seen)
            second, _ = self._start_server()
            self._decide(self._until("a question to bob", self._open_approval))
            self._until("the last wake to end", self._all_ended)
            story = self._told(at_death)
        second.tell_to_end()
        second.make_end(time.monotonic() + END_SECONDS)
        kept = f"{at_death[-1].seq}:{at_death[-1].hash}"
        return replace(story, lives=self._processes.lives, verified=self._verify(kept), ended_ms=now_ms())

    # -- acts ----------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """Make the room; each company registers its own agent and says its own rules."""
        agents = _loaded(self._plan.example / "agents.py")
        self._ann = self._acme.rooms.create("the bridge", by=ANN)
        self._bob = self._globex.rooms.get(self._ann.id, by=BOB)
        self._ann.invite(GLOBEX)
        self._bob.join()
        self._bob.set_rights(json.loads((self._plan.example / "rights.json").read_text(encoding="utf-8")))
        self._register(self._ann, agents.planner, rooms_script.PLANNER)
        self._register(self._bob, agents.supplier, rooms_script.SUPPLIER)

    def _register(self, room: Room, agent: Agent, model: str) -> None:
        room.add_agent(replace(agent, model=model, base_url=self._world.url))

    def _kill(self, server: Process) -> None:
        """Kill it once the supplier's reply is in the room."""

        def replied() -> bool:
            self._look()
            return any(line.by == SUPPLIER and line.act == "posted" for line in self._seen)

        self._until("the reply of globex's agent", replied)
        server.kill(f"{SUPPLIER} had posted its reply, and done nothing else of what it had declared")
        self._stage.killed(server.life)

    def _open_approval(self) -> ApprovalView | None:
        self._look()
        return next(iter(self._approvals()), None)

    def _approvals(self, state: str | None = states.Waitpoint.OPEN) -> list[ApprovalView]:
        """Return what globex is, or was, asked about this room."""
        found = self._globex.wait(self._globex.api.approvals(state=state))
        return [one for one in found if one.args.get("room") == self._ann.id]

    def _decide(self, approval: ApprovalView) -> None:
        said = self._stage.decide(approval)
        if said is None:
            raise Undecided(
                f"{approval.args['by']} waits for somebody of {GLOBEX} to decide on what it declared, and nobody can "
                "be asked here: run the demo in a terminal, or say yes beforehand with --yes. Nothing is left running; "
                f"the files are in {self._plan.folder}.",
                approval=approval.id,
                tool=approval.tool,
                args=approval.args,
                folder=str(self._plan.folder),
            )
        self._globex.wait(self._globex.api.decide(approval.id, said, by=BOB, digest=approval.digest))

    def _all_ended(self) -> bool:
        """Whether nobody is awake, and nobody can be woken any more.

        The companies are asked one after the other, and a wake that ends wakes others in its last acts: only what two
        rounds say alike was so at the moment between them.
        """
        self._look()
        before, after = self._wakes(), self._wakes()
        return before == after and all(one.state in states.TERMINAL for one in after)

    def _wakes(self) -> tuple[WakeView, ...]:
        """Return the wakes of both agents, each as its own company sees it."""
        return tuple(one for room in (self._ann, self._bob) for one in room.wakes() if one.execution)

    def _told(self, at_death: tuple[Line, ...]) -> RoomsStory:
        """Return what the server says in the end; write the ledger out."""
        self._look()
        rooms = {ACME: self._ann, GLOBEX: self._bob}
        self._plan.ledger.write_bytes(self._bob.export())
        return RoomsStory(
            plan=self._plan,
            room=self._ann.id,
            lives=(),
            at_death=at_death,
            lines=tuple(self._seen),
            messages=tuple(self._ann.messages()),
            memory={company: tuple(room.memory()) for company, room in rooms.items()},
            wakes=self._wakes(),
            asked=tuple(read_world_log(self._world.log)) if self._world.log else (),
            approvals=tuple(self._approvals(state=None)),
            verified=Verified(-1, "", "", 0),
            began_ms=self._began_ms,
            ended_ms=0,
        )

    def _verify(self, head: str) -> Verified:
        """Have the ledger followed by the one file that needs nothing, copied away from all the rest."""
        program = self._plan.folder / "verify.py"
        shutil.copyfile(verify.__file__, program)
        command = [sys.executable, "-I", str(program), str(self._plan.ledger), "--head", head]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        alive = sum(life.ended_ms is None for life in self._processes.lives)
        return Verified(done.returncode, (done.stdout + done.stderr).strip(), head, alive)

    # -- looking -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read and show what is new in the room's ledger, with its texts."""
        after = self._seen[-1].seq if self._seen else 0
        page = self._acme.wait(self._acme.api.room_ledger(self._ann.id, after=after))
        if not page.links:
            return
        texts = {one.id: one.text for one in self._ann.messages()} | {one.id: one.title for one in self._ann.tasks()}
        for line in map(line_of, page.links):
            self._seen.append(line)
            self._stage.wrote(line, texts.get(line.about, ""))

    def _until(self, what: str, look: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := look()):
            self._processes.check()
            if time.monotonic() > deadline:
                last = self._seen[-1] if self._seen else "nothing"
                raise InternalError(
                    f"the demo waited {WAIT_SECONDS:g} s for {what}, in vain; the last in the room is {last}.",
                    code="demo_broken",
                )
            time.sleep(POLL_SECONDS)
        return found

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start_server(self, **environ: str) -> tuple[Process, str]:
        """Start the first server, or another one where the last one was; return it, and its key if that is new."""
        server, self._url, key = start_server(
            self._processes,
            self._plan.store or str(self._plan.file),
            self._url,
            surroundings(self._plan.folder) | environ,
            shown="postgresql://…" if self._plan.store else self._plan.file.name,
            options=("--lease-seconds", LEASE_SECONDS, "--allow-private-http"),  # the model is at this machine, too
        )
        self._stage.started(server.life)
        return server, key

    def _client(self, key: str) -> AgentRuntime:
        return AgentRuntime(self._url, api_key=key, serve_tools=False)


def _loaded(file: Path) -> Any:
    """Import the example's agents from where they were copied to."""
    spec = importlib.util.spec_from_file_location("two_companies_agents", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _key_of(admin: AgentRuntime, company: str, name: str) -> str:
    """Make a key for somebody, as `perdure companies add` does."""
    key = new_key(SystemRandom())
    admin.wait(admin.api.add_company_key(company, name, key))
    return key
