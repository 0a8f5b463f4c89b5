"""Messages for published agents: each is taken once, whoever sends it again. On both databases."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, SPEC, Bench
from perdure.core import codec
from perdure.core.a2a import A2aMessage, A2aQuery, Accepted
from perdure.core.events import Kind
from perdure.engine.a2a import (
    Accept,
    Publish,
    Withdraw,
    accept_message,
    publish_agent,
    withdraw_agent,
)
from perdure.engine.a2a_read import a2a_task, a2a_tasks, published_agent, published_agents
from perdure.engine.due import Sweep
from perdure.engine.park import Finish, finish
from perdure.engine.retention import forget, set_retention
from perdure.errors import InvalidInput, NotFound, PerdureError

OTHER = "other"


def publish(bench: Bench, company: str = COMPANY, **more: Any) -> None:
    spec = {**SPEC, **more}
    row = Publish(company, AGENT, codec.digest(spec), codec.encode(spec), "Counts.", "ann")
    bench.do(publish_agent, row)


def message(id: str = "m1", text: str = "hi", execution: str = "", **more: Any) -> Accept:
    number = int(id.removeprefix("m"))
    said = A2aMessage(id, text, execution=execution, context=more.pop("context", ""))
    return Accept(more.pop("company", COMPANY), AGENT, said, more.pop("new", f"exe_{number:04}"), f"ctx_{id}", "ann")


def code_of(result: object) -> str:
    assert isinstance(result, PerdureError), result
    return result.code


def texts(bench: Bench, execution: str) -> list[str]:
    return [event.data["text"] for event in bench.log(execution) if event.kind is Kind.MESSAGE]


def tasks(bench: Bench, **wanted: Any) -> list[str]:
    page = bench.read(lambda reads: a2a_tasks(reads, COMPANY, AGENT, A2aQuery(**wanted)))
    return [one.execution for one in page.items]


def test_a_message_begins_an_execution_of_what_is_published_then(bench: Bench) -> None:
    publish(bench)
    assert bench.do(accept_message, message()) == Accepted("exe_0001", created=True)
    publish(bench, instructions="Count.")
    bench.do(accept_message, message("m2"))
    first, second = bench.execution("exe_0001"), bench.execution("exe_0002")
    assert first["definition"] == codec.digest(dict(SPEC))
    assert second["definition"] == codec.digest({**SPEC, "instructions": "Count."})
    [started] = bench.log("exe_0001")
    assert (started.kind, started.data["input"], started.data["by"]) == (Kind.STARTED, "hi", "ann")
    assert {one.ref.execution for one in bench.claim()} == {"exe_0001", "exe_0002"}


def test_the_same_message_is_taken_once(bench: Bench) -> None:
    publish(bench)
    first, again = bench.twice(accept_message, message())
    assert (first, again) == (Accepted("exe_0001", created=True), Accepted("exe_0001", created=True))
    assert bench.do(accept_message, message(new="exe_0009")) == Accepted("exe_0001", created=False)
    assert code_of(bench.do(accept_message, message(text="ho", new="exe_0009"))) == "message_conflict"
    assert tasks(bench) == ["exe_0001"]
    assert [one.ref.execution for one in bench.claim()] == ["exe_0001"]


def test_a_message_goes_into_its_task_once(bench: Bench) -> None:
    publish(bench)
    bench.do(accept_message, message())
    for _ in range(3):
        assert bench.do(accept_message, message("m2", "more", "exe_0001")) == Accepted("exe_0001", created=False)
    assert texts(bench, "exe_0001") == ["more"]
    assert code_of(bench.do(accept_message, message("m2", "less", "exe_0001"))) == "message_conflict"
    assert code_of(bench.do(accept_message, message("m1", "hi", "exe_0001"))) == "message_conflict"
    assert code_of(bench.do(accept_message, message("m3", "x", "exe_0001", context="else"))) == "context_conflict"
    assert bench.do(accept_message, message("m3", "x", "exe_0001", context="ctx_m1")) == Accepted("exe_0001", False)


def test_a_refused_message_may_be_sent_again(bench: Bench) -> None:
    publish(bench)
    bench.do(accept_message, message())
    [held] = bench.claim()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    for _ in range(2):
        assert code_of(bench.do(accept_message, message("m2", "more", "exe_0001"))) == "ended"
    assert bench.do(accept_message, message("m2", "more")) == Accepted("exe_0002", created=True)


def test_to_others_neither_agent_nor_task_is_there(bench: Bench) -> None:
    publish(bench)
    bench.do(accept_message, message())
    assert code_of(bench.do(accept_message, message("m2", company=OTHER))) == "no_such_agent"
    publish(bench, OTHER)
    assert bench.do(accept_message, message(new="exe_0009", company=OTHER)) == Accepted("exe_0009", created=True)
    for execution in ("exe_0001", "exe_0404"):
        refused = bench.do(accept_message, message("m3", "x", execution, company=OTHER))
        assert code_of(refused) == "not_found"
        with pytest.raises(NotFound):
            bench.read(lambda reads, name=execution: a2a_task(reads, OTHER, AGENT, name))
    with pytest.raises(NotFound):
        bench.read(lambda reads: a2a_task(reads, COMPANY, "another agent", "exe_0001"))
    assert tasks(bench) == ["exe_0001"]


def test_an_execution_that_no_message_began_is_no_task(bench: Bench) -> None:
    publish(bench)
    execution = bench.started(id="exe_0005")
    assert code_of(bench.do(accept_message, message("m1", "x", execution))) == "not_found"
    with pytest.raises(NotFound):
        bench.read(lambda reads: a2a_task(reads, COMPANY, AGENT, execution))


def test_a_withdrawn_agent_takes_nothing_and_what_it_does_goes_on(bench: Bench) -> None:
    publish(bench)
    bench.do(accept_message, message())
    assert [one.agent for one in bench.read(lambda reads: published_agents(reads, COMPANY))] == [AGENT]
    bench.do(withdraw_agent, Withdraw(COMPANY, AGENT))
    assert code_of(bench.do(accept_message, message("m2"))) == "no_such_agent"
    with pytest.raises(NotFound):
        bench.read(lambda reads: published_agent(reads, COMPANY, AGENT))
    assert len(bench.claim()) == 1


def test_tasks_are_listed_in_pages_those_that_changed_last_first(bench: Bench) -> None:
    publish(bench)
    for number in range(1, 6):
        bench.clock.advance(1)
        bench.do(accept_message, message(f"m{number}"))
    bench.clock.advance(1)
    bench.do(accept_message, message("m6", "more", "exe_0002"))
    whole = bench.read(lambda reads: a2a_tasks(reads, COMPANY, AGENT, A2aQuery()))
    last_first = sorted(whole.items, key=lambda one: (one.updated_ms, one.execution), reverse=True)
    wanted = [one.execution for one in last_first]
    assert len(wanted) == 5
    found: list[str] = []
    cursor = ""
    while True:
        query = A2aQuery(cursor=cursor, limit=2)
        page = bench.read(lambda reads, query=query: a2a_tasks(reads, COMPANY, AGENT, query))
        assert page.total == 5
        found += [one.execution for one in page.items]
        cursor = page.cursor
        if not cursor:
            break
    assert found == wanted
    assert tasks(bench, context="ctx_m3") == ["exe_0003"]
    [held] = [one for one in bench.claim() if one.ref.execution == "exe_0004"]
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}'))
    assert tasks(bench, ended="completed") == ["exe_0004"]
    assert "exe_0004" not in tasks(bench, going_on=True)
    with pytest.raises(InvalidInput):
        tasks(bench, cursor="nowhere")


def test_one_batch_takes_many_messages(bench: Bench) -> None:
    publish(bench)
    said = bench.together(*((accept_message, message(f"m{number}")) for number in (3, 1, 2)))
    assert said == [Accepted(f"exe_{number:04}", created=True) for number in (3, 1, 2)]


def test_what_was_forgotten_may_begin_again(bench: Bench) -> None:
    publish(bench)
    bench.do(accept_message, message())
    bench.do(accept_message, message("m2", "more", "exe_0001"))
    [held] = bench.claim()
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "complete", '{"output":{}}'))
    bench.do(set_retention, 0)
    bench.clock.advance(1)
    assert bench.do(forget, Sweep(10)) == 1
    assert tasks(bench) == []
    assert bench.do(accept_message, message(new="exe_0007")) == Accepted("exe_0007", created=True)
