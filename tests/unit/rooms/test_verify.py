"""The verifier of exported ledgers: whatever was changed is found, and where."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.core.chain import hash_of
from perdure.rooms import verify

ROOM = "room_7tirqomkrdqkz4p7wxdrctmzse"
EVENTS = 40
TAMPERINGS = 1_000

Lines = list[bytes]


def line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def ledger(count: int = EVENTS, room: str = ROOM) -> Lines:
    """Return an exported ledger, hashed by what stores hash with."""
    lines, head = Lines(), ""
    for seq in range(1, count + 1):
        data = json.dumps({"company": "acme", "by": f"ann ü {seq}", "decision": "allowed"})
        event: dict[str, Any] = {"seq": seq, "kind": "room_posted", "address": f"msg_{seq}", "digest": f"{seq:032x}"}
        event |= {"data": data, "at_ms": 1_700_000_000_000 + seq}
        head = hash_of(head, room, event)
        lines.append(line({"record": "event", "room": room, **event, "hash": head}))
    return [*lines, line({"record": "ledger", "room": room, "head": head, "last_seq": count})]


def head_of(lines: Sequence[bytes], seq: int) -> str:
    return f"{seq}:{json.loads(lines[seq - 1])['hash']}"


# -- tamperings: each changes the lines and returns the first event that is not what it was ----------------------------


def edit(lines: Lines, chance: random.Random) -> int:
    at = chance.randrange(len(lines))
    record = json.loads(lines[at])
    name = chance.choice(sorted(record))
    if isinstance(record[name], int):
        record[name] += chance.choice([-1, 1, 1_000])
    else:
        text, place = record[name], chance.randrange(len(record[name]))
        record[name] = text[:place] + chance.choice([c for c in "abc09ü " if c != text[place]]) + text[place + 1 :]
    lines[at] = line(record)
    return at + 1


def flip(lines: Lines, chance: random.Random) -> int:
    """One bit of the file. One that leaves the meaning as it was does not occur: there are no spaces or escapes to
    spare but in `data`, whose every byte is hashed."""
    at = chance.randrange(len(lines))
    place = chance.randrange(len(lines[at]) - 1)
    lines[at] = lines[at][:place] + bytes([lines[at][place] ^ (1 << chance.randrange(8))]) + lines[at][place + 1 :]
    return at + 1


def drop(lines: Lines, chance: random.Random) -> int:
    at = chance.randrange(len(lines))
    del lines[at]
    return at + 1


def reorder(lines: Lines, chance: random.Random) -> int:
    one, other = sorted(chance.sample(range(len(lines)), 2))
    lines[one], lines[other] = lines[other], lines[one]
    return one + 1


def double(lines: Lines, chance: random.Random) -> int:
    at = chance.randrange(len(lines))
    lines.insert(at, lines[at])
    return min(at + 2, EVENTS + 1)


def cut(lines: Lines, chance: random.Random) -> int:
    """The end of the file is lost."""
    left = chance.randrange(EVENTS)
    del lines[left:]
    return left + 1


def cut_tail(lines: Lines, chance: random.Random) -> int:
    """The newest events are taken out, and the record of the end is written anew: only a head kept elsewhere tells."""
    left = chance.randrange(EVENTS)
    head = json.loads(lines[left - 1])["hash"] if left else ""
    lines[left:] = [line({"record": "ledger", "room": ROOM, "head": head, "last_seq": left})]
    return left + 1


def cut_middle(lines: Lines, chance: random.Random) -> int:
    left, right = sorted(chance.sample(range(EVENTS), 2))
    del lines[left:right]
    return left + 1


def foreign(lines: Lines, chance: random.Random) -> int:
    """An event of another room, in the place of one of this."""
    at = chance.randrange(EVENTS)
    lines[at] = ledger(room="room_other")[at]
    return at + 1 if at else 2


KINDS: Sequence[Callable[[Lines, random.Random], int]] = (
    *(edit, flip, drop, reorder, double, cut, cut_tail, cut_middle, foreign),
)


def test_a_ledger_as_it_was_exported_holds() -> None:
    lines = ledger()
    found = verify.check(lines, [head_of(lines, EVENTS), head_of(lines, 7)])
    assert (found.holds, found.room, found.events, found.head) == (True, ROOM, EVENTS, head_of(lines, EVENTS))
    assert verify.check(ledger(1)).holds


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_of_a_thousand_tamperings_each_is_found_and_where(kind: Callable[[Lines, random.Random], int]) -> None:
    """A thousand over all kinds, each from a seed of its own."""
    good = ledger()
    for number in range(-(-TAMPERINGS // len(KINDS))):
        lines, chance = list(good), random.Random(f"{kind.__name__} {number}")
        where = kind(lines, chance)
        assert lines != good
        found = verify.check(lines, [head_of(good, EVENTS)])
        assert found.broken_at == where, (number, found, where)
        assert found.why


def test_a_tail_that_was_cut_with_a_new_end_needs_a_head_that_was_kept() -> None:
    lines = ledger()
    kept = head_of(lines, 31)
    cut_at_30 = [*lines[:30], line({"record": "ledger", "room": ROOM, "head": head_of(lines, 30)[3:], "last_seq": 30})]
    assert verify.check(cut_at_30).holds, "this is why a head is kept elsewhere"
    found = verify.check(cut_at_30, [kept])
    assert (found.broken_at, found.why) == (31, "the ledger ends at event 30, and the hash of event 31 was kept")


def test_a_chain_that_was_written_anew_does_not_fit_a_head_that_was_kept() -> None:
    lines = ledger()
    forged = [line for line in ledger(room="room_other") if b'"record":"event"' in line]
    assert verify.check([*forged, ledger(room="room_other")[-1]]).holds
    found = verify.check(forged, [head_of(lines, 12)])
    assert found.broken_at == 12
    assert "not the one whose hash was kept" in found.why


@pytest.mark.parametrize(
    "extra",
    [{"note": "unhashed"}, {"seq": True}, {"at_ms": 1.0}, {"data": None}, {"record": "effect"}],
    ids=["field", "true", "float", "null", "record"],
)
def test_nothing_unhashed_hides_in_a_record(extra: dict[str, Any]) -> None:
    lines = ledger()
    lines[4] = line({**json.loads(lines[4]), **extra})
    assert verify.check(lines).broken_at == 5
    lines[4] = ledger()[4].replace(b'{"record"', b'{"seq":5,"record"')
    assert verify.check(lines).broken_at == 5, "a name that stands twice"


@pytest.mark.parametrize("head", ["", "12", "12:", "x:00", "-1:" + "0" * 32, "1:" + "G" * 32, "²:" + "0" * 32])
def test_a_head_that_is_none_is_refused(head: str) -> None:
    with pytest.raises(ValueError, match="SEQ:HASH"):
        verify.check(ledger(), [head])


@pytest.mark.parametrize("junk", [[], [b"\n"], [b"[1]\n"], [b"\xff\n"], [b"[" * 100_000 + b"\n"]])
def test_what_is_no_export_is_told_so(junk: Lines) -> None:
    found = verify.check(junk)
    assert (found.holds, found.broken_at) == (False, 1)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the one file by itself: no site-packages, nothing of Perdure."""
    command = [sys.executable, "-I", "-S", *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def test_the_file_runs_alone(tmp_path: Path) -> None:
    alone = tmp_path / "verify.py"
    alone.write_bytes(Path(verify.__file__).read_bytes())
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    lines = ledger()
    good.write_bytes(b"".join(lines))
    bad.write_bytes(b"".join(lines[:5] + lines[6:]))
    done = run(str(alone), str(good), "--head", head_of(lines, 9))
    assert (done.returncode, done.stdout) == (0, f"✓ {ROOM}  {EVENTS} events, up to {head_of(lines, EVENTS)}\n")
    done = run(str(alone), str(bad))
    assert (done.returncode, done.stdout) == (1, f"✗ {ROOM}  event 6 is missing: event 7 stands in its place\n")
    for words in ([], [str(good), str(bad)], [str(good), "--head"], [str(good), "--head", "x"], [str(tmp_path / "no")]):
        done = run(str(alone), *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), (words, done.stderr)
