"""One attempt at one task, from the reservation to the report. What may start when is decided here.

A body starts only while the connection is open and enough of the lease is left; under `at_most_once`, only after the
server answered `begin`. Runs on the worker's loop; the body runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from perdure import failpoints
from perdure.agent.context import ToolContext
from perdure.agent.tool import ToolDefinition
from perdure.core import codec
from perdure.core.delivery import NOT_DONE, probed_address, probed_tool, simulated_tool
from perdure.core.ports import Clock, Random
from perdure.core.work import Answer, Begin, Failure, Lane, Report
from perdure.log import get_log
from perdure.wire.api import TaskSource
from perdure.worker.body import Call, Ended, Returned
from perdure.worker.grip import Grip, Phase
from perdure.worker.judge import Raised, Stopped
from perdure.worker.keeper import Keeper
from perdure.worker.link import Link, Trouble
from perdure.worker.pace import Backoff, ends_within, rest
from perdure.worker.reports import Reports
from perdure.worker.runners import Body, Runners
from perdure.worker.shelf import refers

log = get_log(__name__)

STOP_SECONDS = 1.0
"""How long a body that was told to stop may take before it counts as one that cannot be stopped."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Carries attempts out. Holds no state of its own."""

    worker: str
    source: TaskSource
    link: Link
    keeper: Keeper
    reports: Reports
    runners: Runners
    tools: Mapping[Lane, ToolDefinition]
    dependencies: Callable[[str], Any]
    """By agent name."""
    clock: Clock
    random: Random

    async def perform(self, grip: Grip) -> None:
        """Carry one attempt out. Returns when its body has ended and its slot is free, whatever became of it."""
        definition = self.tools.get(Lane(grip.task.agent, grip.task.tool, grip.task.queue))
        if definition is None:
            self._report(grip, Raised("unknown_tool", f"this worker has no tool {grip.task.tool!r}", permanent=True))
            return
        call = await self._call(definition, grip)
        if isinstance(call, Raised):
            self._report(grip, call)
            return
        at_once = not _asks(call) and self._reached(grip)
        ready = call if at_once else await self._wait_until_ready(grip, call)
        if ready is None or grip.stopping:  # asked for itself: a cancelled scope is noticed only where something waits
            if isinstance(ready, Call):
                ready.drop()
            await self._let_go(grip)
        elif isinstance(ready, Raised):
            self._report(grip, ready)
        else:
            await self._run(grip, ready)

    async def _call(self, definition: ToolDefinition, grip: Grip) -> Call | Raised:
        """Return the call, with the content of large arguments in their place."""
        args, spool = grip.task.args, None
        if (shelf := self.reports.shelf) is not None:
            spool = shelf.spool
            if refers(args):
                found = await shelf.fetched(grip.task.execution, args)
                if isinstance(found, Raised):
                    return found
                args = found
        context = self._context(grip)
        return Call(definition, args, context, grip.at_most_once, wall_ms=self.clock.wall_ms, spool=spool)

    def _context(self, grip: Grip) -> ToolContext:
        task = grip.task
        return ToolContext(
            execution_id=task.execution,
            step_id=probed_address(task.address),
            attempt=task.attempt,
            idempotency_key=task.key,
            agent_name=task.agent,
            tool_name=simulated_tool(probed_tool(task.tool)),
            dependencies=self.dependencies(task.agent),
            last_checkpoint=None if task.saved is None else codec.decode(task.saved),
            pulse=grip,
        )

    async def _wait_until_ready(self, grip: Grip, call: Call) -> Call | Raised | None:
        """Like `_ready`, and end with None as soon as the attempt shall stop."""
        with anyio.CancelScope() as scope:
            grip.guard(scope)
            return await self._ready(grip, call)
        return None

    async def _ready(self, grip: Grip, call: Call) -> Call | Raised | None:
        """Return the call once its body may start, why it cannot, or None if it is not wanted any more."""
        await self._reach(grip)
        if not _asks(call):
            return call
        checked = await self.runners.check(call)  # nothing that can be wrong is found out after `begin`
        if isinstance(checked, Raised):
            return checked
        ready = None
        try:
            await self._reach(grip)
            if await self._begin(grip, checked.intent):
                await self._reach(grip)  # the answer may have taken longer than the lease
                ready = checked
        finally:
            if ready is None:
                checked.drop()
        return ready

    async def _reach(self, grip: Grip) -> None:
        """Wait until the connection is open and enough of the lease is left."""
        while not self._reached(grip):
            await self.link.up.wait()
            await self.keeper.freshen(grip)

    def _reached(self, grip: Grip) -> bool:
        return self.link.up.is_set() and grip.fresh

    async def _begin(self, grip: Grip, intent: str | None) -> bool:
        """Have the claim committed; say whether it may act. A lost answer is asked for again with the same nonce."""
        nonce = self.random.token(16).hex()
        begin = Begin(grip.task.execution, grip.task.address, grip.task.fence, nonce, intent)
        grip.nonce = begin.nonce
        grip.phase = Phase.BEGINNING
        answer = await self._ask_to_begin(begin)
        log.debug("task.begin_answered", task=begin.address, answer=str(answer))
        if answer in (Answer.LEASE_LOST, Answer.CONFLICT):
            grip.lost = True
        accepted = answer in (Answer.ACCEPTED, Answer.ALREADY_ACCEPTED)
        grip.answered(begun=accepted and grip.at_most_once)  # else no claim was made: it was asked for its intent
        return accepted

    async def _ask_to_begin(self, begin: Begin) -> Answer:
        backoff, trouble = Backoff(self.random), Trouble("begin")
        while True:
            try:
                failpoints.hit("worker.begin.send")
                answer = await self.source.begin(begin)
                failpoints.hit("worker.begin.received")
            except Exception as error:  # noqa: BLE001 - whatever it was, nobody knows yet whether the claim was made
                trouble.met(error)
                await rest(self.clock, backoff.pause())
                await self.link.up.wait()
            else:
                trouble.over()
                return answer

    async def _run(self, grip: Grip, call: Call) -> None:
        body = self.runners.start(call)
        grip.act(body)
        try:
            if grip.task.timeout_ms:
                await self._run_out(grip, body)
            ended = await body.ended
        except BaseException:
            grip.leave()  # the worker itself is being cancelled
            raise
        grip.acted()
        if grip.phase is Phase.ACTING:
            await self._conclude(grip, ended)
        else:
            log.warning("tool.ended_late", tool=grip.task.tool, task=grip.task.address)

    async def _run_out(self, grip: Grip, body: Body) -> None:
        """Let the body have its time, then stop it.

        One that cannot be stopped keeps its slot until it ends. Its failure is reported at once, so that the next try
        is not held up: it may overlap, as these delivery modes allow. Under `at_most_once` nothing is said while it
        acts: heartbeats go on, so that nobody can rule "it did not happen", and its own end is what is reported.
        """
        if await ends_within(self.clock, grip.task.timeout_ms / 1000, body.ended):
            return
        grip.expire()
        if await ends_within(self.clock, STOP_SECONDS, body.ended):
            return
        log.warning("tool.unstoppable", tool=grip.task.tool, task=grip.task.address)
        if not grip.at_most_once:
            self._report(grip, _timeout(grip))

    async def _conclude(self, grip: Grip, ended: Ended) -> None:
        match ended:
            case Returned():
                self._report(grip, ended)
            case Raised(code=code) if code == NOT_DONE:
                self._report(grip, ended)  # its author knows, however late
            case _ if grip.late:
                self._report(grip, _timeout(grip))
            case Raised():
                self._report(grip, ended)
            case Stopped() if grip.lost or grip.unwanted or grip.leaving:
                await self._let_go(grip)
            case Stopped():
                self._report(grip, Raised("tool_error", ended.message))

    async def _let_go(self, grip: Grip) -> None:
        """End an attempt without a result: it goes back unless it began, or belongs to somebody else by now."""
        if grip.lost:
            self._forget(grip)
        elif grip.begun:
            why = "its execution was cancelled" if grip.unwanted else "its worker stopped"
            far = "" if grip.started else "; its body had not started"
            self._report(grip, Raised("cancelled", f"stopped because {why}{far}"))
        elif grip.phase is Phase.BEGINNING:
            log.warning("task.begin_unanswered", task=grip.task.address, action="its lease will run out")
            self._forget(grip)
        elif grip.unwanted and grip.phase is Phase.ACTING:
            self._report(grip, Raised("cancelled", "stopped because its execution was cancelled"))
        else:
            await self.hand_back([grip])

    async def hand_back(self, grips: list[Grip]) -> None:
        """Return tasks so that others may take them at once. If that fails, their leases run out."""
        for grip in grips:
            grip.phase = Phase.OVER
        try:
            failpoints.hit("worker.hand_back.send")
            await self.source.hand_back(self.worker, [grip.held for grip in grips])
            failpoints.hit("worker.hand_back.received")
        except Exception as error:  # noqa: BLE001 - a courtesy: the server finds out by itself
            Trouble("hand_back").met(error)
        for grip in grips:
            self._forget(grip)

    def _forget(self, grip: Grip) -> None:
        grip.phase = Phase.OVER
        self.keeper.drop(grip)

    def _report(self, grip: Grip, ended: Returned | Raised) -> None:
        task = grip.task
        grip.phase = Phase.OVER
        match ended:
            case Returned(value, size):
                report = Report(task.execution, task.address, task.fence, "completed", value, cost=grip.cost)
                self.reports.add(grip, report, size)
            case Raised(code, message, permanent, retry_after_ms):
                failure = Failure(code=code, message=message, permanent=permanent, retry_after_ms=retry_after_ms)
                stopped = grip.unwanted or code == "cancelled"
                outcome = "cancelled" if stopped else "failed"
                report = Report(task.execution, task.address, task.fence, outcome, None, failure, grip.saved, grip.cost)
                self.reports.add(grip, report)


def _asks(call: Call) -> bool:
    """Say whether its body may start only when the server has answered: there is a claim to be made, or an equal act
    to be looked for."""
    return call.at_most_once or call.definition.options.intent is not None


def _timeout(grip: Grip) -> Raised:
    seconds = grip.task.timeout_ms / 1000
    return Raised("timeout", f"tool {grip.task.tool} took longer than its {seconds:g} s")
