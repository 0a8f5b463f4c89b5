"""Ids sort by birth, do not meet, and fall into the same shard for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.ids import SHARDS, action_key, new_id, shard_of
from perdure.testing.clock import FakeClock, SeededRandom

MOMENTS = st.integers(min_value=0, max_value=2**48 - 1)


@given(MOMENTS, MOMENTS, st.integers(), st.integers())
def test_ids_sort_by_birth_to_the_millisecond(one: int, other: int, seed: int, other_seed: int) -> None:
    first, second = (
        new_id("exe", FakeClock(one), SeededRandom(seed)),
        new_id("exe", FakeClock(other), SeededRandom(other_seed)),
    )
    if one != other:
        assert (first < second) == (one < other)


def test_an_id_is_a_prefix_and_26_letters_safe_in_paths() -> None:
    clock, random = FakeClock(), SeededRandom()
    ids = [new_id("exe", clock, random) for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    for one in ids:
        prefix, _, rest = one.partition("_")
        assert (prefix, len(rest)) == ("exe", 26)
        assert rest.isascii()
        assert rest.isalnum()
        assert rest == rest.lower()
        assert not set("ilou") & set(rest), "letters that are read for others"


def test_the_shard_of_an_execution_never_changes() -> None:
    known = {"exe_06h2fgsa8k9vd8tch76dt4ngjg": 738, "exe_1": 126, "": 510}
    assert {one: shard_of(one) for one in known} == known


def test_shards_are_used_evenly() -> None:
    clock, random = FakeClock(), SeededRandom()
    used = [shard_of(new_id("exe", clock, random)) for _ in range(8 * SHARDS)]
    assert min(used) >= 0
    assert max(used) < SHARDS
    assert len(set(used)) > SHARDS * 0.99
    assert max(used.count(shard) for shard in set(used)) < 30


def test_the_key_of_an_action_differs_for_every_step() -> None:
    assert action_key("exe_1", "turn 1/tool/a") == "exe_1/turn 1/tool/a"
