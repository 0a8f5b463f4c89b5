"""A client's program: it starts a report, says yes to the paid check, rules on what is uncertain, takes the result.

Killed anywhere and started again, it goes on: the execution is found by its start key or its id, and what was said
before is said once more at most. All it asks goes into the client's log.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash_agent import CSV, PROMPT
from crash_errands import BEFORE
from crash_errands import ERRANDS as SIDE_ERRANDS
from perdure import Agent, AgentHandle, AgentRuntime, Conflict
from perdure.client.discover import running_server
from perdure.client.stream_events import ApprovalRequested, ExecutionPaused, ToolScheduled, ToolUncertain
from perdure.core.views import ExecutionFilter
from perdure.testing.client_log import ClientLog
from perdure.testing.world_client import World

if TYPE_CHECKING:
    from crash_roles import Setup
    from perdure.core.views import EffectView

SETTLE_SECONDS = 0.1
LEAK_BYTES = 512 * 1024 * 1024
ERRANDS = ("send", "signal", "pause", "browse", "discover", "cancel", "stop")
"""`send` says something to the running agent; `signal` signals it, which no agent looks at; `pause` pauses it, and
resumes it when it has heard of it; `browse` asks everything there is to ask; `discover` looks for the server; `cancel`
and `stop` start another execution and end it. Those of `crash_errands` are errands as well."""


class Client:
    """One life of the client."""

    def __init__(self, runtime: AgentRuntime, agent: Agent, setup: Setup) -> None:
        self.runtime, self.setup = runtime, setup
        self.agent = agent
        self._log = ClientLog(setup.client_log)
        self._world = World(setup.world_url())

    def see_through(self, *, serve: bool = False) -> None:
        """Return once the report's result is written down."""
        for errand in self.setup.errands:
            if errand in BEFORE:
                SIDE_ERRANDS[errand](self)
        handle = self._attach("report", PROMPT, serve=serve)
        for errand in self.setup.errands:
            if errand in ERRANDS:
                getattr(self, f"_{errand}")(handle)
            elif errand not in BEFORE:
                SIDE_ERRANDS[errand](self)
        for event in handle.stream():
            match event:
                case ApprovalRequested():
                    self.approve(handle, event.approval_id)
                case ToolUncertain() if self.setup.rules:
                    self.rule(handle)
                case ExecutionPaused():
                    self._resume(handle)
                case ToolScheduled() if self.setup.leaks:
                    _leak()
                case _:
                    pass
        result = handle.result()
        found = {"execution": handle.execution_id, "status": str(result.status), "output": result.output}
        draft = self.setup.result.with_suffix(".part")
        draft.write_text(json.dumps(found), encoding="utf-8")
        draft.replace(self.setup.result)

    def _attach(self, key: str, prompt: str, *, serve: bool = False) -> AgentHandle:
        """Return the execution that an earlier life wrote down; else start it, or find it, by its key."""
        if serve and (self.setup.folder / f"{key}.id").exists():
            self.runtime.serve(self.agent, blocking=False)
        return self.begin(key, self.agent, prompt)

    def begin(self, key: str, declared: Any, *given: str, delay_seconds: float | None = None) -> AgentHandle:
        """Start an execution, or find the one that an earlier life started under the same key."""
        note = self.setup.folder / f"{key}.id"
        if note.exists():
            return AgentHandle(note.read_text(encoding="utf-8"), self.runtime)
        with self._log.asking("start", key=key) as asked:
            handle = self.runtime.start(declared, *given, idempotency_key=key, delay_seconds=delay_seconds)
            asked.execution = handle.execution_id
        draft = note.with_suffix(".part")
        draft.write_text(handle.execution_id, encoding="utf-8")
        draft.replace(note)
        return handle

    def approve(self, handle: AgentHandle, approval: str) -> None:
        """Say yes, unless that was said."""
        if approval not in [one.id for one in handle.get_status().approvals]:
            return  # an earlier life decided it
        self.ask("decide", handle, lambda: handle.approve(approval, by="ops"), approval=approval, decision="approve")

    def rule(self, handle: AgentHandle) -> None:
        """Rule on what is uncertain. Too early is asked again: a beat of a dead worker may reach the server late."""
        for effect in self.runtime.wait(self.runtime.api.effects(execution=handle.execution_id, state="uncertain")):
            while self._rule_on(effect, handle) == "not_settled":
                time.sleep(SETTLE_SECONDS)

    def _rule_on(self, effect: EffectView, handle: AgentHandle) -> str:
        """Look at the world: what it saw has happened, and anything else may be run."""
        step = (effect.execution, effect.address)
        seen = [entry for entry in self._world.entries() if (entry.execution, entry.step) == step]
        ruling = "happened" if seen else "run"
        value: Any = {"seen": seen[-1].n} if seen else None
        rule = self.runtime.api.rule(*step, ruling, by="ops", reason="the world's log", value=value)
        return self.ask("rule", handle, lambda: self.runtime.wait(rule), address=effect.address, ruling=ruling)

    def _resume(self, handle: AgentHandle) -> None:
        self.ask("resume", handle, lambda: handle.resume(by="ops"))

    def _send(self, handle: AgentHandle) -> None:
        self.ask("send", handle, lambda: handle.send("Take your time.", dedupe="note"), dedupe="note")

    def _signal(self, handle: AgentHandle) -> None:
        self.ask("signal", handle, lambda: handle.signal("noon", 12, dedupe="bell"), dedupe="bell")

    def _pause(self, handle: AgentHandle) -> None:
        self.ask("pause", handle, lambda: handle.pause("a moment", by="ops"))

    def _browse(self, handle: AgentHandle) -> None:
        api, wait = self.runtime.api, self.runtime.wait
        wait(api.info())
        wait(api.events(handle.execution_id))
        wait(api.log(handle.execution_id))
        wait(api.executions())
        wait(api.search_executions("nobody", ExecutionFilter()))
        wait(api.approvals())
        wait(api.effects())
        wait(api.workers())
        handle.tasks()
        handle.diagnose()
        handle.get_status()

    def _discover(self, handle: AgentHandle) -> None:
        self.runtime.wait(running_server(replace(self.setup, me=self.setup.server).state_file))

    def _cancel(self, handle: AgentHandle) -> None:
        draft = self._attach("draft", f"Report on {CSV}, to be cancelled.")
        self.ask("cancel", draft, lambda: draft.cancel("not needed", by="ops"))

    def _stop(self, handle: AgentHandle) -> None:
        short = self._attach("short", f"Report on {CSV}, to be cut short.")
        self.ask("stop", short, lambda: short.stop(by="ops"))

    def ask(self, op: str, handle: AgentHandle, verb: Any, **value: Any) -> str:
        """Ask, and take no for an answer: somebody, or an earlier life, was faster. Return the code of the no."""
        try:
            with self._log.asking(op, execution=handle.execution_id, refusals=(Conflict,), **value):
                verb()
        except Conflict as no:
            return no.code
        return ""


def _leak() -> None:
    """Eat memory until the kernel ends this process. Only inside a control group that was made for it."""
    if "perdure-crash" not in Path("/proc/self/cgroup").read_text(encoding="ascii"):
        return
    hoard: list[bytes] = []
    while sum(map(len, hoard)) < LEAK_BYTES:
        hoard.append(b"x" * 8 * 1024 * 1024)
