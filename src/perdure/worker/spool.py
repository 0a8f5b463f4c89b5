"""Results that are too large for a log, on the worker's disk until they are told. Decides nothing, speaks to nobody.

They lie beside the outbox, synced before the result is told of there, so that a killed worker's heir can send them.
Without an outbox they lie in a folder of their own, which goes with the worker.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perdure import failpoints
from perdure.core import codec
from perdure.core.blobs import MOST_BLOB_BYTES, hash_of, reference
from perdure.core.codec import Json
from perdure.errors import LimitExceeded
from perdure.lasting import make_folder, sync_names

SUFFIX = ".value"
PART = ".part"
"""Ends the name of a file that is being written."""


@dataclass(frozen=True, slots=True)
class Spool:
    """Where one worker's large results lie. Safe from any thread and from the processes of isolated calls."""

    folder: Path
    worker: str

    @classmethod
    def beside(cls, outbox: Path | None, worker: str) -> Spool:
        """Return the one beside an outbox, or one in a new folder that `close` removes."""
        return cls(outbox or Path(tempfile.gettempdir()) / f"perdure-values-{_plain(worker)}", worker)

    def keep(self, value: object, what: str) -> dict[str, Json]:
        """Put a value's JSON text on the disk, to last, and return the reference that stands for it.

        Raises `LimitExceeded` (`too_large`) for what no server takes, and where the disk does not.
        """
        content = codec.encode(value, what, MOST_BLOB_BYTES).encode()
        name = hash_of(content)
        try:
            self._write(name, content)
        except OSError as error:
            raise LimitExceeded(
                f"{what} takes {len(content):,} bytes, and the worker's disk does not take them ({self.folder}: "
                f"{error.strerror or error}). Make room there, or return less.",
                code="too_large",
            ) from None
        return reference(name, len(content))

    def _write(self, name: str, content: bytes) -> None:
        make_folder(self.folder)
        path = self.path(name)
        # Each in a file of its own: two calls that give the same at the same time must not cut each other's short.
        descriptor, part = tempfile.mkstemp(PART, f"{path.stem}.", self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                failpoints.hit("spool.before_sync")
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            os.unlink(part)  # it may have filled the disk
            raise
        sync_names(self.folder)
        failpoints.hit("spool.after_sync")

    def path(self, content_hash: str) -> Path:
        """Return where content lies, if it does."""
        return self.folder / f"{_plain(self.worker)}.{content_hash}{SUFFIX}"

    def content(self, content_hash: str) -> OnDisk | None:
        """Return content that lies here, or None: somebody else's, which the store has or has not."""
        path = self.path(content_hash)
        return OnDisk(path) if path.exists() else None

    def drop(self, content_hash: str) -> None:
        """Forget content that was told of."""
        self.path(content_hash).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all that lies here of this worker's."""
        for suffix in (SUFFIX, PART):
            for path in self.folder.glob(f"{_plain(self.worker)}.*{suffix}"):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove a folder of its own, with what is in it."""
        if self.folder.name.startswith("perdure-values-"):
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Content in a file."""

    path: Path

    def read(self, start: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(length)


def _plain(worker: str) -> str:
    """Return a worker's id as part of a file's name."""
    return worker.replace("/", "-")
