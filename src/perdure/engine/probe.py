"""Take what a probe found out about an uncertain effect. Its answer is a ruling, made by `probe`."""

from __future__ import annotations

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.retry import pause_before
from perdure.core.work import Answer, Failure
from perdure.engine.change import set_task, tell, unwanted, whose
from perdure.engine.rule import Word, rule_on
from perdure.engine.task import rules_of
from perdure.engine.uncertain import settled_ms
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

BY = "probe"
MOST_CLAIMS = 5
"""From so many claims on, a probe's "it did not happen" does not begin another: a person has to look."""


def probe_found(tx: Tx, execution: ExecutionRow, probe: Row, value: Json) -> Answer:
    """Rule as a probe says. What is known by now stays as it is; what may still be happening is looked at again."""
    if probe["state"] != states.Task.LEASED:
        return Answer.ALREADY_ACCEPTED
    scope = {"shard": execution.shard, "execution": execution.id, "address": probe["probe_of"]}
    task = tx.row("task", **scope)
    answer = value if isinstance(value, dict) else {}
    if task is None or task["state"] != states.Task.UNCERTAIN:
        set_task(tx, execution, probe, states.move(states.TASK_TABLE, probe["state"], "complete"))
        return Answer.ACCEPTED
    word = _word(tx, execution, task, answer)
    if isinstance(word, Failure):
        probe_failed(tx, execution, probe, word)
        return Answer.ACCEPTED
    set_task(tx, execution, probe, states.move(states.TASK_TABLE, probe["state"], "complete"))
    rule_on(tx, execution, task, word)
    return Answer.ACCEPTED


def _word(tx: Tx, execution: ExecutionRow, task: Row, answer: dict[str, Json]) -> Word | Failure:
    if answer.get("happened") is True:
        return Word("happened", BY, "the tool's probe found that it happened", answer.get("value"))
    if answer.get("happened") is not False:
        return Failure("probe_unknown", "the probe could not find out what became of it")
    if (left_ms := settled_ms(task) - tx.now_ms) > 0:
        message = "the probe says that it did not happen, but it may still be happening"
        return Failure("not_settled", message, retry_after_ms=left_ms)
    if task["claims"] >= MOST_CLAIMS:
        message = f"the probe says that it did not happen; after {task['claims']} claims a person has to look"
        return Failure("too_many_claims", message, permanent=True)
    if unwanted(execution, task):
        return Word("give_up", BY, "the tool's probe found that it did not happen; nobody wants it any more")
    return Word("run", BY, "the tool's probe found that it did not happen")


def probe_failed(tx: Tx, execution: ExecutionRow, probe: Row, failure: Failure) -> None:
    """Look again later, so many times in all; then it is for people to find out. The effect stays uncertain."""
    spent = failure.permanent or probe["attempt"] >= probe["max_attempts"]
    pause_ms = failure.retry_after_ms or pause_before(rules_of(probe), probe["attempt"] + 1, 0.0)
    facts = {**whose(probe), "error": failure.message, "code": failure.code, "retry_ms": None if spent else pause_ms}
    state = states.move(states.TASK_TABLE, probe["state"], "die" if spent else "retry")
    set_task(tx, execution, probe, state, pause_ms=pause_ms)
    tell(tx, execution, Kind.ATTEMPT_FAILED, probe["address"], facts)
