"""Ask one thing for many: found page by page, counted, confirmed once, then asked for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import Conflict, InvalidInput, NotFound

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.queues import DeadFilter, DeadTask

T = TypeVar("T")

PAGE = 500
AT_ONCE = 16
"""Requests under way."""


@dataclass
class Outcome:
    """What became of each."""

    done: list[Any] = field(default_factory=list[Any])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """How many, by the code of the refusal: they had moved on meanwhile, or must not be touched."""

    @property
    def refusals(self) -> str:
        """Say how many were refused, and why."""
        parts = [f"{count} {code}" for code, count in sorted(self.refused.items())]
        return f"; not done: {', '.join(parts)}" if parts else ""


async def pages(page: Callable[[str | None], Awaitable[Any]]) -> list[Any]:
    """Return the items of all pages. `page` takes a cursor."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        one = await page(cursor)
        found += one.items
        cursor = one.cursor
        if cursor is None:
            return found


async def each(items: Sequence[T], act: Callable[[T], Awaitable[object]]) -> Outcome:
    """Act on each, a few at once. A refusal is counted; any other error ends it, and the same command goes on there."""
    import anyio

    outcome, limiter = Outcome(), anyio.CapacityLimiter(AT_ONCE)

    async def one(item: T) -> None:
        async with limiter:
            try:
                await act(item)
            except (Conflict, NotFound) as error:
                outcome.refused[error.code] = outcome.refused.get(error.code, 0) + 1
            else:
                outcome.done.append(item)

    try:
        async with anyio.create_task_group() as group:
            for item in items:
                group.start_soon(one, item)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return outcome


def agreed(question: str, *, yes: bool) -> bool:
    """Ask once for all of them. Raises `InvalidInput` where nobody is there to ask and nobody said `--yes`."""
    from perdure.cli.terminal import asks, confirmed

    if yes:
        return True
    if not asks(False):
        raise InvalidInput(
            f"{question} Nobody is here to ask; --yes says that all of them are meant.", code="not_agreed"
        )
    return confirmed(question)


def only_one(what: str, named: str | None, everything: bool, filters: Mapping[str, object]) -> None:
    """Raise `InvalidInput` unless either one is named, or `--all` is given, which alone takes filters."""
    given = [name for name, value in filters.items() if value]
    if named is not None and everything:
        raise InvalidInput(f"{what} {named!r} and --all: say one of them.", code="bad_choice")
    if named is None and not everything:
        raise InvalidInput(f"say which {what}, or --all with what it should be of.", code="bad_choice")
    if named is not None and given:
        raise InvalidInput(
            f"{' and '.join(given)} only with --all; {what} {named!r} is one already.", code="bad_choice"
        )


async def all_dead(api: HttpApi, wanted: DeadFilter) -> list[DeadTask]:
    """Return all calls that failed for good and are meant."""
    return await pages(lambda cursor: api.dead_tasks(wanted, cursor=cursor, limit=PAGE))


def tell(outcome: Outcome, what: str, *, as_json: bool) -> None:
    """Say how many were done, and how many not."""
    from perdure.cli.terminal import console, print_json

    if as_json:
        print_json({"done": outcome.done, "refused": outcome.refused})
    else:
        console().print(f"{len(outcome.done)} {what}{outcome.refusals}.", markup=False)
