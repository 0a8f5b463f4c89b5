"""Each line with an ignore must fail to type-check: an ignore that nothing needs is an error."""

from __future__ import annotations

from typing import assert_type

from perdure.agent.context import ToolContext
from perdure.agent.tool import definition_of, tool


@tool
def bare(city: str, days: int = 3) -> list[str]:
    return [city] * days


@tool(approval_required=True, delivery="at_most_once", timeout_seconds=60)
async def refund(order: str, cents: int, ctx: ToolContext) -> dict[str, int]:
    ctx.heartbeat()
    return {order: cents}


async def users_types_are_kept() -> None:
    assert_type(bare("Rome"), list[str])
    assert_type(await refund("7", 100, ToolContext()), dict[str, int])
    assert_type(definition_of(bare).name, str)


def wrong_calls() -> None:
    bare(7)  # pyright: ignore[reportArgumentType]
    bare("Rome", hours=3)  # pyright: ignore[reportCallIssue]


@tool(delivery="twice")  # pyright: ignore[reportArgumentType]
def wrong_delivery() -> None: ...


@tool(timeout_seconds="3")  # pyright: ignore[reportArgumentType]
def wrong_timeout() -> None: ...


@tool(timeout=3)  # pyright: ignore[reportCallIssue]
def wrong_option() -> None: ...


def frozen(context: ToolContext) -> None:
    context.attempt = 2  # pyright: ignore[reportAttributeAccessIssue]
