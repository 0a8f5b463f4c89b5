"""Executions are found by their tags, together with whatever else is asked for, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from calendar_starts import schedule
from engine_bench import AGENT, COMPANY, SPEC, Bench, step
from perdure.core import codec
from perdure.core.items import StartChild
from perdure.core.views import ExecutionFilter, ForkEdits, Started
from perdure.engine import query_list
from perdure.engine.due import Sweep
from perdure.engine.fork import Fork, fork
from perdure.engine.park import Finish, finish
from perdure.engine.query import execution_view
from perdure.engine.query_list import execution_page
from perdure.engine.retention import forget, set_retention
from perdure.engine.schedule import ChangeSchedule, change_schedule, make_schedule, schedule_view
from perdure.errors import Conflict


def found(bench: Bench, limit: int = 50, **wanted: Any) -> list[str]:
    """Return what a list holds, read in pages of `limit`."""
    ids: list[str] = []
    cursor = None
    while cursor is not None or not ids:
        page = bench.read(
            lambda reads, at=cursor: execution_page(reads, COMPANY, ExecutionFilter(**wanted), cursor=at, limit=limit)
        )
        ids += [one.id for one in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    return ids


def ended(bench: Bench, event: str = "complete", **options: Any) -> str:
    """Start an execution, and end it."""
    held = bench.owned(**options)
    data = {"complete": '{"output":{}}', "fail": '{"code":"x","error":"x"}'}[event]
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, event, data))  # type: ignore[arg-type]
    return held.ref.execution


def test_each_is_found_by_each_of_its_tags_and_shows_them(bench: Bench) -> None:
    both = bench.started(tags=("zoo", "customer:7"))
    one = bench.started(tags=("zoo",))
    bare = bench.started()
    bench.started(tags=("zoo",), company="other")
    assert found(bench, tag="zoo") == [one, both]
    assert found(bench, tag="customer:7") == [both]
    assert found(bench, tag="zo") == []
    page = bench.read(lambda reads: execution_page(reads, COMPANY, ExecutionFilter(), limit=9))
    assert [(item.id, item.tags) for item in page.items] == [
        (bare, ()),
        (one, ("zoo",)),
        (both, ("zoo", "customer:7")),
    ]
    assert bench.read(lambda reads: execution_view(reads, COMPANY, both)).tags == ("zoo", "customer:7")
    assert bench.log(both)[0].data["tags"] == ["zoo", "customer:7"]


def test_a_tag_goes_with_state_agent_and_time(bench: Bench) -> None:
    done = ended(bench, tags=("a", "b"))
    failed = ended(bench, "fail", tags=("a",))
    ready = bench.started(tags=("a",))
    paused = bench.started(tags=("a",))
    bench.signal(paused, "pause")
    untagged = bench.started()
    bench.signal(untagged, "pause")
    assert found(bench, tag="a") == [paused, ready, failed, done]
    assert found(bench, tag="a", state="completed") == [done]
    assert found(bench, tag="b", state="failed") == []
    assert found(bench, tag="a", state="failed", agent=AGENT) == [failed]
    assert found(bench, tag="a", state="paused") == found(bench, tag="a", state="paused", agent=AGENT) == [paused]
    assert found(bench, tag="a", state="waiting") == found(bench, tag="a", agent="nobody") == []
    assert found(bench, tag="a", agent=AGENT) == [paused, ready, failed, done]
    began_ms = bench.execution(failed)["created_ms"]
    assert found(bench, tag="a", until_ms=began_ms + 1)[-1] == done
    assert found(bench, tag="a", since_ms=2**48) == []


def test_those_of_a_state_are_found_however_many_are_in_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [bench.started(tags=("a",) if n % 2 else ()) for n in range(6)]
    for one in ids[:4]:
        bench.signal(one, "pause")
    for few in (query_list.FEW, 1):
        monkeypatch.setattr(query_list, "FEW", few)
        assert found(bench, tag="a", state="paused") == [ids[3], ids[1]]
        assert found(bench, tag="a", state="ready", agent=AGENT) == [ids[5]]


def test_pages_hold_each_once_newest_first_whatever_became_of_them(bench: Bench) -> None:
    ids: list[str] = []
    for n in range(9):
        match n % 3:
            case 0:
                ids.append(bench.started(tags=("a",)))
            case 1:
                ids.append(ended(bench, tags=("a",)))
            case _:
                ids.append(ended(bench, "fail", tags=("a",)))
    assert found(bench, 2, tag="a") == found(bench, 2, tag="a", agent=AGENT) == ids[::-1]
    assert found(bench, 2, tag="a", state="failed") == ids[8:1:-3]


def test_a_child_has_no_tags_of_its_parent_and_a_fork_has_those_of_its_origin(bench: Bench) -> None:
    held = bench.owned(tags=("a", "b"))
    parent = held.ref.execution
    definition = codec.digest(dict(SPEC))
    bench.record(held, step(), StartChild("child", "d", "exe_child", dict(SPEC), AGENT, definition, '"hi"'))
    bench.do(fork, Fork("exe_fork", COMPANY, parent, 2, ForkEdits(), "ann"))
    assert found(bench, tag="a") == found(bench, tag="b") == ["exe_fork", parent]
    views = [
        bench.read(lambda reads, one=one: execution_view(reads, COMPANY, one)) for one in ("exe_child", "exe_fork")
    ]
    assert [(view.parent, view.tags) for view in views] == [(parent, ()), (None, ("a", "b"))]
    bench.signal("exe_fork", "cancel")
    claimed = next(one for one in bench.claim() if one.ref.execution == "exe_fork")
    last = bench.execution("exe_fork")["next_seq"] - 1
    bench.do(finish, Finish(claimed.ref, claimed.fence, last, 0, "end", "{}"))
    assert found(bench, tag="b", state="cancelled") == ["exe_fork"]


def test_what_a_schedule_begins_has_its_tags(bench: Bench) -> None:
    bench.do(make_schedule, schedule(tags=("nightly", "eu")))
    assert bench.read(lambda reads: schedule_view(reads, COMPANY, "nightly")).tags == ("nightly", "eu")
    begun = bench.do(change_schedule, ChangeSchedule(COMPANY, "nightly", "trigger", "n1"))
    assert isinstance(begun, Started)
    assert found(bench, tag="eu") == [begun.id]
    assert bench.do(make_schedule, schedule(tags=("nightly", "eu"))) is None
    other = bench.do(make_schedule, schedule(tags=("nightly",)))
    assert isinstance(other, Conflict)
    assert other.code == "schedule_exists"


def test_one_that_is_deleted_is_found_no_more_and_one_without_tags_leaves_no_rows(bench: Bench) -> None:
    bare = ended(bench)
    gone = ended(bench, tags=("a",))
    assert bench.row("lineage_of", shard=bench.execution(bare)["shard"], execution=bare) is None
    bench.do(set_retention, 0)
    while bench.do(forget, Sweep(10)):
        continue
    assert found(bench, tag="a") == found(bench) == []
    bench.started(id=gone, tags=("b",))
    assert (found(bench, tag="a"), found(bench, tag="b")) == ([], [gone])
