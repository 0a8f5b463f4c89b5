"""The ledger, its chain and the rules of approvals on both databases, with the same SQL."""

from __future__ import annotations

from engine_bench import Bench, once, task
from perdure.core.approval import ApprovalRules
from perdure.core.chain import Checked, Follower
from perdure.core.items import OpenApproval
from perdure.core.views import ApprovalView, EffectFilter, EffectView
from perdure.core.work import Failure
from perdure.engine.due import Sweep
from perdure.engine.expire import expire_approvals
from perdure.engine.ledger import effects_view, log_page
from perdure.engine.park import Finish, finish
from perdure.engine.query import approvals_of
from perdure.engine.resolve import Decide, decide


def effects(bench: Bench, wanted: EffectFilter | None = None) -> list[EffectView]:
    return bench.read(lambda reads: effects_view(reads, "default", wanted or EffectFilter()))


def followed(bench: Bench, execution: str) -> Checked:
    page = bench.read(lambda reads: log_page(reads, "default", execution, after=0, limit=1_000))
    follower = Follower(execution)
    follower.take(page.links)
    return follower.end(page.head, page.last_seq)


def view(bench: Bench) -> ApprovalView:
    [found] = bench.read(lambda reads: approvals_of(reads, "default", approval="apr_1"))
    return found


def test_effects_are_read_off_the_log_and_what_came_after_it(bench: Bench) -> None:
    held = bench.waiting(task("a"), once("b"), task("c", delivery="repeatable"))
    [first, *_] = leased = bench.lease()
    assert len(leased) == 3
    bench.report(first, "failed", failure=Failure("boom", "it broke"))
    assert {one.address for one in effects(bench)} == {"a", "b"}
    for state, count in (("leased", None), ("contradicted", 0), ("uncertain", 0)):
        found = effects(bench, EffectFilter(held.ref.execution, state, "post", "clerk", 1))
        assert count is None or len(found) == count
    [owned] = bench.claim() or [None]
    if owned is None:
        bench.signal(held.ref.execution, "send", text="hello")
        [owned] = bench.claim()
    last = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.do(finish, Finish(owned.ref, owned.fence, last, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    for one in leased[1:]:
        bench.report(one, value="late")
    found = followed(bench, held.ref.execution)
    assert (found.broken_at, found.unhashed) == (None, 0)
    assert found.links > last + 1


def test_votes_edits_and_expiry_are_rows(bench: Bench) -> None:
    rules = ApprovalRules(quorum=2, approvers=("ann", "bob"), expires_ms=3_600_000)
    held = bench.waiting(OpenApproval("tool/approval", "d", "apr_1", "post", {"n": 1}, rules))
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.do(decide, Decide("default", "apr_1", "edit", "bob", "", args={"n": 7}))
    bench.clock.advance(1)
    assert (view(bench).approved, view(bench).args, view(bench).quorum) == (("bob",), {"n": 7}, 2)
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", "", digest=view(bench).digest))
    assert (view(bench).decision, view(bench).decided_by) == ("edit", "bob, ann")
    assert bench.do(expire_approvals, Sweep(10)) == 0
    assert followed(bench, held.ref.execution).broken_at is None


def test_an_approval_expires_once(bench: Bench) -> None:
    rules = ApprovalRules(expires_ms=1)
    held = bench.waiting(OpenApproval("tool/approval", "d", "apr_1", "post", {"n": 1}, rules))
    bench.clock.advance(1)
    while view(bench).state == "open":  # PostgreSQL's clock is its own
        bench.do(expire_approvals, Sweep(10))
    assert bench.do(expire_approvals, Sweep(10)) == 0
    assert [event.data["decision"] for event in bench.log(held.ref.execution) if "decision" in event.data] == [
        "expired"
    ]
