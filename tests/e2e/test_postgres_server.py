"""`perdure server` on a database: what is refused, how, and that no password is ever shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli_processes import Home
from perdure import AgentRuntime
from perdure.errors import InvalidInput
from perdure.store import postgres_link

SECRET = "s3cretive"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def refused(home: Home, address: str) -> tuple[int, str]:
    """Start a server that cannot start; return how it ended and with which code. It tells nobody the password."""
    done = home.command("server", "--store", address, "--port", "0", "--json")
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["error"]["code"]


def test_a_database_that_cannot_be_used_is_named_by_a_code(home: Home, postgres_dsn: str) -> None:
    secret = postgres_dsn.replace("perdure@", f"perdure:{SECRET}@")
    stranger = postgres_dsn.replace("perdure@", f"nobody:{SECRET}@")
    assert refused(home, secret.replace("/postgres?", "/nowhere?")) == (2, "store_no_database")
    assert refused(home, stranger) == (2, "store_login")
    assert refused(home, f"postgresql://me:{SECRET}@/stores?host=/nowhere") == (5, "store_unreachable")
    assert refused(home, f"postgresql://me:{SECRET}@[broken") == (2, "store_address")
    assert refused(home, f"postgresql://me:half@{SECRET}@there/stores") == (2, "store_address")
    assert refused(home, f"postgresql://me:%zz{SECRET}@there/stores") == (2, "store_address")
    assert refused(home, f"mysql://me:{SECRET}@there/stores") == (2, "usage")


def test_a_user_who_may_not_make_tables_is_told_what_to_grant(home: Home, postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute("CREATE ROLE guest LOGIN")
        try:
            assert refused(home, postgres_database.replace("perdure@", f"guest:{SECRET}@")) == (1, "store_no_rights")
        finally:
            admin.execute("DROP ROLE guest")


def test_a_database_that_is_too_old_is_refused(home: Home, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_link, "OLDEST", 99)
    assert refused(home, postgres_dsn) == (2, "store_too_old")


def test_programs_are_sent_to_the_servers_of_a_database() -> None:
    with pytest.raises(InvalidInput, match="AgentRuntime") as caught, AgentRuntime(store="postgresql://me@/stores"):
        pass
    assert caught.value.code == "store_needs_server"


def test_servers_of_one_user_on_one_database_share_a_key(home: Home, postgres_database: str) -> None:
    address = postgres_database.replace("perdure@", f"perdure:{SECRET}@")
    first, second = home.serve("--store", address), home.serve("--store", address)
    assert (bool(first.ready["key"]), second.ready["key"]) == (True, None)
    assert first.ready["state_file"] != second.ready["state_file"]
    said = [Path(one.ready["state_file"]).read_text() + one.log.read_text() + str(one.ready) for one in (first, second)]
    assert SECRET not in "".join(said)
    assert home.json("executions", "list")["items"] == [], "either will do, so nobody is asked which"
    assert second.end() == 0
    assert home.json("executions", "list", "--server", first.url)["items"] == []


def test_the_doctor_names_a_database_and_no_password(home: Home) -> None:
    for address, said in (
        (f"postgresql://me:{SECRET}@there/stores", "stores at there"),
        ("postgresql://[", "cannot be"),
    ):
        home.extra["PERDURE_STORE"] = address
        done = home.command("doctor")
        assert said in done.stdout, done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr
