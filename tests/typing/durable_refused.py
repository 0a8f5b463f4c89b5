"""Durable code keeps the types of what it calls; each line with an ignore must fail to type-check."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from perdure import durable
from perdure.flow import Retry, completed, first, gather_at_most, now, patched, sleep, step, timeout, token


@durable
async def onboard(customer: str) -> str:
    return customer


@durable(build="2", cleanup_timeout=timedelta(minutes=1))
async def offboard(customer: str, reason: str = "") -> int:
    return len(customer + reason)


async def fetch(n: int) -> int:
    return n


def plain(n: int) -> str:
    return str(n)


async def users_types_are_kept() -> None:
    assert_type(await onboard("x"), str)
    assert_type(await offboard("x"), int)
    assert_type(await step(fetch, 1), int)
    assert_type(await step(plain, 1, retries=Retry(retries=1), timeout=timedelta(seconds=1)), str)
    assert_type((await first(fetch(1), fetch(2))).value, int)
    assert_type(await timeout(fetch(1), minutes=1), int)
    assert_type(await gather_at_most(2, fetch(1), fetch(2)), list[int])
    assert_type(await patched("fee-v2"), bool)
    async for one in completed(fetch(1)):
        assert_type(one.result(), int)
    assert_type((await now()).year, int)
    assert_type((await token("yes")).url, str)


async def wrong_calls() -> None:
    await step(fetch, 1, delivery="twice")  # pyright: ignore[reportCallIssue, reportArgumentType]
    await step(fetch, 1, timeout=5)  # pyright: ignore[reportCallIssue, reportArgumentType]
    await sleep("a day")  # pyright: ignore[reportArgumentType]
    await onboard(7)  # pyright: ignore[reportArgumentType]


@durable  # pyright: ignore[reportArgumentType]
def wrong_function() -> None: ...
