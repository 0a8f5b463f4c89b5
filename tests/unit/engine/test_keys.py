"""API keys: only their hash is stored, and a company comes from a key alone."""

from __future__ import annotations

from pathlib import Path

from engine_bench import Bench
from perdure.engine.keys import AddKey, Principal, add_key, principal_of
from perdure.engine.logins import AddLink, Redeem, add_link, redeem
from which_store import all_bytes


def test_a_key_tells_its_company_and_name(bench: Bench) -> None:
    key = AddKey("acme", "laptop", "pdk_secret")
    assert bench.twice(add_key, key) == (None, None)
    assert bench.read(lambda reads: principal_of(reads, "pdk_secret")) == Principal("acme", "laptop")
    assert bench.row("any_key") is not None


def test_an_unknown_key_and_what_is_no_key_tell_nothing(bench: Bench) -> None:
    assert bench.row("any_key") is None
    for text in ("pdk_other", "secret", ""):
        assert bench.read(lambda reads, text=text: principal_of(reads, text)) is None


def test_a_key_is_not_stored(bench: Bench, tmp_path: Path) -> None:
    bench.do(add_key, AddKey("acme", "laptop", "pdk_a-very-secret-key"))
    stored = all_bytes(tmp_path / "p.db")
    assert b"pdk_a-ve" in stored, "the start of it, to tell keys apart"
    assert b"pdk_a-very" not in stored


def test_a_link_is_good_once_though_the_commit_of_its_exchange_is_reported_lost(bench: Bench) -> None:
    who = Principal("acme", "laptop")
    bench.do(add_link, AddLink(who, "pdl_link"))
    assert bench.twice(redeem, Redeem("pdl_link", "pds_mine")) == (who, who)
    assert bench.do(redeem, Redeem("pdl_link", "pds_another")) is None
    assert bench.do(redeem, Redeem("pdl_none", "pds_none")) is None
