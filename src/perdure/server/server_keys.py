"""The keys of a server: they encrypt nothing but companies' data keys, and stand in no database.

The operator gives them; where one file is the whole store, a server without any makes one for itself, in a file that
only its user can read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.core.ports import Random
from perdure.errors import UserError
from perdure.lasting import make_folder, sync_names

VARIABLE = "PERDURE_SECRETS_KEY"
FILE_VARIABLE = "PERDURE_SECRETS_KEY_FILE"
KEY_BYTES = 32
MAKE = 'python3 -c "import os, base64; print(base64.b64encode(os.urandom(32)).decode())"'
"""The command that makes one."""


@dataclass(frozen=True, slots=True)
class ServerKey:
    """One key, and the name by which rows say that they are under it."""

    value: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """A fingerprint: 256 bits of chance cannot be found from it."""
        return hashlib.sha256(b"perdure server key\0" + self.value).hexdigest()[:16]


def keys_by(environ: Mapping[str, str]) -> tuple[ServerKey, ...]:
    """Return the keys that an operator gives, the one that encrypts first; none if nothing is said.

    Raises `UserError` (`bad_secrets_key`), which shows nothing of a key.
    """
    given, place = environ.get(VARIABLE, ""), environ.get(FILE_VARIABLE, "")
    if given and place:
        raise _bad(f"{VARIABLE} and {FILE_VARIABLE} are both set, and one of them is expected")
    if place:
        try:
            given = Path(place).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise _bad(f"{FILE_VARIABLE} is {place}, which cannot be read: {error.strerror}") from None
        if not given.strip():
            raise _bad(f"{FILE_VARIABLE} is {place}, and there is no key in it")
    return parse_keys(given, FILE_VARIABLE if place else VARIABLE)


def parse_keys(text: str, where: str) -> tuple[ServerKey, ...]:
    """Read keys: base64 of 32 bytes each, by commas or white space. Raises `UserError` (`bad_secrets_key`)."""
    words = [word for word in re.split(r"[,\s]+", text) if word]
    return tuple(ServerKey(_value(word, number, where)) for number, word in enumerate(words, 1))


def _value(word: str, number: int, where: str) -> bytes:
    try:
        value = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"key {number} of {where} is not base64") from None
    if len(value) != KEY_BYTES:
        raise _bad(f"key {number} of {where} has {len(value)} bytes, and {KEY_BYTES} are expected")
    return value


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys that one server has: those that were given, or the one in its own file."""

    given: tuple[ServerKey, ...]
    own: Path | None
    """Where its own key is, or would be; None where every server of the store must be given the same."""

    def found(self) -> tuple[ServerKey, ...]:
        """Return them, the one that encrypts first. Raises `UserError` (`bad_secrets_key`)."""
        if self.given or self.own is None:
            return self.given
        try:
            handle = os.open(self.own, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _bad(f"the server's key {self.own} cannot be read: {error.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            _refuse_open(self.own, os.fstat(file.fileno()).st_mode)
            found = parse_keys(file.read(4096).decode("ascii", "replace"), str(self.own))
        if not found:
            raise _bad(f"the server's key {self.own} is an empty file")
        return found

    def made(self, random: Random) -> tuple[ServerKey, ...]:
        """Return them; make the server's own key if there is none. On return it survives a power cut.

        Raises `UserError` (`secrets_key_missing`) where none may be made, and `bad_secrets_key` where none can be.
        """
        if found := self.found():
            return found
        if self.own is None:
            raise missing()
        try:
            make_folder(self.own.parent)
            _write(self.own, base64.b64encode(random.token(KEY_BYTES)) + b"\n")
        except OSError as error:
            raise _bad(f"the server's key {self.own} cannot be written: {error.strerror}. Or set {VARIABLE}") from None
        return self.found()


def missing() -> UserError:
    """Return the refusal of a server without a key."""
    return UserError(
        f"this server has no key for secrets. Set {VARIABLE} (or {FILE_VARIABLE}) to the same key at every server of "
        f"this database, and start them again. To make one: {MAKE}. Keep a copy: no secret can be read without it.",
        code="secrets_key_missing",
    )


def wrong(company: str, wanted: str, keys: Sequence[ServerKey], own: Path | None) -> UserError:
    """Return the refusal of a server whose keys are not the one that a company's secrets are under."""
    has = f"this server has {', '.join(key.id for key in keys)}" if keys else "this server has none"
    where = f"; its own is kept in {own}" if own is not None and not keys else ""
    return UserError(
        f"the secrets of company {company} are under the server key {wanted}, and {has}{where}. Give the server that "
        f"key: {VARIABLE}=NEW,OLD (the first encrypts, all decrypt). Nothing was changed.",
        code="secrets_key_wrong",
        company=company,
        wanted=wanted,
    )


def _write(path: Path, text: bytes) -> None:
    """Make the file, whole or not at all; leave the one that somebody else was faster with."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            return
        finally:
            sync_names(path.parent)
    finally:
        fresh.unlink(missing_ok=True)


def _refuse_open(path: Path, mode: int) -> None:
    if os.name == "posix" and mode & 0o077:
        raise _bad(f"the server's key {path} may be read by others (mode {mode & 0o777:o}, and 600 is expected)")


def _bad(why: str) -> UserError:
    return UserError(f"{why}. To make a key: {MAKE}.", code="bad_secrets_key")
