"""A use case as the writer sees it: run once per batch over all the rows that queued for it.

An operation is a generator. Before its one `yield` it may read candidates without locks; it yields the executions it
wants; after the `yield` they are locked, in one global order together with those of every other operation of the
batch, and only then does it look again and change things. It returns one result per row, in order. A refusal is a
result; an exception means that the batch is rolled back and each row runs again alone.

It may run more than once (a deadlock, a lost connection), so it touches nothing but the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from perdure.store.protocol import Ref
from perdure.store.tx import Tx

R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[Iterable[Ref], None, list[T]]


@dataclass(frozen=True, slots=True)
class Operation(Generic[R, T]):
    """A named use case over rows of type `R` with results of type `T`."""

    name: str
    apply: Callable[[Tx, Sequence[R]], Steps[T]]
    keys: Callable[[R], Iterable[str]]
    """What may occur once in a batch: a second row with one of these keys waits for the next batch."""


def _no_keys(_row: object) -> tuple[str, ...]:
    return ()


def operation(
    keys: Callable[[Any], Iterable[str]] = _no_keys,
) -> Callable[[Callable[[Tx, Sequence[R]], Steps[T]]], Operation[R, T]]:
    """Make an `Operation` of a generator function, named after it."""

    def wrap(apply: Callable[[Tx, Sequence[R]], Steps[T]]) -> Operation[R, T]:
        return Operation(apply.__name__, apply, keys)

    return wrap
