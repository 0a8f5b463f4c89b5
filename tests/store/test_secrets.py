"""Secrets in the store, on both databases: who has the store alone reads none, and nothing that happens loses one."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure import failpoints, log
from perdure.core.redaction import HIDDEN
from perdure.errors import LimitExceeded, NotFound, UserError
from perdure.server import secrets as server_secrets
from perdure.server.secrets import Secrets
from perdure.store.tx import Tx
from perdure.testing.clock import FakeClock
from vault import FIRST, NAMES, SECOND, Place, value_of

pytestmark = pytest.mark.anyio

ALL = {name: value_of(name) for name in NAMES}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(str(tmp_path / "p.db"))
    return Place(request.getfixturevalue("postgres_database"))


@pytest.fixture
def file(tmp_path: Path) -> Place:
    """For what a database has no part in."""
    return Place(str(tmp_path / "p.db"))


async def filled(place: Place, *companies: str, keys: tuple[Any, ...] = (FIRST,)) -> None:
    async with place.secrets(*keys) as secrets:
        for company in companies or ("acme",):
            for name in NAMES:
                await secrets.set(company, name, value_of(name), "ann")


def sql(place: Place, statement: str) -> list[tuple[Any, ...]]:
    """Do to the rows what only somebody with the database can."""
    if place.shared:
        with psycopg.connect(place.store, autocommit=True) as link:
            done = link.execute(statement.encode())
            return done.fetchall() if done.description else []
    link = sqlite3.connect(place.store)
    try:
        found = link.execute(statement).fetchall()
        link.commit()
        return found
    finally:
        link.close()


async def test_what_was_set_is_read_again_and_only_by_its_company(place: Place) -> None:
    async with place.secrets(FIRST) as secrets:
        assert dict(await secrets.of("acme")) == {}
        kept = await secrets.set("acme", "ALPHA", "first-value", "ann")
        assert (kept.name, kept.set_by, kept.version) == ("ALPHA", "ann", 1)
        again = await secrets.set("acme", "ALPHA", "second-value", "bob")
        assert (again.set_by, again.version) == ("bob", 2)
        assert dict(await secrets.of("acme")) == {"ALPHA": "second-value"}
        assert dict(await secrets.of("other")) == {}
        assert await secrets.views("other") == []
        with pytest.raises(NotFound):
            await secrets.delete("other", "ALPHA")
    async with place.secrets(SECOND, FIRST) as secrets:  # another life, with the key it began with as its second one
        assert dict(await secrets.of("acme")) == {"ALPHA": "second-value"}
        await secrets.delete("acme", "ALPHA")
        assert dict(await secrets.of("acme")) == {}
        with pytest.raises(NotFound) as refused:
            await secrets.delete("acme", "ALPHA")
        assert refused.value.code == "no_secret"


async def test_another_server_key_is_named_and_loses_nothing(place: Place) -> None:
    await filled(place)
    async with place.secrets(SECOND) as secrets:
        for verb in (secrets.of("acme"), secrets.rotate("acme"), secrets.set("acme", "DELTA", "delta-value", "ann")):
            with pytest.raises(
                UserError, match=f"under the server key {FIRST.id}, and this server has {SECOND.id}"
            ) as no:
                await verb
            assert no.value.code == "secrets_key_wrong"
        assert [view.name for view in await secrets.views("acme")] == list(NAMES)
    async with place.secrets() as secrets:
        with pytest.raises(UserError, match="this server has none"):
            await secrets.of("acme")
    async with place.secrets(FIRST) as secrets:
        assert dict(await secrets.of("acme")) == ALL


async def test_what_nobody_can_open_can_be_deleted_and_begun_anew(place: Place) -> None:
    await filled(place)
    async with place.secrets(SECOND) as secrets:
        for name in NAMES:
            await secrets.delete("acme", name)
        await secrets.set("acme", "ALPHA", "begun-anew", "ann")
        assert dict(await secrets.of("acme")) == {"ALPHA": "begun-anew"}


TAMPERING = {
    "a bit": "UPDATE secrets SET sealed = '1.' || CASE substr(sealed, 3, 1) WHEN 'A' THEN 'B' ELSE 'A' END"
    " || substr(sealed, 4) WHERE name = 'BETA'",
    "cut off": "UPDATE secrets SET sealed = substr(sealed, 1, 20) WHERE name = 'BETA'",
    "nothing": "UPDATE secrets SET sealed = '' WHERE name = 'BETA'",
    "no text of ours": "UPDATE secrets SET sealed = 'value-of-BETA' WHERE name = 'BETA'",
    "another's value": "UPDATE secrets SET sealed = (SELECT s.sealed FROM secrets s WHERE s.company = 'acme'"
    " AND s.name = 'GAMMA') WHERE name = 'BETA' AND company = 'acme'",
    "another's row": "UPDATE secrets SET company = 'acme', name = 'DELTA' WHERE company = 'other' AND name = 'BETA'",
    "another version": "UPDATE secrets SET version = version + 1 WHERE name = 'BETA'",
    "another's data key": "UPDATE secret_keys SET wrapped = (SELECT k.wrapped FROM secret_keys k"
    " WHERE k.company = 'other') WHERE company = 'acme'",
    "another's key row": "UPDATE secret_keys SET (id, wrapped) = (SELECT k.id, k.wrapped FROM secret_keys k"
    " WHERE k.company = 'other') WHERE company = 'acme'",
}


async def test_what_was_altered_or_moved_opens_nothing(place: Place) -> None:
    await filled(place, "acme", "other")
    tables = "secrets", "secret_keys"
    for table in tables:
        sql(place, f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
    async with place.secrets(FIRST) as secrets:
        for how, statement in TAMPERING.items():
            sql(place, statement)
            await opens_nothing(secrets, how)
            for table in tables:
                sql(place, f"DELETE FROM {table}")
                sql(place, f"INSERT INTO {table} SELECT * FROM kept_{table}")
        assert dict(await secrets.of("acme")) == ALL


async def opens_nothing(secrets: Secrets, how: str) -> None:
    for verb in (secrets.of("acme"), secrets.rotate("acme")):
        with pytest.raises(UserError, match=r"the row of (BETA|DELTA|their key) was altered") as refused:
            await verb
        assert refused.value.code == "secret_damaged", how
        assert "value-of" not in refused.value.message


def ids(place: Place) -> set[tuple[Any, ...]]:
    return set(sql(place, "SELECT id, server_key FROM secret_keys"))


async def test_a_rotation_makes_a_new_data_key_under_the_first_server_key(place: Place) -> None:
    await filled(place)
    [(before, _)], sealed = ids(place), sql(place, "SELECT sealed FROM secrets ORDER BY name")
    async with place.secrets(SECOND, FIRST) as secrets:
        views = await secrets.views("acme")
        done = await secrets.rotate("acme")
        assert (done.companies, done.secrets, done.server_key) == (1, 3, SECOND.id)
        assert await secrets.views("acme") == views  # who set it, when, and which one: a rotation sets nothing
        assert (await secrets.rotate("nobody")).companies == 0
    [(after, under)] = ids(place)
    assert (after != before, under) == (True, SECOND.id)
    assert not set(sealed) & set(sql(place, "SELECT sealed FROM secrets"))
    async with place.secrets(SECOND) as secrets:  # the first one is not needed any more
        assert dict(await secrets.of("acme")) == ALL


async def test_all_companies_are_rotated_by_one_command(place: Place) -> None:
    await filled(place, "acme", "other")
    async with place.secrets(SECOND, FIRST) as secrets:
        done = await secrets.rotate_all()
        assert (done.companies, done.secrets) == (2, 6)
    assert {under for _, under in ids(place)} == {SECOND.id}


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
async def test_a_rotation_that_is_killed_leaves_all_old_or_all_new(place: Place, moment: str) -> None:
    code = await asyncio.to_thread(place.run, f"change_secrets.{moment}=kill@4")
    assert code == -signal.SIGKILL
    [(_, under)] = ids(place)
    assert under == (FIRST if moment == "before_commit" else SECOND).id
    assert len(sql(place, "SELECT DISTINCT data_key FROM secrets")) == 1
    async with place.secrets(FIRST if moment == "before_commit" else SECOND) as secrets:
        assert dict(await secrets.of("acme")) == ALL


async def test_a_rotation_that_fails_in_its_transaction_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(place)
    before = sql(place, "SELECT * FROM secrets ORDER BY name"), ids(place)
    run, fatal, asked = Tx.run, [""], [0]

    def fails(tx: Tx, query: str, **params: Any) -> int:
        done = run(tx, query, **params)
        if query == fatal[0]:
            asked[0] += 1
            if asked[0] == (2 if query == "put_secret" else 1):
                asked[0] = 0
                raise failpoints.InjectedFault(query)
        return done

    monkeypatch.setattr(Tx, "run", fails)
    async with place.secrets(SECOND, FIRST) as secrets:
        for fatal[0] in ("change_secret_key", "put_secret"):
            with pytest.raises(failpoints.InjectedFault):
                await secrets.rotate("acme")
            assert (sql(place, "SELECT * FROM secrets ORDER BY name"), ids(place)) == before


async def test_who_sets_and_rotates_at_the_same_time_loses_nothing(place: Place) -> None:
    await filled(place)
    async with place.secrets(FIRST) as secrets:
        several = [secrets.set("acme", f"MORE_{n}", f"more-value-{n}", "ann") for n in range(6)]
        await asyncio.gather(*several, *(secrets.rotate("acme") for _ in range(3)))
        assert dict(await secrets.of("acme")) == {**ALL, **{f"MORE_{n}": f"more-value-{n}" for n in range(6)}}
        assert len(sql(place, "SELECT DISTINCT data_key FROM secrets")) == 1


async def test_two_servers_that_make_the_first_key_at_once_agree_on_one(postgres_database: str) -> None:
    place = Place(postgres_database)
    async with place.secrets(FIRST) as one, place.secrets(FIRST) as other:
        await asyncio.gather(
            *(
                secrets.set("acme", f"OF_{who}_{n}", f"value-{who}-{n}", "ann")
                for who, secrets in enumerate((one, other))
                for n in range(4)
            )
        )
        assert len(await one.of("acme")) == len(await other.of("acme")) == 8


async def test_a_change_at_another_server_counts_within_two_seconds(postgres_database: str) -> None:
    place, clock = Place(postgres_database), FakeClock()
    async with place.secrets(FIRST, clock=clock) as here, place.secrets(FIRST) as elsewhere:
        assert dict(await here.of("acme")) == {}
        await elsewhere.set("acme", "ALPHA", "set-elsewhere", "ann")
        clock.advance(server_secrets.BELIEVED_SECONDS)
        assert dict(await here.of("acme")) == {"ALPHA": "set-elsewhere"}
        await elsewhere.delete("acme", "ALPHA")
        clock.advance(server_secrets.BELIEVED_SECONDS)
        assert dict(await here.of("acme")) == {}


async def test_without_the_package_the_command_is_told_and_a_list_still_shown(
    file: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(file)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)  # as if it were not installed
    async with file.secrets(FIRST) as secrets:
        for verb in (secrets.of("acme"), secrets.set("acme", "DELTA", "delta-value", "ann"), secrets.rotate("acme")):
            with pytest.raises(UserError, match=r"pip install 'perdure\[secrets\]'") as refused:
                await verb
            assert refused.value.code == "missing_extra"
        assert dict(await secrets.of("nobody")) == {}
        assert [view.name for view in await secrets.views("acme")] == list(NAMES)


async def test_a_company_has_so_many_and_no_more(file: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_secrets, "MOST_SECRETS", 3)
    await filled(file)
    async with file.secrets(FIRST) as secrets:
        with pytest.raises(LimitExceeded) as refused:
            await secrets.set("acme", "DELTA", "one-too-many", "ann")
        assert refused.value.code == "too_many_secrets"
        await secrets.set("acme", "ALPHA", "in-its-file", "ann")


def bytes_in(folder: Path) -> str:
    return "\n".join(file.read_bytes().decode("latin-1") for file in folder.glob("p.db*"))


async def test_values_are_nowhere_in_the_database(place: Place, tmp_path: Path) -> None:
    await filled(place)
    async with place.secrets(SECOND, FIRST) as secrets:
        await secrets.rotate("acme")
    if place.shared:
        held = "\n".join(
            str(row) for table in ("secrets", "secret_keys") for row in sql(place, f"SELECT * FROM {table}")
        )
        held += "\n".join(str(row) for row in sql(place, "SELECT * FROM meta"))
    else:
        held = await asyncio.to_thread(bytes_in, tmp_path)
        assert "ALPHA" in held
    for value in (*ALL.values(), FIRST.value.decode(), SECOND.value.decode()):
        assert value not in held


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("perdure")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], level, own = before
    root.setLevel(level)
    ours.setLevel(own)


def fail_and_say_so() -> None:
    try:
        raise ValueError("somebody said value-of-ALPHA")
    except ValueError:
        log.get_log("perdure.test").exception("a.line", field="value-of-BETA")


@pytest.mark.usefixtures("logging_as_before")
async def test_a_line_of_the_log_shows_no_value(file: Place, capsys: pytest.CaptureFixture[str]) -> None:
    await filled(file)
    for as_json in (True, False):
        log.configure(as_json=as_json)
        async with file.secrets(FIRST) as secrets:
            await secrets.of("acme")
            fail_and_say_so()
    said = capsys.readouterr().err
    assert "value-of" not in said
    assert said.count(HIDDEN) >= 4
