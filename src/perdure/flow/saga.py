"""Compensation: what undoes the steps so far, in reverse order, if what follows them fails or is cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from perdure.errors import Terminal
from perdure.flow.scope import here
from perdure.flow.steps import step


class CompensationFailed(Terminal):
    """Not everything could be undone; `failed` names the steps that could not. The first error is the cause."""

    default_code = "compensation_failed"


class Saga:
    """The compensations noted so far. Owner: the block that it stands for."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def on_failure(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> None:
        """Note a step that undoes what was just done: the arguments are those of `step`."""
        self._undo.append((function, args, options))

    async def compensate(self) -> None:
        """Run all that was noted, the latest first; what fails keeps nothing else from it."""
        failed: list[str] = []
        while self._undo:
            function, args, options = self._undo.pop()
            try:
                await step(function, *args, **options)
            except Terminal as error:
                failed.append(error.message)
        if failed:
            raise CompensationFailed(f"{len(failed)} compensations failed: {'; '.join(failed)}", failed=failed)


@asynccontextmanager
async def saga() -> AsyncGenerator[Saga]:
    """Undo what a block did if it fails or is cancelled:

        async with saga() as undo:
            await step(book_hotel, trip)
            undo.on_failure(cancel_hotel, trip)
            await step(book_flight, trip)

    Compensations are steps: recorded, tried again like any other, never run twice once recorded. After a cancel they
    run under the function's `cleanup_timeout`. The block's error is raised on, or `CompensationFailed` from it.
    """
    here()
    noted = Saga()
    try:
        yield noted
    except GeneratorExit:
        raise
    except BaseException as error:
        try:
            await noted.compensate()
        except CompensationFailed as failure:
            raise failure from error
        raise
