"""A child begins with its parent's record of it, its end is told in the transaction that ends it; none is an orphan."""

from __future__ import annotations

from engine_bench import AGENT, COMPANY, SPEC, Bench
from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.core.items import AwaitSignal, OpenToken, StartChild
from perdure.engine.claim import Claimed
from perdure.engine.due import Sweep
from perdure.engine.orphans import cancel_children
from perdure.engine.park import Finish, Halt, finish, halt
from perdure.engine.query import execution_view
from perdure.engine.signal import Signal, signal


def child(address: str = "child", id: str = "exe_child") -> StartChild:
    return StartChild(address, "d", id, dict(SPEC), AGENT, codec.digest(dict(SPEC)), '{"n":1}')


def end(bench: Bench, held: Claimed, event: str = "complete", data: str = '{"output":{"result":"done"}}') -> None:
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.do(finish, Finish(held.ref, held.fence, seen, 0, event, data))  # type: ignore[arg-type]


def family(bench: Bench) -> tuple[Claimed, Claimed]:
    """Return a parked parent and its owned child."""
    parent = bench.waiting(child())
    [held] = bench.claim()
    return parent, held


def test_it_begins_in_the_transaction_that_records_it(bench: Bench) -> None:
    parent = bench.owned()
    bench.record(parent, child())
    assert bench.last(parent.ref.execution).data == {"execution": "exe_child", "agent": AGENT, "input": {"n": 1}}
    assert bench.ready() == ["exe_child"]
    assert bench.log("exe_child")[0].data["input"] == {"n": 1}


def test_a_lost_answer_begins_no_second_one(bench: Bench) -> None:
    parent = bench.owned()
    bench.record(parent, child(), seen=1)
    bench.record(parent, child(id="exe_other"), seen=1)
    assert bench.kinds(parent.ref.execution) == ["started", "child_started"]
    assert bench.ready() == ["exe_child"]


def test_its_end_wakes_the_parent_with_the_output(bench: Bench) -> None:
    parent, held = family(bench)
    end(bench, held)
    last = bench.last(parent.ref.execution)
    assert (last.kind, last.address) == ("child_ended", "child")
    assert last.data == {
        "execution": "exe_child",
        "state": "completed",
        "output": {"result": "done"},
        "failure": None,
    }
    assert bench.state(parent.ref.execution) == ("ready", "ready")


def test_its_failure_is_told_with_its_code(bench: Bench) -> None:
    parent, held = family(bench)
    end(bench, held, "fail", '{"code":"limit_exceeded","error":"too long"}')
    data = bench.last(parent.ref.execution).data
    assert (data["state"], data["failure"]) == ("failed", {"code": "limit_exceeded", "error": "too long"})


def test_a_parent_that_ended_is_told_nothing(bench: Bench) -> None:
    parent = bench.owned()
    bench.record(parent, child())
    end(bench, parent)
    [held] = bench.claim()
    end(bench, held)
    assert bench.last(parent.ref.execution).kind == "completed"


def test_a_cancelled_parent_has_its_children_cancelled_and_theirs(bench: Bench) -> None:
    parent, held = family(bench)
    bench.record(held, child(id="exe_grandchild"))
    bench.signal(parent.ref.execution, "cancel")
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.state("exe_child")[0] == "cancelling"
    assert parent.ref.execution in bench.last("exe_child").data["reason"]
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.state("exe_grandchild")[0] == "cancelling"
    assert bench.do(cancel_children, Sweep(10)) == 0


def test_what_a_cleanup_begins_after_the_cancel_runs_until_that_has_ended(bench: Bench) -> None:
    """A child that undoes what was done must not be taken for one of those that the cancel was for."""
    parent, _ = family(bench)
    bench.signal(parent.ref.execution, "cancel")
    [again] = bench.claim()
    bench.record(again, child("undo", id="exe_undo"))
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.state("exe_child")[0] == "cancelling"
    assert bench.state("exe_undo") == ("ready", "ready")
    assert bench.do(cancel_children, Sweep(10)) == 0
    end(bench, again, "end", "{}")
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.state("exe_undo")[0] == "cancelling"


def test_a_parent_that_ends_in_the_batch_of_the_sweep_leaves_no_child_of_its_cleanup(bench: Bench) -> None:
    parent, _ = family(bench)
    bench.signal(parent.ref.execution, "cancel")
    [again] = bench.claim()
    bench.record(again, child("undo", id="exe_undo"))
    seen = bench.execution(parent.ref.execution)["next_seq"] - 1
    ended = Finish(again.ref, again.fence, seen, 0, "end", "{}")
    bench.together((finish, ended), (cancel_children, Sweep(10)))
    while bench.do(cancel_children, Sweep(10)):
        pass
    assert [bench.state(one)[0] for one in ("exe_child", "exe_undo")] == ["cancelling", "cancelling"]


