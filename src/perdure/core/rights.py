"""Rights in a room: which act of which member is done, waits for somebody's yes, or is refused. Pure.

One small, closed language. Each company has one document for a room: roles, and rules, of which the first that fits an
act counts. An act is judged by the documents of all whom it concerns: the acting member's company, the host, whoever it
is for, and whose lines it might give away. The strictest word counts: refuse, then hold, then allow. Where no rule of a
document fits, `_default` holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, cast, get_args

from perdure.core import codec
from perdure.core.approval import ApprovalRules
from perdure.core.codec import Json
from perdure.errors import InvalidInput

Deeds = Literal["post", "remember", "update_task", "create_task", "share_file", "call_tool", "spend"]
DEEDS: tuple[str, ...] = get_args(Deeds)
"""All that rules are about."""
Then = Literal["allow", "hold", "refuse"]
ANY = "*"
MAX_RULES = 200
MAX_BYTES = 64 * 1024
DAYS_7_MS = 7 * 86_400_000
"""How long a hold waits where no rule says."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Word:
    """Whose yes a held act waits for."""

    company: str = ""
    """Empty: the rule's own."""
    role: str = ""
    """As that company's own document fills it; empty is anybody of the company."""
    quorum: int = 1
    """So many different people of it."""
    expires_seconds: int = DAYS_7_MS // 1000
    """Not given by then, it counts as a no."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of acts that fit all that it names. What it does not name fits everything."""

    name: str
    then: Then
    acts: tuple[str, ...] = ()
    """Of `DEEDS`; none: all."""
    who: str = ANY
    """`company` or `company/agent`; `*` is every agent. People are bound by rules that name them or their company."""
    to: str = ANY
    """A company or member that it is for or names; of `update_task` the verb; of `call_tool` the tool."""
    above: float | None = None
    """Amounts above this, in US dollars: of `spend`, and of a tool's argument `amount`."""
    steered: bool | None = None
    """Whether text of another company, of a file or of a tool was before the agent."""
    private: bool | None = None
    """Whether lines of this company were that not all may read whom the act tells; of the actor's own: anybody's."""
    by: Word = field(default_factory=Word)
    """Of `hold`."""


