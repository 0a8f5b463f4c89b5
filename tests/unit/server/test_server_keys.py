"""The keys of a server: read as they were given, made where they may be, and never shown."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from perdure.errors import UserError
from perdure.server.server_keys import FILE_VARIABLE, VARIABLE, KeyRing, ServerKey, keys_by
from perdure.system import SystemRandom

ONE, TWO = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))


def test_several_are_read_and_the_first_encrypts(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{ONE}\n{TWO}\n")
    for environ in ({VARIABLE: f"{ONE},{TWO}"}, {VARIABLE: f" {ONE} , {TWO} "}, {FILE_VARIABLE: str(file)}):
        assert [key.value for key in keys_by(environ)] == [b"a" * 32, b"b" * 32]
    assert keys_by({}) == ()
    assert keys_by({VARIABLE: base64.urlsafe_b64encode(b"\xff" * 32).decode()}) == (ServerKey(b"\xff" * 32),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("not base64, at all", "key 1 of PERDURE_SECRETS_KEY is not base64"),
        (f"{ONE},c2hvcnQ=", "key 2 of PERDURE_SECRETS_KEY has 5 bytes, and 32 are expected"),
    ],
)
def test_one_that_is_none_is_refused_and_not_shown(given: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        keys_by({VARIABLE: given})
    assert refused.value.code == "bad_secrets_key"
    assert said in refused.value.message
    assert "To make a key: python3 -c" in refused.value.message
    assert not any(word in refused.value.message for word in (ONE, "c2hvcnQ", "at all"))


def test_a_file_that_is_not_there_and_two_answers_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for environ, said in (
        ({FILE_VARIABLE: str(tmp_path / "gone")}, "cannot be read: No such file"),
        ({FILE_VARIABLE: str(tmp_path / "empty")}, "there is no key in it"),
        ({FILE_VARIABLE: str(tmp_path / "empty"), VARIABLE: ONE}, "are both set"),
    ):
        with pytest.raises(UserError, match=said):
            keys_by(environ)


def test_a_servers_own_key_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    ring = KeyRing((), tmp_path / "secrets" / "sto_1.key")
    assert ring.found() == ()
    made = ring.made(SystemRandom())
    assert (len(made), made, ring.found()) == (1, ring.made(SystemRandom()), made)
    assert ring.own is not None
    assert stat.S_IMODE(ring.own.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.own.parent.stat().st_mode) == 0o700
    assert list(ring.own.parent.iterdir()) == [ring.own]
    assert base64.b64decode(ring.own.read_text()) == made[0].value
    assert base64.b64encode(made[0].value).decode() not in repr((ring, made))
    ring.own.chmod(0o640)
    with pytest.raises(UserError, match="may be read by others"):
        ring.found()
    ring.own.chmod(0o600)
    ring.own.write_bytes(b"")
    with pytest.raises(UserError, match="is an empty file"):
        ring.made(SystemRandom())
    with pytest.raises(UserError, match="cannot be written: "):
        KeyRing((), ring.own / "below" / "a.key").made(SystemRandom())


def test_a_given_key_takes_the_place_of_a_made_one(tmp_path: Path) -> None:
    ring = KeyRing((ServerKey(b"a" * 32),), tmp_path / "own.key")
    assert ring.made(SystemRandom()) == (ServerKey(b"a" * 32),)
    assert not (tmp_path / "own.key").exists()


def test_where_none_may_be_made_it_is_said_how_to_give_one() -> None:
    with pytest.raises(UserError, match=r"Set PERDURE_SECRETS_KEY .* To make one: python3 -c") as refused:
        KeyRing((), None).made(SystemRandom())
    assert refused.value.code == "secrets_key_missing"
