"""Large values of a worker's tasks: fetched before a body starts, sent before its result is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perdure import failpoints
from perdure.client.large import load, upload
from perdure.core.blobs import reference_in
from perdure.core.codec import Json
from perdure.core.work import Report
from perdure.errors import PerdureError, Retryable
from perdure.wire.api import TaskSource
from perdure.wire.api_blobs import BlobsApi
from perdure.worker.judge import Raised
from perdure.worker.spool import Spool


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where large values come from and go to."""

    blobs: BlobsApi
    spool: Spool

    @classmethod
    def over(cls, source: TaskSource, spool: Spool) -> Shelf | None:
        """Return one over a source that takes large values, or None."""
        return cls(source, spool) if isinstance(source, BlobsApi) else None

    async def fetched(self, execution: str, args: Mapping[str, Json]) -> dict[str, Json] | Raised:
        """Return arguments with their content in the place of references to it, or why there is none."""
        found = dict(args)
        for name, value in args.items():
            if (ref := reference_in(value)) is None:
                continue
            try:
                found[name] = await load(self.blobs, execution, ref)
            except PerdureError as error:
                why = f"argument {name}: {error.message}"
                return Raised(error.code, why, permanent=not isinstance(error, Retryable))
        return found

    async def send(self, worker: str, reports: Iterable[Report]) -> None:
        """Return once the store has what these results of a worker refer to. Raises what the source raises."""
        spool = Spool(self.spool.folder, worker)
        for report in reports:
            ref = reference_in(report.value)
            content = None if ref is None else await asyncio.to_thread(spool.content, ref.hash)
            if ref is not None and content is not None:
                failpoints.hit("worker.value.send")
                await upload(self.blobs, ref, content)
                failpoints.hit("worker.value.received")

    def forget(self, answered: Report, waiting: Iterable[Report]) -> None:
        """Remove what an answered result referred to from the disk, unless another one that waits does too."""
        ref = reference_in(answered.value)
        if ref is not None and all(reference_in(one.value) != ref for one in waiting):
            self.spool.drop(ref.hash)


def refers(args: Mapping[str, Json]) -> bool:
    """Say whether there is a large value among arguments."""
    return any(value.__class__ is dict and reference_in(value) is not None for value in args.values())
