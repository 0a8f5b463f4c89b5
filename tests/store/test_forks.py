"""Forks, escalations and the queries of the servers' own tools on both databases, with the same SQL."""

from __future__ import annotations

from dataclasses import replace

from engine_bench import AGENT, Bench, ask, once, ref, step, task
from perdure.core.approval import ApprovalRules
from perdure.core.ids import shard_of
from perdure.core.items import OfferStep, SimulatedStep
from perdure.core.rules import TaskRules
from perdure.core.views import EffectFilter, ForkEdits
from perdure.core.work import SERVER_QUEUE, Lane
from perdure.engine.due import Sweep
from perdure.engine.escalate import escalate_approvals
from perdure.engine.fork import Fork, fork
from perdure.engine.ledger import effects_view


def test_a_fork_simulates_is_held_and_may_act_once_it_is_resumed(bench: Bench) -> None:
    origin = bench.waiting(step()).ref.execution
    bench.do(fork, Fork("exe_fork", "default", origin, 2, ForkEdits(), "ann"))
    held = next(one for one in bench.claim() if one.ref == ref("exe_fork"))
    bench.record(held, once(rules=TaskRules(simulate=True)), SimulatedStep("sham", "d", "sham", {"n": 1}, '"as if"'))
    [given] = bench.lease(lanes=(Lane(AGENT, "post?simulate"),))
    bench.report(given, value="as if")
    wanted = EffectFilter("exe_fork", "simulated")
    found = bench.read(lambda reads: effects_view(reads, "default", wanted))
    assert [(one.tool, one.value) for one in found] == [("post", "as if"), ("sham", "as if")]
    [named] = bench.read(lambda reads: effects_view(reads, "default", replace(wanted, tool="post")))
    assert named.address == "tool"
    offer = OfferStep("mail/try-2", "d", "step", "mail", "mail", {})
    bench.record(held, offer)
    assert (bench.state("exe_fork")[0], bench.last("exe_fork").address) == ("paused", "mail")
    bench.record(held, offer)
    assert bench.kinds("exe_fork").count("paused") == 1
    bench.signal("exe_fork", "resume")
    last = bench.execution("exe_fork")["next_seq"]
    bench.record(held, offer)
    assert bench.execution("exe_fork")["next_seq"] == last


def test_an_approval_is_escalated_once(bench: Bench) -> None:
    rules = ApprovalRules(approvers=("ann",), escalate_ms=1, escalate_to=("bob",))
    execution = bench.waiting(replace(ask(), rules=rules)).ref.execution
    bench.clock.advance(1)
    while not bench.do(escalate_approvals, Sweep(10)):  # a database has a clock of its own
        continue
    assert bench.do(escalate_approvals, Sweep(10)) == 0
    assert bench.kinds(execution)[-1] == "approval_escalated"


def test_the_servers_own_tools_are_found_with_their_company(bench: Bench) -> None:
    execution = bench.waiting(task(queue=SERVER_QUEUE)).ref.execution
    [lane] = bench.read(lambda reads: reads.rows("server_lanes", own="default", queue=SERVER_QUEUE, limit=10))
    assert (lane["company"], lane["agent"], lane["tool"]) == ("default", AGENT, "post")
    found = bench.row("company_of", shard=shard_of(execution), execution=execution)
    assert found is not None
    assert found["company"] == "default"