@dataclass(frozen=True, slots=True)
class Rights:
    """A company's document."""

    rules: tuple[Rule, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    """People, as their API keys name them, by role."""


NO_RIGHTS = Rights()


@dataclass(frozen=True, slots=True)
class Deed:
    """An act, as rules see it."""

    act: str
    company: str
    name: str
    agent: bool
    """Whether an agent's wake does it; defaults bind agents alone."""
    to: tuple[str, ...] = ()
    """Companies, `company/agent`s, or one verb or tool."""
    for_company: str = ""
    """Whose work it makes, where it makes any."""
    amount: float = 0.0
    steered: tuple[str, ...] = ()
    """Whose text was before the agent, its own company's apart."""
    private: tuple[str, ...] = ()
    """Companies whose lines it has read that not all may read whom it tells."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A yes that an act needs."""

    company: str
    rule: str
    """`company:name` of the rule, or of the default."""
    approvers: tuple[str, ...] = ()
    """Empty is anybody of the company."""
    quorum: int = 1
    expires_ms: int = DAYS_7_MS

    @property
    def rules(self) -> ApprovalRules:
        return ApprovalRules(self.quorum, self.approvers, self.expires_ms)


def hold_from_json(found: Mapping[str, Any]) -> Hold:
    """Return the hold that was written down with `asdict`."""
    return Hold(found["company"], found["rule"], tuple(found["approvers"]), found["quorum"], found["expires_ms"])


@dataclass(frozen=True, slots=True)
class Refused:
    """What may not be done, by which rule."""

    rule: str
    why: str = ""


Verdict = Refused | tuple[Hold, ...]
"""Without holds: allowed."""
Secrets = Sequence[tuple[str, tuple[str, ...]]]
"""Owners and readers of lines that are for some companies alone."""


# -- judging -----------------------------------------------------------------------------------------------------------


def judge(deed: Deed, host: str, documents: Mapping[str, Rights]) -> Verdict:
    """Say what becomes of an act. `documents`: of the companies in the room, those that have one."""
    holds: list[Hold] = []
    for company in dict.fromkeys((deed.company, *deed.private, host, deed.for_company, *_named(deed))):
        rule = _word_of(deed, company, documents.get(company, NO_RIGHTS)) if company else None
        if rule is None or rule.then == "allow":
            continue
        called = f"{company}:{rule.name}"
        hold = _hold(rule, company, called, documents) if rule.then == "hold" else Refused(called)
        if isinstance(hold, Refused):
            return hold
        if all((hold.company, hold.approvers, hold.quorum) != (h.company, h.approvers, h.quorum) for h in holds):
            holds.append(hold)
    return tuple(holds)


def in_turn(holds: Sequence[Hold], company: str, secrets: Secrets) -> tuple[Hold, ...] | Refused:
    """Return the yeses that an act of a company needs in the order in which they are asked for.

    Whoever is asked is shown the act. So first comes its own company, whose agent read all that may be in it; and an
    owner of `secrets` that has a word is asked before all who may not read them. Refused where no order is like that.
    """
    left = sorted(holds, key=lambda hold: hold.company != company)
    turns: list[Hold] = []
    while left:
        unsaid = [(owner, may) for owner, may in secrets if any(_is_word_of(hold, owner) for hold in left)]
        found = next((hold for hold in left if hold.company == company or _may_see(hold, unsaid)), None)
        if found is None:
            owners = " and ".join(dict.fromkeys(owner for owner, _ in unsaid))
            why = f"it may hold lines of {owners}, and whoever is asked first would be shown what is not theirs to read"
            return Refused(left[0].rule, why)
        left.remove(found)
        turns.append(found)
    return tuple(turns)


def _may_see(hold: Hold, unsaid: Secrets) -> bool:
    return all(hold.company in (owner, *may) or _is_word_of(hold, owner) for owner, may in unsaid)


def _is_word_of(hold: Hold, owner: str) -> bool:
    """Say whether a yes is a company's: said by its people, or by whom its rule names."""
    return owner in (hold.company, hold.rule.partition(":")[0])


def _named(deed: Deed) -> Iterable[str]:
    """Return the companies among those that an act names: theirs to say, too."""
    return () if deed.act in ("update_task", "call_tool", "spend") else (one.partition("/")[0] for one in deed.to)


def _word_of(deed: Deed, company: str, rights: Rights) -> Rule | None:
    """Return the rule of one company that counts."""
    fits = (rule for rule in rights.rules if _fits(rule, deed, company))
    return next(fits, None) or _default(deed, company)


def _fits(rule: Rule, deed: Deed, company: str) -> bool:
    if rule.acts and deed.act not in rule.acts:
        return False
    everybody = (ANY,) if deed.agent else ()  # people are bound where they are named
    if rule.who not in (*everybody, deed.company, f"{deed.company}/{deed.name}"):
        return False
    if rule.to != ANY and not any(rule.to in (one, one.partition("/")[0]) for one in deed.to):
        return False
    if rule.above is not None and deed.amount <= rule.above:
        return False
    private = company in deed.private or (company == deed.company and bool(deed.private))
    return rule.steered in (None, bool(deed.steered)) and rule.private in (None, private)


def _default(deed: Deed, company: str) -> Rule | None:
    """Return what holds where a company says nothing.

    An agent tells nobody what they may not read, unless somebody of the owner's says yes. And what others' text may
    have moved it to does not bind its company: work for another company, taking back what its own asked for, tools,
    files.
    """
    if not deed.agent:
        return None
    if company in deed.private:
        return Rule("default-private", "hold")
    strong = deed.act in ("call_tool", "share_file") or (deed.act == "update_task" and "cancel" in deed.to)
    foreign_work = deed.act == "create_task" and deed.for_company not in ("", deed.company)
    if company == deed.company and deed.steered and (strong or foreign_work):
        return Rule("default-steered", "hold")
    return None


def _hold(rule: Rule, company: str, called: str, documents: Mapping[str, Rights]) -> Hold | Refused:
    who = rule.by.company or company
    if not rule.by.role:
        return Hold(who, called, (), rule.by.quorum, rule.by.expires_seconds * 1000)
    people = documents.get(who, NO_RIGHTS).roles.get(rule.by.role, ())
    if len(people) < rule.by.quorum:
        return Refused(called, f"{who} has {len(people)} people in the role {rule.by.role!r}")
    return Hold(who, called, people, rule.by.quorum, rule.by.expires_seconds * 1000)


# -- documents ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def rights_from_text(text: str) -> Rights:
    """Return the document that a JSON text holds. Raises `InvalidInput` (`bad_rights`) naming what does not fit."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise _bad(f"it is longer than {MAX_BYTES:,} bytes")
    try:
        found: Json = codec.decode(text)
    except ValueError as error:
        raise _bad(f"it is no JSON: {error}") from None
    given = _object(found, "the document", Rights)
    rules = tuple(_rule(one, f"rules[{n}]") for n, one in enumerate(_list(given.get("rules", []), "rules")))
    names = [rule.name for rule in rules]
    if len(names) > MAX_RULES:
        raise _bad(f"rules has {len(names)} entries, at most {MAX_RULES}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _bad(f"two rules have the name {twice[0]!r}: the ledger would not say which")
    roles = given.get("roles", {})
    if not isinstance(roles, dict):
        raise _bad(f"roles should be an object, found {roles!r:.80}")
    people = cast("dict[str, Json]", roles).items()
    return Rights(rules, {_name(role, "a role"): _people(role, some) for role, some in people})


def _rule(found: Json, where: str) -> Rule:
    given = _object(found, where, Rule)
    given["name"] = _name(given.get("name"), f"{where}.name")
    if given.get("then") not in get_args(Then):
        raise _bad(f"{where}.then should be allow, hold or refuse, found {given.get('then')!r:.80}")
    acts = _list(given.get("acts", []), f"{where}.acts")
    if unknown := [act for act in acts if act not in DEEDS]:
        raise _bad(f"{where}.acts has {unknown[0]!r:.80}; there are {', '.join(DEEDS)}")
    for field_ in ("who", "to"):
        if not isinstance(value := given.get(field_, ANY), str) or not 0 < len(value) <= 400:
            raise _bad(f"{where}.{field_} should be a name or `*`, found {value!r:.80}")
    above = given.get("above")
    if above is not None and (isinstance(above, bool) or not isinstance(above, (int, float)) or above < 0):
        raise _bad(f"{where}.above should be dollars, found {above!r:.80}")
    for field_ in ("steered", "private"):
        if not isinstance(given.get(field_), bool | None):
            raise _bad(f"{where}.{field_} should be true or false, found {given[field_]!r:.80}")
    if "by" in given and given["then"] != "hold":
        raise _bad(f"{where}.by goes with `hold` alone")
    read: dict[str, Any] = {**given, "acts": tuple(acts), "by": _word(given.get("by", {}), f"{where}.by")}
    return Rule(**read)


def _word(found: Json, where: str) -> Word:
    given = _object(found, where, Word)
    for field_ in ("company", "role"):
        if not isinstance(value := given.get(field_, ""), str) or len(value) > 200:
            raise _bad(f"{where}.{field_} should be a name, found {value!r:.80}")
    for field_, most in (("quorum", 100), ("expires_seconds", 366 * 86_400)):
        value = given.get(field_, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise _bad(f"{where}.{field_} should be a whole number from 1 to {most:,}, found {value!r:.80}")
    return Word(**given)


def _people(role: str, found: Json) -> tuple[str, ...]:
    people = _list(found, f"roles.{role}")
    for person in people:
        if not isinstance(person, str) or not 0 < len(person) <= 200:
            raise _bad(f"roles.{role} should be names of people, found {person!r:.80}")
    if len(people) > 100 or len(set(map(str, people))) < len(people):
        raise _bad(f"roles.{role} should be at most 100 names, each once")
    return tuple(map(str, people))


def _object(found: Json, where: str, kind: type[Any]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _bad(f"{where} should be an object, found {found!r:.80}")
    known = [one.name for one in fields(kind)]
    if unknown := sorted(found.keys() - set(known)):
        raise _bad(f"{where} has {unknown[0]!r:.80}; there are {', '.join(known)}")
    return dict(found)


def _list(found: Json, where: str) -> list[Json]:
    if not isinstance(found, list):
        raise _bad(f"{where} should be a list, found {found!r:.80}")
    return cast("list[Json]", found)


def _name(found: Json, where: str) -> str:
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise _bad(f"{where} should be 1 to 64 letters, digits, `_`, `.` and `-`, found {found!r:.80}")
    return found


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"the rights cannot be: {why}.", code="bad_rights")
