"""What a tool's author takes out is nowhere: in no result, no error, no receipt, and no answer of a probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import isolated_tools
from memory_tasks import MemoryTasks
from perdure import Agent, InvalidInput, NotDone, PermanentError
from perdure.agent.probe import Outcome
from perdure.agent.tool import definition_of, tool
from perdure.core.work import Lane, Report
from perdure.system import SystemClock
from perdure.toolbox.http_tool import http_tool
from perdure.worker.judge import MAX_TEXT_BYTES
from working import at_work, make_worker

pytestmark = pytest.mark.anyio

CARD = "4000-0012-3456-7899"


def hide(told: Any) -> Any:
    if isinstance(told, str):
        return told.replace(CARD, "(card)")
    return {**told, "card": "(card)"} if isinstance(told, dict) else told


def breaks(told: Any) -> Any:
    raise ValueError(f"what is {told}?")


async def report_of(body: Callable[..., Any], **task: Any) -> Report:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), body)):
        address = source.add(definition_of(body).name, **task)
        await source.reported(address)
    return source.rows[address].reports[0]


def in_thread(ends: Callable[[], Any]) -> Callable[[], Any]:
    def pay() -> Any:
        return ends()

    return pay


def on_loop(ends: Callable[[], Any]) -> Callable[[], Any]:
    async def pay() -> Any:
        return ends()

    return pay


def throws(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("placed", [in_thread, on_loop])
async def test_a_result_is_told_as_it_was_redacted(placed: Callable[..., Any]) -> None:
    pay = tool(redact=hide)(placed(lambda: {"card": CARD, "cents": 5}))
    assert (await report_of(pay)).value == {"card": "(card)", "cents": 5}


@pytest.mark.parametrize("placed", [in_thread, on_loop])
@pytest.mark.parametrize("error", [KeyError(CARD), PermanentError(CARD), NotDone(CARD)])
async def test_an_error_is_told_as_it_was_redacted(placed: Callable[..., Any], error: Exception) -> None:
    report = await report_of(tool(redact=hide)(placed(lambda: throws(error))))
    assert report.failure is not None
    assert "(card)" in report.failure.message
    assert CARD not in repr(report)


async def test_an_error_is_redacted_before_it_is_cut() -> None:
    """What is left of a secret at the end of a text that was cut would be known as none."""
    long = "x" * (MAX_TEXT_BYTES - 64 - len("KeyError: '") - len(CARD) // 2) + CARD + "y" * 1_000
    report = await report_of(tool(redact=hide)(in_thread(lambda: throws(KeyError(long)))))
    assert report.failure is not None
    assert "more characters" in report.failure.message
    assert CARD[:6] not in report.failure.message


async def test_the_receipt_of_an_act_that_cannot_be_stored_is_redacted() -> None:
    pay = tool(redact=lambda told: {"(card)"}, delivery="at_most_once")(in_thread(lambda: {CARD}))
    assert (await report_of(pay, delivery="at_most_once")).value == {"unserialisable": "{'(card)'}"}


async def test_what_cannot_be_redacted_is_kept_nowhere() -> None:
    pay = tool(redact=breaks)(in_thread(lambda: CARD))
    failure = (await report_of(pay)).failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("unserialisable", True)
    assert failure.message == "redact of tool pay raised ValueError, so nothing of what the call gave is kept"
    once = tool(redact=breaks, delivery="at_most_once")(in_thread(lambda: CARD))
    act = await report_of(once, delivery="at_most_once")
    assert (act.outcome, act.value) == ("completed", {"unserialisable": failure.message})
    raised = (await report_of(tool(redact=breaks)(in_thread(lambda: throws(KeyError(CARD)))))).failure
    assert raised is not None
    assert (raised.code, raised.message) == ("tool_error", failure.message)


async def test_nothing_is_asked_about_none() -> None:
    assert (await report_of(tool(redact=breaks)(in_thread(lambda: None)))).value is None


async def test_an_isolated_tool_redacts_in_its_own_process() -> None:
    assert (await report_of(isolated_tools.card)).value == "card (card)"


def test_what_a_probe_and_a_stand_in_find_is_redacted_too() -> None:
    def find() -> Outcome:
        return Outcome.happened(CARD)

    pay = tool(delivery="at_most_once", probe=find, simulate=lambda: CARD, redact=hide)(in_thread(lambda: None))
    lanes = Agent(name="payer", model="scripted/payer", tools=[pay]).lanes()
    probe, stand_in = lanes[Lane("payer", "pay?probe", "default")], lanes[Lane("payer", "pay?simulate", "default")]
    assert probe.options.redact is not None
    assert probe.options.redact(probe.function()) == {"happened": True, "value": "(card)"}
    assert probe.options.redact({"happened": None, "value": None}) == {"happened": None, "value": None}
    assert probe.options.redact(f"KeyError: {CARD}") == "KeyError: (card)"
    assert stand_in.options.redact is hide


@pytest.mark.parametrize("given", ["***", dict])
def test_what_is_no_function_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="expected a plain function of one value"):
        tool(redact=given)(in_thread(lambda: None))


def test_a_coroutine_function_is_refused_and_so_is_a_tool_of_the_servers() -> None:
    async def later(told: Any) -> Any:
        return told

    with pytest.raises(InvalidInput, match="expected a plain function of one value"):
        tool(redact=later)(in_thread(lambda: None))
    options: Any = {"redact": hide}
    with pytest.raises(InvalidInput, match="for functions"):
        http_tool("look", "Look.", "https://example.com", **options)
