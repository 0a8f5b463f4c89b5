"""The chain finds the first row that is not what it was, and says so about nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.core.chain import Checked, Follower, Link, hash_of


def chain(count: int = 5, *, unhashed: int = 0, execution: str = "exe_1") -> list[Link]:
    links: list[Link] = []
    head = ""
    for seq in range(1, count + 1):
        link = Link(seq, "message", f"turn {seq}", "d" * 24, f'{{"text":"{seq}"}}', 1_000 + seq, "")
        if seq > unhashed:
            head = hash_of(head, execution, {**_fields(link)})
            link = replace(link, hash=head)
        links.append(link)
    return links


def _fields(link: Link) -> dict[str, object]:
    return {name: getattr(link, name) for name in ("seq", "kind", "address", "digest", "data", "at_ms")}


def check(links: list[Link], head: str, last: int, execution: str = "exe_1") -> Checked:
    follower = Follower(execution)
    follower.take(links)
    return follower.end(head, last)


def test_an_untouched_log_holds() -> None:
    links = chain()
    assert check(links, links[-1].hash, 5) == Checked(5, 0, links[-1].hash)


@pytest.mark.parametrize(
    "change",
    [{"kind": "paused"}, {"address": "turn 4"}, {"digest": ""}, {"data": '{"text":"x"}'}, {"at_ms": 1}],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_column_breaks_the_chain_where_it_stands(change: dict[str, object]) -> None:
    links = chain()
    links[2] = replace(links[2], **change)
    found = check(links, links[-1].hash, 5)
    assert found.broken_at == 3
    assert "event 3 was changed" in found.why


def test_a_row_hashed_anew_breaks_the_next_one() -> None:
    links = chain()
    changed = replace(links[2], data="{}")
    links[2] = replace(changed, hash=hash_of(links[1].hash, "exe_1", _fields(changed)))
    assert check(links, links[-1].hash, 5).broken_at == 4


def test_a_row_that_is_gone_is_named() -> None:
    links = chain()
    found = check(links[:2] + links[3:], links[-1].hash, 5)
    assert (found.broken_at, found.why) == (3, "event 3 is missing: event 4 stands in its place")


def test_a_log_that_was_cut_does_not_reach_its_head() -> None:
    links = chain()
    assert check(links[:4], links[-1].hash, 5).broken_at == 5
    cut_everywhere_but_in_the_head = check(links[:4], links[-1].hash, 4)
    assert "ends in hash" in cut_everywhere_but_in_the_head.why


def test_rows_swapped_between_two_executions_are_found() -> None:
    other = chain(execution="exe_2")
    assert check(other, other[-1].hash, 5, "exe_1").broken_at == 1


def test_rows_older_than_the_chain_are_counted_and_not_vouched_for() -> None:
    links = chain(unhashed=2)
    found = check(links, links[-1].hash, 5)
    assert (found.broken_at, found.unhashed) == (None, 2)


def test_a_hash_taken_out_of_the_middle_is_found() -> None:
    links = chain()
    links[3] = replace(links[3], hash="")
    assert check(links, links[-1].hash, 5).broken_at == 4


def test_hashes_taken_off_the_beginning_are_found() -> None:
    links = [replace(one, hash="") for one in chain()[:2]] + chain()[2:]
    assert check(links, links[-1].hash, 5).broken_at == 3


def test_parts_cannot_be_moved_from_one_column_to_the_next() -> None:
    one = {"seq": 1, "kind": "a", "address": "b", "digest": "", "data": "{}", "at_ms": 1}
    assert hash_of("", "e", one) != hash_of("", "e", {**one, "kind": "", "address": "ab"})
    smuggled = Link(1, "a", "b\0", "", "{}", 1, "")
    found = check([replace(smuggled, hash=hash_of("", "exe_1", _fields(smuggled)))], "", 1)
    assert found.broken_at == 1