def test_what_a_cleanup_began_is_cancelled_where_its_code_cannot_run_any_more(bench: Bench) -> None:
    parent, _ = family(bench)
    bench.signal(parent.ref.execution, "cancel")
    [again] = bench.claim()
    bench.do(cancel_children, Sweep(10))
    bench.record(again, child("undo", id="exe_undo"))
    bench.do(halt, Halt(again.ref, again.fence, "stick", "poison", "cannot be read"))
    assert bench.state(parent.ref.execution)[0] == "cancelled"
    bench.do(cancel_children, Sweep(10))
    assert bench.state("exe_undo")[0] == "cancelling"


def test_children_left_behind_by_an_end_are_cancelled(bench: Bench) -> None:
    parent = bench.owned()
    bench.record(parent, child())
    end(bench, parent)
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.state("exe_child")[0] == "cancelling"


def test_children_that_ended_are_left_alone(bench: Bench) -> None:
    parent, held = family(bench)
    end(bench, held)
    bench.signal(parent.ref.execution, "cancel")
    bench.do(cancel_children, Sweep(10))
    assert bench.state("exe_child")[0] == "completed"
    assert bench.do(cancel_children, Sweep(10)) == 0


def test_a_cancelled_child_tells_its_parent(bench: Bench) -> None:
    parent, held = family(bench)
    bench.signal("exe_child", "cancel")
    end(bench, held, "end", "{}")
    assert bench.last(parent.ref.execution).data["state"] == "cancelled"


def test_a_child_whose_code_cannot_run_any_more_tells_its_parent_when_cancelled(bench: Bench) -> None:
    parent, held = family(bench)
    bench.signal("exe_child", "cancel")
    bench.do(halt, Halt(held.ref, held.fence, "stick", "poison", "cannot be read"))
    assert bench.last(parent.ref.execution).data["state"] == "cancelled"


def test_a_child_asked_for_by_a_holder_that_missed_the_cancel_never_begins(bench: Bench) -> None:
    parent = bench.owned()
    bench.signal(parent.ref.execution, "cancel")
    bench.record(parent, child(), seen=1)
    assert bench.kinds(parent.ref.execution)[2:] == ["child_started", "child_ended"]
    assert bench.ready() == []


def test_parent_and_child_may_end_in_one_batch(bench: Bench) -> None:
    parent = bench.owned()
    bench.record(parent, child())
    [held] = bench.claim()
    rows = [
        Finish(parent.ref, parent.fence, 2, 0, "complete", '{"output":{}}'),
        Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'),
    ]
    bench.together(*((finish, row) for row in rows))
    assert bench.kinds("exe_child")[-1] == "completed"
    assert bench.kinds(parent.ref.execution)[-1] == "completed"


def test_the_tree_below_an_execution_is_there_to_read(bench: Bench) -> None:
    parent, held = family(bench)
    bench.record(held, child(id="exe_grandchild"))
    rows = bench.read(lambda reads: reads.rows("descendants_of", root=parent.ref.execution, limit=10))
    assert [(row["execution"], row["parent"], row["depth"]) for row in rows] == [
        ("exe_child", parent.ref.execution, 1),
        ("exe_grandchild", "exe_child", 2),
    ]
    assert shard_of("exe_child") == held.ref.shard


def test_the_view_names_what_is_waited_for_outside_and_the_tree(bench: Bench) -> None:
    hash = "0" * 64
    parent = bench.waiting(
        child(), OpenToken("token yes", "d", "tok_1", "yes", hash, timeout_ms=5), AwaitSignal("signal go", "d", "go")
    )
    [held] = bench.claim()
    bench.record(held, child(id="exe_grandchild"))
    view = bench.read(lambda reads: execution_view(reads, COMPANY, parent.ref.execution))
    assert [(wait.kind, wait.address) for wait in view.waits] == [
        ("token", "token yes"),
        ("signal", "signal go"),
        ("child", "child"),
    ]
    assert view.waits[0].detail.startswith("token tok_1 (yes)")
    assert [(one.id, one.depth) for one in view.children] == [("exe_child", 1), ("exe_grandchild", 2)]
    below = bench.read(lambda reads: execution_view(reads, COMPANY, "exe_child"))
    assert (below.parent, view.parent) == (parent.ref.execution, None)


def test_what_has_come_is_waited_for_no_more(bench: Bench) -> None:
    parent = bench.waiting(child(), AwaitSignal("signal go", "d", "go"), AwaitSignal("signal go/2", "d", "go"))
    [held] = bench.claim()
    end(bench, held)
    bench.do(signal, Signal(COMPANY, parent.ref.execution, "signal", dedupe="k", name="go"))
    view = bench.read(lambda reads: execution_view(reads, COMPANY, parent.ref.execution))
    assert [wait.address for wait in view.waits] == ["signal go/2"]
