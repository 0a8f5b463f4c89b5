"""How a client of the same user finds the running servers: a small file for each store, that only that user can read.

Who can read it may use the server, as with a password file. A process id or an open port is never taken as proof.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from perdure.errors import UserError
from perdure.lasting import make_folder, sync_names


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the file holds."""

    url: str
    """Where the server listens; empty once it has stopped, so that no key is sent to whoever took the port."""
    key: str
    """The admin key; empty if the server asks for none."""
    pid: int
    nonce: str
    """Known to the server and to readers of this file: proves that it is the one that answers at `url`."""
    store: str
    """The store's id: a key is of no use on another one."""

    @classmethod
    def of_this_process(cls, url: str, key: str, nonce: str, store: str) -> ServerState:
        """Return what this process says of itself."""
        return cls(url=url, key=key, pid=os.getpid(), nonce=nonce, store=store)


def home() -> Path:
    """Return where all of this user's state is: `$XDG_STATE_HOME/perdure`, by default below `~/.local/state`."""
    found = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(found) / "perdure"


def folder() -> Path:
    """Return where the state files of this user's servers are."""
    return home() / "servers"


def path_of(store: str, number: int = 1) -> Path:
    """Return the state file of whoever serves the store with this id: servers of two stores share nothing. Of a
    database that several servers of this user share, each has a number of its own."""
    return folder() / (f"{store}.json" if number == 1 else f"{store}-{number}.json")


def within(place: Path) -> list[Path]:
    """Return the state files in a folder, or the one that was named itself."""
    return sorted(place.glob("*.json")) if place.is_dir() else [place]


def write(path: Path, state: ServerState) -> None:
    """Replace the file, all at once and readable by this user alone. A crash leaves the old one or the new one; when
    this returns, a power cut leaves the new one."""
    make_folder(path.parent)
    if path.exists():
        _refuse_foreign(path, os.lstat(path))
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(orjson.dumps(asdict(state), option=orjson.OPT_INDENT_2))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
        sync_names(path.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def read(path: Path) -> ServerState | None:
    """Return what the file says, or None if there is none or it is not readable as one.

    Raises `UserError` (`state_file_refused`) if it belongs to another user, is a link, or others may read it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _refused(path, error.strerror or "it cannot be opened") from None
    with os.fdopen(handle, "rb") as file:
        _refuse_foreign(path, os.fstat(file.fileno()))
        text = file.read(64 * 1024)
    return _parse(text)


def withdraw(path: Path, nonce: str) -> None:
    """Say that the server with `nonce` has stopped. Its key stays for the next start; another server's file is left
    alone."""
    state = read(path)
    if state is not None and state.nonce == nonce:
        write(path, ServerState(url="", key=state.key, pid=0, nonce=nonce, store=state.store))


def proof(nonce: str, challenge: str) -> str:
    """Return what a server that knows `nonce` answers to `challenge`; who does not know it learns nothing of it."""
    return hmac.new(nonce.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def _parse(text: bytes) -> ServerState | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    texts = [fields.get(name) for name in ("url", "key", "nonce", "store")]
    pid = fields.get("pid")
    if not isinstance(pid, int) or not all(isinstance(item, str) for item in texts):
        return None
    url, key, nonce, store = map(str, texts)
    return ServerState(url=url, key=key, pid=pid, nonce=nonce, store=store)


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "it is not a plain file")
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise _refused(path, f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}")
    if os.name == "posix" and found.st_mode & 0o077:
        raise _refused(path, f"others may read it (mode {stat.S_IMODE(found.st_mode):o}, expected 600)")


def _refused(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} holds a server's key and is not used: {why}. Remove it; the server writes it anew when it starts.",
        code="state_file_refused",
        path=str(path),
    )
