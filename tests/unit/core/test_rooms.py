"""What an act may be, who a text mentions, and ids that are the same wherever they are made."""

from __future__ import annotations

import pytest

from perdure.core.rooms import (
    Act,
    ChangeTask,
    EndWake,
    Invite,
    Join,
    OpenTask,
    Post,
    PutAgent,
    Remember,
    RemoveAgent,
    check_act,
    check_name,
    mentions,
    wake_id,
    written_id,
)
from perdure.errors import InvalidInput


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (Post(""), "text"),
        (Post("  "), "text"),
        (Post("x" * 32_001), "text"),
        (Post("a\0b"), "text"),
        (Post("\ud800"), "text"),
        (Post("x", ("a b ",)), "to"),
        (Post("x", tuple(str(n) for n in range(51))), "to"),
        (Post("x", thread="\n"), "thread"),
        (Post("x", key="k" * 201), "key"),
        (OpenTask("", "acme"), "title"),
        (OpenTask("x", ""), "to"),
        (ChangeTask("\t", "claim"), "task"),
        (ChangeTask("t", "claim", "x" * 32_001), "result"),
        (Remember(""), "text"),
        (Remember("x", ("",)), "readers"),
        (Remember("x", source="\r"), "source"),
        (Invite(""), "company"),
        (Invite("acme/bot"), "company"),
        (Invite("?all"), "company"),
        (PutAgent("a/b", "", ""), "name"),
        (RemoveAgent(""), "name"),
    ],
)
def test_an_act_that_cannot_be_names_its_field(act: Act, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field} should have ") as refused:
        check_act(act)
    assert refused.value.code == "bad_act"


@pytest.mark.parametrize(
    "act",
    [
        Post("x", ("acme/bot",), "msg_1", "k"),
        OpenTask("x", "acme"),
        ChangeTask("t", "claim"),
        Remember("x"),
        Invite("a"),
    ],
)
def test_an_act_that_can_be_is_let_through(act: Act) -> None:
    check_act(act)


def test_what_has_nothing_to_be_checked_is_let_through() -> None:
    for act in (Join(), EndWake("ended"), PutAgent("a.b-c_1", "", ""), RemoveAgent("a")):
        check_act(act)
    check_name("the bridge")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@bot", ["bot"]),
        ("ask @bot, or @acme/bot.", ["bot", "acme/bot"]),
        ("@bot @bot", ["bot"]),
        ("mail me@example.org", []),
        ("@@bot", []),
        ("(@bot)", ["bot"]),
        ("@bot... and @v1.2-b", ["bot", "v1.2-b"]),
        ("@ bot", []),
    ],
)
def test_a_text_mentions_whom_it_names(text: str, found: list[str]) -> None:
    assert mentions(text) == found


def test_an_id_is_made_of_what_it_stands_for() -> None:
    assert written_id("msg", "a", "b") == written_id("msg", "a", "b")
    assert len({written_id("msg", *parts) for parts in (("a", "b"), ("ab", ""), ("", "ab"), ("a", "c"))}) == 4
    assert wake_id("r", "c", "a", "m", 5) == wake_id("r", "c", "a", "m", 5) != wake_id("r", "c", "a", "n", 5)
