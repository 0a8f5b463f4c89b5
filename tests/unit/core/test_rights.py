"""The language of rights: the first rule that fits, the strictest of all whose word counts, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from perdure.core import codec
from perdure.core.rights import (
    DAYS_7_MS,
    Deed,
    Hold,
    Refused,
    Rights,
    Verdict,
    in_turn,
    judge,
    rights_from_text,
)
from perdure.errors import InvalidInput

ACME, GLOBEX, INITECH = "acme", "globex", "initech"


def said(*rules: dict[str, Any], **roles: list[str]) -> Rights:
    return rights_from_text(codec.encode({"rules": list(rules), "roles": roles}))


def rule(then: str, name: str = "r", **more: Any) -> dict[str, Any]:
    return {"name": name, "then": then, **more}


def deed(act: str = "post", **more: Any) -> Deed:
    return Deed(act, GLOBEX, "clerk", agent=True, **more)


def judged(one: Deed, documents: Mapping[str, Rights] | None = None) -> Verdict:
    """Judge in a room whose host is acme."""
    return judge(one, ACME, documents or {})


WORK = deed("create_task", to=(ACME,), for_company=ACME)


def test_without_a_word_an_agent_may_talk_remember_and_work() -> None:
    for act, to in (("post", ()), ("remember", ("*",)), ("update_task", ("complete",)), ("spend", ())):
        assert judged(deed(act, to=to, steered=(ACME,))) == ()
    assert judged(WORK) == ()


@pytest.mark.parametrize(
    "strong",
    [
        WORK,
        deed("call_tool", to=("pay",)),
        deed("share_file"),
        deed("update_task", to=("cancel",)),
    ],
    ids=lambda one: one.act,
)
def test_what_others_text_may_have_moved_it_to_waits_for_its_own_company(strong: Deed) -> None:
    from dataclasses import replace

    held = judged(replace(strong, steered=(ACME,)))
    assert held == (Hold(GLOBEX, "globex:default-steered", (), 1, DAYS_7_MS),)
    assert judged(replace(strong, steered=(ACME,), agent=False)) == ()


def test_what_would_give_a_line_away_waits_for_its_owner() -> None:
    assert judged(deed(private=(INITECH,))) == (Hold(INITECH, "initech:default-private"),)
    both = judged(deed(private=(GLOBEX, INITECH)))
    assert isinstance(both, tuple)
    assert [hold.company for hold in both] == [GLOBEX, INITECH]
    own = {GLOBEX: said(rule("allow"))}
    assert judged(deed(private=(GLOBEX,)), own) == ()
    assert judged(deed(private=(INITECH,)), own) != ()


def test_the_first_rule_that_fits_counts() -> None:
    own = {GLOBEX: said(rule("allow", "a", acts=["post"]), rule("refuse", "b"))}
    assert judged(deed("post"), own) == ()
    assert judged(deed("remember"), own) == Refused("globex:b")


@pytest.mark.parametrize(
    ("condition", "fits", "not_"),
    [
        ({"who": "globex"}, deed(), None),
        ({"who": "globex/clerk"}, deed(), None),
        ({"who": "globex/other"}, None, deed()),
        ({"to": "acme"}, deed(to=("acme/bot",)), deed(to=("globex",))),
        ({"to": "acme/bot"}, deed(to=("acme/bot",)), deed(to=("acme",))),
        ({"above": 5}, deed(amount=5.1), deed(amount=5.0)),
        ({"steered": True}, deed(steered=(ACME,)), deed()),
        ({"steered": False}, deed(), deed(steered=(ACME,))),
        ({"private": True}, deed(private=(GLOBEX,)), deed()),
    ],
)
def test_a_rule_fits_if_all_that_it_names_does(condition: dict[str, Any], fits: Deed | None, not_: Deed | None) -> None:
    own = {GLOBEX: said(rule("refuse", **condition))}
    if fits is not None:
        assert judged(fits, own) == Refused("globex:r")
    if not_ is not None:
        assert judged(not_, own) == ()


def test_the_strictest_word_of_all_whom_it_concerns_counts() -> None:
    own, host = said(rule("allow")), said(rule("hold", to="initech"))
    other = said(rule("refuse", who="globex/clerk"))
    work = deed("create_task", to=(INITECH,), for_company=INITECH)
    assert judged(work, {GLOBEX: own}) == ()
    held = judged(work, {GLOBEX: own, ACME: host})
    assert isinstance(held, tuple)
    assert [hold.company for hold in held] == [ACME]
    assert judged(work, {GLOBEX: own, ACME: host, INITECH: other}) == Refused("initech:r")
    assert judged(WORK, {GLOBEX: own, INITECH: other}) == ()


def test_a_hold_names_who_may_say_yes() -> None:
    by = {"company": "acme", "role": "buyers", "quorum": 2, "expires_seconds": 60}
    documents = {GLOBEX: said(rule("hold", by=by)), ACME: said(buyers=["ann", "art"])}
    assert judged(deed(), documents) == (Hold(ACME, "globex:r", ("ann", "art"), 2, 60_000),)
    few = {**documents, ACME: said(buyers=["ann"])}
    refused = judged(deed(), few)
    assert isinstance(refused, Refused)
    assert refused.why == "acme has 1 people in the role 'buyers'"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "the document should be an object"),
        ("{", "it is no JSON"),
        ('{"rule": []}', "the document has 'rule'"),
        ('{"rules": [{"name": "a b", "then": "allow"}]}', r"rules\[0\].name should be 1 to 64"),
        ('{"rules": [{"name": "a", "then": "maybe"}]}', "then should be allow, hold or refuse, found 'maybe'"),
        ('{"rules": [{"name": "a", "then": "allow", "acts": ["fly"]}]}', "acts has 'fly'; there are post"),
        ('{"rules": [{"name": "a", "then": "allow", "when": 1}]}', "has 'when'"),
        ('{"rules": [{"name": "a", "then": "allow", "above": "5"}]}', "above should be dollars"),
        ('{"rules": [{"name": "a", "then": "allow", "steered": 1}]}', "steered should be true or false"),
        ('{"rules": [{"name": "a", "then": "allow", "by": {}}]}', "goes with `hold` alone"),
        ('{"rules": [{"name": "a", "then": "hold", "by": {"quorum": 0}}]}', "quorum should be a whole number"),
        ('{"rules": [{"name": "a", "then": "allow"}, {"name": "a", "then": "allow"}]}', "two rules have the name 'a'"),
        ('{"roles": {"r": ["ann", "ann"]}}', "each once"),
        ('{"roles": {"r": [1]}}', "should be names of people"),
    ],
)
def test_what_cannot_be_is_refused_and_named(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        rights_from_text(text)


def default(company: str, rule: str = "default-private") -> Hold:
    return Hold(company, f"{company}:{rule}")


def turns(secrets: list[tuple[str, tuple[str, ...]]], *holds: Hold) -> list[str] | None:
    """Return who is asked, in which order; None if nobody can be."""
    found = in_turn(holds, GLOBEX, secrets)
    return None if isinstance(found, Refused) else [one.company for one in found]


def test_the_owners_of_private_lines_are_asked_before_whom_they_would_be_shown_to() -> None:
    host, owner, own = default(ACME, "look"), default(INITECH), default(GLOBEX, "ask")
    theirs = (INITECH, (GLOBEX,))
    assert turns([theirs], host, owner) == [INITECH, ACME]
    assert turns([theirs], host, owner, own) == [GLOBEX, INITECH, ACME], "its own company has read all of it"
    assert turns([(INITECH, (GLOBEX, ACME))], host, owner) == [ACME, INITECH], "who may read it may be asked first"
    assert turns([], host, own) == [GLOBEX, ACME]


def test_of_two_owners_one_that_reads_the_others_lines_is_asked_first_and_else_neither_is() -> None:
    one, other = default(INITECH), default(ACME)
    assert turns([(INITECH, (GLOBEX,)), (ACME, (GLOBEX, INITECH))], other, one) == [INITECH, ACME]
    assert turns([(INITECH, (GLOBEX,)), (ACME, (GLOBEX,))], other, one) is None
    assert turns([(INITECH, (GLOBEX,)), (ACME, (GLOBEX,))], one) == [INITECH], "acme allows it without a word"


def test_whom_an_owner_itself_names_may_be_shown_its_lines() -> None:
    named = Hold(ACME, f"{INITECH}:ask-acme")
    assert turns([(INITECH, (GLOBEX,))], named) == [ACME]
    assert turns([(INITECH, (GLOBEX,)), (ACME, (GLOBEX,))], named, default(ACME, "ask")) == [ACME, ACME]
