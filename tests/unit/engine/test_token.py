"""The wait for a token ends once, by whoever holds its secret, or by the clock, and says so to everybody later."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import COMPANY, Bench
from perdure.core.credentials import hash_of
from perdure.core.ids import shard_of
from perdure.core.items import OpenToken
from perdure.core.tokens import Issuer, company_key
from perdure.engine.due import Sweep
from perdure.engine.park import Finish, finish
from perdure.engine.token import EndToken, TokenEnded, end_token, expire_tokens
from perdure.errors import Conflict, NotFound

ISSUER = Issuer(company_key(b"k" * 32, COMPANY), "https://perdure.example")


def token(address: str = "token yes", id: str = "tok_1", timeout_ms: int | None = None) -> OpenToken:
    return OpenToken(address, "d", id, "yes", hash_of(ISSUER.secret(id)), ISSUER.base, timeout_ms)


def complete(value: str = "1", *, id: str = "tok_1", **options: Any) -> EndToken:
    return EndToken("complete", hash=hash_of(ISSUER.secret(id)), value=value, by="token", **options)


def fail(error: str = "no", *, id: str = "tok_1") -> EndToken:
    return EndToken("fail", hash=hash_of(ISSUER.secret(id)), error=error, by="token")


def test_a_completed_token_wakes_its_execution_with_the_value(bench: Bench) -> None:
    held = bench.waiting(token())
    assert bench.do(end_token, complete('{"ok":true}')) == TokenEnded(held.ref, first=True)
    last = bench.last(held.ref.execution)
    assert (last.kind, last.address, last.data["decision"], last.data["value"]) == (
        "waitpoint_resolved",
        "token yes",
        "complete",
        {"ok": True},
    )
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_a_failed_token_carries_its_error(bench: Bench) -> None:
    held = bench.waiting(token())
    bench.do(end_token, fail("the bank said no"))
    assert bench.last(held.ref.execution).data["error"] == "the bank said no"


def test_the_same_answer_again_is_accepted_and_changes_nothing(bench: Bench) -> None:
    held = bench.waiting(token())
    first, again = TokenEnded(held.ref, first=True), TokenEnded(held.ref, first=False)
    assert bench.twice(end_token, complete('{"a":1,"b":2}')) == (first, again)
    assert bench.do(end_token, complete('{"b":2,"a":1}')) == again
    assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


@pytest.mark.parametrize("other", [complete("2"), complete("true"), complete("1.5"), fail()])
def test_another_answer_is_refused_and_told_which_was_first(bench: Bench, other: EndToken) -> None:
    bench.waiting(token())
    bench.do(end_token, complete("1"))
    refused = bench.do(end_token, other)
    assert isinstance(refused, Conflict)
    assert (refused.code, refused.details["decision"]) == ("token_used", "complete")


def test_of_two_answers_in_one_moment_one_wins(bench: Bench) -> None:
    held = bench.waiting(token())
    answers = [bench.do(end_token, fail("a")), bench.do(end_token, fail("b"))]
    assert [type(one) for one in answers] == [TokenEnded, Conflict]
    assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


def test_an_unknown_secret_is_not_found(bench: Bench) -> None:
    bench.waiting(token())
    refused = bench.do(end_token, complete(id="tok_2"))
    assert isinstance(refused, NotFound)
    assert refused.code == "no_such_token"


def test_its_id_is_a_right_only_for_its_own_company(bench: Bench) -> None:
    bench.waiting(token())
    assert isinstance(bench.do(end_token, EndToken("complete", id="tok_1", company="other")), NotFound)
    assert isinstance(bench.do(end_token, EndToken("complete", id="tok_1", company=COMPANY)), TokenEnded)


def test_neither_log_nor_row_holds_the_secret(bench: Bench) -> None:
    held = bench.waiting(token())
    secret = ISSUER.secret("tok_1")
    row = bench.row("waitpoint", shard=held.ref.shard, execution=held.ref.execution, address="token yes")
    assert row is not None
    assert row["token"] == hash_of(secret)
    stored = [str(tuple(row)), *(str(event) for event in bench.log(held.ref.execution))]
    assert not any(secret in text for text in stored)


def test_it_expires_once_and_never_early(bench: Bench) -> None:
    held = bench.waiting(token(timeout_ms=5_000))
    bench.clock.advance(4.999)
    assert bench.do(expire_tokens, Sweep(10)) == 0
    bench.clock.advance(0.001)
    assert bench.twice(expire_tokens, Sweep(10)) == (1, 0)
    assert bench.last(held.ref.execution).data["decision"] == "expire"
    assert bench.state(held.ref.execution) == ("ready", "ready")


def test_the_clock_decides_over_an_expiry_not_the_sweep(bench: Bench) -> None:
    held = bench.waiting(token(timeout_ms=5_000))
    bench.clock.advance(5)
    refused = bench.do(end_token, complete())
    assert isinstance(refused, Conflict)
    assert refused.code == "token_expired"
    bench.do(expire_tokens, Sweep(10))
    refused = bench.do(end_token, complete())
    assert isinstance(refused, Conflict)
    assert refused.code == "token_expired"
    assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


def test_a_completed_token_does_not_expire(bench: Bench) -> None:
    held = bench.waiting(token(timeout_ms=5_000))
    bench.do(end_token, complete())
    bench.clock.advance(6)
    assert bench.do(expire_tokens, Sweep(10)) == 0
    assert bench.last(held.ref.execution).data["decision"] == "complete"


def test_a_completion_and_the_sweep_in_one_batch_end_it_once(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.waiting(token(id=f"tok_{order}", timeout_ms=5_000))
        bench.clock.advance(5)
        rows: list[Any] = [(end_token, complete(id=f"tok_{order}")), (expire_tokens, Sweep(10))]
        bench.together(*rows[::order])
        assert bench.kinds(held.ref.execution).count("waitpoint_resolved") == 1


def test_the_token_of_an_ended_execution_is_refused(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, token())
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "complete", '{"output":{}}'))
    refused = bench.do(end_token, complete())
    assert isinstance(refused, Conflict)
    assert (refused.code, refused.details["state"]) == ("ended", "completed")


def test_the_same_answer_is_still_accepted_after_the_end(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, token())
    bench.do(end_token, complete())
    bench.do(finish, Finish(held.ref, held.fence, 3, 0, "complete", '{"output":{}}'))
    assert bench.do(end_token, complete()) == TokenEnded(held.ref, first=False)


def test_an_expired_token_of_an_ended_execution_leaves_no_trace(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, token(timeout_ms=1_000))
    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "complete", '{"output":{}}'))
    bench.clock.advance(2)
    assert bench.do(expire_tokens, Sweep(10)) == 1
    assert bench.do(expire_tokens, Sweep(10)) == 0
    assert bench.last(held.ref.execution).kind == "completed"


def test_a_cancel_closes_the_wait(bench: Bench) -> None:
    held = bench.waiting(token())
    bench.signal(held.ref.execution, "cancel")
    refused = bench.do(end_token, complete())
    assert isinstance(refused, Conflict)
    assert refused.code == "not_waiting"


def test_a_paused_execution_takes_the_answer_and_stays_where_it_is(bench: Bench) -> None:
    held = bench.waiting(token())
    bench.signal(held.ref.execution, "pause")
    assert isinstance(bench.do(end_token, complete()), TokenEnded)
    assert bench.state(held.ref.execution) == ("paused", "parked")


def test_opening_it_again_after_a_lost_answer_changes_nothing(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, token(), seen=1)
    bench.record(held, token(id="tok_2"), seen=1)
    assert bench.kinds(held.ref.execution).count("waitpoint_opened") == 1
    assert isinstance(bench.do(end_token, complete()), TokenEnded)


def test_a_decision_about_an_approval_does_not_reach_it(bench: Bench) -> None:
    bench.waiting(token())
    assert bench.row("waitpoint_by_id", id="tok_1", company=COMPANY) is None


def test_a_broken_deadline_is_left_out_and_the_others_expire(bench: Bench) -> None:
    held = bench.waiting(token(timeout_ms=1_000))
    params = {"shard": shard_of("exe_none"), "execution": "exe_none", "address": "x", "kind": "token", "due_ms": 0}
    with bench.store.write() as connection:
        connection.run("set_deadline", **params)
    bench.clock.advance(2)
    assert bench.do(expire_tokens, Sweep(10, frozenset({("exe_none", "x")}))) == 1
    assert bench.last(held.ref.execution).data["decision"] == "expire"
