"""The state file: this user's alone, whole at any moment, and no proof by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.errors import UserError
from perdure.wire import state_file
from perdure.wire.state_file import ServerState

STATE = ServerState("http://127.0.0.1:6767", "pdk_secret", 4711, "nonce", "sto_1")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "server.json"
    state_file.write(path, STATE)
    assert state_file.read(path) == STATE
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["server.json"]


def test_a_new_server_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    state_file.write(path, STATE)
    other = ServerState("http://127.0.0.1:1", "", 1, "other", "sto_2")
    state_file.write(path, other)
    assert state_file.read(path) == other


def test_a_stopped_server_leaves_its_key_and_no_address(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    state_file.write(path, STATE)
    state_file.withdraw(path, STATE.nonce)
    found = state_file.read(path)
    assert found is not None
    assert (found.url, found.key, found.store) == ("", STATE.key, STATE.store)


def test_a_server_withdraws_only_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    state_file.write(path, STATE)
    state_file.withdraw(path, "another nonce")
    assert state_file.read(path) == STATE
    state_file.withdraw(tmp_path / "missing.json", "nonce")


def test_no_file_is_no_server(tmp_path: Path) -> None:
    assert state_file.read(tmp_path / "server.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": 1, "key": "", "pid": 1, "nonce": "", "store": ""}'])
def test_a_damaged_file_is_no_server(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    assert state_file.read(path) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "server.json"
    state_file.write(path, STATE)
    path.chmod(mode)
    with pytest.raises(UserError) as caught:
        state_file.read(path)
    assert caught.value.code == "state_file_refused"


def test_a_link_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    state_file.write(real, STATE)
    link = tmp_path / "server.json"
    link.symlink_to(real)
    for use in (lambda: state_file.read(link), lambda: state_file.write(link, STATE)):
        with pytest.raises(UserError) as caught:
            use()
        assert caught.value.code == "state_file_refused"


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.json"
    state_file.write(path, STATE)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UserError, match=f"belongs to user {os.getuid()}"):
        state_file.read(path)
    with pytest.raises(UserError, match=f"belongs to user {os.getuid()}"):
        state_file.write(path, STATE)


def test_who_does_not_know_the_nonce_cannot_answer_a_challenge() -> None:
    assert state_file.proof("nonce", "a") == state_file.proof("nonce", "a")
    assert len({state_file.proof(nonce, text) for nonce in ("n1", "n2") for text in ("a", "b")}) == 4


def test_each_store_has_its_own_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert state_file.path_of("sto_1") == Path("/somewhere/perdure/servers/sto_1.json")
    assert state_file.path_of("sto_2") != state_file.path_of("sto_1")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert state_file.folder() == Path("/home/ada/.local/state/perdure/servers")


def test_a_folder_is_looked_through_for_whole_files(tmp_path: Path) -> None:
    for store in ("b", "a"):
        state_file.write(tmp_path / f"{store}.json", STATE)
    (tmp_path / ".a.json.4711").touch()  # somebody is writing, or died over it
    assert [path.name for path in state_file.within(tmp_path)] == ["a.json", "b.json"]
    assert state_file.within(tmp_path / "a.json") == [tmp_path / "a.json"]
