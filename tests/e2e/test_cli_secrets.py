"""`perdure secrets` as people use it, and an `http_tool` whose header is one, against the tests' world."""

from __future__ import annotations

import base64
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import http_agents
from cli_processes import Home
from perdure import AgentRuntime
from perdure.testing.world_client import World, running_world
from which_store import kind

VALUE = "value-of-the-shop"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    key = base64.b64encode(b"k" * 32).decode()  # a file has its own beside it
    home = Home(tmp_path_factory.mktemp("home"), extra={} if kind() == "sqlite" else {"PERDURE_SECRETS_KEY": key})
    home.serve("--script", "auditor=http_agents:audit", "--allow-private-http", "--log-level", "debug")
    yield home
    home.close()


def keep(home: Home, name: str, value: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Pipe a value into the command."""
    with mock.patch("sys.stdin", io.StringIO(value)):
        return home.command("secrets", "set", name, *args)


def everything(home: Home) -> str:
    """Return the bytes of all files of the user's, the server's log among them."""
    files = [file for file in home.folder.rglob("*") if file.is_file()]
    return "".join(file.read_bytes().decode("latin-1") for file in files)


def test_a_tool_sends_a_secret_and_nothing_tells_it(home: Home, tmp_path: Path) -> None:
    assert keep(home, "SHOP", VALUE + "\n").returncode == 0
    with running_world(tmp_path) as world:
        output, execution = audited(home, world)
        assert {entry.company for entry in world.entries()} == {VALUE}
    assert '"company": "***"' in output or '"company":"***"' in output
    shown = [
        home.command(*command).stdout
        for command in (
            ("executions", "show", execution),
            ("executions", "show", execution, "--json"),
            ("effects", "list", "--execution", execution, "--jsonl"),
            ("effects", "list"),
            ("doctor", execution),
            ("secrets", "list", "--json"),
        )
    ]
    assert all(shown)
    assert VALUE not in "".join(shown) + everything(home)


def audited(home: Home, world: World) -> tuple[str, str]:
    """Pay, then read what the world was told; return the agent's last words, which are what it read."""
    server = home.running[0]
    with AgentRuntime(server.url, api_key=server.ready["key"]) as runtime:
        handle = runtime.start(http_agents.auditor(world.url), "audit")
        return str(handle.result().output), handle.execution_id


def test_secrets_are_listed_rotated_and_deleted_and_never_shown(home: Home) -> None:
    done = keep(home, "OPENAI_API_KEY", "sk-value-of-openai\r\n", "--by", "ada")
    assert (done.returncode, "OPENAI_API_KEY is set" in done.stdout) == (0, True)
    listed = home.command("secrets", "list").stdout
    assert ("OPENAI_API_KEY" in listed, "ada" in listed) == (True, True)
    (one,) = (item for item in home.json("secrets", "list")["items"] if item["name"] == "OPENAI_API_KEY")
    assert set(one) == {"name", "set_by", "set_ms", "version"}
    assert home.json("secrets", "rotate")["companies"] == 1
    assert "are under server key" in home.command("secrets", "rotate", "--all-companies").stdout
    assert home.command("secrets", "delete", "OPENAI_API_KEY").returncode == 0
    gone = home.command("secrets", "delete", "OPENAI_API_KEY", "--json")
    assert (gone.returncode, json.loads(gone.stdout)["error"]["code"]) == (3, "no_secret")
    assert "sk-value" not in everything(home)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("my-key", VALUE, "found 'my-key'"),
        ("KEY", "short", "8 to 16,384"),
        ("KEY", "", "found 0"),
        ("KEY", "a\nb" * 9, "one line"),
    ],
)
def test_what_cannot_be_one_is_named(home: Home, name: str, value: str, said: str) -> None:
    wrong = keep(home, name, value, "--json")
    error = json.loads(wrong.stdout)["error"]
    assert (wrong.returncode, error["code"]) == (2, "bad_secret")
    assert said in error["message"]


def test_a_value_is_never_an_argument(home: Home) -> None:
    assert keep(home, "KEY", VALUE, VALUE).returncode == 2


def test_a_server_key_that_is_none_is_refused_before_anything_is_served(home: Home) -> None:
    home.extra["PERDURE_SECRETS_KEY"] = "c2hvcnQ="
    try:
        done = home.process("server", "--port", "0", "--store", str(home.folder / "another.db"))
    finally:
        del home.extra["PERDURE_SECRETS_KEY"]
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "key 1 of PERDURE_SECRETS_KEY has 5 bytes, and 32 are expected" in done.stderr
