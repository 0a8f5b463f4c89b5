"""Who is connected where, as the servers that share a database say it: in full once, then all in one statement."""

from __future__ import annotations

from engine_bench import COMPANY, Bench
from perdure.engine.presence import BELIEVED_MS, Presence, StillHere, present, say_present, say_still_present


def known(bench: Bench, *, after_ms: int = 0) -> list[str]:
    """Return who is believed to be there so long from now, by the store's clock."""
    with bench.store.write() as connection:
        now_ms = connection.now_ms
    return bench.read(lambda reads: present(reads, COMPANY, now_ms + after_ms))


def say(bench: Bench, worker: str, server: str = "one", *, gone: bool = False) -> None:
    bench.do(say_present, Presence(COMPANY, worker, server, None if gone else f'"{worker}"'))


def still(*workers: str, server: str = "one") -> StillHere:
    return StillHere(server, tuple((COMPANY, worker) for worker in workers))


def test_who_is_connected_is_believed_to_be_there_for_a_while(bench: Bench) -> None:
    say(bench, "a")
    say(bench, "b", "two")
    assert known(bench) == ['"a"', '"b"']
    assert bench.do(say_still_present, still("a")) == 1
    assert known(bench, after_ms=2 * BELIEVED_MS) == []


def test_who_went_to_another_server_or_was_forgotten_has_to_be_told_of_in_full(bench: Bench) -> None:
    for worker in "abc":
        say(bench, worker)
    say(bench, "b", "two")
    say(bench, "c", gone=True)
    assert bench.do(say_still_present, still("a", "b", "c")) == 1
    assert bench.do(say_still_present, still("a", "b", "c", server="two")) == 1
    assert known(bench) == ['"a"', '"b"']
