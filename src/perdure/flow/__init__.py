"""Durable functions: plain `async def` whose steps are recorded, and which are run again from their log.

The names below are what a function declared with `@durable` may use. `asyncio.gather`, `TaskGroup` and plain `await`
are used as ever; see `docs/concepts/durable-functions.md` for what is not.
"""

from perdure.flow.context import Failed
from perdure.flow.durable import DurableDefinition, durable
from perdure.flow.outside import (
    ChildFailed,
    ChildResult,
    Token,
    TokenFailed,
    run_agent,
    run_function,
    signal,
    token,
)
from perdure.flow.races import Completed, First, completed, first, gather_at_most, timeout
from perdure.flow.saga import CompensationFailed, Saga, saga
from perdure.flow.scope import StepContext, named, this_step
from perdure.flow.steps import Retry, StepFailed, step
from perdure.flow.waits import now, patched, random, sleep, sleep_until, uuid

__all__ = [
    "ChildFailed",
    "ChildResult",
    "CompensationFailed",
    "Completed",
    "DurableDefinition",
    "Failed",
    "First",
    "Retry",
    "Saga",
    "StepContext",
    "StepFailed",
    "Token",
    "TokenFailed",
    "completed",
    "durable",
    "first",
    "gather_at_most",
    "named",
    "now",
    "patched",
    "random",
    "run_agent",
    "run_function",
    "saga",
    "signal",
    "sleep",
    "sleep_until",
    "step",
    "this_step",
    "timeout",
    "token",
    "uuid",
]
